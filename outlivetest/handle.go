// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlivetest

import (
	"context"
	"iter"
	"sync"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/store"
)

// Errors that a handle answers with.
var (
	errCrashed = fault.New(fault.Fenced, "the instance has crashed")
	errLost    = fault.New(fault.UnknownOutcome, "the answer to the commit was lost")
)

// mode is what a handle does with calls.
type mode uint8

const (
	live  mode = iota
	hung       // calls wait for resume, or for their context
	dead       // calls wait until the test is over, whatever their context says
	ended      // the test is over: calls fail
)

// handle is one instance's way to the store: what a crash or a hanging disk takes
// away from it.
//
// Concurrency: mu guards all fields but the store. It is never held over a call.
type handle struct {
	inner store.Store

	mu     sync.Mutex
	mode   mode
	gate   chan struct{} // closed when mode changes
	lose   int           // answers to lose: the commit is made and said to be unknown
	refuse int           // updates to refuse with err
	err    error
	deaf   bool // no hint gets through
	views  int
	writes int
}

var _ store.Store = (*handle)(nil)

func newHandle(st store.Store) *handle { return &handle{inner: st, gate: make(chan struct{})} }

// set changes the mode. What has died stays dead until the test is over.
func (h *handle) set(m mode) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mode >= m && h.mode >= dead {
		return
	}
	h.mode = m
	close(h.gate)
	h.gate = make(chan struct{})
}

// enter waits until the call may go on.
func (h *handle) enter(ctx context.Context) error {
	for {
		h.mu.Lock()
		m, gate := h.mode, h.gate
		h.mu.Unlock()
		gone := ctx.Done()
		switch m {
		case live:
			return nil
		case ended:
			return errCrashed
		case dead:
			gone = nil
		case hung:
		}
		select {
		case <-gate:
		case <-gone:
			return context.Cause(ctx)
		}
	}
}

// alive reports whether writes still count.
func (h *handle) alive() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mode < dead
}

// fault takes the fault that the next update meets.
func (h *handle) fault() (lose bool, refuse error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writes++
	if h.refuse > 0 {
		h.refuse--
		return false, h.err
	}
	if h.lose > 0 {
		h.lose--
		return true, nil
	}
	return false, nil
}

// Update implements [store.Store].
func (h *handle) Update(ctx context.Context, keys []store.Key, fn func(store.Tx) error) error {
	if err := h.enter(ctx); err != nil {
		return err
	}
	lose, refuse := h.fault()
	if refuse != nil {
		return refuse
	}
	err := h.inner.Update(ctx, keys, func(tx store.Tx) error {
		if !h.alive() {
			return errCrashed
		}
		return fn(tx)
	})
	if !h.alive() {
		return h.enter(ctx) // nobody is there to hear the answer
	}
	if err == nil && lose {
		return errLost
	}
	return err
}

// View implements [store.Store].
func (h *handle) View(ctx context.Context, fn func(store.View) error) error {
	if err := h.enter(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	h.views++
	h.mu.Unlock()
	return h.inner.View(ctx, fn)
}

// Changes implements [store.Store].
func (h *handle) Changes(ctx context.Context) iter.Seq[store.Hint] {
	return func(yield func(store.Hint) bool) {
		for hint := range h.inner.Changes(ctx) {
			if h.enter(ctx) != nil {
				return
			}
			h.mu.Lock()
			deaf := h.deaf
			h.mu.Unlock()
			if !deaf && !yield(hint) {
				return
			}
		}
	}
}

// Info implements [store.Store]. Without a path nobody proves a death by a lock:
// all instances live in one process, so only leases tell.
func (h *handle) Info() store.Info {
	i := h.inner.Info()
	i.Path = ""
	return i
}

// Close implements [store.Store]. The store belongs to the Env.
func (h *handle) Close() error { return nil }
