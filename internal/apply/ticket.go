// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"fmt"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// ticket reads one ticket's row.
func ticket(tx store.Tx, id task.ID, t task.TicketID) (mail.Ticket, error) {
	k := store.TicketKey(id, t)
	if !tx.Declared(k) {
		return mail.Ticket{}, store.More(k)
	}
	row, ok := tx.Ticket(id, t)
	if !ok {
		return mail.Ticket{}, fmt.Errorf("%w: %s", mail.ErrNoTicket, t)
	}
	return row, nil
}

// tickets reads the rows of the task's open tickets.
func tickets(tx store.Tx, r *task.Record) (rows []mail.Ticket, err error) {
	var keys []store.Key
	for _, t := range r.Tickets {
		keys = append(keys, store.TicketKey(r.ID, t))
	}
	if need := undeclared(tx, keys); len(need) > 0 {
		return nil, store.More(need...)
	}
	for _, t := range r.Tickets {
		if row, ok := tx.Ticket(r.ID, t); ok {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// open stages the tickets a task asks, in the transaction that parks it, and returns
// their ids and which of them are decided already.
func open(tx store.Tx, id task.ID, asked []mail.Ticket) (ids, done []task.TicketID, err error) {
	var keys []store.Key
	for _, t := range asked {
		keys = append(keys, store.TicketKey(id, task.TicketID(t.ID)))
		for _, child := range t.IDs {
			keys = append(keys, store.TaskKey(task.ID(child)))
		}
	}
	if need := undeclared(tx, keys); len(need) > 0 {
		return nil, nil, store.More(need...)
	}
	for _, t := range asked {
		if err := t.Validate(); err != nil {
			return nil, nil, err
		}
		tid := task.TicketID(t.ID)
		ids = append(ids, tid)
		row, there := tx.Ticket(id, tid)
		if there && !row.Asks(&t) {
			return nil, nil, fault.Newf(fault.Conflict, "ticket %s was asked before with other content", t.ID)
		}
		if there && !row.Open() && row.Decision.Verdict == mail.Withdrawn {
			there = false // asked again
		}
		if !there {
			row = t
			row.Task, row.OpenedAt, row.Decision, row.Left = string(id), tx.Now(), nil, nil
			row.ClaimedAt, row.ClaimedBy, row.Settled = time.Time{}, 0, false
			row.Left = append(row.Left, t.IDs...)
			if !row.ExpiresAt.IsZero() {
				tx.PutTimer(store.Timer{Kind: store.TimerTicket, Subject: store.TicketSubject(id, tid), Due: row.ExpiresAt})
			}
		}
		if row, err = ended(tx, id, row); err != nil {
			return nil, nil, err
		}
		if expired, changed := row.Expire(tx.Now()); changed {
			row = expired
		}
		if !row.Open() {
			done = append(done, tid)
		}
		tx.PutTicket(row)
	}
	return ids, done, nil
}

// ended counts the tasks of a ticket that have ended before it is asked. One that is
// not there any more has ended too, and was forgotten.
func ended(tx store.Tx, id task.ID, row mail.Ticket) (mail.Ticket, error) {
	for _, child := range row.IDs {
		r, ok := tx.Task(task.ID(child))
		switch {
		case ok && r.Parent != id:
			return row, fault.Newf(fault.Invalid, "ticket %s: task %s is no child of %s", row.ID, child, id)
		case !ok || r.State.Terminal():
			row, _ = row.End(child, tx.Now())
		}
	}
	return row, nil
}

// Wait parks a task until its tickets are decided. What was decided before counts.
func Wait(tx store.Tx, id task.ID, c task.Wait, asked []mail.Ticket) (out Outcome, err error) {
	if c.Tickets, c.Decided, err = open(tx, id, asked); err != nil {
		return out, err
	}
	return Step(tx, id, c)
}

// HandOff passes a parent-owned task to the manager, perhaps to wait for tickets.
func HandOff(tx store.Tx, id task.ID, c task.HandOff, asked []mail.Ticket) (out Outcome, err error) {
	if c.Tickets, c.Decided, err = open(tx, id, asked); err != nil {
		return out, err
	}
	return Step(tx, id, c)
}

// Decide decides a ticket once. First is false when it was decided before: the row
// then holds the decision that counts. A decision that comes too late finds the
// ticket expired, which is staged like any other decision.
func Decide(tx store.Tx, id task.ID, t task.TicketID, d mail.Decision) (row mail.Ticket, first bool, err error) {
	r, ok := tx.Task(id)
	if !ok {
		return row, false, ErrNoTask
	}
	if row, err = ticket(tx, id, t); err != nil {
		return row, false, err
	}
	row, first, err = row.Decide(d, tx.Now())
	if err != nil || !first {
		return row, false, err
	}
	return row, true, decided(tx, r, row, nil)
}

// Expire decides a ticket whose time is over.
func Expire(tx store.Tx, id task.ID, t task.TicketID) error {
	r, ok := tx.Task(id)
	if !ok {
		return nil
	}
	k := store.TicketKey(id, t)
	if !tx.Declared(k) {
		return store.More(k)
	}
	row, ok := tx.Ticket(id, t)
	if !ok {
		return nil
	}
	row, changed := row.Expire(tx.Now())
	if !changed {
		return nil
	}
	return decided(tx, r, row, nil)
}

// decided stages a decision that was just made: the ticket, one input that tells a
// task which reads input, and what it means for the task. The input is in, when the
// decision came as one.
func decided(tx store.Tx, r task.Record, row mail.Ticket, in *mail.Input) error {
	id := r.ID
	tx.PutTicket(row)
	if !row.ExpiresAt.IsZero() {
		tx.DropTimer(store.TimerTicket, store.TicketSubject(id, task.TicketID(row.ID)))
	}
	if r.State.Terminal() {
		return nil
	}
	if r.ReadsInput && row.Kind != mail.Tasks {
		own := mail.Input{
			ID: kindAnswer + row.ID, Kind: kindAnswer + string(row.Decision.Verdict), Media: row.Decision.Media, Data: row.Decision.Value,
			Delivery: mail.Answer, Ticket: row.ID, From: row.Decision.By,
		}
		if in == nil {
			in = &own
		}
		keys := []store.Key{store.InputKey(id, in.ID), store.StreamKey(journal.StreamID(r.Stream()))}
		if need := undeclared(tx, keys); len(need) > 0 {
			return store.More(need...)
		}
		out, err := step(tx, r, task.Send{Input: note(*in)})
		if err != nil {
			return err
		}
		in.Task, in.Seq, in.At = string(id), out.Record.LatestInput, tx.Now()
		tx.PutInput(*in)
	}
	_, err := Step(tx, id, task.Decide{Ticket: task.TicketID(row.ID)})
	return err
}

// withdraw closes a ticket that the task waits for no longer.
func withdraw(tx store.Tx, id task.ID, t task.TicketID) error {
	k := store.TicketKey(id, t)
	if !tx.Declared(k) {
		return store.More(k)
	}
	row, ok := tx.Ticket(id, t)
	if !ok {
		return nil
	}
	row, changed := row.Withdraw(tx.Now())
	if !changed {
		return nil
	}
	tx.PutTicket(row)
	if !row.ExpiresAt.IsZero() {
		tx.DropTimer(store.TimerTicket, store.TicketSubject(id, t))
	}
	return nil
}

// tellParent decides the tickets of a parent that wait for the task which has just
// ended, in that very transaction. It works whatever the publication: the parent
// knows the task by its id.
func tellParent(tx store.Tx, child *task.Record) error {
	if child.Parent == "" {
		return nil
	}
	if need := undeclared(tx, Keys(child.Parent)); len(need) > 0 {
		return store.More(need...)
	}
	p, ok := tx.Task(child.Parent)
	if !ok || len(p.Tickets) == 0 {
		return nil
	}
	rows, err := tickets(tx, &p)
	if err != nil {
		return err
	}
	for _, row := range rows {
		row, changed := row.End(string(child.ID), tx.Now())
		if !changed {
			continue
		}
		if row.Open() {
			tx.PutTicket(row)
			continue
		}
		now, _ := tx.Task(p.ID)
		if err := decided(tx, now, row, nil); err != nil {
			return err
		}
	}
	return nil
}

// Claim uses an approval under the attempt's fence, once.
func Claim(tx store.Tx, id task.ID, f task.Fence, t task.TicketID, digest string) error {
	return claimed(tx, id, f, t, func(row mail.Ticket) (mail.Ticket, error) {
		return row.Claim(digest, f.Attempt, tx.Now())
	})
}

// Settle records that what a claimed approval was for has run.
func Settle(tx store.Tx, id task.ID, f task.Fence, t task.TicketID) error {
	return claimed(tx, id, f, t, func(row mail.Ticket) (mail.Ticket, error) {
		if row.ClaimedAt.IsZero() {
			return row, fault.Newf(fault.Conflict, "settle ticket %s: it is not claimed", t)
		}
		row.Settled = true
		return row, nil
	})
}

func claimed(tx store.Tx, id task.ID, f task.Fence, t task.TicketID, change func(mail.Ticket) (mail.Ticket, error)) error {
	r, ok := tx.Task(id)
	switch {
	case !ok:
		return ErrNoTask
	case fenced && !holds(&r, f):
		return ErrFenced
	case r.Canceling():
		return task.ErrCancelRequested
	}
	row, err := ticket(tx, id, t)
	if err != nil {
		return err
	}
	if row, err = change(row); err != nil {
		return err
	}
	tx.PutTicket(row)
	return nil
}
