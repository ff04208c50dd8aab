// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/apply"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// Adopt takes over a task that is unattended, whose worker is proved dead, or that
// waits for somebody to stop it. It reports whether an attempt runs here now;
// false without an error means that there is nothing to take over.
func (d *Dispatcher) Adopt(ctx context.Context, id task.ID) (bool, error) {
	if d.Runs(id) {
		return true, nil
	}
	rec, holder, err := d.inspect(ctx, id)
	if err != nil {
		return false, err
	}
	if holder != nil { // dead: what it held is let go first
		if err := d.bury(ctx, *holder); err != nil {
			return false, ignoreRenewed(err)
		}
		if rec, holder, err = d.inspect(ctx, id); err != nil || holder != nil {
			return false, err
		}
	}
	adopts := rec.Unattended() && rec.Recoverable && rec.StartCommitted && !rec.Canceling()
	here := rec.Place.Host == "" || rec.Place.Host == d.host.Name
	if d.reg[rec.Executor] == nil || !here || !adopts && !rec.StopOnly() {
		return false, nil
	}
	lease, err := d.ensure(ctx)
	if errors.Is(err, errStopping) {
		return false, nil // another one will
	}
	if err != nil {
		return false, err
	}
	var got task.Record
	err = d.st.Update(ctx, append(startKeys(&rec), store.WorkerKey(lease.Worker)), func(tx store.Tx) (err error) {
		if err = apply.Live(tx, lease); err != nil {
			return err
		}
		if !adopts {
			got, err = d.startHere(tx, id, lease)
			return err
		}
		out, err := apply.Step(tx, id, task.Adopt{Lease: lease})
		got = out.Record
		return err
	})
	if fault.Is(err, fault.UnknownOutcome) {
		got, err = d.readBack(ctx, id, rec.Attempt+1, lease)
	}
	switch {
	case err == nil:
		return d.begin(got) != nil, nil
	case settled(err):
		return false, nil // another one was faster
	}
	return false, fmt.Errorf("adopt task %s: %w", id, err)
}

// inspect reads a task and, when it runs under a lease whose holder is proved dead,
// the holder's row (one made up when the row is gone).
func (d *Dispatcher) inspect(ctx context.Context, id task.ID) (rec task.Record, dead *store.Worker, err error) {
	err = d.st.View(ctx, func(v store.View) error {
		dead = nil
		r, ok, err := v.Task(id)
		if err != nil || !ok {
			return err
		}
		rec = r
		if r.State != task.Running || r.Lease.IsZero() {
			return nil
		}
		w, ok, err := v.Worker(r.Lease.Worker)
		if err != nil {
			return err
		}
		if !ok || w.Epoch != r.Lease.Epoch {
			dead = &store.Worker{ID: r.Lease.Worker, Epoch: r.Lease.Epoch}
		} else if d.isDead(w, v.Now()) {
			dead = &w
		}
		return nil
	})
	if err != nil {
		return task.Record{}, nil, fmt.Errorf("inspect task %s: %w", id, err)
	}
	return rec, dead, nil
}

// HolderGone reports whether the task runs under a lease whose holder is proved dead.
func (d *Dispatcher) HolderGone(ctx context.Context, id task.ID) (bool, error) {
	_, dead, err := d.inspect(ctx, id)
	return dead != nil, err
}

func ignoreRenewed(err error) error {
	if errors.Is(err, errRenewed) {
		return nil
	}
	return err
}

// Await waits until no attempt of the task runs here.
func (d *Dispatcher) Await(ctx context.Context, id task.ID) error {
	d.mu.Lock()
	a := d.attempts[id]
	d.mu.Unlock()
	if a == nil {
		return nil
	}
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Reconcile lets the given tasks tell the truth: dead workers are buried, and an
// unattended task whose outside has ended is adopted just to record the end. What
// could not be done before ctx ended is returned as unverified.
func (d *Dispatcher) Reconcile(ctx context.Context, recs []task.Record) (unverified []task.ID) {
	swept := d.Sweep(ctx) == nil
	for i := range recs {
		r := &recs[i]
		if r.State.Terminal() || r.State == task.Waiting || r.State == task.Suspended || d.Runs(r.ID) {
			continue
		}
		if !swept || ctx.Err() != nil {
			unverified = append(unverified, r.ID)
			continue
		}
		if !d.settleEnded(ctx, r.ID) {
			unverified = append(unverified, r.ID)
		}
	}
	return unverified
}

// adoptAll takes over every unattended task that this worker can follow.
func (d *Dispatcher) adoptAll(ctx context.Context) error {
	var errs []error
	for after := task.ID(""); ; {
		var recs []task.Record
		if err := d.st.View(ctx, func(v store.View) (err error) {
			recs, err = v.Unattended(after, store.DefaultPage)
			return err
		}); err != nil {
			return fmt.Errorf("list unattended tasks: %w", err)
		}
		for i := range recs {
			if d.free() <= 0 {
				return errors.Join(errs...)
			}
			if _, err := d.Adopt(ctx, recs[i].ID); err != nil {
				errs = append(errs, err) // one that cannot be had holds up no other
			}
		}
		if len(recs) < store.DefaultPage || ctx.Err() != nil {
			return errors.Join(errs...)
		}
		after = recs[len(recs)-1].ID
	}
}

// settleEnded records the end of an unattended task that has ended outside.
func (d *Dispatcher) settleEnded(ctx context.Context, id task.ID) bool {
	rec, dead, err := d.inspect(ctx, id)
	if err != nil || dead != nil {
		return false
	}
	ex := d.reg[rec.Executor]
	if rec.StopOnly() {
		took, err := d.Adopt(ctx, id)
		return err == nil && (!took || d.Await(ctx, id) == nil)
	}
	if !rec.Unattended() || rec.Place.Host != "" && rec.Place.Host != d.host.Name {
		return true
	}
	if ex == nil || ex.Ended == nil {
		return false
	}
	if !ex.Ended(ctx, rec) {
		return true
	}
	if took, err := d.Adopt(ctx, id); err != nil || !took {
		return err == nil
	}
	return d.Await(ctx, id) == nil
}
