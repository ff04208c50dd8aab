// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/batch"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"

	lib "modernc.org/sqlite/lib"
)

// driver is the committer's side: the one writing connection and what it knows.
//
// Concurrency: the committer's goroutine owns all fields; known is also read by
// the doorbell.
type driver struct {
	s *Store
	c *conn // nil until the first update

	inTx    bool
	flushed bool  // the caches hold what is not committed
	clock   int64 // the newest commit's time
	writes  int64 // the number of commits the caches are valid for, -1 for none
	seen    int64 // the number of commits at the last look, for the hub
	known   atomic.Int64

	tasks   recent[task.ID, *taskRow]
	heads   recent[journal.StreamID, journal.Head]
	tails   recent[store.Key, journal.Tail]
	workers recent[task.WorkerID, *store.Worker]
	queues  recent[string, batch.Queue]
	limited recent[string, int]

	body   []byte // for reuse
	counts map[task.State]int64
	put    map[uint8]string // update statements by what they set
}

// cacheRows is how many rows of each kind are held at least once they were used.
const cacheRows = 8192

func newDriver(s *Store) *driver {
	return &driver{
		s: s, writes: -1,
		tasks:   newRecent[task.ID, *taskRow](cacheRows),
		heads:   newRecent[journal.StreamID, journal.Head](cacheRows),
		tails:   newRecent[store.Key, journal.Tail](cacheRows),
		workers: newRecent[task.WorkerID, *store.Worker](cacheRows),
		queues:  newRecent[string, batch.Queue](cacheRows),
		limited: newRecent[string, int](cacheRows),
		counts:  make(map[task.State]int64), put: make(map[uint8]string),
	}
}

func (d *driver) forget() {
	d.tasks.reset()
	d.heads.reset()
	d.tails.reset()
	d.workers.reset()
	d.queues.reset()
	d.limited.reset()
	d.writes, d.flushed = -1, false
}

// Begin implements [batch.Driver]: the turnstile first, then SQLite's write lock,
// both with a bound.
func (d *driver) Begin() (time.Time, error) {
	if d.s.readOnly {
		return time.Time{}, ErrReadOnly
	}
	if d.c == nil {
		c, err := d.s.connect()
		if err != nil {
			return time.Time{}, classify(err)
		}
		lib.Xsqlite3_busy_timeout(c.tls, c.db, 0) // patiently waits by itself
		d.s.grow(c)
		// Another process may be recovering the log just now.
		if err := d.s.patiently("log", func() error { return c.exec(d.s.writerPragmas()) }); err != nil {
			c.close()
			return time.Time{}, classify(err)
		}
		d.c = c
	}
	d.s.ckpt.settle(d)
	if err := d.s.turn.enter(d.s); err != nil {
		return time.Time{}, err
	}
	err := d.s.patiently("write lock", func() error { return d.run(`BEGIN IMMEDIATE`) })
	if err != nil {
		d.s.turn.leave()
		return time.Time{}, classify(err)
	}
	d.inTx = true
	var writes int64
	err = d.c.run(`SELECT clock, writes FROM outlive_meta`, func(s *stmt) error {
		d.clock, writes = s.colInt(0), s.colInt(1)
		return nil
	})
	if err != nil {
		d.Rollback()
		return time.Time{}, classify(err)
	}
	if writes != d.writes {
		d.forget()
		d.writes = writes
	}
	if writes != d.seen {
		d.seen = writes
		d.known.Store(writes)
		d.s.hub.Ring(store.Hint{Any: true}) // another process's, or one whose answer was lost
	}
	return fromMicros(d.clock), nil
}

// run executes a prepared statement without values.
func (d *driver) run(sql string) error {
	s, err := d.c.stmt(sql)
	if err != nil {
		return err
	}
	return s.do()
}

// Commit implements [batch.Driver].
func (d *driver) Commit() error {
	d.s.fail.Hit(batch.FailAfterWrite)
	if err := d.run(`COMMIT`); err != nil {
		return d.commitError(err)
	}
	d.inTx, d.flushed = false, false
	d.s.turn.leave()
	d.writes++
	d.seen = d.writes
	d.known.Store(d.writes)
	d.s.fail.Hit(batch.FailAfterCommit)
	d.s.ckpt.wrote(d)
	return nil
}

// commitError tells apart what surely did not commit from what may have: after an
// IO error the frames may or may not have reached the disk.
func (d *driver) commitError(err error) error {
	code := codeOf(err)
	err = classify(err)
	if code&0xff != lib.SQLITE_IOERR || errors.Is(err, ErrDiskFull) {
		return err
	}
	// The connection's idea of the log may be wrong from now on: begin anew.
	d.Rollback()
	d.c.close()
	d.c = nil
	return fmt.Errorf("%w: %w", fault.New(fault.UnknownOutcome, "the commit's outcome is not known"), err)
}

// Rollback implements [batch.Driver].
func (d *driver) Rollback() {
	if d.inTx {
		_ = d.run(`ROLLBACK`) // also when the engine already rolled back by itself
		d.inTx = false
		d.s.turn.leave()
	}
	if d.flushed {
		d.forget()
	}
}

func (d *driver) close() {
	d.c.close()
	d.c = nil
}
