// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockByte knows only one lock a file here: the turn. The others always succeed,
// so the turns of several processes are less fair.
func lockByte(f *os.File, at int64, _ bool) error {
	if at != byteTurn {
		return nil
	}
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errBusy
	}
	return err
}

func unlockByte(f *os.File, at int64) {
	if at == byteTurn {
		_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
	}
}

func networked(string) bool { return false }

func freeSpace(string) (n int64, ok bool) { return 0, false }
