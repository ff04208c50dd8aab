// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/cmd/outlive/internal/text"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/foreground"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool/command"
)

// recordWait is how long a run waits, after its command has ended, for the store to
// say so.
const recordWait = 5 * time.Second

// watched is one foreground run under way.
type watched struct {
	app    *app
	rec    task.Record // as it was when watching began
	sig    *signals
	copier *copier
}

// foreground watches the command: its bytes come from the spool, the decision when
// to leave it from the projection. When the store fails meanwhile the spool alone
// decides: the command, its output and its code do not depend on the store.
func (a *app) foreground(ctx context.Context, s outlive.Spec, loan *command.Loan, f runFlags) error {
	sig := a.listen()
	defer sig.stop()
	w, err := a.rt.Watch(ctx, s, foreground.Policy{DetachAfter: f.detachAfter})
	if err != nil {
		return err
	}
	if rec := w.Task(); rec.State == task.Pending {
		a.note("%s waits for its queue; outlive why %s says more", rec.ID, rec.ID)
	}
	in := a.keyboardOf(f.stdin, f.tty, f.keys)
	defer in.raw.Restore()
	in.quit = func() { sig.detach(w.Detach) }
	caller, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	c := &copier{app: a, rec: task.Record{ID: w.Task().ID}, in: in, gone: leave, terminal: a.outIsTerminal()}
	c.start(ctx, loan)
	defer c.unhook()
	a.group.Go("signals", func(context.Context) { sig.serve(ctx, a, w.Task(), f.onSignal, w.Detach) })

	type end struct {
		out outlive.Outcome
		err error
	}
	ends := make(chan end, 1)
	a.group.Go("watch", func(context.Context) {
		out, err := w.Wait(caller)
		ends <- end{out, err}
	})
	unrecorded := make(chan error, 1)
	a.group.Go("record", func(context.Context) {
		if err := c.recorded(ctx); err != nil {
			unrecorded <- err
		}
	})
	run := &watched{app: a, rec: w.Task(), sig: sig, copier: c}
	late := run.late(caller, f.detachAfter)
	select {
	case e := <-ends:
		if e.err != nil && !e.out.Task.State.Terminal() {
			return run.withoutStore(caller, e.err)
		}
		if e.err != nil {
			a.warn(e.err)
		}
		return run.outcome(e.out)
	case err := <-unrecorded:
		return run.withoutStore(caller, err)
	case <-late:
		a.leaving = true
		c.abandon()
		a.warn(errSilent)
		return run.left(w.Task().ID)
	}
}

// errSilent is why a run leaves a task that it could not publish.
var errSilent = fault.New(fault.Unavailable, "it does not answer")

// late returns a channel that is closed when the task should have been left a while
// ago, and the store has not let it.
func (r *watched) late(caller context.Context, detachAfter time.Duration) <-chan struct{} {
	late := make(chan struct{})
	var timer <-chan time.Time
	if detachAfter > 0 {
		timer = time.After(detachAfter)
	}
	r.app.group.Go("late", func(ctx context.Context) {
		select {
		case <-caller.Done():
		case <-r.sig.left:
		case <-timer:
		}
		select {
		case <-time.After(recordWait):
			close(late)
		case <-ctx.Done():
		}
	})
	return late
}

// outcome reports how the call ended.
func (r *watched) outcome(out outlive.Outcome) error {
	a, c := r.app, r.copier
	if out.Detached {
		c.abandon()
	} else {
		c.drain()
	}
	if a.json {
		if err := a.printTask(out.Task); err != nil {
			return err
		}
	}
	switch code := r.sig.code(); {
	case c.lost > 0:
		return &coded{code: exitOwn, err: fmt.Errorf("%d bytes of output were lost", c.lost)}
	case c.err != nil && !errors.Is(c.err, errStopped):
		return &coded{code: exitOwn, err: fmt.Errorf("output after %d bytes could not be read (outlive logs %s): %w", c.next, out.Task.ID, c.err)}
	case out.Detached:
		return r.left(out.Task.ID)
	case code != 0 && out.Task.State == task.Canceled:
		return &coded{code: code, err: fmt.Errorf("%s canceled", out.Task.ID)}
	}
	return a.verdict(out.Task, true)
}

// left says how to come back to a task that goes on.
func (r *watched) left(id task.ID) error {
	if r.copier.in.raw != nil && !r.app.quiet {
		fmt.Fprintln(r.app.err) // the command's output may have ended anywhere
	}
	if r.copier.in.tty {
		r.app.note("come back:      outlive attach %s", id)
	} else {
		r.app.note("follow it:      outlive logs -f %s", id)
	}
	r.app.note("its exit code:  outlive wait %s", id)
	r.app.note("end it:         outlive cancel %s", id)
	return &coded{code: exitRunning, err: fmt.Errorf("detached, still running as %s", id)}
}

// withoutStore ends a run whose store failed: by the spool's own exit record, or, when
// the caller has left, with the command going on.
func (r *watched) withoutStore(caller context.Context, cause error) error {
	a, c := r.app, r.copier
	a.leaving = true // whoever comes next finds what happened
	rec := r.rec
	select {
	case <-c.done:
	case <-caller.Done():
	case <-r.sig.left:
	}
	select {
	case <-c.done:
	default:
		c.abandon()
		a.warn(cause)
		return r.left(rec.ID)
	}
	c.in.raw.Restore()
	if c.exit == nil {
		return fmt.Errorf("%s: it is not known whether it ran: %w", rec.ID, cause)
	}
	a.warn(cause)
	if a.json {
		v := viewTask(&rec)
		v.Unverified, v.ExitCode, v.DoneAt = true, c.exit.Code, stamp(c.exit.EndedAt)
		if err := a.printJSON(v); err != nil {
			return err
		}
	}
	if c.lost > 0 {
		return &coded{code: exitOwn, err: fmt.Errorf("%d bytes of output were lost", c.lost)}
	}
	return r.exitOf(rec.ID)
}

// exitOf is the spool's exit record as an exit code.
func (r *watched) exitOf(id task.ID) error {
	x := r.copier.exit
	switch x.Cause {
	case shell.Exited:
		if x.Code == nil || *x.Code == 0 {
			return nil
		}
		return &coded{code: *x.Code}
	case shell.TimedOut:
		return &coded{code: exitTimedOut, err: fmt.Errorf("%s timed out", id)}
	case shell.Canceled:
		code := exitCanceled
		if c := r.sig.code(); c != 0 {
			code = c
		}
		return &coded{code: code, err: fmt.Errorf("%s canceled", id)}
	case shell.StartFailed:
		code := exitFailed
		if x.Code != nil {
			code = *x.Code
		}
		return &coded{code: code, err: fmt.Errorf("%s start failed: did not run: %s", id, x.Reason)}
	case shell.OutputLimited, shell.Lost:
	}
	return &coded{code: exitFailed, err: fmt.Errorf("%s %s", id, x.Cause)}
}

// warn says once that the store failed under a run: nothing else changes.
func (a *app) warn(err error) {
	text := text.OneLine(err.Error())
	var e *fault.Error
	if errors.As(err, &e) {
		text = e.Error()
	}
	fmt.Fprintf(a.err, "outlive: warning: the store failed after the start, a later command records the end: %s\n", text)
}
