// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"fmt"
	"slices"

	"github.com/outlive-dev/outlive/internal/apply"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// cascadeBatch is how many children one transaction of a cascade looks at.
const cascadeBatch = 100

// Cancel states the intent to cancel a task and, in the same transaction, that to
// cancel its first batch of followers; the task's journal says which. The timer has the
// others.
func (d *Dispatcher) Cancel(ctx context.Context, id task.ID, c task.RequestCancel) (rec task.Record, err error) {
	kids, gone, _, err := d.followers(ctx, id, "")
	if err != nil {
		return rec, fmt.Errorf("cancel task %s: %w", id, err)
	}
	keys := append(apply.Keys(id), kids.keys...)
	for _, kid := range kids.follow {
		keys = append(keys, apply.Keys(kid)...)
	}
	var passed, stop []task.ID
	err = d.st.Update(ctx, keys, func(tx store.Tx) error {
		passed = passed[:0]
		for _, kid := range kids.follow {
			if r, ok := tx.Task(kid); ok && !r.State.Terminal() && !r.Canceling() {
				passed = append(passed, kid)
			}
		}
		c.Cascade = passed
		out, err := apply.Step(tx, id, c)
		if rec = out.Record; err != nil {
			return err
		}
		stop, err = passOn(tx, passed, cascadeReason(id, rec.CancelReason), gone)
		return err
	})
	if err != nil {
		return rec, fmt.Errorf("cancel task %s: %w", id, err)
	}
	d.Tell(id)
	d.passedOn(ctx, passed, stop)
	return rec, nil
}

// passOn asks children for their ends and returns those that nobody runs, so that
// somebody has to stop what lives outside.
func passOn(tx store.Tx, kids []task.ID, reason string, gone map[task.ID]bool) (stop []task.ID, err error) {
	for _, id := range kids {
		out, err := apply.Step(tx, id, task.RequestCancel{Reason: reason, WorkerGone: gone[id]})
		if _, more := store.AsMore(err); more {
			return nil, err
		}
		if err == nil && out.Record.StopOnly() {
			stop = append(stop, id)
		}
	}
	return stop, nil
}

// passedOn lets children know what was asked of them.
func (d *Dispatcher) passedOn(ctx context.Context, kids, stop []task.ID) {
	for _, id := range kids {
		d.Tell(id)
	}
	for _, id := range stop {
		if _, err := d.Adopt(ctx, id); err != nil {
			d.o.Log.Warn("stop child", "task", id, "err", err) // a worker will
		}
	}
}

func cascadeReason(parent task.ID, reason string) string {
	text := "its parent " + string(parent) + " was canceled"
	if reason != "" {
		text += ": " + reason
	}
	return text
}

// Cascade goes on now with the cancel of a task's children, if one is under way. Any
// process may, at any time; what it leaves the next sweep does.
func (d *Dispatcher) Cascade(ctx context.Context, parent task.ID) error {
	return d.cascade(ctx, store.Timer{Kind: store.TimerCascade, Subject: string(parent)})
}

// cascade cancels the unfinished children of a canceled task, in batches by child id.
// The timer's row says how far it came, and goes with the last batch. A crash between
// two batches costs a repetition, which changes nothing.
//
// Those follow that the parent still waits for: driven by its attempt, watched by a
// caller, bound to it when they were made, or named by a ticket. Others go on.
func (d *Dispatcher) cascade(ctx context.Context, t store.Timer) error {
	parent := task.ID(t.Subject)
	for after := task.ID(t.Arg); ; {
		kids, gone, reason, err := d.followers(ctx, parent, after)
		if err != nil {
			return fmt.Errorf("cancel children of %s: %w", parent, err)
		}
		last := len(kids.all) < cascadeBatch
		if !last {
			after = kids.all[len(kids.all)-1]
		}
		var keys []store.Key
		for _, id := range kids.follow {
			keys = append(keys, apply.Keys(id)...)
		}
		keys = append(keys, kids.keys...)
		var stop []task.ID
		if err := d.st.Update(ctx, keys, func(tx store.Tx) error {
			if stop, err = passOn(tx, kids.follow, reason, gone); err != nil {
				return err
			}
			if err := apply.Cascaded(tx, parent, kids.follow); err != nil {
				return err
			}
			if last {
				tx.DropTimer(store.TimerCascade, string(parent))
			} else {
				tx.PutTimer(store.Timer{Kind: store.TimerCascade, Subject: string(parent), Due: tx.Now(), Arg: string(after)})
			}
			return nil
		}); err != nil {
			return fmt.Errorf("cancel children of %s: %w", parent, err)
		}
		d.passedOn(ctx, kids.follow, stop)
		if last {
			return nil
		}
	}
}

// family is one batch of children: all of them, and those that follow their parent.
type family struct {
	all, follow []task.ID
	keys        []store.Key // of the notices that their ends may send
}

// followers reads the next batch of children, which of their workers are proved dead,
// and the reason they are given.
func (d *Dispatcher) followers(ctx context.Context, parent, after task.ID) (kids family, gone map[task.ID]bool, reason string, err error) {
	err = d.st.View(ctx, func(v store.View) error {
		kids, gone = family{}, map[task.ID]bool{}
		p, _, err := v.Task(parent)
		if err != nil {
			return err
		}
		reason = cascadeReason(parent, p.CancelReason)
		if p.Children == 0 {
			return nil
		}
		list, err := v.Children(parent, after, cascadeBatch)
		if err != nil || len(list) == 0 {
			return err
		}
		waited, err := waitedFor(v, parent)
		if err != nil {
			return err
		}
		for i := range list {
			r := &list[i]
			kids.all = append(kids.all, r.ID)
			follows := r.Bound || r.Owner == task.OwnerParent || r.Publication == task.Deferred || slices.Contains(waited, string(r.ID))
			if r.State.Terminal() || r.Canceling() || !follows {
				continue
			}
			kids.follow = append(kids.follow, r.ID)
			kids.keys = append(kids.keys, apply.NoticeKeys(r, task.NoticeCanceled)...)
			if r.State == task.Running && !r.Lease.IsZero() {
				if gone[r.ID], err = d.dead(v, r.Lease); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return kids, gone, reason, err
}

// waitedFor lists the children that tickets of the parent wait for, or waited for
// until it was canceled.
func waitedFor(v store.View, parent task.ID) (ids []string, err error) {
	for after := task.TicketID(""); ; {
		rows, err := v.Tickets(parent, after, store.MaxPage)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			t := &rows[i]
			if t.Kind == mail.Tasks && (t.Open() || t.Decision.Verdict == mail.Withdrawn) {
				ids = append(ids, t.Left...)
			}
			after = task.TicketID(t.ID)
		}
		if len(rows) < store.MaxPage {
			return ids, nil
		}
	}
}

// expireTicket decides a ticket that nobody decided in time.
func (d *Dispatcher) expireTicket(ctx context.Context, t store.Timer) error {
	id, ticket := store.OfTicketSubject(t.Subject)
	err := d.st.Update(ctx, append(apply.Keys(id), store.TicketKey(id, ticket)), func(tx store.Tx) error {
		tx.DropTimer(t.Kind, t.Subject)
		return apply.Expire(tx, id, ticket)
	})
	if err != nil {
		return fmt.Errorf("expire ticket %s of task %s: %w", ticket, id, err)
	}
	d.Tell(id)
	return nil
}
