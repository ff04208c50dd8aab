// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package rawlog

import "os"

func datasync(f *os.File) error { return f.Sync() }
