// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/outlive-dev/outlive/store"
)

// readers is a pool of reading connections.
//
// Concurrency: a monitor; mu guards idle and closed. A connection belongs to who took
// it. slots bounds how many are taken at once, and whoever closes the pool takes all.
type readers struct {
	slots chan struct{}

	mu     sync.Mutex
	idle   []*conn
	closed bool
}

func (r *readers) enter(ctx context.Context) error {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		<-r.slots
		return store.ErrClosed
	}
	return nil
}

func (r *readers) leave() { <-r.slots }

// take returns an idle connection, or nil. The caller has entered.
func (r *readers) take() *conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := len(r.idle); n > 0; n = len(r.idle) {
		c := r.idle[n-1]
		r.idle = r.idle[:n-1]
		if c.alive() {
			return c
		}
		c.close()
	}
	return nil
}

// put gives a connection back that is in no transaction.
func (r *readers) put(c *conn) {
	r.mu.Lock()
	keep := !r.closed && c.alive()
	if keep {
		r.idle = append(r.idle, c)
	}
	r.mu.Unlock()
	if !keep {
		c.close()
	}
}

// empty closes what is idle: after one connection was lost the others are too.
func (r *readers) empty() {
	r.mu.Lock()
	idle := r.idle
	r.idle = nil
	r.mu.Unlock()
	for _, c := range idle {
		c.close()
	}
}

// close waits for the views in flight.
func (r *readers) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	for range cap(r.slots) {
		r.slots <- struct{}{}
	}
	for range cap(r.slots) {
		<-r.slots
	}
	r.empty()
}

// View implements [store.Store]. The snapshot is that of the first read.
func (s *Store) View(ctx context.Context, fn func(store.View) error) error {
	return s.look(ctx, func(v *view) error { return fn(v) })
}

func (s *Store) look(ctx context.Context, fn func(*view) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.readers.enter(ctx); err != nil {
		return err
	}
	defer s.readers.leave()
	v := &view{ctx: ctx, s: s}
	defer v.end()
	return fn(v)
}

// view reads in one transaction, which begins with the first read.
type view struct {
	ctx context.Context
	s   *Store
	c   *conn // nil before the first read
	now time.Time
	err error // of the transaction: nothing more can be read
}

const selectClock = `SELECT clock_timestamp(), clock FROM outlive_meta`

// read runs statements in the view's transaction.
func (v *view) read(list ...query) error {
	if v.err != nil {
		return v.err
	}
	if v.c != nil {
		return v.fail(v.c.run(v.ctx, list...))
	}
	rows := 0
	counted := make([]query, len(list))
	for i, q := range list {
		counted[i] = query{sql: q.sql, args: q.args, scan: func(r row) error {
			rows++
			return q.scan(r)
		}}
	}
	for {
		c := v.s.readers.take()
		fresh := c == nil
		if fresh {
			var err error
			if c, err = v.s.patiently(v.ctx, forReads); err != nil {
				return v.fail(err)
			}
		}
		err := c.run(v.ctx, append(c.begin(" ISOLATION LEVEL REPEATABLE READ READ ONLY"), counted...)...)
		if err != nil && gone(err) && !fresh && rows == 0 && v.ctx.Err() == nil {
			c.close() // it was lost while it was idle
			v.s.readers.empty()
			continue
		}
		v.c = c
		return v.fail(err)
	}
}

func (v *view) fail(err error) error {
	if err != nil {
		v.err = interrupted(v.ctx, err)
	}
	return v.err
}

func (v *view) clock(r row) error {
	v.now = r.time(0)
	if v.s.opts.Clock != nil {
		v.now = v.s.opts.Clock().UTC().Truncate(time.Microsecond)
	}
	for _, floor := range []time.Time{r.time(1), v.s.newest.get()} {
		if v.now.Before(floor) {
			v.now = floor
		}
	}
	return nil
}

// Now implements [store.View].
func (v *view) Now() time.Time {
	if v.now.IsZero() {
		_ = v.read(query{sql: selectClock, scan: v.clock}) // the next read says what is wrong
	}
	return v.now
}

func (v *view) end() {
	if v.c == nil {
		return
	}
	ctx := context.WithoutCancel(v.ctx)
	if v.c.alive() && v.c.run(ctx, query{sql: "ROLLBACK"}) != nil {
		v.c.close()
	}
	v.s.readers.put(v.c)
}
