// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package host

import (
	"errors"

	"github.com/outlive-dev/outlive/shell"
)

// Umask is not known here.
func Umask() (shell.Umask, error) { return 0, nil }

// BrokenPipe is never reported here.
func BrokenPipe(error) bool { return false }

// FreeSpace is not known here.
func FreeSpace(string) (free, total int64, err error) { return 0, 0, errors.ErrUnsupported }

// DiskUse is not known here.
func DiskUse(string) int64 { return 0 }

// Writable is not known here.
func Writable(string) bool { return true }
