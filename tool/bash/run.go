// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package bash

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/foreground"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool"
	"github.com/outlive-dev/outlive/tool/command"
	"github.com/outlive-dev/outlive/tool/internal/frame"
	"github.com/outlive-dev/outlive/work"
)

// watch runs a command in the foreground.
func (b *bash) watch(ctx context.Context, p plan, s outlive.Spec) (tool.Result, error) {
	s.Bound = true // what its timer sends to the background was not let go on purpose
	w, err := b.o.Runtime.Watch(ctx, s, foreground.Policy{DetachAfter: p.wait, OnGone: b.o.OnGone})
	if err != nil {
		return b.notCreated(p, err)
	}
	id := w.Task().ID
	wait, leave := context.WithCancelCause(context.WithoutCancel(ctx))
	defer leave(nil)
	stop := context.AfterFunc(ctx, func() {
		// A caller that goes leaves the command. One that was itself canceled takes it
		// along.
		if b.follow(ctx, id) {
			time.AfterFunc(foreground.DefaultCleanupTimeout, func() { leave(context.Cause(ctx)) })
			return
		}
		leave(context.Cause(ctx))
	})
	out, err := w.Wait(wait)
	rec := &out.Task
	switch {
	case err != nil && !rec.State.Terminal():
		stop()
		made := w.Task()
		return b.broken(&made, p, err), err
	case out.Detached:
		stop() // it is bound to its parent, whose end is no business of this process
		return b.moved(ctx, p, rec), nil
	}
	stop()
	r := b.ended(ctx, p, rec)
	if err == nil && rec.State == task.Canceled {
		err = context.Cause(ctx) // nil when it was canceled by somebody else
	}
	return r, err
}

// follow cancels the command when the parent's attempt, whose context it is, ended
// because the parent is to be canceled.
func (b *bash) follow(ctx context.Context, id task.ID) bool {
	reason, ok := work.Canceled(ctx)
	if !ok {
		return false
	}
	_, err := b.o.Runtime.Cancel(context.WithoutCancel(ctx), id, &outlive.CancelOptions{Reason: "parent canceled: " + reason})
	return err == nil || fault.Is(err, fault.Finished)
}

// notCreated is the result of a call without a task.
func (b *bash) notCreated(p plan, err error) (tool.Result, error) {
	if fault.Is(err, fault.Invalid) || fault.Is(err, fault.Exists) || fault.Is(err, fault.CancelRequested) {
		return tool.Refused(err), nil
	}
	text := shell.RenderError(&shell.ExecError{Phase: shell.StepProvision, Started: shell.No, Cause: err}, b.about(p, nil), b.render)
	return tool.Result{Text: b.noted(p, text), IsError: true}, err
}

// broken is the result of a call that lost sight of its command.
func (b *bash) broken(rec *task.Record, p plan, err error) tool.Result {
	text := shell.RenderError(&shell.ExecError{Phase: shell.StepRun, Started: shell.Maybe, Cause: err}, b.about(p, rec), b.render)
	return tool.Result{Text: b.noted(p, text), IsError: true, Task: rec.ID}
}

// about is what the renderer is told of a call.
func (b *bash) about(p plan, rec *task.Record) shell.Call {
	c := shell.Call{Timeout: p.Timeout, TimeoutText: p.asked, OutputLimit: p.Output.Limit}
	if rec != nil {
		c.ID, c.Script = string(rec.ID), b.o.Commands.Script(rec)
	}
	return c
}

// noted appends the notes of a call.
func (b *bash) noted(p plan, text string) string {
	text = frame.Escape(text)
	for _, n := range p.notes {
		text = frame.Below(text, frame.Aside(n))
	}
	return text
}

// readPiece is how much output is read at once.
const readPiece = 256 << 10

// ended is the result of a command that has ended, whatever its exit code: a code is
// the command's answer, not a failure of the call.
func (b *bash) ended(ctx context.Context, p plan, rec *task.Record) tool.Result {
	r := shell.NewRenderer(b.about(p, rec), b.render)
	free := context.WithoutCancel(ctx)
	x, known := command.ExitOf(rec)
	var rerr error
	if known && x.TotalBytes > 0 {
		for from := int64(0); ; {
			ch, err := b.read.Chunk(free, rec, from, readPiece)
			if err != nil || ch.Next == from && !ch.End {
				rerr = err
				break
			}
			r.Add(shell.Part{Frames: ch.Frames, Omitted: ch.Omitted})
			if from = ch.Next; ch.End {
				break
			}
		}
	}
	var text string
	switch {
	case known:
		r.Add(shell.Part{Exit: &x})
		text = r.End()
	case rec.State == task.Canceled:
		r.Add(shell.Part{Exit: &shell.Exit{Cause: shell.Canceled, Canceled: true}})
		text = r.End()
	default:
		text = r.Fail(failure(rec))
	}
	if rerr != nil {
		p.notes = append(p.notes, "its output could not be read")
	}
	return tool.Result{Text: b.noted(p, text), Task: rec.ID, IsError: !known && rec.State != task.Canceled}
}

// failure is how a task without an exit ended.
func failure(rec *task.Record) error {
	f := rec.Failure
	if f == nil {
		return &shell.ExecError{Started: shell.Maybe, Cause: errors.New("no exit was recorded")}
	}
	e := &shell.ExecError{Started: shell.Maybe, Cause: errors.New(f.Message)}
	if f.Outcome == task.OutcomeKnown && f.Code == command.CodeStartFailed {
		e.Started = shell.No
	}
	return e
}

// moved is the receipt of a command that went to the background by the timer or
// because its caller left.
func (b *bash) moved(ctx context.Context, p plan, rec *task.Record) tool.Result {
	rc := shell.Receipt{ID: string(rec.ID), Why: shell.Timer, Waited: p.wait, StartedAt: rec.StartedAt, Script: b.o.Commands.Script(rec)}
	if ctx.Err() != nil {
		rc.Why = shell.CallerLeft
	}
	rc.Output, rc.Bytes = b.read.Tail(context.WithoutCancel(ctx), rec, 4<<10)
	if changesDir.MatchString(p.Command) {
		p.notes = append(p.notes, "its cd does not apply to the next call; give cwd")
	}
	return tool.Result{Text: b.noted(p, rc.Render(b.told(ctx, rec))), Task: rec.ID, Detached: true}
}

// changesDir matches a command that changes its directory.
var changesDir = regexp.MustCompile(`(?m)(^|[;&|({]\s*|\bthen\s+|\bdo\s+)\s*(cd|pushd)\b`)

// told are the render options for a receipt: that the end is told is said only if it
// is so.
func (b *bash) told(ctx context.Context, rec *task.Record) shell.RenderOptions {
	o := b.render
	o.NoNotices = o.NoNotices || !b.read.Told(context.WithoutCancel(ctx), rec)
	return o
}

// start starts a command in the background and shows what it says first.
func (b *bash) start(ctx context.Context, p plan, s outlive.Spec) (tool.Result, error) {
	rec, err := b.o.Runtime.Submit(context.WithoutCancel(ctx), s)
	if err != nil {
		return b.notCreated(p, err)
	}
	look, cancel := context.WithTimeout(ctx, b.o.FirstOutput)
	defer cancel()
	var first strings.Builder
	for e, err := range b.o.Runtime.Events(look, rec.ID, nil) {
		if err != nil {
			break // the time is up
		}
		if strings.HasPrefix(e.Kind, "output") {
			first.Write(e.Data)
		}
	}
	if now, err := b.o.Runtime.Get(context.WithoutCancel(ctx), rec.ID); err == nil {
		rec = now
	}
	if rec.State.Terminal() {
		if p.ignored {
			p.notes = append(p.notes, "timeout does not apply in the background")
		}
		return b.ended(ctx, p, &rec), nil
	}
	rc := shell.Receipt{
		ID: string(rec.ID), Why: shell.Asked, StartedAt: rec.StartedAt, TimeoutIgnored: p.ignored,
		Script: b.o.Commands.Script(&rec), Output: []byte(first.String()),
	}
	return tool.Result{Text: b.noted(p, rc.Render(b.told(ctx, &rec))), Task: rec.ID, Detached: true}, nil
}
