// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlive

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/record"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// List returns tasks, newest first, in pages: the next page starts before the last
// id of this one.
func (rt *Runtime) List(ctx context.Context, f store.Filter) (recs []task.Record, err error) {
	if f.Limit < 0 || f.Limit > store.MaxPage {
		return nil, fault.Newf(fault.Invalid, "list tasks: limit %d, want at most %d", f.Limit, store.MaxPage)
	}
	err = rt.st.View(ctx, func(v store.View) (err error) {
		recs, err = v.Tasks(f)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	return recs, nil
}

// Find returns the tasks whose id begins or ends with part or whose name it is,
// newest first, at most limit.
func (rt *Runtime) Find(ctx context.Context, part string, limit int) (recs []task.Record, err error) {
	err = rt.st.View(ctx, func(v store.View) (err error) {
		recs, err = v.Find(part, limit)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find task %q: %w", part, err)
	}
	return recs, nil
}

// Children returns the direct children of a task, by id, after the given one.
func (rt *Runtime) Children(ctx context.Context, parent, after task.ID, limit int) (recs []task.Record, err error) {
	err = rt.st.View(ctx, func(v store.View) (err error) {
		recs, err = v.Children(parent, after, limit)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list children of %s: %w", parent, err)
	}
	return recs, nil
}

// Workers returns the workers that hold a lease.
func (rt *Runtime) Workers(ctx context.Context) (ws []store.Worker, err error) {
	err = rt.st.View(ctx, func(v store.View) (err error) {
		ws, err = v.Workers()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	return ws, nil
}

// EventsOptions say what of a task's events to read.
type EventsOptions struct {
	// After is the cursor to start behind. Defaults to the start of the stream.
	After journal.Cursor
	// NoFollow ends the sequence at the newest entry instead of waiting for more.
	// Defaults to false.
	NoFollow bool
}

// Events replays the task's entries after the cursor and then follows them, as one
// sequence without duplicates that ends after the task's terminal entry. Kind
// NotFound when there is no such task.
func (rt *Runtime) Events(ctx context.Context, id task.ID, o *EventsOptions) iter.Seq2[journal.Entry, error] {
	if o == nil {
		o = &EventsOptions{}
	}
	return func(yield func(journal.Entry, error) bool) {
		r, err := rt.Get(ctx, id)
		if err != nil {
			yield(journal.Entry{}, err)
			return
		}
		// What has ended has its last entry already: there is nothing to follow.
		q := record.Query{After: o.After, Task: string(id), Follow: !o.NoFollow && !r.State.Terminal()}
		for e, err := range rt.hub.Read(ctx, journal.StreamID(r.Stream()), q) {
			if !yield(e, err) {
				return
			}
		}
	}
}

// Until says what a wait waits for.
type Until uint8

const (
	// Terminal waits for the end.
	Terminal Until = iota
	// Boundary also ends when the task waits or is suspended.
	Boundary
)

// Wait waits until the task has ended (or is at a boundary) and returns its record.
// A task that nobody runs, but that this runtime can follow, is adopted meanwhile,
// and one whose worker is proved dead is taken from it; nothing is started by it.
func (rt *Runtime) Wait(ctx context.Context, id task.ID, until Until) (task.Record, error) {
	w := rt.hub.WatchTask(string(id))
	defer w.Close()
	return rt.wait(ctx, w, id, until, false)
}

// wait is Wait; fresh says that the task was created here just now.
func (rt *Runtime) wait(ctx context.Context, w *record.Watch, id task.ID, until Until, fresh bool) (task.Record, error) {
	recheck := min(rt.poll, 500*time.Millisecond)
	t := time.NewTimer(recheck)
	defer t.Stop()
	adopt, rang := true, fresh
	for {
		if fresh {
			w.Recall()
			fresh = false
		}
		if r := w.Settled(); r != nil {
			return r.Clone(), nil
		}
		if rang && until == Terminal && rt.d.Runs(id) {
			// Its attempt is here and hands the end over: nothing to read before.
			if rang = rt.pause(ctx, w, t); rang || ctx.Err() == nil {
				continue
			}
		}
		r, err := rt.Get(ctx, id)
		if err != nil {
			return task.Record{}, err
		}
		if r.State.Terminal() || until == Boundary && r.State.Boundary() {
			return r, nil
		}
		if adopt && (r.State == task.Running || r.StopOnly()) && !rt.d.Runs(id) {
			if _, err := rt.d.Adopt(ctx, id); err != nil && ctx.Err() == nil {
				return r, err
			}
		}
		t.Reset(recheck)
		select {
		case <-ctx.Done():
			return r, context.Cause(ctx)
		case <-w.C():
			adopt, rang = false, true
		case <-t.C:
			adopt, rang = true, false
		}
	}
}

// pause waits for a ring (true), or the timer or ctx (false).
func (rt *Runtime) pause(ctx context.Context, w *record.Watch, t *time.Timer) bool {
	select {
	case <-w.C():
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}

// Reconcile lets the given records' tasks tell the truth before they are shown:
// dead workers are buried and ends that happened with nobody watching are recorded,
// until ctx ends. It returns the ids it could not verify.
func (rt *Runtime) Reconcile(ctx context.Context, recs []task.Record) []task.ID {
	return rt.d.Reconcile(ctx, recs)
}
