// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"crypto/rand"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/outlive-dev/outlive/internal/batch"
	"github.com/outlive-dev/outlive/store"

	lib "modernc.org/sqlite/lib"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

const migrationTable = `CREATE TABLE IF NOT EXISTS outlive_migrations (
  version INTEGER PRIMARY KEY,
  name    TEXT    NOT NULL,
  sum     TEXT    NOT NULL,
  at      INTEGER NOT NULL
) STRICT`

func (s *Store) writerPragmas() string {
	return `PRAGMA wal_autocheckpoint = 0; PRAGMA synchronous = ` + string(s.opts.Sync) +
		`; PRAGMA cache_size = -16384; PRAGMA temp_store = memory`
}

func (s *Store) checkpointPragmas() string {
	return `PRAGMA wal_autocheckpoint = 0; PRAGMA synchronous = ` + string(s.opts.Sync)
}

// prepare brings the file to the present schema:
//
//  1. Read its version; a newer one, or another program's file, is refused.
//  2. When it is the present one, keep byteOpen shared and be done.
//  3. Otherwise take byteOpen exclusively, so that nobody else has the file open. Who
//     finds meanwhile that another process has migrated it goes on as in 2.
//  4. Read the version again, copy the file unless it is fresh, and migrate.
//  5. Go on with byteOpen shared.
func (s *Store) prepare(context.Context) error {
	steps, err := batch.Migrations(migrationFiles)
	if err != nil {
		return err
	}
	have, logged, err := s.version()
	if err != nil {
		return err
	}
	if have > len(steps) {
		return fmt.Errorf("%w: it has %d, this version knows %d", ErrNewer, have, len(steps))
	}
	if have == len(steps) && s.readOnly {
		return nil
	}
	if s.readOnly {
		return fmt.Errorf("%w, and has an old schema", ErrReadOnly)
	}
	if have < len(steps) || !logged {
		var looked time.Time
		done := false
		if err := s.patiently("the other processes' open stores", func() error {
			err := lockByte(s.turn.f, byteOpen, true)
			if refused(err) && time.Since(looked) > lookPause {
				if looked, done = time.Now(), s.migrated(len(steps)); done {
					return nil
				}
			}
			return err
		}); err != nil || done {
			return err
		}
		if err := s.migrate(steps); err != nil {
			return err
		}
	}
	return s.patiently("migration", func() error { return lockByte(s.turn.f, byteOpen, false) })
}

// lookPause is the time between looks whether somebody else has migrated the file.
const lookPause = 20 * time.Millisecond

// migrated reports whether another process has brought the file to the present schema,
// and then keeps byteOpen shared: that process may have it open for as long as it likes.
func (s *Store) migrated(want int) bool {
	if lockByte(s.turn.f, byteOpen, false) != nil {
		return false // it is at it
	}
	if c, err := s.connect(); err == nil {
		have, err := s.versionOn(c)
		c.close()
		if err == nil && have == want {
			return true
		}
	}
	unlockByte(s.turn.f, byteOpen)
	return false
}

// version reads which schema the file has, 0 for none, whether it has a log, and
// the store's identity.
func (s *Store) version() (have int, logged bool, err error) {
	c, err := s.connect()
	if err != nil {
		return 0, false, err
	}
	v, err := s.versionOn(c)
	if err != nil && s.readOnly && codeOf(err)&0xff == lib.SQLITE_CANTOPEN && s.logEmpty() {
		// Without -shm a log cannot be read; but there is none, and nobody can write.
		c.close()
		s.sealed = true
		if c, err = s.connect(); err != nil {
			return 0, false, err
		}
		v, err = s.versionOn(c)
	}
	if err == nil {
		err = c.run(`PRAGMA journal_mode`, func(st *stmt) error {
			logged = st.colText(0) == "wal"
			return nil
		})
	}
	if err != nil {
		c.close()
		return 0, false, err
	}
	s.readers.adopt(c)
	return v, logged, nil
}

// logEmpty reports whether there is no log whose frames a reader would need.
func (s *Store) logEmpty() bool {
	_, err := os.Stat(s.path + "-wal")
	return os.IsNotExist(err)
}

// checkSums compares the steps that were taken with those this version has.
func checkSums(c *conn) error {
	steps, err := batch.Migrations(migrationFiles)
	if err != nil {
		return err
	}
	return c.run(`SELECT version, name, sum FROM outlive_migrations`, func(st *stmt) error {
		if n := st.colInt(0); n >= 1 && n <= int64(len(steps)) && steps[n-1].Sum != st.colText(2) {
			return fmt.Errorf("%w: its migration %s is not this version's", ErrForeign, st.colText(1))
		}
		return nil
	})
}

func (s *Store) versionOn(c *conn) (int, error) {
	tables, ours := int64(0), int64(0)
	err := c.run(`SELECT count(*), count(*) FILTER (WHERE name = 'outlive_migrations') FROM sqlite_schema`, func(st *stmt) error {
		tables, ours = st.colInt(0), st.colInt(1)
		return nil
	})
	if err != nil {
		return 0, err
	}
	if ours == 0 {
		if tables > 0 {
			return 0, ErrForeign
		}
		return 0, nil
	}
	if err := checkSums(c); err != nil {
		return 0, err
	}
	v, err := c.int64(`SELECT max(version) FROM outlive_migrations`)
	if err != nil {
		return 0, err
	}
	err = c.run(`SELECT id, epoch, writes FROM outlive_meta`, func(st *stmt) error {
		s.driver.seen = st.colInt(2)
		s.driver.known.Store(s.driver.seen)
		s.info = store.Info{ID: st.colText(0), Driver: "sqlite", Path: s.path, Epoch: st.colInt(1), Schema: int(v)}
		return nil
	})
	return int(v), err
}

// migrate runs while nobody else has the file open.
func (s *Store) migrate(steps []batch.Migration) error {
	c, err := s.connect()
	if err != nil {
		return err
	}
	defer c.close()
	have, err := s.versionOn(c)
	if err != nil {
		return err
	}
	// The mode is a property of the file, and can only be set outside of a transaction.
	if err := s.patiently("switch to a log", func() error { return c.exec(`PRAGMA journal_mode = wal`) }); err != nil {
		return err
	}
	if err := c.exec(s.checkpointPragmas()); err != nil {
		return err
	}
	if have > 0 && have < len(steps) {
		bak := fmt.Sprintf("%s.v%d.bak", s.path, have)
		if err := s.copyTo(context.Background(), c, bak, nil); err != nil { //nolint:forbidigo // a copy that is begun is finished
			return fmt.Errorf("copy before migration: %w", err)
		}
	}
	for _, m := range steps[have:] {
		if err := s.step(c, m); err != nil {
			_ = c.exec(`ROLLBACK`)
			return fmt.Errorf("migration %s: %w", m.Name, err)
		}
	}
	_, err = s.versionOn(c)
	return err
}

func (s *Store) step(c *conn, m batch.Migration) error {
	now := micros(s.opts.Clock())
	if err := s.patiently("write lock", func() error { return c.exec(`BEGIN IMMEDIATE`) }); err != nil {
		return err
	}
	if err := c.exec(migrationTable); err != nil {
		return err
	}
	if err := c.exec(m.SQL); err != nil {
		return err
	}
	if m.Version == 1 {
		err := c.run(`INSERT INTO outlive_meta (one, id, epoch, clock, writes) VALUES (1, ?, 1, ?, 0)`, nil, rand.Text(), now)
		if err != nil {
			return err
		}
	}
	err := c.run(`INSERT INTO outlive_migrations (version, name, sum, at) VALUES (?, ?, ?, ?)`, nil, m.Version, m.Name, m.Sum, now)
	if err != nil {
		return err
	}
	return c.exec(`COMMIT`)
}

// grow writes more frames than are needed and takes them back: they stay in the
// log as space that later commits overwrite, which is cheaper to sync. On a disk
// that is nearly full that space belongs to others.
func (s *Store) grow(c *conn) {
	if free, ok := freeSpace(filepath.Dir(s.path)); ok && free < 4*s.opts.Grow {
		return
	}
	if st, err := os.Stat(s.path + "-wal"); s.opts.Grow < 0 || err == nil && st.Size() >= s.opts.Grow {
		return
	}
	if c.exec(`PRAGMA cache_size = 16; BEGIN IMMEDIATE`) != nil {
		return
	}
	if c.exec(`CREATE TABLE outlive_space (b BLOB)`) == nil {
		_ = c.run(`INSERT INTO outlive_space VALUES (zeroblob(?))`, nil, s.opts.Grow)
	}
	_ = c.exec(`ROLLBACK`)
}
