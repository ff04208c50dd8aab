// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package record feeds readers of the journal: it turns the store's doorbell into
// wake-ups, and shares what one reader loaded with all that read the same stream.
package record

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// Hub turns the store's hints into wake-ups.
//
// Concurrency: a monitor. mu guards watches and tails; no lock is held over a store
// call or a listener.
type Hub struct {
	st        store.Store
	listeners []func(store.Hint)

	mu      sync.Mutex
	watches map[string]map[*Watch]struct{}
	tails   map[string]*tail
	ended   map[string]*task.Record // the last ends handed over here
	order   []string                // their ids, a ring
	oldest  int
}

// keepEnds is how many ends are kept for who asks just after.
const keepEnds = 1024

// NewHub returns a hub; Run makes it work.
func NewHub(st store.Store) *Hub {
	return &Hub{st: st, watches: map[string]map[*Watch]struct{}{}, tails: map[string]*tail{}, ended: map[string]*task.Record{}}
}

// Listen adds a function that sees every hint. It must not block. Call it before
// Run.
func (h *Hub) Listen(fn func(store.Hint)) { h.listeners = append(h.listeners, fn) }

// Run reads the doorbell until ctx ends.
func (h *Hub) Run(ctx context.Context) {
	for hint := range h.st.Changes(ctx) {
		h.ring(hint)
		for _, fn := range h.listeners {
			fn(hint)
		}
	}
}

func (h *Hub) ring(hint store.Hint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.watches) == 0 {
		return
	}
	if hint.Any {
		for _, set := range h.watches {
			wake(set)
		}
		return
	}
	for _, s := range hint.Streams {
		wake(h.watches["s/"+string(s)])
	}
	for _, t := range hint.Tasks {
		wake(h.watches["t/"+string(t)])
	}
}

func wake(set map[*Watch]struct{}) {
	for w := range set {
		select {
		case w.c <- struct{}{}:
		default:
		}
	}
}

// Watch is a doorbell for one task or stream. Every ring may be spurious.
type Watch struct {
	h   *Hub
	key string
	c   chan struct{}
	end atomic.Pointer[task.Record]
}

// Settle hands a task's committed end to whoever watches it in this process, so that
// nobody has to read back what was just written. Losing it costs a read.
func (h *Hub) Settle(r *task.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	id := string(r.ID)
	if _, again := h.ended[id]; !again {
		if len(h.order) < keepEnds {
			h.order = append(h.order, id)
		} else {
			delete(h.ended, h.order[h.oldest])
			h.order[h.oldest] = id
			h.oldest = (h.oldest + 1) % keepEnds
		}
	}
	h.ended[id] = r
	set := h.watches["t/"+id]
	for w := range set {
		w.end.Store(r)
	}
	wake(set)
}

// Recall makes Settled return an end that was handed over before the watch began. It
// may be old by now: what was published since is not in it.
func (w *Watch) Recall() {
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	if id, ok := strings.CutPrefix(w.key, "t/"); ok {
		if r := w.h.ended[id]; r != nil {
			w.end.Store(r)
		}
	}
}

// Settled returns the task's end if it was handed over here. It must not be changed.
func (w *Watch) Settled() *task.Record { return w.end.Load() }

// C rings when the watched thing may have changed.
func (w *Watch) C() <-chan struct{} { return w.c }

// Close ends the watch.
func (w *Watch) Close() {
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	delete(w.h.watches[w.key], w)
	if len(w.h.watches[w.key]) == 0 {
		delete(w.h.watches, w.key)
	}
}

// WatchTask watches a task's row.
func (h *Hub) WatchTask(id string) *Watch { return h.watch("t/" + id) }

// WatchStream watches a stream.
func (h *Hub) WatchStream(id string) *Watch { return h.watch("s/" + id) }

func (h *Hub) watch(key string) *Watch {
	w := &Watch{h: h, key: key, c: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	set := h.watches[key]
	if set == nil {
		set = map[*Watch]struct{}{}
		h.watches[key] = set
	}
	set[w] = struct{}{}
	return w
}
