// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package postgres keeps a store in a PostgreSQL database that any number of processes
// on any number of hosts share.
//
// # Guarantees
//
//  1. An acknowledged update is durable on the server: Open refuses one whose
//     synchronous_commit is off.
//  2. Any process may die, hang or lose its connection at any point. What it held is
//     free again after three seconds at most, and meanwhile delays only the updates
//     that need the same rows.
//  3. A commit whose answer is lost is looked for by its own row and either reported
//     as done or run again. Only when the server stays away for Options.Wait is its
//     outcome unknown.
//  4. The server's clock is the store's: those of the instances do not matter.
//
// # Caveats
//
// The tables (outlive_...) are made in the first schema of the connection's
// search_path, by [Migrate] and never by Open. Behind a transaction pooler the store
// URL must say pooler=transaction; changes by others are then noticed by polling.
package postgres

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/batch"
	"github.com/outlive-dev/outlive/internal/lifecycle"
	"github.com/outlive-dev/outlive/store"
)

// Doorbell says how a store notices what others committed.
type Doorbell string

const (
	// DoorbellNotify listens to notifications, and polls twice a second for those that
	// were lost. Behind a transaction pooler it is DoorbellPoll.
	DoorbellNotify Doorbell = "notify"
	// DoorbellPoll polls, every 5 to 250 ms, and sends no notifications.
	DoorbellPoll Doorbell = "poll"
)

// Options tunes a Store.
type Options struct {
	// Doorbell says how a store notices what others committed. Defaults to DoorbellNotify.
	Doorbell Doorbell
	// Clock replaces the server's clock, for tests. Defaults to the server's.
	Clock func() time.Time
	// Queue is how many updates may wait for each of two committers. Defaults to 8192.
	Queue int
	// Patience is how long an update waits for a place in the queue, or for rows that
	// another instance holds. Defaults to 10 s.
	Patience time.Duration
	// Wait is how long updates and views wait for a server that does not answer, as
	// while it restarts. Defaults to 5 s.
	Wait time.Duration
	// Readers is how many views run at once; more wait. Each has a connection, which
	// stays open. Defaults to 8.
	Readers int
}

func (o *Options) fill() error {
	switch o.Doorbell {
	case "":
		o.Doorbell = DoorbellNotify
	case DoorbellNotify, DoorbellPoll:
	default:
		return fault.Newf(fault.Invalid, "open store: no such doorbell: %q", o.Doorbell)
	}
	if o.Wait <= 0 {
		o.Wait = 5 * time.Second
	}
	if o.Readers <= 0 {
		o.Readers = 8
	}
	return nil
}

// Store is a [store.Store] in a PostgreSQL database. Safe for concurrent use.
type Store struct {
	opts    Options
	cfg     *config
	info    store.Info
	origin  int64 // of this store's commits and notifications
	channel string
	codecs  *codecs
	fail    batch.Failpoint
	newest  clock
	hub     batch.Hub
	lanes   lanes
	numbers atomic.Int64 // of commits
	bell    doorbell
	readers readers
	floors  floors
	group   lifecycle.Group
	ctx     context.Context // ends with Close, when nothing is in flight any more
	cancel  context.CancelFunc
	closing sync.Once
}

var _ store.Store = (*Store)(nil)

// clock is the time of the newest commit here, in microseconds.
type clock struct{ n atomic.Int64 }

func (c *clock) get() time.Time { return time.UnixMicro(c.n.Load()).UTC() }

func (c *clock) put(t time.Time) {
	for {
		have := c.n.Load()
		if t.UnixMicro() <= have || c.n.CompareAndSwap(have, t.UnixMicro()) {
			return
		}
	}
}

// Open opens the store in the database of a URL. It does not wait for a server that is
// down, and leaves the schema alone: see [Migrate].
func Open(ctx context.Context, dsn string, opts *Options) (*Store, error) {
	s := &Store{}
	if opts != nil {
		s.opts = *opts
	}
	if err := s.opts.fill(); err != nil {
		return nil, err
	}
	var err error
	if s.cfg, err = parse(dsn); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if err := s.open(ctx); err != nil {
		shown := Redact(dsn)
		for _, stale := range []*fault.Error{ErrNoSchema, ErrOlder} {
			if errors.Is(err, stale) {
				err = stale.WithHint("Run: outlive migrate --store '" + shown + "'")
			}
		}
		return nil, fmt.Errorf("open store %s: %w", shown, err)
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	steps, err := batch.Migrations(migrationFiles)
	if err != nil {
		return err
	}
	c, err := s.cfg.connect(ctx, forReads, nil)
	if err != nil {
		return err
	}
	if err := s.greet(ctx, c, steps); err != nil {
		c.close()
		return err
	}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.channel = channelOf(s.info.ID)
	s.codecs = newCodecs()
	s.bell.s = s
	s.readers.slots = make(chan struct{}, s.opts.Readers)
	s.readers.put(c)
	s.fail.Arm(os.Getenv("OUTLIVE_FAILPOINT"))
	s.lanes.init(s)
	return nil
}

// greet finds out whom it talks to.
func (s *Store) greet(ctx context.Context, c *conn, steps []batch.Migration) error {
	if err := checkServer(c); err != nil {
		return err
	}
	have, info, err := version(ctx, c, steps, durable)
	if err != nil {
		return err
	}
	if have < len(steps) {
		return ErrOlder
	}
	var origin [8]byte
	_, _ = rand.Read(origin[:]) // it never fails
	s.info, s.origin = info, int64(binary.BigEndian.Uint64(origin[:])>>1)
	return nil
}

// Changes implements [store.Store].
func (s *Store) Changes(ctx context.Context) iter.Seq[store.Hint] {
	return func(yield func(store.Hint) bool) {
		s.bell.listen()
		defer s.bell.leave()
		s.hub.Changes(ctx)(yield)
	}
}

// Info implements [store.Store].
func (s *Store) Info() store.Info { return s.info }

// Close implements [store.Store].
func (s *Store) Close() error {
	s.closing.Do(func() {
		for _, l := range s.lanes.list {
			l.exec.Close()
		}
		s.hub.Close()
		s.readers.close()
		s.cancel()
		_ = s.group.Stop(context.Background()) //nolint:forbidigo // what runs ends with the hub and the context
		for _, l := range s.lanes.list {
			l.driver.close()
		}
	})
	return nil
}
