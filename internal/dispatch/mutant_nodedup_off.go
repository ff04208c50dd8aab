// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !mutant_nodedup

package dispatch

// deduplicates is the safeguard that a child is made once by one invocation, however
// often its parent's turn is cut and done again.
const deduplicates = true
