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
	told     chan struct{} // doorbell of the control loop that will not wait, cap 1
	renewed  chan struct{} // tells the guard that until moved, cap 1
	register chan struct{} // lock of capacity one: who holds it may register
	quit     chan struct{} // closed when the drain's patience is over
	launched chan struct{} // doorbell of Stop: a launch that may start here is over, cap 1

	mu       sync.Mutex
	attempts map[task.ID]*attempt
	lease    task.Lease // zero when not registered or lapsed
	until    time.Time  // local, monotonic: when to stop believing in the lease
	worker   task.WorkerID
	epoch    int64
	lock     *alive.Lock
	looks    map[task.ID]struct{}
	wants    map[task.ID]struct{} // to be started here when their limits allow it
	missing  map[held]int         // rows held without an attempt, by renewals seen
	claims   map[string]struct{}
	loose    map[string]int // claims held that nobody here stands for, by renewals seen
	draining bool
	gaveUp   bool
	started  bool
	backlog  bool // pending tasks wait for a slot, or nobody has looked yet
	launches int  // slots taken by creations under way that may start here
	ended    int  // attempts whose end is committed: they need no slot any more
}

// New returns a dispatcher that has started nothing.
func New(st store.Store, hub *record.Hub, reg Registry, o Options) *Dispatcher {
	d := &Dispatcher{
		st: st, hub: hub, reg: reg, o: o.withDefaults(), host: alive.Here(),
		pending: make(chan struct{}, 1), control: make(chan struct{}, 1), told: make(chan struct{}, 1),
		renewed: make(chan struct{}, 1), register: make(chan struct{}, 1), quit: make(chan struct{}), launched: make(chan struct{}, 1),
		attempts: map[task.ID]*attempt{}, looks: map[task.ID]struct{}{}, wants: map[task.ID]struct{}{}, missing: map[held]int{},
		claims: map[string]struct{}{}, loose: map[string]int{}, backlog: true,
	}
	hub.Listen(d.hint)
	return d
}

// held is one attempt that the store says is held here.
type held struct {
	id      task.ID
	attempt int64
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
	d.loops.Go("sweep", d.sweepLoop)
	if d.o.Passive {
		return nil
	}
	if _, err := d.ensure(ctx); err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	if len(d.reg) > 0 { // asking for no executor in particular means any
		d.takes.Go("claim", d.claimLoop)
	}
	return nil
}

// Stop drains: claims stop, attempts that drain yield or leave, others may finish
// until ctx ends. Then, in this order:
//
//  1. attempts that are left are fenced off and get a moment to notice;
//  2. the lease ends in the store, so that nothing more is taken under it;
//  3. what it still holds is given back: attempts expire, claims are revealed;
//  4. the worker's row goes, then its lock.
//
// A crash between two steps leaves a row whose lease is over: any other worker
// goes on from there. The error names the attempts that did not end. Stop may be
// repeated.
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
	within := func(most time.Duration, do func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
		defer cancel()
		return do(ctx)
	}
	d.giveUp(ctx)
	// The loops before the lease: one of them may be about to register again.
	err = errors.Join(err, within(tidyTime, d.loops.Stop), within(tidyTime, d.unregister))
	if stuck := within(moment, d.runs.Stop); err == nil {
		err = stuck // else they are named already
	}
	return err
}

// tidyTime is how long each step of Stop may take that comes after its context has
// ended: what is not given back then is found by others when the lease ends.
const tidyTime = 10 * time.Second

// awaitAttempts waits until no attempt is left, and none that is about to be, or ctx
// ends.
func (d *Dispatcher) awaitAttempts(ctx context.Context) error {
	for {
		d.mu.Lock()
		var done <-chan struct{}
		names := make([]string, 0, len(d.attempts))
		for id, a := range d.attempts {
			done = a.done
			names = append(names, string(id))
		}
		launches := d.launches
		d.mu.Unlock()
		if done == nil && launches == 0 {
			return nil
		}
		select {
		case <-done:
		case <-d.launched:
		case <-ctx.Done():
			return fmt.Errorf("stop worker: still running: %v: %w", names, context.Cause(ctx))
		}
	}
}

// moment is how long a fenced attempt is waited for before another worker may go on.
const moment = time.Second

// giveUp fences off what did not end by itself, and lets it notice: work that heeds
// its context has stopped before it can be continued elsewhere.
func (d *Dispatcher) giveUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), moment)
	defer cancel()
	d.mu.Lock()
	list := make([]*attempt, 0, len(d.attempts))
	for _, a := range d.attempts {
		list = append(list, a)
	}
	if !d.gaveUp {
		d.gaveUp = true
		close(d.quit)
	}
	d.mu.Unlock()
	for _, a := range list {
		a.revoke(work.ErrFenced)
	}
	for _, a := range list {
		select {
		case <-a.done:
		case <-ctx.Done():
			return
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
	if (h.Any || h.Pending) && len(d.wants) > 0 {
		ring(d.control)
	}
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
// of it. It never waits: a store that hangs is not the caller's to wait for.
func (d *Dispatcher) Tell(id task.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.attempts[id]; ok {
		d.looks[id] = struct{}{}
		ring(d.told)
	}
}

// Unclaim says that nobody here stands for a claim made with Launch any more. If its
// row is still there two renewals later, its task is revealed.
func (d *Dispatcher) Unclaim(observer string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.claims, observer)
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
