// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package host is what the command line asks the machine.
package host

import "os"

// SameFile reports whether two descriptors are one file, so that one merged pipe
// keeps the order exact.
func SameFile(a, b *os.File) bool {
	x, err := a.Stat()
	if err != nil {
		return false
	}
	y, err := b.Stat()
	return err == nil && os.SameFile(x, y)
}
