// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlive

import (
	"context"
	"fmt"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/foreground"
	"github.com/outlive-dev/outlive/internal/apply"
	"github.com/outlive-dev/outlive/internal/project"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// Outcome is how a foreground call ended. When it Detached the task goes on: it is
// the same task in the same attempt, and nothing was restarted.
type Outcome struct {
	Task     task.Record
	Detached bool
}

// Run creates a task and watches it until it ends, waits or is suspended, or until
// the policy lets it go on in the background. The task is not public until then. A
// caller that goes, by its context, leaves the task running unless the policy says
// otherwise.
//
// A foreground call that ran out of time and was not allowed to detach gives a
// *foreground.TimeoutError.
func (rt *Runtime) Run(ctx context.Context, s Spec, p foreground.Policy) (Outcome, error) {
	w, err := rt.Watch(ctx, s, p)
	if err != nil {
		return Outcome{}, err
	}
	return w.Wait(ctx)
}

// Watched is a foreground call under way: Run in two steps, for a caller that wants
// the task's id first, or wants to detach by hand.
type Watched struct {
	p       *project.Projection
	rec     task.Record
	unclaim func()
}

// Watch creates the task of a foreground call. Wait must follow.
func (rt *Runtime) Watch(ctx context.Context, s Spec, p foreground.Policy) (*Watched, error) {
	if p.DetachAfter < 0 || p.CleanupTimeout < 0 {
		return nil, fault.New(fault.Invalid, "run: negative duration in the policy")
	}
	s.publication, s.observer = task.Deferred, "fg-"+token()
	out, err := rt.launch(context.WithoutCancel(ctx), s)
	if err != nil {
		return nil, err
	}
	port := projectPort{rt: rt, observer: s.observer}
	return &Watched{
		p: project.New(port, out.Record.ID, p, min(rt.poll, 2*time.Second)), rec: out.Record,
		unclaim: func() { rt.d.Unclaim(s.observer) },
	}, nil
}

// Task returns the record as it was created.
func (w *Watched) Task() task.Record { return w.rec.Clone() }

// Detach asks to send the task to the background; Wait then returns. It may be
// called at any time and repeated.
func (w *Watched) Detach() { w.p.Detach() }

// Wait performs the call. It is called once.
func (w *Watched) Wait(ctx context.Context) (Outcome, error) {
	defer w.unclaim() // what was not taken is revealed
	out, err := w.p.Run(ctx)
	return Outcome{Task: out.Record, Detached: out.Detached}, err
}

// projectPort is the runtime as a projection sees it.
type projectPort struct {
	rt       *Runtime
	observer string
}

// Get also follows a task that nobody follows, as Wait does.
func (p projectPort) Get(ctx context.Context, id task.ID) (task.Record, error) {
	r, err := p.rt.Get(ctx, id)
	if err != nil || r.State != task.Running || p.rt.d.Runs(id) {
		return r, err
	}
	if _, err := p.rt.d.Adopt(ctx, id); err != nil {
		return r, nil //nolint:nilerr // asked again with the next look
	}
	return p.rt.Get(ctx, id)
}

func (p projectPort) Cancel(ctx context.Context, id task.ID, reason string) (task.Record, error) {
	return p.rt.Cancel(ctx, id, &CancelOptions{Reason: reason})
}

func (p projectPort) Publish(ctx context.Context, id task.ID, ended bool) (task.Record, error) {
	var rec task.Record
	err := p.rt.st.Update(ctx, append(apply.Keys(id), store.ObserversKey(id)), func(tx store.Tx) error {
		r, ok := tx.Task(id)
		if rec = r; !ok {
			return apply.ErrNoTask
		}
		if r.State.Terminal() && !ended {
			return nil
		}
		out, err := apply.Step(tx, id, task.Publish{})
		if err != nil {
			return err
		}
		rec = out.Record
		tx.DropObserver(id, p.observer)
		return nil
	})
	if err != nil {
		return rec, fmt.Errorf("publish task %s: %w", id, err)
	}
	p.rt.d.Tell(id)
	return rec, nil
}

func (p projectPort) Take(ctx context.Context, id task.ID) error {
	err := p.rt.st.Update(ctx, []store.Key{store.ObserversKey(id)}, func(tx store.Tx) error {
		tx.DropObserver(id, p.observer)
		return nil
	})
	if err != nil {
		return fmt.Errorf("take outcome of task %s: %w", id, err)
	}
	return nil
}

func (p projectPort) Watch(id task.ID) (<-chan struct{}, func()) {
	w := p.rt.hub.WatchTask(string(id))
	return w.C(), w.Close
}
