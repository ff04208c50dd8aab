// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/apply"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// claimLoop claims due tasks in batches whenever slots are free.
func (d *Dispatcher) claimLoop(ctx context.Context) {
	keys := make([]string, 0, len(d.reg))
	for k := range d.reg {
		keys = append(keys, k)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.pending:
		case <-timer.C:
		}
		wait := d.o.Poll
		for ctx.Err() == nil {
			free := d.free()
			if free <= 0 {
				d.setBacklog(true) // for all we know; the end of an attempt rings
				break
			}
			n, next, err := d.claim(ctx, keys, free)
			if err != nil {
				if ctx.Err() == nil {
					d.o.Log.Warn("claim tasks", "err", err)
				}
				break
			}
			if n == 0 {
				wait = min(wait, max(next, time.Millisecond))
				break
			}
		}
		timer.Reset(wait)
	}
}

func (d *Dispatcher) free() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.draining {
		return 0
	}
	return d.freeLocked()
}

func (d *Dispatcher) freeLocked() int { return d.o.Slots - len(d.attempts) + d.ended - d.launches }

// reserve takes a slot for a task that is being created, if one is free and nothing
// is known to wait for it. What is created under it starts in that very transaction,
// which is one commit less than to find it pending and claim it. Once something does
// wait, nothing is started past it until the claim loop has seen to it.
// The lease returned is zero without a slot.
func (d *Dispatcher) reserve(r *task.Record) task.Lease {
	if !r.DueAt.IsZero() || r.Queue != "" || r.ConcurrencyKey != "" {
		return task.Lease{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.backlog, d.draining, d.lease.IsZero():
		return task.Lease{}
	case d.freeLocked() <= 0:
		d.backlog = true // this one
		return task.Lease{}
	}
	d.launches++
	return d.lease
}

// hold takes a slot whether one is free or not.
func (d *Dispatcher) hold() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.launches++
}

// unreserve gives the slot back: to the attempt, if there is one.
func (d *Dispatcher) unreserve() {
	d.mu.Lock()
	d.launches--
	backlog := d.backlog
	d.mu.Unlock()
	ring(d.launched)
	if backlog {
		ring(d.pending)
	}
}

// claim starts up to n due tasks in one transaction. With none it returns how long
// until the next one is due. When limits hold back the first in line it looks further
// down, so that a full queue does not stand in the way of the others.
func (d *Dispatcher) claim(ctx context.Context, executors []string, n int) (int, time.Duration, error) {
	lease, err := d.ensure(ctx)
	if err != nil {
		return 0, 0, err
	}
	var full limits
	for page := min(n, store.DefaultPage); ; page = store.MaxPage {
		due, next, err := d.due(ctx, executors, page, &full)
		if err != nil {
			return 0, 0, err
		}
		if len(due) == 0 {
			d.setBacklog(false)
			return 0, next, nil
		}
		got, err := d.take(ctx, thin(due, n), n, lease, &full)
		if err != nil {
			return 0, 0, err
		}
		for _, r := range got {
			d.begin(r)
		}
		d.setBacklog(len(due) == page || full.leave(due, got))
		if len(got) > 0 || len(due) < page || !full.grown() {
			return len(got), next, nil
		}
	}
}

// limits are the queues and concurrency keys that were met without a free place.
type limits struct {
	queues, keys []string
	before       int // how many there were at the last look
}

// leave reports whether some of the due tasks were not started for want of a slot
// alone.
func (l *limits) leave(due, got []task.Record) bool {
	started := make(map[task.ID]bool, len(got))
	for i := range got {
		started[got[i].ID] = true
	}
	return slices.ContainsFunc(due, func(r task.Record) bool {
		return !started[r.ID] && !slices.Contains(l.queues, r.Queue) && !slices.Contains(l.keys, r.ConcurrencyKey)
	})
}

// grown reports whether there are more than at the last time it was asked: what a
// further look leaves out.
func (l *limits) grown() bool {
	n := len(l.queues) + len(l.keys)
	was := l.before
	l.before = n
	return n > was
}

func (l *limits) add(r *task.Record, queue bool) {
	list, name := &l.keys, r.ConcurrencyKey
	if queue {
		list, name = &l.queues, r.Queue
	}
	if !slices.Contains(*list, name) {
		*list = append(*list, name)
	}
}

// due lists what may be claimed, best first, or how long until something may.
func (d *Dispatcher) due(ctx context.Context, executors []string, limit int, full *limits) (due []task.Record, next time.Duration, err error) {
	next = d.o.Poll
	err = d.st.View(ctx, func(v store.View) (err error) {
		now := v.Now()
		due, err = v.Pending(store.PendingQuery{
			Now: now, Executors: executors, Limit: limit, Aging: d.o.Aging, FullQueues: full.queues, BusyKeys: full.keys,
		})
		if err != nil || len(due) > 0 {
			return err
		}
		at, ok, err := v.NextDue(now)
		if ok {
			next = at.Sub(now)
		}
		return err
	})
	return due, next, err
}

func (d *Dispatcher) setBacklog(b bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.backlog = b
}

// thin leaves out what cannot be started beside the others: more than n of a queue,
// more than one of a concurrency key.
func thin(due []task.Record, n int) []task.Record {
	if len(due) <= n {
		return due
	}
	queues, keys := map[string]int{}, map[string]int{}
	kept := due[:0:0]
	for i := range due {
		r := &due[i]
		if !r.StopOnly() && (r.Queue != "" && queues[r.Queue] >= n || r.ConcurrencyKey != "" && keys[r.ConcurrencyKey] >= 1) {
			continue
		}
		queues[r.Queue]++
		keys[r.ConcurrencyKey]++
		kept = append(kept, *r)
	}
	return kept
}

// take starts at most n of the due tasks under the lease, and notes whose limits are
// reached.
func (d *Dispatcher) take(ctx context.Context, due []task.Record, n int, lease task.Lease, full *limits) ([]task.Record, error) {
	keys := []store.Key{store.WorkerKey(lease.Worker)}
	for i := range due {
		keys = append(keys, startKeys(&due[i])...)
	}
	var got []task.Record
	err := d.st.Update(ctx, keys, func(tx store.Tx) error {
		got = got[:0]
		if err := apply.Live(tx, lease); err != nil {
			return err
		}
		for i := range due {
			if len(got) == n {
				break
			}
			r, err := d.startHere(tx, due[i].ID, lease)
			if _, more := store.AsMore(err); more {
				return err
			}
			switch {
			case err == nil:
				got = append(got, r)
			case errors.Is(err, errFullQueue):
				full.add(&r, true)
			case errors.Is(err, errBusyKey):
				full.add(&r, false)
			}
		}
		return nil
	})
	switch {
	case fault.Is(err, fault.UnknownOutcome):
		got = got[:0]
		for i := range due {
			switch r, err := d.readBack(ctx, due[i].ID, due[i].Attempt+1, lease); {
			case err == nil:
				got = append(got, r)
			case !errors.Is(err, errNotTaken):
				return got, err // the audit finds the others
			}
		}
		return got, nil
	case fault.Is(err, fault.Fenced):
		d.lapse(lease)
	}
	return got, err
}

// errNotTaken says that a start of unknown outcome did not happen.
var errNotTaken = fault.New(fault.Conflict, "start task: it was not started")

// readBack finds out whether a start of unknown outcome has happened: nothing else
// makes that attempt under that lease. It does so also while the worker stops.
func (d *Dispatcher) readBack(ctx context.Context, id task.ID, attempt int64, lease task.Lease) (r task.Record, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.o.Lease)
	defer cancel()
	found := false
	if err := d.st.View(ctx, func(v store.View) (err error) {
		r, found, err = v.Task(id)
		return err
	}); err != nil {
		return task.Record{}, fmt.Errorf("read back task %s: %w", id, err)
	}
	if !found || r.State != task.Running || r.Attempt != attempt || r.Lease != lease {
		return r, errNotTaken
	}
	return r, nil
}

// startKeys are the keys that starting r needs.
func startKeys(r *task.Record) []store.Key {
	keys := apply.Keys(r.ID)
	if r.Queue != "" {
		keys = append(keys, store.QueueKey(r.Queue))
	}
	if r.ConcurrencyKey != "" {
		keys = append(keys, store.ConcurrencyKey(r.ConcurrencyKey))
	}
	return keys
}

// A limit forbids the start now.
var (
	errFullQueue = fault.New(fault.Unavailable, "start task: its queue is full or paused")
	errBusyKey   = fault.New(fault.Unavailable, "start task: another task with its concurrency key runs")
)

// startHere starts a pending task under the lease unless a limit forbids it. A start
// that exists to stop is ahead of every limit.
func (d *Dispatcher) startHere(tx store.Tx, id task.ID, lease task.Lease) (task.Record, error) {
	r, ok := tx.Task(id)
	if !ok {
		return task.Record{}, apply.ErrNoTask
	}
	if r.State == task.Pending && !r.StopOnly() { // else it is refused for what it is
		if r.Queue != "" {
			if q := tx.Queue(r.Queue); q.Paused || q.Limit > 0 && tx.Running(r.Queue) >= q.Limit {
				return r, errFullQueue
			}
		}
		if r.ConcurrencyKey != "" && tx.RunningWith(r.ConcurrencyKey) >= 1 {
			return r, errBusyKey
		}
	}
	out, err := apply.Step(tx, id, task.Start{Lease: lease, Outside: d.reg[r.Executor].Stop != nil})
	return out.Record, err
}

// Launched is what Launch did.
type Launched struct {
	Record task.Record
	// Started says that an attempt of it runs here now.
	Started bool
	// Existed says that the invocation had made the task before.
	Existed bool
}

// Launch is a task to create, and how.
type Launch struct {
	Create task.Create
	// Invocation, when set, makes the creation idempotent.
	Invocation *store.Invocation
	// Observer, when set, is a claim bound to this worker's lease.
	Observer string
	// Turn, when set, is what the task is to its session: Create's record has that.
	Turn *apply.Turn
	// Here starts the task in this worker, in the same transaction, unless a limit
	// forbids it.
	Here bool
}

// launchTries is how often a launch looks for a lease that holds.
const launchTries = 3

// Launch creates a task, and starts it here when asked to.
func (d *Dispatcher) Launch(ctx context.Context, l Launch) (out Launched, err error) {
	if l.Observer != "" {
		d.mu.Lock()
		d.claims[l.Observer] = struct{}{}
		d.mu.Unlock()
	}
	asked := l.Here
	var lease task.Lease
	if asked {
		d.hold()
	} else {
		lease = d.reserve(&l.Create.Record)
		l.Here = !lease.IsZero()
	}
	if l.Here {
		defer d.unreserve()
	}
	for range launchTries {
		if out, lease, err = d.launch(ctx, &l, lease); !errors.Is(err, apply.ErrLease) {
			break
		}
		d.lapse(lease) // it ran out meanwhile: that is ours to know, not the caller's
		l.Here, lease = asked, task.Lease{}
	}
	if errors.Is(err, apply.ErrLease) {
		err = errNoLease // fenced is an answer to attempts
	}
	if err != nil {
		d.Unclaim(l.Observer)
		return Launched{}, fmt.Errorf("create task: %w", err)
	}
	if out.Started {
		d.begin(out.Record)
	} else if out.Existed {
		d.Tell(out.Record.ID) // a message to it, perhaps
	} else if asked && out.Record.State == task.Pending {
		d.want(out.Record.ID)
	}
	return out, nil
}

// errNoLease says that this worker's leases run out before anything is done under them.
var errNoLease = fault.New(fault.Unavailable, "the store is too slow for the length of the lease")

// launch makes one try, under the lease where one is given.
func (d *Dispatcher) launch(ctx context.Context, l *Launch, lease task.Lease) (out Launched, _ task.Lease, err error) {
	rec := &l.Create.Record
	keys := append(apply.CreateKeys(rec), startKeys(rec)...)
	if l.Here || l.Observer != "" {
		if lease.IsZero() {
			if lease, err = d.ensure(ctx); err != nil {
				return Launched{}, lease, err
			}
		}
		keys = append(keys, store.WorkerKey(lease.Worker), store.ObserversKey(rec.ID))
	}
	if l.Invocation != nil {
		keys = append(keys, store.InvocationKey(l.Invocation.Key))
	}
	err = d.st.Update(ctx, keys, func(tx store.Tx) (err error) {
		out, err = d.launchIn(tx, l, lease)
		return err
	})
	if fault.Is(err, fault.UnknownOutcome) {
		out, err = d.readLaunch(ctx, l, lease, err)
	}
	return out, lease, err
}

func (d *Dispatcher) launchIn(tx store.Tx, l *Launch, lease task.Lease) (out Launched, err error) {
	if !lease.IsZero() {
		if err := apply.Live(tx, lease); err != nil {
			return out, err
		}
	}
	if l.Invocation != nil {
		if done, err := invoked(tx, *l, &out); done || err != nil {
			return out, err
		}
	}
	made, began, err := createIn(tx, l)
	if err != nil {
		return out, err
	}
	id := made.Record.ID
	out.Record = made.Record
	if !began {
		out.Existed = true
		return out, nil
	}
	if l.Observer != "" {
		tx.PutObserver(store.Observer{Task: id, ID: l.Observer, Kind: "claim", Lease: lease, CreatedAt: tx.Now()})
	}
	if !l.Here {
		return out, nil
	}
	r, err := d.startHere(tx, id, lease)
	switch {
	case fault.Is(err, fault.Unavailable):
		return out, nil // it stays pending
	case err == nil:
		out.Record, out.Started = r, true
	}
	return out, err
}

// createIn creates the task, or gives it as a message to the session's task. A key
// then names that one.
func createIn(tx store.Tx, l *Launch) (out apply.Outcome, began bool, err error) {
	if l.Turn == nil {
		out, err = apply.Create(tx, l.Create)
		return out, true, err
	}
	t := *l.Turn
	t.Create = l.Create
	out, began, err = apply.Begin(tx, t)
	if err == nil && !began && l.Invocation != nil {
		inv := *l.Invocation
		inv.Task = out.Record.ID
		tx.PutInvocation(inv)
	}
	return out, began, err
}

// readLaunch finds out what became of a creation of unknown outcome. Ids are not
// guessed: a task of this one was made by it. If it cannot be told, unknown is the
// answer.
func (d *Dispatcher) readLaunch(ctx context.Context, l *Launch, lease task.Lease, unknown error) (out Launched, err error) {
	found := false
	rec := &l.Create.Record
	if err := d.st.View(ctx, func(v store.View) (err error) {
		out.Record, found, err = v.Task(rec.ID)
		return err
	}); err != nil || !found {
		return Launched{}, unknown
	}
	r := &out.Record
	out.Started = l.Here && r.State == task.Running && r.Attempt == 1 && r.Lease == lease
	return out, nil
}

// invoked answers a repeated invocation from its first task.
func invoked(tx store.Tx, l Launch, out *Launched) (bool, error) {
	old, ok := tx.Invocation(l.Invocation.Key)
	if !ok {
		inv := *l.Invocation
		inv.Task = l.Create.Record.ID
		tx.PutInvocation(inv)
		return false, nil
	}
	if old.Digest != l.Invocation.Digest {
		return false, fault.Newf(fault.Exists, "invocation key %q was used for another request (task %s)", l.Create.Record.Invocation, old.Task)
	}
	k := store.TaskKey(old.Task)
	if !tx.Declared(k) {
		return false, store.More(k)
	}
	out.Record, out.Existed = task.Record{ID: old.Task}, true
	if r, ok := tx.Task(old.Task); ok {
		out.Record = r
	}
	return true, nil
}
