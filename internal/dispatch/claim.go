// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"fmt"
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
				break // the end of an attempt rings
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
	return d.o.Slots - len(d.attempts)
}

// claim starts up to n due tasks in one transaction. With none it returns how long
// until the next one is due.
func (d *Dispatcher) claim(ctx context.Context, executors []string, n int) (int, time.Duration, error) {
	lease, err := d.ensure(ctx)
	if err != nil {
		return 0, 0, err
	}
	next := d.o.Poll
	var due []task.Record
	if err := d.st.View(ctx, func(v store.View) (err error) {
		now := v.Now()
		due, err = v.Pending(store.PendingQuery{Now: now, Executors: executors, Limit: min(n, store.DefaultPage), Aging: d.o.Aging})
		if err != nil || len(due) > 0 {
			return err
		}
		at, ok, err := v.NextDue(now)
		if ok {
			next = at.Sub(now)
		}
		return err
	}); err != nil || len(due) == 0 {
		return 0, next, err
	}
	keys := []store.Key{store.WorkerKey(lease.Worker)}
	for i := range due {
		keys = append(keys, startKeys(&due[i])...)
	}
	var got []task.Record
	err = d.st.Update(ctx, keys, func(tx store.Tx) error {
		got = got[:0]
		if err := apply.Live(tx, lease); err != nil {
			return err
		}
		for i := range due {
			r, err := d.startHere(tx, due[i].ID, lease)
			if _, more := store.AsMore(err); more {
				return err
			}
			if err == nil {
				got = append(got, r)
			}
		}
		return nil
	})
	switch {
	case fault.Is(err, fault.UnknownOutcome):
		got, err = d.readBack(ctx, lease)
	case fault.Is(err, fault.Fenced):
		d.lapse(lease)
	}
	if err != nil {
		return 0, 0, err
	}
	for _, r := range got {
		d.begin(r)
	}
	return len(got), next, nil
}

// readBack finds what a claim of unknown outcome has started: rows under our lease
// that no attempt here knows.
func (d *Dispatcher) readBack(ctx context.Context, lease task.Lease) ([]task.Record, error) {
	var held, ours []task.Record
	if err := d.st.View(ctx, func(v store.View) (err error) {
		held, err = v.Held(lease, "", store.MaxPage)
		return err
	}); err != nil {
		return nil, fmt.Errorf("read back a claim: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range held {
		if d.attempts[r.ID] == nil {
			ours = append(ours, r)
		}
	}
	return ours, nil
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

// errBusy says that a limit forbids the start now.
var errBusy = fault.New(fault.Unavailable, "start task: its queue is full or paused")

// startHere starts a pending task under the lease unless a limit forbids it. A start
// that exists to stop is ahead of every limit.
func (d *Dispatcher) startHere(tx store.Tx, id task.ID, lease task.Lease) (task.Record, error) {
	r, ok := tx.Task(id)
	if !ok {
		return task.Record{}, apply.ErrNoTask
	}
	if !r.StopOnly() {
		if r.Queue != "" {
			if q := tx.Queue(r.Queue); q.Paused || q.Limit > 0 && tx.Running(r.Queue) >= q.Limit {
				return r, errBusy
			}
		}
		if r.ConcurrencyKey != "" && tx.RunningWith(r.ConcurrencyKey) >= 1 {
			return r, errBusy
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
	// Here starts the task in this worker, in the same transaction, unless a limit
	// forbids it.
	Here bool
}

// Launch creates a task, and starts it here when asked to.
func (d *Dispatcher) Launch(ctx context.Context, l Launch) (Launched, error) {
	rec := &l.Create.Record
	keys := append(apply.CreateKeys(rec), startKeys(rec)...)
	var lease task.Lease
	if l.Here || l.Observer != "" {
		var err error
		if lease, err = d.ensure(ctx); err != nil {
			return Launched{}, err
		}
		keys = append(keys, store.WorkerKey(lease.Worker), store.ObserversKey(rec.ID))
	}
	if l.Invocation != nil {
		keys = append(keys, store.InvocationKey(l.Invocation.Key))
	}
	var out Launched
	err := d.st.Update(ctx, keys, func(tx store.Tx) error {
		out = Launched{}
		if !lease.IsZero() {
			if err := apply.Live(tx, lease); err != nil {
				return err
			}
		}
		if l.Invocation != nil {
			if done, err := invoked(tx, l, &out); done || err != nil {
				return err
			}
		}
		made, err := apply.Create(tx, l.Create)
		if err != nil {
			return err
		}
		out.Record = made.Record
		if l.Observer != "" {
			tx.PutObserver(store.Observer{Task: rec.ID, ID: l.Observer, Kind: "claim", Lease: lease, CreatedAt: tx.Now()})
		}
		if !l.Here {
			return nil
		}
		r, err := d.startHere(tx, rec.ID, lease)
		if fault.Is(err, fault.Unavailable) {
			return nil // it stays pending
		}
		if err == nil {
			out.Record, out.Started = r, true
		}
		return err
	})
	if err != nil {
		return Launched{}, fmt.Errorf("create task: %w", err)
	}
	if out.Started {
		d.begin(out.Record)
	}
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
