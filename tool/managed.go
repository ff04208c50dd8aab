// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/foreground"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool/internal/frame"
	"github.com/outlive-dev/outlive/tool/internal/output"
)

// DefaultDetachAfter is how long a call waits before its task goes on in the
// background.
const DefaultDetachAfter = 120 * time.Second

// Wait is the DetachAfter of calls that wait as long as it takes.
const Wait time.Duration = -1

// ManagedOptions describe a tool whose calls are tasks.
type ManagedOptions struct {
	// Runtime runs the tasks. Required.
	Runtime *outlive.Runtime
	// Executor is the key of a registered executor. Required.
	Executor string
	// Name, Description and Schema are the Tool's. Required.
	Name, Description string
	// Schema is the JSON schema of the arguments. Required.
	Schema json.RawMessage
	// DetachAfter is how long a call waits, or Wait. Defaults to DefaultDetachAfter.
	DetachAfter time.Duration
	// OnTimeout is what then becomes of the task. Defaults to letting it go on.
	OnTimeout foreground.Choice
	// OnGone is what becomes of the task when the caller goes. Defaults to letting it
	// go on.
	OnGone foreground.Choice
	// Limits bound what a model reads of one call. Defaults to those of package shell.
	Limits shell.RenderOptions
	// Names are those of the other tools. Defaults to the names of Names.
	Names Names
}

// Managed returns a tool whose calls are tasks: a call that takes long returns a
// receipt, and the task goes on.
func Managed(o ManagedOptions) Tool {
	m := &managed{o: o, read: output.Reader{Runtime: o.Runtime}}
	m.render = renderOptions(o.Limits, o.Names.WithDefaults())
	m.policy = foreground.Policy{
		DetachAfter: max(cmp.Or(o.DetachAfter, DefaultDetachAfter), 0), OnTimeout: o.OnTimeout, OnGone: o.OnGone,
	}
	return Tool{Name: o.Name, Description: o.Description, Schema: o.Schema, Call: m.call}
}

type managed struct {
	o      ManagedOptions
	policy foreground.Policy
	render shell.RenderOptions
	read   output.Reader
}

// renderOptions are limits with the tools' phrases. A result is read on by its place
// in it.
func renderOptions(o shell.RenderOptions, n Names) shell.RenderOptions {
	o.OutputTool, o.StopTool = cmp.Or(o.OutputTool, n.Output), cmp.Or(o.StopTool, n.Stop)
	p := frame.Phrases(o.Phrases)
	own := func(s *string, text string) {
		if *s == "" {
			*s = text
		}
	}
	own(&p.ErrorStarted, "[error: {reason}]")
	own(&p.ErrorMaybe, "[error: {reason}. The outcome is unknown: it may have run partly or fully. Check before running it again.]")
	own(&p.TimedOut, "[timed out after {limit}: the call was stopped]")
	own(&p.TimedOutSilent, "[timed out after {limit}: the call was stopped]")
	own(&p.ErrorNotStarted, "[error: {reason}. Nothing was started.]")
	if o.Phrases == nil || o.Phrases.TruncatedRead == "" {
		p.TruncatedRead = "[output truncated: first {head} and last {tail} of {total} shown; read the rest with {output_tool} task_id={id} after=result+{offset}]"
	}
	o.Phrases = p
	return o
}

func (m *managed) call(ctx context.Context, c Caller, args json.RawMessage) (Result, error) {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	if !json.Valid(args) {
		return Refused(fault.New(fault.Invalid, "arguments: not valid JSON")), nil
	}
	s := c.Spec(m.o.Executor, task.Payload{Media: MediaArgs, Data: args})
	s.Description = m.o.Name
	w, err := m.o.Runtime.Watch(ctx, s, m.policy)
	switch {
	case fault.Is(err, fault.Invalid) || fault.Is(err, fault.Exists):
		return Refused(err), nil
	case err != nil:
		return Result{Text: m.failed(err, shell.No), IsError: true}, err
	}
	out, err := w.Wait(ctx)
	if out.Task.ID == "" {
		out.Task = w.Task()
	}
	rec := &out.Task
	var late *foreground.TimeoutError
	switch {
	case err != nil && !errors.As(err, &late):
		return Result{Text: m.failed(err, shell.Maybe), IsError: true, Task: rec.ID}, err
	case out.Detached:
		return m.receipt(ctx, rec), nil
	case !rec.State.Terminal():
		return m.boundary(rec, err), nil
	}
	return m.ended(ctx, rec, err), nil
}

func (m *managed) failed(err error, started shell.Certainty) string {
	return shell.RenderError(&shell.ExecError{Started: started, Cause: err}, shell.Call{}, m.render)
}

// receipt is the result of a call whose task goes on.
func (m *managed) receipt(ctx context.Context, rec *task.Record) Result {
	free := context.WithoutCancel(ctx)
	o := m.render
	o.NoNotices = o.NoNotices || !m.read.Told(free, rec)
	rc := shell.Receipt{ID: string(rec.ID), Why: shell.Timer, StartedAt: rec.StartedAt, Waited: m.policy.DetachAfter}
	if ctx.Err() != nil {
		rc.Why = shell.CallerLeft
	}
	rc.Output, rc.Bytes = m.read.Tail(free, rec, 4<<10)
	return Result{Text: frame.Escape(rc.Render(o)), Task: rec.ID, Detached: true}
}

// boundary is the result of a call whose task waits for somebody, or is asked to end
// and has not.
func (m *managed) boundary(rec *task.Record, err error) Result {
	r := Result{Task: rec.ID, Detached: true}
	switch {
	case err != nil:
		r.Text, r.IsError = frame.Note(rec.ID, "%s; it has not ended yet", err), true
	case rec.State == task.Waiting:
		r.Text = frame.Note(rec.ID, "it waits for an answer and goes on after it")
	default:
		r.Text = frame.Note(rec.ID, "it is %s and goes on when it is released", rec.State)
	}
	return r
}

// ended is the result of a call whose task has ended.
func (m *managed) ended(ctx context.Context, rec *task.Record, late error) Result {
	r := Result{Task: rec.ID, IsError: rec.State != task.Completed}
	in := shell.RenderInput{Call: shell.Call{ID: string(rec.ID)}}
	o := m.render
	switch {
	case rec.State == task.Completed:
		stored := output.ResultOf(rec)
		r.Media, r.IsError = stored.Media, stored.IsError
		in.Output, in.Exit = []byte(stored.Text), shell.Exit{Cause: shell.Exited, Code: new(int)}
		if stored.Text == "" { // long ones are in the journal
			text, _, _, err := m.read.Text(context.WithoutCancel(ctx), rec, output.Position{}, maxRead)
			if err == nil && len(text) > 0 {
				in.Output = text
				o.Phrases = frame.Phrases(o.Phrases)
				o.Phrases.TruncatedRead = "[output truncated: first {head} and last {tail} of {total} shown; read all with {output_tool} task_id={id}]"
			}
		}
	case late != nil:
		in.Exit = shell.Exit{Cause: shell.TimedOut, TimedOut: true}
		in.Timeout = m.policy.DetachAfter
	case rec.State == task.Canceled:
		in.Exit = shell.Exit{Cause: shell.Canceled, Canceled: true}
	default:
		f := rec.Failure
		started := shell.Yes
		if f.Outcome == task.OutcomeUnknown {
			started = shell.Maybe
		}
		r.Text = frame.Escape(m.failed(errors.New(cmp.Or(f.Message, f.Code)), started))
		return r
	}
	r.Text = frame.Escape(shell.Render(in, o))
	return r
}

// maxRead bounds how much of a result is looked at to show some of it.
const maxRead = 16 << 20
