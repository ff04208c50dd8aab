// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package rawlog

import (
	"os"

	"golang.org/x/sys/unix"
)

func datasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
