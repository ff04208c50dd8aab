// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"time"

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
	}
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
