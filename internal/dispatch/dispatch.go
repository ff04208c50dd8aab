// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package dispatch claims tasks and runs their attempts: worker leases with epochs
// and proofs of death, claims, adoption, retries, timers, drain and recovery. It
// performs what package task decides.
package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/alive"
	"github.com/outlive-dev/outlive/internal/apply"
	"github.com/outlive-dev/outlive/internal/lifecycle"
	"github.com/outlive-dev/outlive/internal/record"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// Options tune a dispatcher.
type Options struct {
	// Slots is how many attempts run at once. Defaults to 64.
	Slots int
	// Passive dispatchers run only what they are asked to start or adopt; they claim
	// nothing by themselves. Defaults to false.
	Passive bool
	// Lease is how long a worker is believed without a renewal. Defaults to 15 s.
	Lease time.Duration
	// Renew is the time between renewals. Defaults to 5 s.
	Renew time.Duration
	// Probe is the time between looks at other workers. Defaults to 1 s.
	Probe time.Duration
	// Poll is how long a lost doorbell costs at most. Defaults to 5 s.
	Poll time.Duration
	// Grace is how long Stop waits for attempts when its context has no deadline.
	// Defaults to 30 s.
	Grace time.Duration
	// LockDir holds the lock files that prove a worker's death. Defaults to none:
	// only the lease counts.
	LockDir string
	// Aging lifts a waiting task by one priority step per this time. Defaults to 1 min.
	Aging time.Duration
	// NewID makes a worker's id. Required.
	NewID func() task.WorkerID
	// Log gets what an operator should know. Defaults to discarding.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.Lease, 15*time.Second)
	def(&o.Renew, 5*time.Second)
	def(&o.Probe, time.Second)
	def(&o.Poll, 5*time.Second)
	def(&o.Grace, 30*time.Second)
	def(&o.Aging, time.Minute)
	if o.Slots == 0 {
		o.Slots = 64
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Registry holds the executors by key. It is filled before Start and read only
// afterwards.
type Registry map[string]*work.Executor

// Dispatcher is one worker.
//
// Concurrency: a monitor. mu guards attempts, lease, until, looks, draining and
// stale; it is never held over a store call, a callback or a send. The loops (claim,
// renew, guard, control, sweep) own nothing shared but what they take under mu.
type Dispatcher struct {
	st   store.Store
	hub  *record.Hub
	reg  Registry
	o    Options
	host alive.Host

	loops *lifecycle.Group // renew, guard, control, sweep
	takes *lifecycle.Group // claim
	runs  *lifecycle.Group // attempts

	pending  chan struct{} // doorbell of the claim loop, cap 1
	control  chan struct{} // doorbell of the control loop, cap 1
	renewed  chan struct{} // tells the guard that until moved, cap 1
	register chan struct{} // lock of capacity one: who holds it may register

	mu       sync.Mutex
	attempts map[task.ID]*attempt
	lease    task.Lease // zero when not registered or lapsed
	until    time.Time  // local, monotonic: when to stop believing in the lease
	worker   task.WorkerID
	epoch    int64
	lock     *alive.Lock
	looks    map[task.ID]struct{}
	missing  map[task.ID]int // rows held without an attempt, by renewals seen
	draining bool
	started  bool
}

// New returns a dispatcher that has started nothing.
func New(st store.Store, hub *record.Hub, reg Registry, o Options) *Dispatcher {
	d := &Dispatcher{
		st: st, hub: hub, reg: reg, o: o.withDefaults(), host: alive.Here(),
		pending: make(chan struct{}, 1), control: make(chan struct{}, 1),
		renewed: make(chan struct{}, 1), register: make(chan struct{}, 1),
		attempts: map[task.ID]*attempt{}, looks: map[task.ID]struct{}{}, missing: map[task.ID]int{},
	}
	hub.Listen(d.hint)
	return d
}

// Start starts the loops. A dispatcher that is not passive registers and claims.
func (d *Dispatcher) Start(ctx context.Context) error {
	d.mu.Lock()
	if d.started {
		d.mu.Unlock()
		return nil
	}
	d.started = true
	ctx = context.WithoutCancel(ctx)
	d.loops, d.takes, d.runs = lifecycle.New(ctx), lifecycle.New(ctx), lifecycle.New(ctx)
	d.mu.Unlock()
	d.loops.Go("control", d.controlLoop)
	if d.o.Passive {
		return nil
	}
	if _, err := d.ensure(ctx); err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	d.loops.Go("sweep", d.sweepLoop)
	d.takes.Go("claim", d.claimLoop)
	return nil
}

// Stop drains: claims stop, attempts that drain yield or leave, others may finish
// until ctx ends, and whatever is then still held is given back at once. It names
// the attempts that did not end. It is idempotent.
func (d *Dispatcher) Stop(ctx context.Context) error {
	d.mu.Lock()
	if !d.started {
		d.mu.Unlock()
		return nil
	}
	d.draining = true
	list := make([]*attempt, 0, len(d.attempts))
	for _, a := range d.attempts {
		list = append(list, a)
	}
	d.mu.Unlock()
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.o.Grace)
		defer cancel()
	}
	err := d.takes.Stop(ctx)
	for _, a := range list {
		if a.ex.Drains || a.ex.Recoverable {
			a.cancel(work.ErrDrain)
		}
	}
	err = errors.Join(err, d.awaitAttempts(ctx))
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	d.giveUp(stop)
	err = errors.Join(err, d.runs.Stop(stop))
	d.unregister(stop)
	return errors.Join(err, d.loops.Stop(stop))
}

// awaitAttempts waits until no attempt is left or ctx ends.
func (d *Dispatcher) awaitAttempts(ctx context.Context) error {
	for {
		d.mu.Lock()
		var next *attempt
		names := make([]string, 0, len(d.attempts))
		for id, a := range d.attempts {
			next = a
			names = append(names, string(id))
		}
		d.mu.Unlock()
		if next == nil {
			return nil
		}
		select {
		case <-next.done:
		case <-ctx.Done():
			return fmt.Errorf("stop worker: still running: %v: %w", names, context.Cause(ctx))
		}
	}
}

// giveUp ends what did not end by itself: contexts end as fenced, and the rows are
// expired so that another worker continues at once.
func (d *Dispatcher) giveUp(ctx context.Context) {
	d.mu.Lock()
	list := make([]*attempt, 0, len(d.attempts))
	for _, a := range d.attempts {
		list = append(list, a)
	}
	d.mu.Unlock()
	for _, a := range list {
		a.cancel(work.ErrFenced)
		if err := d.expire(ctx, []task.Record{a.rec}, nil); err != nil {
			d.o.Log.Warn("give task back", "task", a.rec.ID, "err", err)
		}
	}
}

// hint is the store's doorbell. It must not block.
func (d *Dispatcher) hint(h store.Hint) {
	if h.Any || h.Pending {
		ring(d.pending)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.attempts) == 0 {
		return
	}
	if h.Any {
		for id := range d.attempts {
			d.looks[id] = struct{}{}
		}
	} else {
		for _, id := range h.Tasks {
			if _, ok := d.attempts[id]; ok {
				d.looks[id] = struct{}{}
			}
		}
	}
	if len(d.looks) > 0 {
		ring(d.control)
	}
}

// Tell asks the dispatcher to look at a task of its own now: something was asked
// of it. Losing it costs one doorbell.
func (d *Dispatcher) Tell(id task.ID) {
	d.mu.Lock()
	_, ok := d.attempts[id]
	d.mu.Unlock()
	if ok {
		d.look(context.Background(), id) //nolint:forbidigo // bounded by the store's own patience
	}
}

// Runs reports whether an attempt of the task runs here.
func (d *Dispatcher) Runs(id task.ID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.attempts[id]
	return ok
}

// Executor returns the executor of a key.
func (d *Dispatcher) Executor(key string) (*work.Executor, error) {
	ex := d.reg[key]
	if ex == nil {
		return nil, fault.Newf(fault.Unsupported, "no executor %q is registered here", key)
	}
	return ex, nil
}

func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// settled are the kinds of errors that say "somebody else was faster": nothing to
// do about a task any more.
func settled(err error) bool {
	switch fault.KindOf(err) {
	case fault.Fenced, fault.Finished, fault.NotFound, fault.Conflict, fault.CancelRequested:
		return true
	default:
		return false
	}
}

// attemptKeys are what every write of an attempt declares.
func attemptKeys(id task.ID, l task.Lease) []store.Key {
	return append(apply.Keys(id), store.WorkerKey(l.Worker))
}
