// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package sqlite keeps a store in one local SQLite file that several processes may
// share. It needs no C compiler.
//
// # Guarantees
//
//  1. An acknowledged update survives the loss of power (see Options.Sync).
//  2. Several processes may write: they take turns at PATH.turn, one batch each.
//  3. A write lock that another process keeps is an error of kind Unavailable
//     after Options.LockWait, never a hang, and is reported with its pid.
//  4. A full or read-only disk makes updates fail with kind Unavailable and leaves
//     what is there readable.
//
// # Caveats
//
// The file, PATH-wal and PATH-shm must not be opened by anything but SQLite while
// a store is open: closing another descriptor drops the locks. Copy with
// [Store.Backup]. Opening a store makes SQLite sync with fdatasync in the whole
// process, which is as durable as fsync. A process that is stopped (SIGSTOP) while
// it commits blocks the file until it goes on.
package sqlite

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/batch"
	"github.com/outlive-dev/outlive/internal/lifecycle"
	"github.com/outlive-dev/outlive/store"

	engine "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// Sync says when a commit counts as durable.
type Sync string

const (
	// SyncFull waits for the disk: an acknowledgement survives the loss of power.
	SyncFull Sync = "full"
	// SyncNormal does not: acknowledged updates survive the death of the process,
	// but the newest may be lost with the machine.
	SyncNormal Sync = "normal"
)

// Options tunes a Store.
type Options struct {
	// Sync says when a commit counts as durable. Defaults to SyncFull.
	Sync Sync
	// Clock is the wall clock. Defaults to time.Now.
	Clock func() time.Time
	// Logger hears of locks held for long. Defaults to silence.
	Logger *slog.Logger
	// Queue is how many updates may wait for the committer. Defaults to 8192.
	Queue int
	// Patience is how long an update waits for a place in the queue. Defaults to 10 s.
	Patience time.Duration
	// LockWait is how long to wait for another process's lock. Defaults to 15 s.
	LockWait time.Duration
	// Grow is how far the log is grown ahead, in bytes, which makes commits about
	// twice as fast; negative means not at all. Defaults to 24 MiB.
	Grow int64
	// Readers is how many views run at once; more wait. Defaults to 32.
	Readers int
}

func (o *Options) fill() error {
	switch o.Sync {
	case "":
		o.Sync = SyncFull
	case SyncFull, SyncNormal:
	default:
		return fault.Newf(fault.Invalid, "open store: no such sync mode: %q", o.Sync)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.LockWait <= 0 {
		o.LockWait = 15 * time.Second
	}
	if o.Grow == 0 {
		o.Grow = 24 << 20
	}
	if o.Readers <= 0 {
		o.Readers = 32
	}
	return nil
}

// Store is a [store.Store] in a SQLite file. Safe for concurrent use.
type Store struct {
	path     string
	opts     Options
	info     store.Info
	readOnly bool
	sealed   bool // read-only without a log: the file cannot change
	turn     *turnstile
	fail     batch.Failpoint
	codecs   *codecs
	hub      batch.Hub
	driver   *driver
	exec     *batch.Executor
	ckpt     checkpointer
	bell     doorbell
	readers  readers
	group    lifecycle.Group
	closing  sync.Once
}

var _ store.Store = (*Store)(nil)

// Open opens the store at path, and makes it (with its directory) when there is
// none. Any number of processes may do so at the same time.
func Open(ctx context.Context, path string, opts *Options) (*Store, error) {
	s := &Store{}
	if opts != nil {
		s.opts = *opts
	}
	if err := s.opts.fill(); err != nil {
		return nil, err
	}
	if err := s.open(ctx, path); err != nil {
		_ = s.Close() // nothing was written
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, path string) (err error) {
	s.turn = &turnstile{}
	s.codecs = newCodecs()
	s.driver = newDriver(s)
	s.ckpt.s, s.bell.s = s, s
	s.readers.init(s)
	s.fail.Arm(os.Getenv("OUTLIVE_FAILPOINT"))
	if err := ctx.Err(); err != nil {
		return err
	}
	if path == "" {
		return fault.New(fault.Invalid, "no path is given")
	}
	if s.path, err = filepath.Abs(path); err != nil {
		return err
	}
	if err := s.place(); err != nil {
		return err
	}
	_, _ = engine.Fdatasync(true) // where there is none, fsync is used
	if err := s.prepare(ctx); err != nil {
		return classify(err)
	}
	s.exec = batch.New(s.driver, &s.hub, batch.Options{
		Clock: s.opts.Clock, Epoch: s.info.Epoch, Queue: s.opts.Queue, Patience: s.opts.Patience,
	})
	return nil
}

// place looks at the directory and the file, without opening the file.
func (s *Store) place() error {
	dir := filepath.Dir(s.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("%w: %w", fault.New(fault.Unavailable, "its directory cannot be made"), err)
	}
	if networked(dir) {
		return ErrNetwork
	}
	st, err := os.Stat(s.path)
	switch {
	case err == nil && st.IsDir():
		return fault.New(fault.Invalid, "it is a directory")
	case err == nil && !st.Mode().IsRegular():
		return fault.New(fault.Invalid, "it is not a regular file")
	case err != nil && !os.IsNotExist(err):
		return fmt.Errorf("%w: %w", fault.New(fault.Unavailable, "it cannot be looked at"), err)
	}
	exists := err == nil
	turn, err := openTurnstile(s.path + ".turn")
	if err == nil {
		s.turn = turn
		return nil
	}
	if !exists {
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	s.readOnly = true
	return nil
}

// connect opens a connection with what every connection is set to.
func (s *Store) connect() (*conn, error) {
	flags := int32(lib.SQLITE_OPEN_READWRITE | lib.SQLITE_OPEN_CREATE)
	var params []string
	if s.readOnly {
		flags = lib.SQLITE_OPEN_READONLY
	}
	if s.sealed {
		params = append(params, "immutable=1")
	}
	c, err := openConn(fileURI(s.path, s.path+".turn", params...), flags)
	if err != nil {
		return nil, err
	}
	c.codecs = s.codecs
	lib.Xsqlite3_busy_timeout(c.tls, c.db, readerWait)
	if err := c.control(lib.SQLITE_FCNTL_PERSIST_WAL, 1); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// readerWait is how many milliseconds a reader waits for the moments in which the
// log is recovered or begins anew.
const readerWait = 2000

// Update implements [store.Store].
func (s *Store) Update(ctx context.Context, keys []store.Key, fn func(store.Tx) error) error {
	return s.exec.Update(ctx, keys, fn)
}

// Changes implements [store.Store]. While somebody listens, commits of other
// processes are looked for every 5 to 25 ms.
func (s *Store) Changes(ctx context.Context) iter.Seq[store.Hint] {
	return func(yield func(store.Hint) bool) {
		s.bell.listen()
		defer s.bell.leave()
		s.hub.Changes(ctx)(yield)
	}
}

// Info implements [store.Store].
func (s *Store) Info() store.Info { return s.info }

// Hold waits for the batch in flight and keeps the next from starting until
// release is called, so that a process can be stopped without holding the file.
func (s *Store) Hold() (release func()) { return s.exec.Hold() }

// Idle reports whether no update is in flight or waits.
func (s *Store) Idle() bool { return s.exec.Idle() }

// Stats counts this process's commits, each one sync, and the updates they carried.
func (s *Store) Stats() (commits, updates int64) {
	st := s.exec.Stats()
	return st.Commits, st.Updates
}

// Close implements [store.Store].
func (s *Store) Close() error {
	s.closing.Do(func() {
		if s.exec != nil {
			s.exec.Close()
		}
		s.hub.Close()
		_ = s.group.Stop(context.Background()) //nolint:forbidigo // what runs ends with the hub
		s.readers.close()
		s.ckpt.close()
		s.driver.close()
		s.turn.close()
	})
	return nil
}
