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
	if a.over() {
		return
	}
	if res.End == work.EndFail && errors.Is(context.Cause(a.ctx), work.ErrDrain) && a.ex.Drains {
		// It failed because it was asked to stop. What it started lives on.
		if res = work.Yield(nil); a.ex.Recoverable && a.committed() {
			res = work.Leave()
		}
	}
	c := a.command(res)
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		ctx, stop := a.patience()
		_, err := a.end(ctx, c, res.Tickets)
		stop()
		if errors.Is(err, task.ErrHolding) && a.orphan(res) {
			continue // what it did not drive, or was told to let go
		}
		switch fault.KindOf(err) {
		case fault.CancelRequested:
			var ok bool
			if c, ok = a.afterIntent(res); !ok {
				return
			}
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
			if a.written() {
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
		case <-a.life.Done():
			t.Stop()
			return
		}
	}
}

// written reads back whether the attempt's end was committed.
func (a *attempt) written() bool {
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
		c := task.Suspend{Fence: a.fence, Reason: res.Reason}
		if res.Checkpoint != nil {
			c.Checkpoint = *res.Checkpoint
		}
		return c
	case work.EndWait:
		return task.Wait{Fence: a.fence, All: res.All, Cursor: res.Cursor, Checkpoint: res.Checkpoint}
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
// ok is false when the attempt ended before that was done.
func (a *attempt) afterIntent(res work.Result) (task.Command, bool) {
	if (res.End == work.EndLeave || res.End == work.EndYield) && !a.rec.StopOnly() {
		var ok bool
		if res, ok = a.stop(); !ok {
			return nil, false
		}
	}
	return a.ack(res), true
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
