// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package console

import "os"

// Resizes returns a channel that receives nothing: sizes do not come by signal here.
func Resizes() (c <-chan os.Signal, stop func()) { return nil, func() {} }
