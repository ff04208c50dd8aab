// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/alive"
	"github.com/outlive-dev/outlive/internal/apply"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// Lease returns the worker's lease, registering first when there is none.
func (d *Dispatcher) Lease(ctx context.Context) (task.Lease, error) { return d.ensure(ctx) }

// ensure returns a lease, registering when there is none. A lapsed lease is never
// renewed: what it held is given back, and the worker takes a new epoch.
func (d *Dispatcher) ensure(ctx context.Context) (task.Lease, error) {
	select {
	case d.register <- struct{}{}:
	case <-ctx.Done():
		return task.Lease{}, context.Cause(ctx)
	}
	defer func() { <-d.register }()
	d.mu.Lock()
	lease, old, draining, started := d.lease, task.Lease{Worker: d.worker, Epoch: d.epoch}, d.draining, d.started
	d.mu.Unlock()
	switch {
	case !started:
		return task.Lease{}, fault.New(fault.Unavailable, "register worker: it has not started")
	case draining:
		return task.Lease{}, errStopping
	case !lease.IsZero():
		return lease, nil
	}
	if old.Epoch > 0 && givesBack {
		// Before the new epoch is there: nobody looks for what an older one held.
		if err := d.retire(ctx, old); err != nil {
			return task.Lease{}, err
		}
	}
	next := task.Lease{Worker: old.Worker, Epoch: old.Epoch + 1}
	if next.Worker == "" {
		next.Worker = d.o.NewID()
	}
	if err := d.holdLock(next.Worker); err != nil {
		return task.Lease{}, err
	}
	began := time.Now()
	if err := d.st.Update(ctx, []store.Key{store.WorkerKey(next.Worker)}, func(tx store.Tx) error {
		tx.PutWorker(d.row(next, tx.Now()))
		return nil
	}); err != nil {
		return task.Lease{}, fmt.Errorf("register worker: %w", err)
	}
	d.mu.Lock()
	d.worker, d.epoch, d.lease, d.until = next.Worker, next.Epoch, next, began.Add(d.o.Lease)
	d.mu.Unlock()
	if next.Epoch == 1 {
		d.loops.Go("renew", d.renewLoop)
		d.loops.Go("guard", d.guardLoop)
	} else {
		ring(d.renewed)
		ring(d.pending)
	}
	return next, nil
}

// errStopping is returned to whoever wants to run something on a worker that stops.
var errStopping = fault.New(fault.Unavailable, "register worker: it is stopping")

// retire gives back what a lease of this worker holds that is over here: the lease
// ends in the store first, so that nothing more is taken under it.
func (d *Dispatcher) retire(ctx context.Context, l task.Lease) error {
	w := store.Worker{ID: l.Worker, Epoch: l.Epoch}
	err := d.st.Update(ctx, []store.Key{store.WorkerKey(l.Worker)}, func(tx store.Tx) error {
		now, ok := tx.Worker(l.Worker)
		if !ok || now.Epoch != l.Epoch {
			return nil // another worker has buried it: nothing is left
		}
		if now.LeaseUntil.After(tx.Now()) {
			now.LeaseUntil = tx.Now()
			tx.PutWorker(now)
		}
		w = now
		return nil
	})
	if err != nil {
		return fmt.Errorf("end lease of %s: %w", l.Worker, err)
	}
	w.LockPath = "" // ours, and held on
	return ignoreRenewed(d.bury(ctx, w))
}

func (d *Dispatcher) holdLock(id task.WorkerID) error {
	if d.o.LockDir == "" || d.lock != nil {
		return nil
	}
	l, err := alive.Hold(filepath.Join(d.o.LockDir, string(id)+".lock"))
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	d.lock = l
	return nil
}

func (d *Dispatcher) row(l task.Lease, now time.Time) store.Worker {
	w := store.Worker{
		ID: l.Worker, Epoch: l.Epoch, Host: d.host.Name, Boot: d.host.Boot, PIDNS: d.host.PIDNS, PID: os.Getpid(),
		Slots: d.o.Slots, StartedAt: now, RenewedAt: now, LeaseUntil: now.Add(d.o.Lease),
	}
	for k := range d.reg {
		w.Executors = append(w.Executors, k)
	}
	slices.Sort(w.Executors)
	if d.lock != nil {
		w.LockPath = d.lock.Path()
		w.LockDev, w.LockIno = d.lock.Inode()
	}
	return w
}

// renewLoop renews the lease and lets rows and attempts agree.
func (d *Dispatcher) renewLoop(ctx context.Context) {
	tick := time.NewTicker(d.o.Renew)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		d.mu.Lock()
		lease := d.lease
		d.mu.Unlock()
		if lease.IsZero() {
			// Also a passive worker: what it held is to be given back.
			if _, err := d.ensure(ctx); err != nil && ctx.Err() == nil {
				d.o.Log.Warn("register again", "err", err)
			}
			continue
		}
		d.renew(ctx, lease)
	}
}

func (d *Dispatcher) renew(ctx context.Context, lease task.Lease) {
	began := time.Now()
	err := d.st.Update(ctx, []store.Key{store.WorkerKey(lease.Worker)}, func(tx store.Tx) error {
		if err := apply.Live(tx, lease); err != nil {
			return err
		}
		w, _ := tx.Worker(lease.Worker)
		w.RenewedAt, w.LeaseUntil = tx.Now(), tx.Now().Add(d.o.Lease)
		tx.PutWorker(w)
		return nil
	})
	switch {
	case errors.Is(err, apply.ErrLease):
		d.lapse(lease)
	case err != nil:
		// Unknown counts as alive until the guard's deadline.
		d.o.Log.Warn("renew lease", "worker", lease.Worker, "err", err)
	default:
		d.mu.Lock()
		if d.lease == lease {
			d.until = began.Add(d.o.Lease)
		}
		d.mu.Unlock()
		ring(d.renewed)
		d.audit(ctx, lease)
	}
}

// guardLoop stops believing in the lease a margin before it ends, also while a
// renewal hangs.
func (d *Dispatcher) guardLoop(ctx context.Context) {
	for {
		d.mu.Lock()
		lease, left := d.lease, time.Until(d.until)-d.o.Renew/2
		d.mu.Unlock()
		if !lease.IsZero() && left <= 0 {
			d.lapse(lease)
			continue
		}
		wait := d.o.Lease
		if !lease.IsZero() {
			wait = left
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-d.renewed:
			t.Stop()
		case <-t.C:
		}
	}
}

// lapse ends the lease here: every attempt under it is over.
func (d *Dispatcher) lapse(lease task.Lease) {
	d.mu.Lock()
	if d.lease != lease {
		d.mu.Unlock()
		return
	}
	d.lease = task.Lease{}
	var over []*attempt
	for _, a := range d.attempts {
		if a.fence.Lease == lease {
			over = append(over, a)
		}
	}
	d.mu.Unlock()
	d.o.Log.Warn("lease lapsed", "worker", lease.Worker, "epoch", lease.Epoch, "attempts", len(over))
	for _, a := range over {
		a.revoke(work.ErrFenced)
	}
}

// unregister gives back what the worker holds and removes its row and its lock, in
// that order. A store that fails is no error: the lease ends by itself, and the lock
// goes with the process.
func (d *Dispatcher) unregister(ctx context.Context) error {
	select {
	case d.register <- struct{}{}: // no registration is under way or will be
	case <-ctx.Done():
		return nil
	}
	defer func() { <-d.register }()
	d.mu.Lock()
	old, lock := task.Lease{Worker: d.worker, Epoch: d.epoch}, d.lock
	d.lease = task.Lease{}
	d.mu.Unlock()
	if old.Worker == "" {
		return nil
	}
	if err := d.retire(ctx, old); err != nil {
		d.o.Log.Warn("unregister worker", "worker", old.Worker, "err", err)
		return nil
	}
	d.mu.Lock()
	d.worker, d.lock = "", nil
	d.mu.Unlock()
	if lock != nil {
		if err := lock.Release(); err != nil {
			d.o.Log.Warn("release worker lock", "err", err)
		}
	}
	return nil
}
