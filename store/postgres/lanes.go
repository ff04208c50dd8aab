// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"sync"

	"github.com/outlive-dev/outlive/internal/batch"
	"github.com/outlive-dev/outlive/store"
)

// lanes are a store's committers, each with a connection of its own: while one waits for
// the server, the other one gathers, reads or encodes. To the server they are like two
// instances. What needs the same rows goes the same way: updates with one first key
// are in one lane as long as any of them is under way, and so keep their order.
//
// Concurrency: a monitor; mu guards the numbers and ways.
type lanes struct {
	list [2]*lane

	mu   sync.Mutex
	ways map[store.Key]*way
}

// lane is one committer.
type lane struct {
	driver   *driver
	exec     *batch.Executor
	underway int
}

// way is where the updates of one first key go now.
type way struct {
	lane     *lane
	underway int
}

// init makes the lanes of a store. The second one connects when there is enough to do.
func (l *lanes) init(s *Store) {
	l.ways = make(map[store.Key]*way)
	for i := range l.list {
		d := newDriver(s)
		l.list[i] = &lane{driver: d, exec: batch.New(d, &s.hub, batch.Options{
			Clock: d.clock, Epoch: s.info.Epoch, Queue: s.opts.Queue, Patience: s.opts.Patience,
		})}
	}
}

// crowd is how many updates the first lane takes before the second one gets any: with
// fewer, two small batches cost more than what they win by running at once.
const crowd = 64

// enter finds the lane for an update: that of its key, else the emptier one.
func (l *lanes) enter(keys []store.Key) (hot store.Key, w *way) {
	if len(keys) > 0 {
		hot = keys[0]
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w = l.ways[hot]
	if w == nil {
		w = &way{lane: l.list[0]}
		for _, other := range l.list[1:] {
			if w.lane.underway >= crowd && other.underway < w.lane.underway {
				w.lane = other
			}
		}
		l.ways[hot] = w
	}
	w.underway++
	w.lane.underway++
	return hot, w
}

func (l *lanes) leave(hot store.Key, w *way) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.lane.underway--
	if w.underway--; w.underway == 0 {
		delete(l.ways, hot)
	}
}

// writes is a key of this driver's own: the worker's row is to be locked for a change.
// Every write of an attempt reads its worker's lease; who changes one wants nothing else.
func writes(worker store.Key) store.Key {
	worker.B = "writes"
	return worker
}

// Update implements [store.Store].
func (s *Store) Update(ctx context.Context, keys []store.Key, fn func(store.Tx) error) error {
	if len(keys) == 1 && keys[0].Kind == store.KindWorker {
		keys = []store.Key{keys[0], writes(keys[0])}
	}
	hot, w := s.lanes.enter(keys)
	defer s.lanes.leave(hot, w)
	return w.lane.exec.Update(ctx, keys, fn)
}

// Hold waits for the batches in flight and keeps the next from starting until release
// is called, so that a process can be stopped without holding rows.
func (s *Store) Hold() (release func()) {
	var all []func()
	for _, l := range s.lanes.list {
		all = append(all, l.exec.Hold())
	}
	return func() {
		for _, release := range all {
			release()
		}
	}
}

// Idle reports whether no update is in flight or waits.
func (s *Store) Idle() bool {
	for _, l := range s.lanes.list {
		if !l.exec.Idle() {
			return false
		}
	}
	return true
}

// Stats counts this process's commits, each one sync, and the updates they carried.
func (s *Store) Stats() (commits, updates int64) {
	for _, l := range s.lanes.list {
		st := l.exec.Stats()
		commits, updates = commits+st.Commits, updates+st.Updates
	}
	return commits, updates
}
