// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package host

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/shell"
)

// Umask reads this process's file mode creation mask.
func Umask() (shell.Umask, error) {
	old := syscall.Umask(0o077)
	syscall.Umask(old)
	return shell.UmaskOf(uint32(old)), nil
}

// BrokenPipe reports whether nobody reads any more.
func BrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }

// Continuable reports whether somebody is there who could continue this process: a
// parent of the same session that does job control. The kernel stops no other.
func Continuable() bool {
	parent := os.Getppid()
	theirs, err := unix.Getsid(parent)
	ours, oerr := unix.Getsid(0)
	group, gerr := unix.Getpgid(parent)
	return err == nil && oerr == nil && gerr == nil && theirs == ours && group != unix.Getpgrp()
}

// FreeSpace returns the bytes that this user may still write below dir.
func FreeSpace(dir string) (free, total int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), int64(st.Blocks) * int64(st.Bsize), nil
}

// DiskUse is what the files of a directory take on the disk.
func DiskUse(dir string) (n int64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		var st unix.Stat_t
		if unix.Lstat(dir+"/"+e.Name(), &st) == nil {
			n += st.Blocks * 512
		}
	}
	return n
}

// Writable reports whether this user may write in a directory.
func Writable(dir string) bool { return unix.Access(dir, unix.W_OK) == nil }
