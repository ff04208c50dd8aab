// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlivetest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/foreground"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

const brief = 400 * time.Microsecond

func TestRace_publish_complete(t *testing.T) {
	race(t, quick(), func(r *round) {
		id := r.id("t")
		wait := r.watch(r.ctx, r.main(), r.spec("t", "script", "emit one; await go@; complete done"), foreground.Policy{})
		r.all(brief, func() {
			_, err := r.main().Publish(r.ctx, id)
			r.oneOf(id, "Publish()", err)
		}, func() { r.signal("go") })
		out, err := wait()
		r.want(id, err == nil && !out.Detached && out.Task.State == task.Completed && out.Task.Attempt == 1, "Wait() = %s, %v", out.Task.State, err)
		rec := r.get(id)
		r.want(id, rec.Publication == task.OnBackground && r.count(id, journal.KindPublished) <= 1, "publication %s", rec.Publication)
	})
}

func TestRace_publish_cancel(t *testing.T) {
	race(t, quick(), func(r *round) {
		id := r.id("t")
		wait := r.watch(r.ctx, r.main(), r.spec("t", "script", "await never"), foreground.Policy{})
		r.all(brief, func() {
			_, err := r.main().Publish(r.ctx, id)
			r.oneOf(id, "Publish()", err)
		}, func() {
			_, err := r.main().Cancel(r.ctx, id, &outlive.CancelOptions{Reason: "one"})
			r.oneOf(id, "Cancel()", err)
		})
		out, err := wait()
		r.want(id, err == nil && out.Task.State == task.Canceled && out.Task.CancelReason == "one", "Wait() = %s, %v", out.Task.State, err)
	})
}

func TestRace_publish_complete_cancel(t *testing.T) {
	race(t, quick(), func(r *round) {
		id := r.id("t")
		p := foreground.Policy{DetachAfter: time.Duration(1 + r.chance(int(brief)))}
		wait := r.watch(r.ctx, r.main(), r.spec("t", "script", "await go@; complete done"), p)
		var cerr error
		r.all(2*brief, func() { r.signal("go") }, func() {
			_, cerr = r.main().Cancel(r.ctx, id, nil)
			r.oneOf(id, "Cancel()", cerr, fault.Finished)
		}, func() {
			_, err := r.main().Publish(r.ctx, id)
			r.oneOf(id, "Publish()", err)
		})
		out, err := wait()
		rec := r.end(id)
		r.want(id, err == nil, "Wait() = %v", err)
		r.want(id, (cerr == nil) == (rec.State == task.Canceled), "cancel %v, ended %s", cerr, rec.State)
		r.want(id, out.Detached || out.Task.State == rec.State, "the caller knows %s", out.Task.State)
	})
}

func TestRace_timer_boundary(t *testing.T) {
	race(t, quick(), func(r *round) {
		id := r.id("t")
		p := foreground.Policy{DetachAfter: time.Millisecond}
		if r.chance(2) == 0 {
			p.OnTimeout = foreground.CancelTask
		}
		script := fmt.Sprintf("sleep %dus; complete done", 700+r.chance(600))
		out, err := r.main().Run(r.ctx, r.spec("t", "script", script), p)
		rec := r.end(id)
		switch {
		case timedOut(err):
			r.want(id, p.OnTimeout == foreground.CancelTask && rec.State == task.Canceled, "timed out, ended %s", rec.State)
		case err != nil:
			r.fail(id, "Run() = %v", err)
		case out.Detached:
			r.want(id, p.OnTimeout == foreground.DetachTask && rec.State == task.Completed && r.count(id, journal.KindPublished) == 1, "detached, ended %s", rec.State)
		default:
			r.want(id, out.Task.State == task.Completed && rec.State == task.Completed && rec.Publication == task.Deferred, "returned %s, ended %s", out.Task.State, rec.State)
		}
		r.want(id, r.count(id, journal.KindStarted) <= 1, "started again")
	})
}

func TestRace_timer_caller_gone(t *testing.T) {
	race(t, quick(), func(r *round) {
		id := r.id("t")
		p := foreground.Policy{DetachAfter: time.Millisecond, OnGone: foreground.Choice(r.chance(2)), OnTimeout: foreground.Choice(r.chance(2))}
		ctx, leave := context.WithCancel(r.ctx)
		time.AfterFunc(time.Millisecond+time.Duration(r.chance(600)-300)*time.Microsecond, leave)
		out, err := r.main().Run(ctx, r.spec("t", "script", "await go@; complete done"), p)
		rec := r.get(id)
		r.signal("go")
		switch {
		case timedOut(err):
			r.want(id, p.OnTimeout == foreground.CancelTask && rec.State == task.Canceled, "timed out")
		case errors.Is(err, context.Canceled):
			r.want(id, p.OnGone == foreground.CancelTask && rec.State == task.Canceled, "gone")
		case err != nil:
			r.fail(id, "Run() = %v", err)
		default:
			r.want(id, out.Detached && rec.Publication == task.OnBackground && r.end(id).State == task.Completed, "detached %v", out.Detached)
		}
	})
}

func TestRace_caller_gone_before_start(t *testing.T) {
	race(t, quick(), func(r *round) {
		id := r.id("t")
		ctx, leave := context.WithCancel(r.ctx)
		p := foreground.Policy{OnGone: foreground.Choice(r.chance(2))}
		if r.chance(2) == 0 {
			leave()
		} else {
			time.AfterFunc(time.Duration(r.chance(int(brief))), leave)
		}
		out, err := r.main().Run(ctx, r.spec("t", "script", "await go@; complete done"), p)
		r.signal("go")
		rec := r.end(id)
		if p.OnGone == foreground.CancelTask {
			r.want(id, errors.Is(err, context.Canceled) && rec.State == task.Canceled, "Run() = %v, ended %s", err, rec.State)
			return
		}
		r.want(id, err == nil && out.Detached && rec.State == task.Completed && rec.Publication == task.OnBackground, "Run() = %v, ended %s", err, rec.State)
	})
}

func TestRace_publish_parent_sealed(t *testing.T) {
	race(t, quick(), func(r *round) {
		root := r.submit(r.main(), r.spec("root", "reads", "input 2; await end@; complete"))
		s := r.spec("parent", "reads", "await go@; complete")
		s.Parent = root
		parent := r.submit(r.main(), s)
		s = r.spec("kid", "script", "await end@; complete done")
		s.Parent = parent
		wait := r.watch(r.ctx, r.main(), s, foreground.Policy{})
		r.all(brief, func() { r.signal("go") }, func() {
			_, err := r.main().Publish(r.ctx, s.ID)
			r.oneOf(s.ID, "Publish()", err)
		})
		told := 0
		for _, box := range []task.ID{root, parent} {
			r.view(func(v store.View) error {
				list, err := v.Inputs(box, 0, 0)
				for _, in := range list {
					if in.From == string(s.ID) && in.Kind == "child.backgrounded" {
						told++
					}
				}
				return err
			})
		}
		r.want(s.ID, told == 1, "told %d times that it went to the background", told)
		r.signal("end")
		out, err := wait()
		r.want(s.ID, err == nil && out.Task.State == task.Completed, "Wait() = %s, %v", out.Task.State, err)
	})
}

func TestRace_claim_elsewhere(t *testing.T) {
	race(t, quick(), func(r *round) {
		r.env.Instance("other")
		id := r.id("t")
		s := r.spec("t", "script", "emit one; complete done")
		s.Here = r.chance(2) == 0
		out, err := r.main().Run(r.ctx, s, foreground.Policy{DetachAfter: time.Minute})
		r.want(id, err == nil && !out.Detached && out.Task.State == task.Completed && out.Task.Attempt == 1, "Run() = %+v, %v", out, err)
		r.want(id, r.env.Runs(id) == 1, "ran %d times", r.env.Runs(id))
	})
}

func TestRace_start_fails(t *testing.T) {
	race(t, quick(), func(r *round) {
		i := r.fresh("i", passive(quick()))
		id := r.id("t")
		s := r.spec("t", "script", "complete done")
		s.Here = true
		var out outlive.Outcome
		var err error
		r.all(brief, func() { i.Refuse(1+r.chance(2), fault.New(fault.Unavailable, "refused by the test")) },
			func() { out, err = i.Runtime().Run(r.ctx, s, foreground.Policy{}) })
		if err == nil {
			r.want(id, out.Task.State == task.Completed, "returned %s", out.Task.State)
			return
		}
		r.oneOf(id, "Run()", err, fault.Unavailable)
		r.view(func(v store.View) error {
			rec, ok, err := v.Task(id)
			r.want(id, !ok || rec.State.Terminal(), "the start failed and left %s behind", rec.State)
			return err
		})
	})
}

func TestRace_executor_ignores_stop(t *testing.T) {
	race(t, quick(), func(r *round) {
		id := r.id("t")
		p := foreground.Policy{DetachAfter: time.Duration(1 + r.chance(int(brief))), OnTimeout: foreground.CancelTask, CleanupTimeout: 2 * time.Millisecond}
		began := time.Now()
		_, err := r.main().Run(r.ctx, r.spec("t", "script", "ignore; await go@; complete done"), p)
		r.want(id, timedOut(err) && time.Since(began) < 10*time.Second, "Run() = %v after %v", err, time.Since(began))
		rec := r.get(id)
		r.want(id, rec.Canceling() && rec.State == task.Running || rec.State == task.Canceled, "no durable intent")
		r.signal("go")
		rec = r.end(id)
		r.want(id, rec.State == task.Canceled, "ended %s", rec.State)
	})
}

func TestRace_waiting_in_foreground(t *testing.T) {
	race(t, quick(), func(r *round) {
		id := r.id("t")
		wait := r.watch(r.ctx, r.main(), r.spec("t", "script", "ask q | complete answered"), foreground.Policy{})
		r.all(brief, func() {
			r.eventually(id, "answered", func() bool {
				rec, err := r.step(id, task.Decide{Ticket: "q"})
				return err != nil || rec.Attempt > 0 && rec.State != task.Waiting && rec.State != task.Running
			})
		}, func() {
			out, err := wait()
			ok := out.Task.State == task.Completed || out.Task.State == task.Waiting && out.Task.Publication == task.OnBackground || out.Detached
			ok = ok || out.Task.Publication == task.OnBackground // it went on meanwhile
			r.want(id, err == nil && ok, "Wait() = %+v, %v", out, err)
		})
		rec := r.end(id)
		r.want(id, rec.State == task.Completed && rec.Attempt == 2, "ended %s", rec.State)
	})
}

func TestRace_reader_closes(t *testing.T) {
	race(t, quick(), func(r *round) {
		id := r.submit(r.main(), r.spec("t", "script", "emit 1; emit 2; emit 3; await go@; emit 4; final 5; complete done"))
		read := func(most int) (n int) {
			for e, err := range r.main().Events(r.ctx, id, nil) {
				if err != nil {
					r.fail(id, "Events() = %v", err)
					return n
				}
				if n++; e.Seq != int64(n) {
					r.fail(id, "entry %d is number %d", e.Seq, n)
				}
				if n == most {
					return n
				}
			}
			return n
		}
		r.all(brief, func() { r.signal("go") }, func() { read(1 + r.chance(7)) }, func() { read(7) }, func() {
			n := read(0)
			r.want(id, n == 8, "a reader saw %d entries of 8", n)
		})
		rec := r.end(id)
		r.want(id, rec.State == task.Completed && r.count(id, journal.KindOutput) == 5, "ended %s", rec.State)
	})
}

func TestRace_slow_policy(t *testing.T) {
	race(t, quick(), func(r *round) {
		i := r.fresh("i", passive(quick()))
		id := r.id("t")
		s := r.spec("t", "script", "await go@; complete done")
		wait := r.watch(r.ctx, i.Runtime(), s, foreground.Policy{DetachAfter: time.Millisecond})
		r.all(2*time.Millisecond, func() { r.signal("go") }, func() {
			i.Hang()
			r.pause(3 * time.Millisecond)
			i.Resume()
		})
		out, err := wait()
		rec := r.end(id)
		r.want(id, err == nil && rec.State == task.Completed, "Wait() = %v, ended %s", err, rec.State)
		r.want(id, out.Detached == (out.Task.State != task.Completed), "detached %v with %s", out.Detached, out.Task.State)
		r.visible(id)
	})
}

func TestRace_close_during_projection(t *testing.T) {
	race(t, quick(), func(r *round) {
		i := r.fresh("i", passive(quick()))
		id := r.id("t")
		s := r.spec("t", "script", "await go@; complete done")
		s.Here = true
		wait := r.watch(r.ctx, i.Runtime(), s, foreground.Policy{})
		r.all(brief, func() { r.signal("go") }, func() {
			if err := i.Stop(r.ctx); err != nil {
				r.fail(id, "Stop() = %v", err)
			}
		})
		out, err := wait()
		rec := r.end(id)
		r.want(id, err == nil && rec.State == task.Completed && (out.Detached || out.Task.State == task.Completed), "Wait() = %+v, %v", out, err)
		r.visible(id)
	})
}
