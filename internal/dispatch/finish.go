// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// finish writes how the attempt ended, until the store has it or the attempt owns
// nothing any more. A fenced attempt writes nothing.
func (a *attempt) finish(res work.Result) {
	cause := context.Cause(a.ctx)
	if errors.Is(cause, work.ErrFenced) {
		return
	}
	if res.End == work.EndFail && errors.Is(cause, work.ErrDrain) && a.ex.Drains {
		res = work.Yield(nil) // it failed because it was asked to stop
	}
	c := a.command(res)
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		ctx, stop := a.patience()
		_, err := a.step(ctx, c)
		stop()
		switch fault.KindOf(err) {
		case fault.CancelRequested:
			c = a.afterIntent(res)
			continue
		case fault.Fenced, fault.Finished, fault.NotFound:
			a.d.o.Log.Info("attempt was over before it ended", "task", a.rec.ID, "attempt", a.rec.Attempt, "err", err)
			return
		case fault.Conflict, fault.Invalid, fault.NoInput, fault.Closed, fault.Unsupported:
			if err == nil {
				return
			}
			if f, ok := c.(task.Fail); ok && !f.Retryable {
				a.d.o.Log.Error("end of attempt refused", "task", a.rec.ID, "op", c.Op(), "err", err)
				return // the audit expires the row
			}
			c = task.Fail{Fence: a.fence, Failure: task.Failure{Code: "bad_end", Message: "the executor's end was refused: " + err.Error(), Outcome: task.OutcomeUnknown}}
			continue
		case fault.UnknownOutcome:
			if a.over() {
				return
			}
		default:
			if err == nil {
				return
			}
		}
		a.d.o.Log.Warn("write end of attempt", "task", a.rec.ID, "op", c.Op(), "err", err)
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-a.fencedOff():
			t.Stop()
			return
		}
	}
}

// fencedOff is closed when the attempt owns nothing any more.
func (a *attempt) fencedOff() <-chan struct{} {
	if errors.Is(context.Cause(a.ctx), work.ErrFenced) || a.ctx.Err() == nil {
		return a.ctx.Done()
	}
	return nil // canceled or draining: still the owner
}

// over reads back whether the attempt's end was committed.
func (a *attempt) over() bool {
	ctx, stop := a.patience()
	defer stop()
	over := false
	err := a.d.st.View(ctx, func(v store.View) error {
		r, ok, err := v.Task(a.rec.ID)
		over = err == nil && (!ok || r.State != task.Running || r.Attempt != a.fence.Attempt || r.Lease != a.fence.Lease)
		return err
	})
	return err == nil && over
}

// command maps a result to the command that writes it.
func (a *attempt) command(res work.Result) task.Command {
	switch res.End {
	case work.EndDone:
		return task.Complete{Fence: a.fence, Result: res.Value, Cursor: res.Cursor, Checkpoint: res.Checkpoint, EndedAt: res.EndedAt}
	case work.EndYield:
		return task.Yield{Fence: a.fence, Checkpoint: res.Checkpoint}
	case work.EndSuspend:
		return task.Suspend{Fence: a.fence, Reason: res.Reason, Checkpoint: *res.Checkpoint}
	case work.EndWait:
		return task.Wait{Fence: a.fence, Tickets: res.Tickets, All: res.All, Cursor: res.Cursor, Checkpoint: res.Checkpoint}
	case work.EndLeave:
		return task.DetachWorker{Fence: a.fence}
	case work.EndStopped:
		return a.ack(res)
	default:
		return task.Fail{Fence: a.fence, Failure: res.Failure, Retryable: res.Retryable, EndedAt: res.EndedAt}
	}
}

// afterIntent ends an attempt whose task is to be canceled: whatever the executor
// returned becomes canceled. What it meant to leave running is stopped first.
func (a *attempt) afterIntent(res work.Result) task.Command {
	if (res.End == work.EndLeave || res.End == work.EndYield) && a.ex.Stop != nil {
		res = a.guard(a.ex.Stop)
	}
	return a.ack(res)
}

func (a *attempt) ack(res work.Result) task.Command {
	c := task.AckCancel{Fence: a.fence, Outcome: task.OutcomeKnown, EndedAt: res.EndedAt}
	if res.Failure.Outcome == task.OutcomeUnknown {
		c.Outcome = task.OutcomeUnknown
	}
	switch {
	case !res.Value.IsZero():
		c.Result = &res.Value
	case !res.Failure.Detail.IsZero():
		c.Result = &res.Failure.Detail
	}
	return c
}
