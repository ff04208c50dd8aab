// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlive

import (
	"context"
	"fmt"
	"strings"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/apply"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// Answer decides a ticket, once: the first valid decision counts. With an empty
// ticket it decides the only one that is open.
//
// The ticket is returned with the decision that counts. When that is not d the error
// is kind Conflict: somebody decided before, or the time was over. The same decision
// by the same decider again is no error. Kind Invalid when the value does not fit,
// and the error names where; NotFound for a ticket that was never asked; Finished,
// with how it ended, when the task has ended without a decision.
func (rt *Runtime) Answer(ctx context.Context, id task.ID, ticket task.TicketID, d mail.Decision) (mail.Ticket, error) {
	if ticket == "" {
		var err error
		if ticket, err = rt.onlyTicket(ctx, id); err != nil {
			return mail.Ticket{}, fmt.Errorf("answer task %s: %w", id, err)
		}
	}
	var row mail.Ticket
	var r task.Record
	err := rt.st.Update(ctx, append(apply.Keys(id), store.TicketKey(id, ticket)), func(tx store.Tx) (err error) {
		row, _, err = apply.Decide(tx, id, ticket, d)
		if err == nil {
			r, _ = tx.Task(id)
		}
		return err
	})
	switch {
	case err != nil:
	case row.Decision.Says(d):
		rt.d.Tell(id)
		return row, nil
	case row.Decision.Verdict == mail.Withdrawn && r.State.Terminal():
		err = &task.FinishedError{Record: r}
	case row.Decision.Verdict == mail.Expired:
		err = mail.ErrExpired
	default:
		err = mail.ErrDecided
	}
	return row, fmt.Errorf("answer ticket %s of task %s: %w", ticket, id, err)
}

// onlyTicket returns the task's one open ticket.
func (rt *Runtime) onlyTicket(ctx context.Context, id task.ID) (task.TicketID, error) {
	r, err := rt.Get(ctx, id)
	if err != nil {
		return "", err
	}
	switch {
	case r.State.Terminal():
		return "", &task.FinishedError{Record: r}
	case len(r.Tickets) == 0:
		return "", fault.New(fault.Conflict, "it asks nothing")
	case len(r.Tickets) > 1:
		names := make([]string, len(r.Tickets))
		for i, t := range r.Tickets {
			names[i] = string(t)
		}
		return "", fault.Newf(fault.Invalid, "it asks more than one thing: %s", strings.Join(names, ", ")).WithHint("name the ticket")
	}
	return r.Tickets[0], nil
}

// Tickets lists what a task asks and has asked, by id; Open tells which are open.
func (rt *Runtime) Tickets(ctx context.Context, id task.ID) (rows []mail.Ticket, err error) {
	err = rt.st.View(ctx, func(v store.View) error {
		rows = nil
		if _, ok, err := v.Task(id); err != nil || !ok {
			if err == nil {
				err = apply.ErrNoTask
			}
			return err
		}
		for after := task.TicketID(""); ; {
			page, err := v.Tickets(id, after, store.MaxPage)
			if err != nil || len(page) == 0 {
				return err
			}
			rows = append(rows, page...)
			after = task.TicketID(page[len(page)-1].ID)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list tickets of task %s: %w", id, err)
	}
	return rows, nil
}

// Inputs returns a task's inputs with a sequence above after, in order, in pages.
func (rt *Runtime) Inputs(ctx context.Context, id task.ID, after int64, limit int) (ins []mail.Input, err error) {
	err = rt.st.View(ctx, func(v store.View) (err error) {
		ins, err = v.Inputs(id, after, limit)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list inputs of task %s: %w", id, err)
	}
	return ins, nil
}

// Edit changes the content of an input that nobody has consumed; it keeps its place.
// Only its sender may (From). Kind NotFound when there is none of that id and sender,
// Conflict when it was consumed, Finished when the task has ended.
func (rt *Runtime) Edit(ctx context.Context, id task.ID, in mail.Input) (mail.Input, error) {
	return rt.edit(ctx, "edit", id, in, false)
}

// Withdraw takes the content of an unconsumed input back; what is left is an input of
// kind withdrawn in its place. The rules are those of Edit.
func (rt *Runtime) Withdraw(ctx context.Context, id task.ID, input, from string) (mail.Input, error) {
	return rt.edit(ctx, "withdraw", id, mail.Input{ID: input, From: from}, true)
}

func (rt *Runtime) edit(ctx context.Context, op string, id task.ID, in mail.Input, withdraw bool) (out mail.Input, err error) {
	err = rt.st.Update(ctx, append(apply.Keys(id), store.InputKey(id, in.ID)), func(tx store.Tx) (err error) {
		out, err = apply.Edit(tx, id, in, withdraw)
		return err
	})
	if err != nil {
		return out, fmt.Errorf("%s input of task %s: %w", op, id, err)
	}
	rt.d.Tell(id)
	return out, nil
}
