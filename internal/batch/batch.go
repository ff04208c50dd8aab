// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package batch runs the updates of a store in groups: one load of the union of
// their keys, every function in order over one overlay, one flush, one commit.
// Every driver shares it, so that a driver only loads keys and flushes stagings.
//
// # Guarantees
//
//  1. A function that fails, panics or asks for more keys leaves its neighbours
//     alone; so does one whose rows cannot be written.
//  2. A caller is answered after the commit, hints go out after that.
//  3. While nothing waits, an update starts at once; while a commit is in flight,
//     the next batch forms.
//  4. The queue is bounded. Waiting for a place ends with the caller's context or
//     with the patience, and then with fault.Unavailable.
//  5. While nothing is to be done there is no goroutine.
package batch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/lifecycle"
	"github.com/outlive-dev/outlive/store"
)

// Driver is one open write transaction at a time. Its methods are called by one
// goroutine at a time, in the order Begin, Load..., Flush, Commit; Rollback may
// follow any of them but a Commit that succeeded.
//
// After an [AgainError] the batch runs again, after a [BlockedError] without the
// functions that are blocked. An error of kind Unavailable, UnknownOutcome or Closed
// is the whole batch's; any other error of Load, Flush or Commit may be the fault of
// one function, which is then found by running the batch again in halves.
type Driver interface {
	// Begin begins a transaction and returns a time that its Now must not be before.
	Begin() (last time.Time, err error)
	// Load locks the rows of keys and adds them. It may be called again in one
	// transaction.
	Load(keys []store.Key, rows *Rows) error
	// Flush writes the staging. It may keep what it is given.
	Flush(s *Staging) error
	// Commit makes it durable. When it cannot tell whether it did, the error's
	// kind is UnknownOutcome.
	Commit() error
	// Rollback leaves no trace of the transaction.
	Rollback()
}

// Options tunes an Executor.
type Options struct {
	// Clock is the wall clock, read once a batch by the committer after the rows are
	// loaded. Defaults to time.Now.
	Clock func() time.Time
	// Epoch is the epoch new streams start with. Defaults to 1.
	Epoch int64
	// Batch is how many updates one commit takes at most. Defaults to 512.
	Batch int
	// Bytes is how much one commit stages, roughly, before it takes no further
	// update. Defaults to 8 MiB.
	Bytes int
	// Queue is how many updates may wait. One hot key gets at most a quarter of it.
	// Defaults to 8192.
	Queue int
	// Patience is how long an update waits for a place in the queue. Defaults to 10 s.
	Patience time.Duration
}

func (o *Options) fill() {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	o.Epoch = max(o.Epoch, 1)
	o.Batch = orDefault(o.Batch, 512)
	o.Bytes = orDefault(o.Bytes, 8<<20)
	o.Queue = orDefault(o.Queue, 8192)
	if o.Patience <= 0 {
		o.Patience = 10 * time.Second
	}
}

func orDefault(v, d int) int {
	if v <= 0 {
		return d
	}
	return v
}

// ErrFull is returned when the queue stayed full for the patience.
var ErrFull = fault.New(fault.Unavailable, "store is overloaded: its queue of updates stayed full")

// Executor is a store's one committer. Safe for concurrent use.
//
// Concurrency: mu guards the queue and the flags. The loop goroutine, of which
// there is at most one, owns tx and staging; ops taken out of the queue belong to
// it until done is signaled.
type Executor struct {
	driver Driver
	hub    *Hub
	opts   Options
	group  lifecycle.Group

	mu     sync.Mutex
	queue  []*op
	hot    map[store.Key]int // waiting ops by first key
	space  chan struct{}     // closed when places became free; nil when nobody waits
	idle   chan struct{}     // closed when the loop ends; nil when nobody waits
	active bool              // the loop runs
	holds  int               // the loop is not to run
	closed bool
	free   []*op // for reuse: never shared with another executor (or bubble)

	tx      *txn
	staging Staging

	commits, updates atomic.Int64
}

// Stats counts what an executor has done.
type Stats struct {
	Commits int64 // transactions, each one sync
	Updates int64 // updates they carried
}

// Stats returns the counts so far.
func (e *Executor) Stats() Stats {
	return Stats{Commits: e.commits.Load(), Updates: e.updates.Load()}
}

// op is one update. Its state is guarded by the executor's mu.
type op struct {
	keys  []store.Key
	hot   store.Key
	fn    func(store.Tx) error
	done  chan struct{} // cap 1: signaled once
	err   error
	own   bool      // err is fn's answer to committed facts: it stands whatever becomes of the batch
	more  int       // rounds of More
	since time.Time // when it was first blocked
	alone bool      // it runs alone, from retry on
	retry time.Time
	state opState
}

type opState uint8

const (
	waiting opState = iota
	admitted
	withdrawn
)

// New returns an executor over d that rings hub after commits. It starts nothing.
func New(d Driver, hub *Hub, opts Options) *Executor {
	opts.fill()
	return &Executor{driver: d, hub: hub, opts: opts, hot: make(map[store.Key]int), tx: newTxn(opts.Epoch)}
}

// Update implements [store.Store].
func (e *Executor) Update(ctx context.Context, keys []store.Key, fn func(store.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o, err := e.enqueue(ctx, keys, fn)
	if err != nil {
		return err
	}
	if gone := ctx.Done(); gone == nil {
		<-o.done
	} else {
		select {
		case <-o.done:
		case <-gone:
			if e.withdraw(o) {
				return ctx.Err()
			}
			<-o.done
		}
	}
	err = o.err
	e.release(o)
	return err
}

// Hold waits for the batch in flight to end and keeps the next from starting
// until release is called, which may be done more than once.
func (e *Executor) Hold() (release func()) {
	e.mu.Lock()
	e.holds++
	e.waitIdleLocked()
	e.mu.Unlock()
	return sync.OnceFunc(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.holds--
		e.startLocked()
	})
}

// Idle reports whether no batch is in flight and none waits.
func (e *Executor) Idle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.active && len(e.queue) == 0
}

// Close refuses new updates and waits for those that are in the queue.
func (e *Executor) Close() {
	e.mu.Lock()
	e.closed = true
	e.holds = 0
	e.wakeLocked()
	e.startLocked()
	e.waitIdleLocked()
	e.mu.Unlock()
	_ = e.group.Stop(context.Background()) //nolint:forbidigo // idle by now: nothing is left to wait for
}

// waitIdleLocked gives mu up while it waits.
func (e *Executor) waitIdleLocked() {
	for e.active {
		if e.idle == nil {
			e.idle = make(chan struct{})
		}
		idle := e.idle
		e.mu.Unlock()
		<-idle
		e.mu.Lock()
	}
}

func (e *Executor) startLocked() {
	if e.active || e.holds > 0 || len(e.queue) == 0 {
		return
	}
	e.active = e.group.Go("store committer", e.loop)
}

// Waiting returns how many updates are in the queue.
func (e *Executor) Waiting() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.queue)
}
