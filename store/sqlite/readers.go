// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"sync"
	"time"

	"github.com/outlive-dev/outlive/store"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// keptReaders is how many idle reading connections stay open.
const keptReaders = 4

// readers is a pool of reading connections.
//
// Concurrency: a monitor; mu guards idle and closed. A connection belongs to who
// took it. slots bounds how many are taken at once, and whoever closes the pool
// takes all of them.
type readers struct {
	s     *Store
	slots chan struct{}

	mu     sync.Mutex
	idle   []*conn
	closed bool
}

func (r *readers) init(s *Store) {
	r.s, r.slots = s, make(chan struct{}, s.opts.Readers)
}

func (r *readers) take(ctx context.Context) (*conn, error) {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r.mu.Lock()
	var c *conn
	if n := len(r.idle); n > 0 {
		c, r.idle = r.idle[n-1], r.idle[:n-1]
	}
	closed := r.closed
	r.mu.Unlock()
	if closed {
		<-r.slots
		return nil, store.ErrClosed
	}
	if c != nil {
		return c, nil
	}
	c, err := r.s.connect()
	if err != nil {
		<-r.slots
		return nil, classify(err)
	}
	return c, nil
}

func (r *readers) put(c *conn) {
	r.mu.Lock()
	keep := len(r.idle) < keptReaders && !r.closed
	if keep {
		r.idle = append(r.idle, c)
	}
	r.mu.Unlock()
	if !keep {
		c.close()
	}
	<-r.slots
}

// adopt gives the pool a connection that nobody took from it.
func (r *readers) adopt(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle = append(r.idle, c)
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
	for _, c := range r.idle {
		c.close()
	}
	r.idle = nil
}

// View implements [store.Store].
func (s *Store) View(ctx context.Context, fn func(store.View) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c, err := s.readers.take(ctx)
	if err != nil {
		return err
	}
	defer s.readers.put(c)
	if err := c.run(`BEGIN`, nil); err != nil {
		return classify(err)
	}
	defer func() { _ = c.run(`ROLLBACK`, nil) }()
	defer c.interruptOn(ctx)()
	clock, err := c.int64(`SELECT clock FROM outlive_meta`) // the snapshot begins
	if err != nil {
		return interrupted(ctx, classify(err))
	}
	now := s.opts.Clock().UTC().Truncate(time.Microsecond)
	if last := fromMicros(clock); now.Before(last) {
		now = last
	}
	return interrupted(ctx, fn(&view{c: c, now: now}))
}

// interrupted is the error of a view whose context may have ended meanwhile.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && codeOf(err) == lib.SQLITE_INTERRUPT {
		return ctx.Err()
	}
	return err
}

// interruptOn ends the statements of c once ctx ends, until stop is called, which
// returns only when no interrupt can come any more.
func (c *conn) interruptOn(ctx context.Context) (stop func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	done := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(done)
		tls := libc.NewTLS() // that of c is in use
		defer tls.Close()
		lib.Xsqlite3_interrupt(tls, c.db)
	})
	return func() {
		if !cancel() {
			<-done
		}
	}
}
