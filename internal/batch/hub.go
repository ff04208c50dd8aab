// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/outlive-dev/outlive/store"
)

// maxHintIDs bounds what a listener that does not look keeps; past it the hint
// says Any.
const maxHintIDs = 1024

// Hub hands hints to whoever listens. A slow listener's hints are merged, so a
// ring never waits. The zero Hub is ready to use and safe for concurrent use.
//
// Concurrency: a monitor; mu guards all fields and every listener's.
type Hub struct {
	mu        sync.Mutex
	listeners map[*listener]struct{}
	closed    bool
}

type listener struct {
	bell chan struct{} // cap 1: a doorbell
	hint store.Hint
	some bool
}

// Listening reports whether anybody listens.
func (h *Hub) Listening() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.listeners) > 0
}

// Ring delivers a hint. It keeps nothing of it.
func (h *Hub) Ring(hint store.Hint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		l.add(hint)
		select {
		case l.bell <- struct{}{}:
		default:
		}
	}
}

// Close ends every present and future iteration of Changes.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.closed = true
	for l := range h.listeners {
		close(l.bell)
	}
	clear(h.listeners)
}

// Changes implements [store.Store].
func (h *Hub) Changes(ctx context.Context) iter.Seq[store.Hint] {
	return func(yield func(store.Hint) bool) {
		l := &listener{bell: make(chan struct{}, 1)}
		if !h.join(l) {
			return
		}
		defer h.leave(l)
		if ctx.Err() != nil || !yield(store.Hint{Any: true}) {
			return
		}
		for {
			select {
			case <-ctx.Done():
				return
			case _, open := <-l.bell:
				if !open {
					return
				}
			}
			if hint, ok := h.take(l); ok && !yield(hint) {
				return
			}
		}
	}
}

func (h *Hub) join(l *listener) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	if h.listeners == nil {
		h.listeners = make(map[*listener]struct{})
	}
	h.listeners[l] = struct{}{}
	return true
}

func (h *Hub) leave(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.listeners, l)
}

func (h *Hub) take(l *listener) (store.Hint, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	hint, ok := l.hint, l.some
	l.hint, l.some = store.Hint{}, false
	return hint, ok
}

func (l *listener) add(o store.Hint) {
	l.some = true
	l.hint.Any = l.hint.Any || o.Any
	l.hint.Pending = l.hint.Pending || o.Pending
	l.hint.Workers = l.hint.Workers || o.Workers
	if l.hint.Any {
		l.hint.Streams, l.hint.Tasks = nil, nil
		return
	}
	l.hint.Streams = merge(l.hint.Streams, o.Streams)
	l.hint.Tasks = merge(l.hint.Tasks, o.Tasks)
	if len(l.hint.Streams)+len(l.hint.Tasks) > maxHintIDs {
		l.hint.Any, l.hint.Streams, l.hint.Tasks = true, nil, nil
	}
}

// merge appends what is new; beyond a few it does not look for doubles, since
// maxHintIDs bounds them.
func merge[T comparable](have, more []T) []T {
	for _, v := range more {
		if len(have) > 32 || !slices.Contains(have, v) {
			have = append(have, v)
		}
	}
	return have
}
