// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package memory is the reference store: the whole contract, fake time, and no
// durability. It is for tests and examples, and works inside a testing/synctest
// bubble: while nothing is to be done it has no goroutine, and every wait is on a
// channel made by the store.
package memory

import (
	"context"
	"crypto/rand"
	"iter"
	"sync/atomic"
	"time"

	"github.com/outlive-dev/outlive/internal/batch"
	"github.com/outlive-dev/outlive/store"
)

// Options tunes a Store.
type Options struct {
	// Clock is the wall clock. Defaults to time.Now.
	Clock func() time.Time
	// Queue is how many updates may wait for the committer. Defaults to 8192.
	Queue int
	// Patience is how long an update waits for a place. Defaults to 10 s.
	Patience time.Duration
}

// Store is a [store.Store] in memory. Safe for concurrent use.
//
// Concurrency: state is replaced by the committer alone and read by anybody; what
// it points to never changes.
type Store struct {
	id     string
	clock  func() time.Time
	state  atomic.Pointer[state]
	hub    batch.Hub
	exec   *batch.Executor
	closed atomic.Bool
}

var _ store.Store = (*Store)(nil)

// New returns an empty store. It starts nothing.
func New(opts *Options) *Store {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	s := &Store{id: rand.Text(), clock: o.Clock}
	s.state.Store(&state{})
	s.exec = batch.New(&driver{store: s}, &s.hub, batch.Options{Clock: o.Clock, Queue: o.Queue, Patience: o.Patience})
	return s
}

// Update implements [store.Store].
func (s *Store) Update(ctx context.Context, keys []store.Key, fn func(store.Tx) error) error {
	return s.exec.Update(ctx, keys, fn)
}

// View implements [store.Store]. The snapshot blocks nobody.
func (s *Store) View(ctx context.Context, fn func(store.View) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed.Load() {
		return store.ErrClosed
	}
	st := s.state.Load()
	now := s.clock().UTC().Truncate(time.Microsecond)
	if now.Before(st.now) {
		now = st.now
	}
	return fn(&view{state: *st, at: now})
}

// Changes implements [store.Store].
func (s *Store) Changes(ctx context.Context) iter.Seq[store.Hint] { return s.hub.Changes(ctx) }

// Info implements [store.Store].
func (s *Store) Info() store.Info {
	return store.Info{ID: s.id, Driver: "memory", Epoch: 1, Schema: 2}
}

// Close implements [store.Store]. What the store held is gone.
func (s *Store) Close() error {
	s.exec.Close()
	s.closed.Store(true)
	s.hub.Close()
	return nil
}
