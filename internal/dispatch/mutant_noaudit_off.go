// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !mutant_noaudit

package dispatch

// agrees is the safeguard that with each renewal the store and the worker compare what
// the lease holds.
const agrees = true
