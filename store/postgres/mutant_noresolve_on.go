// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mutant_noresolve

package postgres

// resolves is a safeguard less: a lost answer is taken for a commit that did not happen.
const resolves = false
