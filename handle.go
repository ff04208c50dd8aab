// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

const mediaJSON = "application/json"

// Handle registers a Go function as an executor: In and Out travel as JSON. The
// function's error fails the attempt and is retried while the task's budget lasts,
// unless it has kind Invalid or Unsupported. A context error after a drain gives the
// attempt back instead.
func Handle[In, Out any](rt *Runtime, key string, fn func(ctx context.Context, a *work.Attempt, in In) (Out, error)) {
	decode := func(p task.Payload) (in In, err error) {
		if p.IsZero() {
			return in, nil
		}
		if err := json.Unmarshal(p.Data, &in); err != nil {
			return in, fault.Newf(fault.Invalid, "input of %s: %v", key, err)
		}
		return in, nil
	}
	rt.Register(work.Executor{
		Key: key, OnLeaseLoss: task.LoseRetry, Drains: true,
		Validate: func(p task.Payload) error {
			_, err := decode(p)
			return err
		},
		Run: func(ctx context.Context, a *work.Attempt) work.Result {
			in, err := decode(a.Task().Spec)
			if err != nil {
				return work.Fail("bad_input", err.Error())
			}
			out, err := fn(ctx, a, in)
			if err != nil {
				return failed(ctx, err)
			}
			data, err := json.Marshal(out)
			if err != nil {
				return work.Fail("bad_result", fmt.Sprintf("encode result: %v", err))
			}
			return work.Done(task.Payload{Media: mediaJSON, Data: data})
		},
	})
}

func failed(ctx context.Context, err error) work.Result {
	if _, ok := work.Canceled(ctx); ok {
		return work.Stopped()
	}
	if errors.Is(context.Cause(ctx), work.ErrDrain) {
		return work.Yield(nil)
	}
	switch fault.KindOf(err) {
	case fault.Invalid, fault.Unsupported:
		return work.Fail("refused", err.Error())
	default:
		return work.Retry("error", err.Error())
	}
}

// Ref is a handle to one task. It is safe for concurrent use and costs nothing to
// keep.
type Ref struct {
	rt  *Runtime
	id  task.ID
	new bool // just created here: its end may be handed over before it is read
}

// Ref returns a handle to a task by id; it does not look whether it exists.
func (rt *Runtime) Ref(id task.ID) *Ref { return &Ref{rt: rt, id: id} }

// ID returns the task's id.
func (r *Ref) ID() task.ID { return r.id }

// Snapshot returns the record as it is now.
func (r *Ref) Snapshot(ctx context.Context) (task.Record, error) { return r.rt.Get(ctx, r.id) }

// Wait waits for the end.
func (r *Ref) Wait(ctx context.Context) (task.Record, error) {
	w := r.rt.hub.WatchTask(string(r.id))
	defer w.Close()
	return r.rt.wait(ctx, w, r.id, Terminal, r.new)
}

// Cancel asks for the end; see Runtime.Cancel.
func (r *Ref) Cancel(ctx context.Context, reason string) error {
	_, err := r.rt.Cancel(ctx, r.id, &CancelOptions{Reason: reason})
	return err
}

// Submit creates a background task for a typed input; s may be nil or carry more of
// the spec.
func Submit[In any](ctx context.Context, rt *Runtime, key string, in In, s *Spec) (*Ref, error) {
	spec, err := encode(key, in, s)
	if err != nil {
		return nil, err
	}
	rec, err := rt.Submit(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &Ref{rt: rt, id: rec.ID, new: !rec.State.Terminal()}, nil
}

func encode[In any](key string, in In, s *Spec) (Spec, error) {
	spec := Spec{}
	if s != nil {
		spec = *s
	}
	data, err := json.Marshal(in)
	if err != nil {
		return Spec{}, fault.Newf(fault.Invalid, "submit %s: encode input: %v", key, err)
	}
	spec.Executor, spec.Input = key, task.Payload{Media: mediaJSON, Data: data}
	return spec, nil
}

// FailedError is how a task that did not complete ended.
type FailedError struct{ Record task.Record }

// Error says how the task ended.
func (e *FailedError) Error() string {
	f := e.Record.Failure
	if f == nil {
		return fmt.Sprintf("task %s %s", e.Record.ID, e.Record.State)
	}
	return fmt.Sprintf("task %s %s (%s): %s", e.Record.ID, e.Record.State, f.Code, f.Message)
}

// Await waits for the end and decodes the result. A task that did not complete
// gives a *FailedError.
func Await[Out any](ctx context.Context, r *Ref) (out Out, err error) {
	rec, err := r.Wait(ctx)
	if err != nil {
		return out, err
	}
	if rec.State != task.Completed {
		return out, &FailedError{Record: rec}
	}
	if rec.Result == nil || len(rec.Result.Data) == 0 {
		return out, nil
	}
	if err := json.Unmarshal(rec.Result.Data, &out); err != nil {
		return out, fmt.Errorf("decode result of task %s: %w", r.id, err)
	}
	return out, nil
}
