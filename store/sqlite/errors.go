// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"errors"
	"fmt"

	"github.com/outlive-dev/outlive/fault"

	lib "modernc.org/sqlite/lib"
)

// Errors of Open and of a store whose file went bad.
var (
	// ErrDamaged means that the file is no database, or a damaged one.
	ErrDamaged = fault.New(fault.Unavailable, "store file is damaged").
			WithHint("Keep the file and its -wal; restore the newest backup, or salvage with `sqlite3 FILE .recover`.")
	// ErrNewer means that a newer version of the program wrote the file.
	ErrNewer = fault.New(fault.Unsupported, "store file has a newer schema").
			WithHint("Run the newer version of outlive, or restore a backup made before the upgrade.")
	// ErrNetwork means that the file lies on a network file system.
	ErrNetwork = fault.New(fault.Unsupported, "store file is on a network file system, where locks are not reliable").
			WithHint("Put the store on a local disk (--store), or use PostgreSQL.")
	// ErrForeign means that the file is a database of something else.
	ErrForeign = fault.New(fault.Unsupported, "file is a database of another program").
			WithHint("Name another file for the store.")
	// ErrReadOnly means that the file, its directory or its disk cannot be written.
	ErrReadOnly = fault.New(fault.Unavailable, "store is read-only").
			WithHint("Check the permissions of the store's file and directory, and how the disk is mounted.")
	// ErrDiskFull means that nothing was written because the disk is full.
	ErrDiskFull = fault.New(fault.Unavailable, "disk is full").
			WithHint("Free some space; nothing that was acknowledged is lost.")
	// ErrLocked means that another process kept the write lock.
	ErrLocked = fault.New(fault.Unavailable, "store is locked by another process")
)

// engineError is an error of SQLite.
type engineError struct {
	code  int // extended
	errno int
	text  string
}

func (e *engineError) Error() string { return fmt.Sprintf("sqlite: %s (%d)", e.text, e.code) }

func codeOf(err error) int {
	var e *engineError
	if errors.As(err, &e) {
		return e.code
	}
	return 0
}

func isBusy(err error) bool {
	c := codeOf(err) & 0xff
	return c == lib.SQLITE_BUSY || c == lib.SQLITE_LOCKED
}

// classify gives an engine's error its kind.
func classify(err error) error {
	var e *engineError
	if !errors.As(err, &e) {
		return err
	}
	const enospc, edquot, erofs = 28, 122, 30
	switch e.code & 0xff {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		return fmt.Errorf("%w: %w", ErrLocked, err)
	case lib.SQLITE_FULL:
		return fmt.Errorf("%w: %w", ErrDiskFull, err)
	case lib.SQLITE_READONLY:
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	case lib.SQLITE_IOERR, lib.SQLITE_CANTOPEN:
		switch {
		case e.errno == enospc, e.errno == edquot, e.code == lib.SQLITE_IOERR_SHMSIZE:
			return fmt.Errorf("%w: %w", ErrDiskFull, err)
		case e.errno == erofs:
			return fmt.Errorf("%w: %w", ErrReadOnly, err)
		}
		return fmt.Errorf("%w: %w", fault.New(fault.Unavailable, "store file cannot be read or written"), err)
	case lib.SQLITE_NOMEM, lib.SQLITE_INTERRUPT, lib.SQLITE_PROTOCOL:
		return fmt.Errorf("%w: %w", fault.New(fault.Unavailable, "store is not available"), err)
	case lib.SQLITE_CONSTRAINT, lib.SQLITE_TOOBIG, lib.SQLITE_MISMATCH:
		return fmt.Errorf("%w: %w", fault.New(fault.Invalid, "store cannot hold the row"), err)
	}
	return err
}
