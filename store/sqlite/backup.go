// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"

	"github.com/outlive-dev/outlive/fault"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// backupPages is how many pages are copied between two looks at the context.
const backupPages = 1024

// Backup writes a consistent copy of the store to path, which must not exist,
// while updates go on. The copy appears there only when it is whole.
func (s *Store) Backup(ctx context.Context, path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fault.Newf(fault.Exists, "backup to %s: the file exists", path)
	}
	c, err := s.readers.take(ctx)
	if err != nil {
		return err
	}
	defer s.readers.put(c)
	if err := s.copyTo(ctx, c, path, nil); err != nil {
		return fmt.Errorf("backup to %s: %w", path, classify(err))
	}
	return nil
}

// Restore makes a store at path, which must not exist, of a backup. It is another
// incarnation: it has an id of its own and an epoch above every earlier one, so
// that cursors into what came after the backup are told apart.
func Restore(ctx context.Context, backup, path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fault.Newf(fault.Exists, "restore to %s: the file exists", path)
	}
	s := &Store{path: backup}
	s.turn = &turnstile{}
	if err := s.opts.fill(); err != nil {
		return err
	}
	s.driver, s.codecs = newDriver(s), newCodecs()
	if _, err := os.Stat(backup); err != nil {
		return fault.Newf(fault.NotFound, "restore from %s: it cannot be read", backup)
	}
	err := func() error {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		c, err := openConn(fileURI(backup, "", "immutable=1"), lib.SQLITE_OPEN_READONLY)
		if err != nil {
			return err
		}
		defer c.close()
		if v, err := s.versionOn(c); err != nil {
			return err
		} else if v == 0 {
			return ErrForeign
		}
		return s.copyTo(ctx, c, path, func(to *conn) error {
			now := s.opts.Clock()
			return to.run(`UPDATE outlive_meta SET id = ?, epoch = max(epoch + 1, ?)`, nil, rand.Text(), now.Unix())
		})
	}()
	if err != nil {
		return fmt.Errorf("restore from %s: %w", backup, classify(err))
	}
	return nil
}

// copyTo copies what c sees now, through the engine, to a file that replaces path
// once change, if any, is done to it.
func (s *Store) copyTo(ctx context.Context, c *conn, path string, change func(to *conn) error) (err error) {
	part := path + ".part"
	if err := os.Remove(part); err != nil && !os.IsNotExist(err) {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(part)
		}
	}()
	// The snapshot: without it a commit would make the copy start over.
	if err := c.run(`BEGIN`, nil); err != nil {
		return err
	}
	defer func() { _ = c.run(`ROLLBACK`, nil) }()
	if _, err := c.int64(`SELECT count(*) FROM sqlite_schema`); err != nil {
		return err
	}
	// Private, whatever the umask: the engine itself must make its files.
	like := path + ".like"
	if err := os.WriteFile(like, nil, 0o600); err != nil {
		return err
	}
	defer os.Remove(like)
	to, err := openConn(fileURI(part, like), lib.SQLITE_OPEN_READWRITE|lib.SQLITE_OPEN_CREATE)
	if err != nil {
		return err
	}
	defer to.close()
	name, err := libc.CString("main")
	if err != nil {
		return err
	}
	defer libc.Xfree(c.tls, name)
	b := lib.Xsqlite3_backup_init(to.tls, to.db, name, c.db, name)
	if b == 0 {
		return to.fail(lib.Xsqlite3_extended_errcode(to.tls, to.db))
	}
	rc := int32(lib.SQLITE_OK)
	for rc == lib.SQLITE_OK && ctx.Err() == nil {
		rc = lib.Xsqlite3_backup_step(to.tls, b, backupPages)
	}
	end := lib.Xsqlite3_backup_finish(to.tls, b)
	switch {
	case ctx.Err() != nil && rc != lib.SQLITE_DONE:
		return ctx.Err()
	case end != lib.SQLITE_OK:
		return to.fail(end)
	}
	if change != nil {
		// In one file: a log beside it would not be renamed.
		if err := to.exec(`PRAGMA journal_mode = delete`); err != nil {
			return err
		}
		if err := change(to); err != nil {
			return err
		}
	}
	to.close()
	return os.Rename(part, path)
}
