// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlive

import (
	"context"
	"fmt"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/apply"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

func notFound(id task.ID) error {
	return fmt.Errorf("task %s: %w", id, apply.ErrNoTask)
}

// CancelOptions say how to cancel.
type CancelOptions struct {
	// Reason is kept; the first one stays. Defaults to none.
	Reason string
	// IfVersion refuses the request when the task has changed since. Defaults to 0:
	// not asked.
	IfVersion int64
	// Force ends the task at once with outcome unknown, without stopping anything.
	// Defaults to false.
	Force bool
}

// Cancel states the intent to cancel and returns the record after it: the owner
// finalizes, so wait for the end with Wait. Repeating it changes nothing. A task
// that has ended gives kind Finished together with the record of how it ended.
func (rt *Runtime) Cancel(ctx context.Context, id task.ID, o *CancelOptions) (task.Record, error) {
	if o == nil {
		o = &CancelOptions{}
	}
	gone, err := rt.d.HolderGone(ctx, id)
	if err != nil {
		return task.Record{}, err
	}
	r, err := rt.d.Cancel(ctx, id, task.RequestCancel{Reason: o.Reason, IfVersion: o.IfVersion, Force: o.Force, WorkerGone: gone})
	if err == nil && r.Children > 0 {
		if cerr := rt.d.Cascade(ctx, id); cerr != nil {
			return r, cerr
		}
	}
	if err == nil && r.StopOnly() {
		// Nobody runs it: whoever has the executor stops what lives outside.
		if _, aerr := rt.d.Adopt(ctx, id); aerr != nil {
			return r, aerr
		}
	}
	return r, err
}

// Publish makes a deferred task public. It is idempotent and disturbs nothing.
func (rt *Runtime) Publish(ctx context.Context, id task.ID) (task.Record, error) {
	return rt.step(ctx, "publish", id, task.Publish{})
}

// Release makes a suspended task pending. Kind Conflict when it is not suspended.
func (rt *Runtime) Release(ctx context.Context, id task.ID) (task.Record, error) {
	return rt.step(ctx, "release", id, task.Release{})
}

// step commits one command of a person or an API.
func (rt *Runtime) step(ctx context.Context, op string, id task.ID, c task.Command) (task.Record, error) {
	var out apply.Outcome
	err := rt.st.Update(ctx, apply.Keys(id), func(tx store.Tx) (err error) {
		out, err = apply.Step(tx, id, c)
		return err
	})
	if err != nil {
		return out.Record, fmt.Errorf("%s task %s: %w", op, id, err)
	}
	if len(out.Tell) > 0 {
		rt.d.Tell(id)
	}
	return out.Record, nil
}

// Send puts one input into the task's mailbox and returns it with its position.
// An empty ID is given one; the same ID with the same content again changes
// nothing, with other content it is kind Conflict. Kind NoInput when the task's
// executor does not read input, kind Finished, with how it ended, when the task has
// ended, kind Invalid when it is too large.
//
// A message without a Delivery to a task that waits for exactly one question answers
// it, if it can: the returned input then names the ticket. Otherwise it is queued;
// Tickets lists what is open. Delivery Answer decides the ticket it names, an
// approval by the data "approved" or "denied".
func (rt *Runtime) Send(ctx context.Context, id task.ID, in mail.Input) (mail.Input, error) {
	if in.ID == "" {
		in.ID = token()
	}
	var out mail.Input
	err := rt.st.Update(ctx, append(apply.Keys(id), store.InputKey(id, in.ID)), func(tx store.Tx) (err error) {
		out, err = apply.Send(tx, id, in)
		return err
	})
	if err != nil {
		return out, fmt.Errorf("send to task %s: %w", id, err)
	}
	rt.d.Tell(id)
	return out, nil
}

// Retry makes a new task with the same spec as one that has ended. The same request
// returns the same new task. Kind Conflict when the task has not ended.
func (rt *Runtime) Retry(ctx context.Context, id task.ID, request string, change func(*Spec)) (task.Record, error) {
	old, err := rt.Get(ctx, id)
	if err != nil {
		return task.Record{}, err
	}
	if !old.State.Terminal() {
		return old, fault.Newf(fault.Conflict, "retry task %s: it is %s", id, old.State).WithHint("cancel it first")
	}
	s := Spec{
		Executor: old.Executor, Input: old.Spec, Description: old.Description, Labels: old.Labels, Parent: old.Parent,
		Name: old.Name, Queue: old.Queue, ConcurrencyKey: old.ConcurrencyKey, Priority: old.Priority, MaxAttempts: old.MaxAttempts, Backoff: old.Backoff,
		Session: old.Session, Notify: old.Notify, Liveness: old.Liveness, Retention: old.Retention, Tokens: old.Tokens, Principal: old.Principal, Tenant: old.Tenant, retryOf: old.ID,
	}
	if request != "" {
		s.Invocation = "retry/" + string(id) + "/" + request
	}
	if change != nil {
		change(&s)
	}
	return rt.Submit(ctx, s)
}
