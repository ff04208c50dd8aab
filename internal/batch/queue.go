// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"context"
	"time"

	"github.com/outlive-dev/outlive/store"
)

// enqueue finds a place in the queue, waiting for one at most the patience.
func (e *Executor) enqueue(ctx context.Context, keys []store.Key, fn func(store.Tx) error) (*op, error) {
	var hot store.Key
	if len(keys) > 0 {
		hot = keys[0]
	}
	var patience *time.Timer
	e.mu.Lock()
	defer e.mu.Unlock()
	for !e.closed && (len(e.queue) >= e.opts.Queue || e.hot[hot] >= max(e.opts.Queue/4, 1)) {
		if e.space == nil {
			e.space = make(chan struct{})
		}
		space := e.space
		if patience == nil {
			patience = time.NewTimer(e.opts.Patience)
			defer patience.Stop()
		}
		err := func() error {
			e.mu.Unlock()
			defer e.mu.Lock()
			select {
			case <-space:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			case <-patience.C:
				return ErrFull
			}
		}()
		if err != nil {
			return nil, err
		}
	}
	if e.closed {
		return nil, store.ErrClosed
	}
	o := e.newOpLocked()
	o.keys, o.hot, o.fn = keys, hot, fn
	e.queue = append(e.queue, o)
	e.hot[hot]++
	e.startLocked()
	return o, nil
}

func (e *Executor) newOpLocked() *op {
	if n := len(e.free); n > 0 {
		o := e.free[n-1]
		e.free = e.free[:n-1]
		return o
	}
	return &op{done: make(chan struct{}, 1)}
}

// release takes back an op whose done was received.
func (e *Executor) release(o *op) {
	*o = op{done: o.done}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.free) < e.opts.Batch {
		e.free = append(e.free, o)
	}
}

// withdraw takes an op back that no batch has admitted.
func (e *Executor) withdraw(o *op) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if o.state != waiting {
		return false
	}
	o.state = withdrawn
	return true
}

// wakeLocked lets everybody who waits for a place look again.
func (e *Executor) wakeLocked() {
	if e.space != nil {
		close(e.space)
		e.space = nil
	}
}

// takeLocked admits the next batch into dst. When more waits than one batch
// takes, no key gets a second place before every other has had one, so that a hot
// task cannot starve the others; within one key the order is kept.
func (e *Executor) takeLocked(dst []*op) []*op {
	crowded := len(e.queue) > e.opts.Batch
	var share map[store.Key]int
	quota := 0
	if crowded {
		share = make(map[store.Key]int, len(e.hot))
		quota = max(e.opts.Batch/max(len(e.hot), 1), 1)
	}
	rest := e.queue[:0]
	for _, o := range e.queue {
		switch {
		case o.state == withdrawn:
			e.leaveLocked(o)
		case len(dst) >= e.opts.Batch, crowded && share[o.hot] >= quota:
			rest = append(rest, o)
		default:
			if crowded {
				share[o.hot]++
			}
			o.state = admitted
			e.leaveLocked(o)
			dst = append(dst, o)
		}
	}
	clear(e.queue[len(rest):])
	e.queue = rest
	e.wakeLocked()
	return dst
}

func (e *Executor) leaveLocked(o *op) {
	if e.hot[o.hot]--; e.hot[o.hot] <= 0 {
		delete(e.hot, o.hot)
	}
}
