// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/apply"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// settle is how long the control loop lets hints gather: most attempts that are
// short have ended by then and need no look.
const settle = 5 * time.Millisecond

// controlLoop looks at the rows of attempts that run here when they may have
// changed, and slowly without a hint: a lost doorbell costs one poll.
func (d *Dispatcher) controlLoop(ctx context.Context) {
	tick := time.NewTicker(d.o.Poll)
	defer tick.Stop()
	pause := time.NewTimer(time.Hour)
	defer pause.Stop()
	for {
		all := false
		select {
		case <-ctx.Done():
			return
		case <-d.control:
			pause.Reset(settle)
			select {
			case <-ctx.Done():
				return
			case <-d.told:
			case <-pause.C:
			}
		case <-d.told:
		case <-tick.C:
			all = true
		}
		for _, id := range d.toLook(all) {
			d.look(ctx, id)
		}
		d.startWanted(ctx)
	}
}

// want remembers a task that was to start here and had to wait for its limits. Its
// executor may depend on what only this process has, as a command does on its caller's
// environment, so a dispatcher that claims nothing starts these all the same.
func (d *Dispatcher) want(id task.ID) {
	d.mu.Lock()
	d.wants[id] = struct{}{}
	d.mu.Unlock()
	ring(d.told) // a place may have become free meanwhile
}

// startWanted starts the tasks that wait for their limits, as far as these allow it
// now, and forgets those that were started, or ended, elsewhere.
func (d *Dispatcher) startWanted(ctx context.Context) {
	d.mu.Lock()
	ids := slices.Sorted(maps.Keys(d.wants)) // the oldest first
	d.mu.Unlock()
	for _, id := range ids {
		over, err := d.startPending(ctx, id)
		if err != nil && ctx.Err() == nil {
			d.o.Log.Warn("start task that waited", "task", id, "err", err)
		}
		if over {
			d.mu.Lock()
			delete(d.wants, id)
			d.mu.Unlock()
		}
	}
}

// startPending starts a pending task here. over is false when it still waits.
func (d *Dispatcher) startPending(ctx context.Context, id task.ID) (over bool, err error) {
	rec, _, err := d.inspect(ctx, id)
	if err != nil {
		return false, err
	}
	switch {
	case rec.State != task.Pending, rec.StopOnly():
		return true, nil
	case time.Until(rec.DueAt) > 0:
		return false, nil
	}
	lease, err := d.ensure(ctx)
	if err != nil {
		return errors.Is(err, errStopping), ignoreStopping(err)
	}
	var got task.Record
	err = d.st.Update(ctx, append(startKeys(&rec), store.WorkerKey(lease.Worker)), func(tx store.Tx) (err error) {
		if err = apply.Live(tx, lease); err == nil {
			got, err = d.startHere(tx, id, lease)
		}
		return err
	})
	if fault.Is(err, fault.UnknownOutcome) {
		got, err = d.readBack(ctx, id, rec.Attempt+1, lease)
	}
	switch {
	case err == nil:
		d.begin(got)
		return true, nil
	case errors.Is(err, errFullQueue), errors.Is(err, errBusyKey), errors.Is(err, errNotTaken):
		return false, nil
	case settled(err):
		return !errors.Is(err, apply.ErrLease), nil
	}
	return false, fmt.Errorf("start task %s: %w", id, err)
}

func ignoreStopping(err error) error {
	if errors.Is(err, errStopping) {
		return nil
	}
	return err
}

func (d *Dispatcher) toLook(all bool) []task.ID {
	d.mu.Lock()
	defer d.mu.Unlock()
	var ids []task.ID
	if all {
		for id := range d.attempts {
			ids = append(ids, id)
		}
	} else {
		for id := range d.looks {
			if d.attempts[id] != nil {
				ids = append(ids, id)
			}
		}
	}
	clear(d.looks)
	return ids
}

// look reads the row of an attempt that runs here and tells it what was asked of it.
func (d *Dispatcher) look(ctx context.Context, id task.ID) {
	d.mu.Lock()
	a := d.attempts[id]
	d.mu.Unlock()
	if a == nil {
		return
	}
	var r task.Record
	found := false
	if err := d.st.View(ctx, func(v store.View) (err error) {
		r, found, err = v.Task(id)
		return err
	}); err != nil {
		return // looked at again by the next tick
	}
	switch {
	case !found || r.State != task.Running || r.Attempt != a.fence.Attempt || r.Lease != a.fence.Lease:
		a.revoke(work.ErrFenced)
	case a.rec.StopOnly(): // that is what it is there for
	case !r.CancelRequestedAt.IsZero() && r.CancelCode == task.CodeDeadline:
		a.cancel(work.ErrDeadline)
	case !r.CancelRequestedAt.IsZero():
		a.cancel(&work.CanceledError{Reason: r.CancelReason})
	}
	if r.Publication != task.Deferred {
		a.detach()
	}
}
