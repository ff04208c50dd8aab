// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package alive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Hold creates the file and takes its lock. It fails when somebody has it.
func Hold(path string) (*Lock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("hold worker lock: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("hold worker lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("hold worker lock %s: %w", path, err), f.Close(), os.Remove(path))
	}
	l := &Lock{f: f, path: path}
	if l.dev, l.ino, err = inode(f); err != nil {
		return nil, errors.Join(err, l.Release())
	}
	return l, nil
}

// Probe looks whether the lock of exactly that file is held. It never blocks and
// two probes do not disturb each other.
func Probe(path string, dev, ino uint64) Verdict {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return Unknown
	}
	defer f.Close()
	if d, i, err := inode(f); err != nil || d != dev || i != ino {
		return Unknown
	}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); {
	case err == nil:
		return Dead
	case errors.Is(err, unix.EWOULDBLOCK):
		return Alive
	default:
		return Unknown
	}
}

// Sweep removes the lock file of a worker proved dead, if it is still that file and
// nobody holds it. Call it after the worker's row is gone.
func Sweep(path string, dev, ino uint64) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return
	}
	if d, i, err := inode(f); err == nil && d == dev && i == ino {
		_ = os.Remove(path)
	}
}

func inode(f *os.File) (dev, ino uint64, err error) {
	fi, err := f.Stat()
	if err != nil {
		return 0, 0, fmt.Errorf("stat worker lock: %w", err)
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, fmt.Errorf("stat worker lock %s: no inode", f.Name())
	}
	return uint64(st.Dev), st.Ino, nil //nolint:unconvert // Dev is signed on some systems
}

func pidNamespace() uint64 {
	fi, err := os.Stat("/proc/self/ns/pid")
	if err != nil {
		return 0
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}
