// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlivetest_test

import (
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

func TestRace_dies_deferred_before_end(t *testing.T) {
	race(t, quick(), func(r *round) {
		i := r.fresh("i", short())
		id := r.id("t")
		s := r.spec("t", "script", "await go@; complete first | complete second")
		s.Here = r.chance(2) == 0
		r.watch(r.ctx, i.Runtime(), s, foreground.Policy{})
		r.pause(time.Millisecond)
		i.Crash()
		rec := r.get(id)
		var claims []store.Observer
		r.view(func(v store.View) (err error) {
			claims, err = v.Observers(id)
			return err
		})
		if len(claims) > 0 { // nobody has found out yet
			r.want(id, rec.Publication == task.Deferred, "published by a dead process")
		}
		r.signal("go")
		rec = r.end(id)
		r.want(id, rec.State == task.Completed, "ended %s", rec.State)
		r.visible(id)
		r.want(id, r.get(id).Publication == task.OnBackground, "the caller died, and nobody was told")
	})
}

func TestRace_dies_deferred_after_end(t *testing.T) {
	race(t, quick(), func(r *round) {
		i := r.fresh("i", short())
		id := r.id("t")
		s := r.spec("t", "script", "complete done")
		s.Here = true
		wait := r.watch(r.ctx, i.Runtime(), s, foreground.Policy{})
		r.all(brief, i.Crash, func() { r.end(id) })
		r.visible(id)
		rec := r.end(id)
		r.want(id, rec.State == task.Completed, "ended %s", rec.State)
		_ = wait // it may hang with the process
	})
}

func TestRace_lease_boundary(t *testing.T) {
	race(t, quick(), func(r *round) {
		o := short()
		i := r.fresh("i", o)
		id := r.id("t")
		s := r.spec("t", "fragile", "await go@; complete done")
		s.Here = true
		r.submit(i.Runtime(), s)
		i.Hang()
		<-time.After(o.Lease - o.Renew + time.Duration(r.chance(int(2*o.Renew))))
		i.Resume()
		r.pause(time.Millisecond)
		r.signal("go")
		rec := r.end(id)
		completed := rec.State == task.Completed && rec.Attempt == 1
		lost := rec.State == task.Failed && rec.Failure.Code == task.CodeWorkerLost && rec.Failure.Outcome == task.OutcomeUnknown
		r.want(id, completed || lost, "ended %s", rec.State)
	})
}

func TestRace_heartbeat_hangs(t *testing.T) {
	race(t, quick(), func(r *round) {
		o := short()
		i := r.fresh("i", o)
		id := r.id("t")
		s := r.spec("t", "script", "emit one; ignore; await go@; emit two; complete first | emit one; emit two; complete second")
		s.Here = true
		r.submit(i.Runtime(), s)
		i.Hang()
		r.state(id, task.Completed) // by another one
		r.all(time.Millisecond, i.Resume, func() { r.signal("go") })
		rec := r.get(id)
		r.want(id, rec.Attempt >= 2 && string(rec.Result.Data) == "second", "attempt %d", rec.Attempt)
		r.want(id, r.count(id, journal.KindOutput) == 2, "%d parts", r.count(id, journal.KindOutput))
		r.eventually(id, "registered anew", func() bool {
			again := r.spec("again", "script", "complete")
			again.Here, again.ID = true, task.ID(fmt.Sprintf("again-%d-%d", r.n, time.Now().UnixNano()))
			_, err := i.Runtime().Submit(r.ctx, again)
			return err == nil
		})
	})
}

func TestRace_cancel_while_renewal_hangs(t *testing.T) {
	race(t, quick(), func(r *round) {
		i := r.fresh("i", short())
		id := r.id("t")
		s := r.spec("t", "script", "await never")
		s.Here = true
		r.submit(i.Runtime(), s)
		r.all(short().Lease*2/3, func() {
			i.Hang()
			r.pause(short().Lease * 4 / 3)
			i.Resume()
		}, func() {
			_, err := r.main().Cancel(r.ctx, id, &outlive.CancelOptions{Reason: "enough"})
			r.oneOf(id, "Cancel()", err)
		})
		rec := r.end(id)
		r.want(id, rec.State == task.Canceled && rec.CancelReason == "enough", "ended %s", rec.State)
	})
}

func TestRace_laptop_sleep(t *testing.T) {
	race(t, quick(), func(r *round) {
		i := r.fresh("i", short())
		id := r.id("t")
		s := r.spec("t", "command", "start; await end@; complete done")
		s.Here = true
		wait := r.watch(r.ctx, i.Runtime(), s, foreground.Policy{})
		r.eventually(id, "committed its start", func() bool { return r.get(id).StartCommitted })
		i.Hang()
		<-time.After(short().Lease*2/3 + time.Duration(r.chance(int(short().Lease))))
		i.Resume()
		r.pause(time.Millisecond)
		r.eventually(id, "followed again", func() bool { rec := r.get(id); return rec.Attempt > 1 || !rec.Lease.IsZero() })
		if err := i.Stop(r.ctx); err != nil {
			r.fail(id, "Stop() = %v", err)
		}
		r.signal("end")
		rec := r.end(id)
		out, err := wait()
		r.want(id, rec.State == task.Completed && err == nil && out.Task.State == task.Completed, "ended %s, Wait() = %v", rec.State, err)
		r.want(id, r.env.Started(id) <= 1, "started %d times", r.env.Started(id))
	})
}

func TestRace_claim_answer_lost(t *testing.T) {
	o := quick()
	o.Slots = 4
	race(t, o, func(r *round) {
		i := r.fresh("i", o)
		i.Lose(1 + r.chance(3))
		id := r.id("t")
		s := r.spec("t", "script", "emit one; complete done")
		s.Here = r.chance(2) == 0
		_, err := i.Runtime().Submit(r.ctx, s)
		r.oneOf(id, "Submit()", err)
		i.Lose(r.chance(3))
		rec := r.end(id)
		r.want(id, rec.State == task.Completed, "ended %s", rec.State)
		r.want(id, int64(r.env.Runs(id)) <= rec.Attempt, "attempt %d, ran %d times", rec.Attempt, r.env.Runs(id))
	})
}

func TestRace_two_managers(t *testing.T) {
	race(t, quick(), func(r *round) {
		r.env.Instance("a")
		r.env.Instance("b")
		ids := []task.ID{r.id("x"), r.id("y"), r.id("z")}
		var fns []func()
		for k, name := range []string{"x", "y", "z"} {
			fns = append(fns, func() {
				rt := r.env.Instance([]string{"a", "b", "main"}[k]).Runtime()
				r.submit(rt, r.spec(name, "script", "emit one; complete done"))
			})
		}
		r.all(brief, fns...)
		for _, id := range ids {
			rec := r.end(id)
			r.want(id, rec.State == task.Completed && rec.Attempt == 1 && r.env.Runs(id) == 1, "ran %d times", r.env.Runs(id))
		}
	})
}

func TestRace_two_adopters(t *testing.T) {
	race(t, quick(), func(r *round) {
		i := r.fresh("i", short())
		id := r.id("t")
		s := r.spec("t", "command", "start; await end@; complete done")
		s.Here = true
		r.submit(i.Runtime(), s)
		r.eventually(id, "committed its start", func() bool { return r.get(id).StartCommitted })
		if r.chance(2) == 0 {
			i.Crash()
		} else if err := i.Stop(r.ctx); err != nil {
			r.fail(id, "Stop() = %v", err)
		}
		a, b := r.fresh("a", short()), r.fresh("b", short())
		follow := func(rt *outlive.Runtime) func() {
			return func() {
				rec, err := rt.Wait(r.ctx, id, outlive.Terminal)
				r.want(id, err == nil && rec.State == task.Completed, "Wait() = %s, %v", rec.State, err)
			}
		}
		r.all(brief, follow(a.Runtime()), follow(b.Runtime()), func() {
			r.pause(3 * time.Millisecond)
			r.signal("end")
		})
		rec := r.end(id)
		r.want(id, rec.State == task.Completed && r.env.Started(id) <= 1, "ended %s, started %d times", rec.State, r.env.Started(id))
	})
}

func TestRace_stop_hook_fails(t *testing.T) {
	race(t, quick(), func(r *round) {
		id := r.submit(r.main(), r.spec("t", "outside", "start; await never ! retry busy | panic oops | mark hook@; stopped"))
		rec := r.state(id, task.Running)
		if r.chance(2) == 0 {
			// Nobody runs it when the cancel comes.
			r.eventually(id, "committed its start", func() bool { return r.get(id).StartCommitted })
			if _, err := r.step(id, task.Yield{Fence: task.Fence{Attempt: rec.Attempt, Lease: rec.Lease}}); err != nil {
				r.oneOf(id, "Yield", err, fault.Fenced)
			}
		}
		cancel := func() {
			_, err := r.main().Cancel(r.ctx, id, &outlive.CancelOptions{Reason: "enough"})
			r.oneOf(id, "Cancel()", err, fault.Finished)
		}
		r.all(brief, cancel, cancel)
		rec = r.end(id)
		r.want(id, rec.State == task.Canceled, "ended %s", rec.State)
	})
}

func TestRace_cancel_in_backoff(t *testing.T) {
	race(t, quick(), func(r *round) {
		s := r.spec("t", "script", "retry busy")
		s.MaxAttempts, s.Backoff = 4, task.Backoff{Initial: 300 * time.Microsecond, Max: time.Millisecond}
		id := r.submit(r.main(), s)
		var err error
		r.all(4*time.Millisecond, func() {
			_, err = r.main().Cancel(r.ctx, id, nil)
			r.oneOf(id, "Cancel()", err, fault.Finished)
		})
		rec := r.end(id)
		poison := rec.State == task.Failed && rec.Failure.Code == task.CodePoison && rec.Attempt == 4
		r.want(id, err == nil && rec.State == task.Canceled || err != nil && poison, "cancel %v, ended %s", err, rec.State)
	})
}

func TestRace_cancel_in_waiting(t *testing.T) {
	race(t, quick(), func(r *round) {
		id := r.submit(r.main(), r.spec("t", "script", "ask q | complete answered"))
		var err error
		r.all(brief, func() {
			_, err = r.main().Cancel(r.ctx, id, nil)
			r.oneOf(id, "Cancel()", err, fault.Finished)
		}, func() {
			r.eventually(id, "decided", func() bool {
				rec, err := r.step(id, task.Decide{Ticket: "q"})
				return err != nil || rec.Attempt > 0 && rec.State != task.Waiting && rec.State != task.Running
			})
		})
		rec := r.end(id)
		r.want(id, (err == nil) == (rec.State == task.Canceled), "cancel %v, ended %s", err, rec.State)
	})
}

func TestRace_cancel_unattended(t *testing.T) {
	race(t, quick(), func(r *round) {
		i := r.fresh("i", passive(quick()))
		id := r.id("t")
		s := r.spec("t", "command", "start; await end@; complete done ! mark hook@; stopped")
		s.Here = true
		r.submit(i.Runtime(), s)
		r.eventually(id, "committed its start", func() bool { return r.get(id).StartCommitted })
		if err := i.Stop(r.ctx); err != nil {
			r.fail(id, "Stop() = %v", err)
		}
		a, b := r.fresh("a", passive(quick())), r.fresh("b", passive(quick()))
		r.all(brief, func() {
			rec, err := a.Runtime().Wait(r.ctx, id, outlive.Terminal)
			r.want(id, err == nil && rec.State == task.Canceled, "Wait() = %s, %v", rec.State, err)
		}, func() {
			_, err := b.Runtime().Cancel(r.ctx, id, &outlive.CancelOptions{Reason: "enough"})
			r.oneOf(id, "Cancel()", err)
		})
		rec := r.end(id)
		r.want(id, rec.State == task.Canceled && r.count(id, journal.KindCancelRequested) == 1, "ended %s", rec.State)
	})
}

func TestRace_cancel_without_worker(t *testing.T) {
	race(t, quick(), func(r *round) {
		id := r.id("t")
		s := r.spec("t", "script", "complete done")
		s.Delay = time.Hour
		r.submit(r.main(), s)
		i := r.fresh("i", passive(quick()))
		ends := make([]error, 2)
		cancel := func(k int, rt *outlive.Runtime) func() {
			return func() {
				_, ends[k] = rt.Cancel(r.ctx, id, &outlive.CancelOptions{Reason: fmt.Sprint(k)})
				r.oneOf(id, "Cancel()", ends[k], fault.Finished)
			}
		}
		r.all(brief, cancel(0, r.main()), cancel(1, i.Runtime()))
		rec := r.get(id)
		r.want(id, rec.State == task.Canceled && (ends[0] == nil) != (ends[1] == nil), "ended %s, %v", rec.State, ends)
		r.want(id, ends[0] == nil == (rec.CancelReason == "0"), "the reason is %q", rec.CancelReason)
	})
}
