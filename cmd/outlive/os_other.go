// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import (
	"errors"
	"os"

	"github.com/outlive-dev/outlive/shell"
)

func umask() (shell.Umask, error) { return 0, nil }

func sameFile(a, b *os.File) bool {
	x, err := a.Stat()
	if err != nil {
		return false
	}
	y, err := b.Stat()
	return err == nil && os.SameFile(x, y)
}

func isPipe(error) bool { return false }

func (a *app) hintStdin() {}

func (a *app) heedStop() {}

func freeSpace(string) (free, total int64, err error) { return 0, 0, errors.ErrUnsupported }

func diskUse(string) int64 { return 0 }

func writable(string) bool { return true }
