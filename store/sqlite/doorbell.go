// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"sync"
	"time"

	"github.com/outlive-dev/outlive/store"
)

// How often commits of other processes are looked for: soonest right after one,
// then ever slower.
const (
	pollSoon = 5 * time.Millisecond
	pollLate = 25 * time.Millisecond
)

// doorbell rings the hub when another process committed. It has a goroutine only
// while somebody listens.
//
// Concurrency: mu guards the fields; the goroutine owns its connection.
type doorbell struct {
	s *Store

	mu        sync.Mutex
	listeners int
	stop      chan struct{}
}

func (b *doorbell) listen() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.listeners++; b.listeners > 1 || b.s.sealed {
		return
	}
	stop := make(chan struct{})
	b.stop = stop
	b.s.group.Go("store doorbell", func(ctx context.Context) { b.loop(ctx, stop) })
}

func (b *doorbell) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.listeners--; b.listeners == 0 && b.stop != nil {
		close(b.stop)
		b.stop = nil
	}
}

func (b *doorbell) loop(ctx context.Context, stop <-chan struct{}) {
	var c *conn
	defer func() { c.close() }()
	seen, version := int64(-1), int64(-1)
	pause := pollSoon
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-stop:
			return
		case <-timer.C:
		}
		changed := false
		if c == nil {
			c, _ = b.s.connect() // or later
		}
		if c != nil {
			v, err := c.int64(`PRAGMA data_version`)
			if err == nil && v != version {
				writes, err := c.int64(`SELECT writes FROM outlive_meta`)
				if err == nil {
					// What the committer of this process knows of has been rung, or was
					// there when the store was opened.
					changed = writes != seen && writes > b.s.driver.known.Load()
					seen, version = writes, v
				}
			}
		}
		if changed {
			b.s.hub.Ring(store.Hint{Any: true})
			pause = pollSoon
		} else {
			pause = min(pause*3/2, pollLate)
		}
		timer.Reset(pause)
	}
}
