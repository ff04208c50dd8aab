// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mutant_noguard

package postgres

// guarded is a safeguard less: names, queues and other keys without a row are not guarded.
const guarded = false
