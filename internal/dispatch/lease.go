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
// renewed: the worker takes a new epoch and all its earlier attempts are over.
func (d *Dispatcher) ensure(ctx context.Context) (task.Lease, error) {
	select {
	case d.register <- struct{}{}:
	case <-ctx.Done():
		return task.Lease{}, context.Cause(ctx)
	}
	defer func() { <-d.register }()
	d.mu.Lock()
	lease, old, draining := d.lease, task.Lease{Worker: d.worker, Epoch: d.epoch}, d.draining
	d.mu.Unlock()
	switch {
	case !lease.IsZero():
		return lease, nil
	case draining:
		return task.Lease{}, fault.New(fault.Unavailable, "register worker: it is stopping")
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
		if err := d.expireLease(ctx, old, nil); err != nil {
			d.o.Log.Warn("end attempts of the lapsed lease", "worker", old.Worker, "epoch", old.Epoch, "err", err)
		}
	}
	return next, nil
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
			if !d.o.Passive {
				if _, err := d.ensure(ctx); err != nil {
					d.o.Log.Warn("register again", "err", err)
				}
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
		a.cancel(work.ErrFenced)
	}
}

// audit compares the rows held under the lease with the attempts here. A row
// without an attempt for two renewals is expired; an attempt without a row is over.
func (d *Dispatcher) audit(ctx context.Context, lease task.Lease) {
	held := map[task.ID]task.Record{}
	for after := task.ID(""); ; {
		var page []task.Record
		if err := d.st.View(ctx, func(v store.View) (err error) {
			page, err = v.Held(lease, after, store.DefaultPage)
			return err
		}); err != nil {
			return
		}
		for _, r := range page {
			held[r.ID] = r
		}
		if len(page) < store.DefaultPage {
			break
		}
		after = page[len(page)-1].ID
	}
	var lost []task.Record
	d.mu.Lock()
	seen := map[task.ID]int{}
	for id, r := range held {
		if a := d.attempts[id]; a != nil && a.fence.Attempt == r.Attempt {
			continue
		}
		if seen[id] = d.missing[id] + 1; seen[id] >= 2 {
			lost = append(lost, r)
		}
	}
	d.missing = seen
	d.mu.Unlock()
	if len(lost) > 0 {
		if err := d.expire(ctx, lost, nil); err != nil {
			d.o.Log.Warn("expire rows without an attempt", "err", err)
		}
	}
}

// unregister removes the worker's row and lock, in that order.
func (d *Dispatcher) unregister(ctx context.Context) {
	select {
	case d.register <- struct{}{}: // no registration is under way or will be
	case <-ctx.Done():
		return
	}
	d.mu.Lock()
	worker, epoch, lock := d.worker, d.epoch, d.lock
	d.lease, d.lock = task.Lease{}, nil
	d.mu.Unlock()
	if worker == "" {
		return
	}
	err := d.st.Update(ctx, []store.Key{store.WorkerKey(worker)}, func(tx store.Tx) error {
		if w, ok := tx.Worker(worker); ok && w.Epoch == epoch {
			tx.DropWorker(worker)
		}
		return nil
	})
	if err != nil {
		d.o.Log.Warn("unregister worker", "worker", worker, "err", err)
		return // the lock goes with the process and proves the death
	}
	if lock != nil {
		if err := lock.Release(); err != nil {
			d.o.Log.Warn("release worker lock", "err", err)
		}
	}
}
