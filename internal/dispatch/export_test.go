// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

// What the tests of this package look at from outside.
var (
	LidClosed = lidClosed
	Thin      = thin
)
