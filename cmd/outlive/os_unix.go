// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/shell"
)

// umask reads this process's file mode creation mask.
func umask() (shell.Umask, error) {
	old := syscall.Umask(0o077)
	syscall.Umask(old)
	return shell.UmaskOf(uint32(old)), nil
}

// sameFile reports whether two descriptors are one file, so that one merged pipe
// keeps the order exact.
func sameFile(a, b *os.File) bool {
	x, err := a.Stat()
	if err != nil {
		return false
	}
	y, err := b.Stat()
	return err == nil && os.SameFile(x, y)
}

func isPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }

// hintStdin says once that a command without -i reads nothing, if there is something
// to read.
func (a *app) hintStdin() {
	fi, err := a.in.Stat()
	if err != nil {
		return
	}
	waiting := fi.Mode().IsRegular() && fi.Size() > 0
	if fi.Mode()&os.ModeNamedPipe != 0 {
		fds := []unix.PollFd{{Fd: int32(a.in.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		waiting = err == nil && n > 0 && fds[0].Revents&unix.POLLIN != 0
	}
	if waiting && !a.quiet {
		a.note("standard input is not read\nhint: -i passes it to the command")
	}
}
