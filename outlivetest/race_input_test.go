// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlivetest_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/session"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// A message meets the seal: one of accepted and not sealed over, or sealed and refused.
func TestRace_seal_send(t *testing.T) {
	race(t, quick(), func(r *round) {
		h := r.boss()
		id := r.id("c")
		if err := r.child(id, h); err != nil {
			r.fail(id, "create = %v", err)
		}
		if _, err := r.step(id, task.Offer{Generation: 1, Result: task.Payload{Data: []byte("offered")}}); err != nil {
			r.fail(id, "Offer = %v", err)
		}
		var sent error
		var sealed task.Record
		r.all(brief, func() {
			var err error
			sealed, err = r.step(id, task.Seal{Generation: 1})
			r.oneOf(id, "Seal", err)
		}, func() {
			_, sent = r.main().Send(r.ctx, id, mail.Input{ID: "m"})
			r.oneOf(id, "Send()", sent, fault.Finished)
		})
		rec := r.get(id)
		if sent == nil {
			r.want(id, sealed.State == task.Running && rec.LatestInput == 1 && rec.Unread() == 1 && rec.Candidate == nil, "sealed over a message")
		} else {
			r.want(id, rec.State == task.Completed && rec.LatestInput == 0, "refused by a task that is %s", rec.State)
		}
		_, again := r.main().Send(r.ctx, id, mail.Input{ID: "m"})
		r.want(id, (again == nil) == (sent == nil), "sent again: %v, first %v", again, sent)
		r.signal("over")
	})
}

// A turn that has read its input is preempted while it works: what it read comes again
// together with the steering message, in order, and is consumed once.
func TestRace_preempted_input(t *testing.T) {
	race(t, quick(), func(r *round) {
		id := r.submit(r.main(), r.spec("t", "reads", "input 1; await go@; yield | input 2; commit both; complete done"))
		if _, err := r.main().Send(r.ctx, id, mail.Input{ID: "first"}); err != nil {
			r.fail(id, "Send() = %v", err)
		}
		r.eventually(id, "the first is read", func() bool { return r.env.Count(fmt.Sprintf("read/%s/1", id)) == 1 })
		r.all(brief, func() { r.signal("go") }, func() {
			_, err := r.main().Send(r.ctx, id, mail.Input{ID: "steer", Delivery: mail.Steer})
			r.oneOf(id, "Send()", err)
		})
		rec := r.end(id)
		r.want(id, rec.State == task.Completed && rec.Unread() == 0 && rec.ConsumedInput == 2, "ended %s, %d unread", rec.State, rec.Unread())
		for seq, want := range map[int]int{1: 2, 2: 1} {
			if n := r.env.Count(fmt.Sprintf("read/%s/%d", id, seq)); n != want {
				r.fail(id, "input %d was read %d times, want %d", seq, n, want)
			}
		}
	})
}

// A process is drained while its turn reads and acknowledges: what was acknowledged
// with a checkpoint does not come again, what was not does.
func TestRace_drained_input(t *testing.T) {
	race(t, quick(), func(r *round) {
		i := r.fresh("i", passive(quick()))
		s := r.spec("t", "reads", "input 1; commit one; await over@ | input 1; commit more; await over@; complete | input 1; commit more; complete done")
		s.Here = true
		id := r.submit(i.Runtime(), s)
		send := func(name string) {
			_, err := r.main().Send(r.ctx, id, mail.Input{ID: name})
			r.oneOf(id, "Send("+name+")", err, fault.Finished)
		}
		r.all(brief, func() { send("a") }, func() {
			if err := i.Stop(r.ctx); err != nil {
				r.fail(id, "Stop() = %v", err)
			}
		})
		r.eventually(id, "another attempt", func() bool { return r.get(id).Attempt >= 2 })
		send("b")
		r.signal("over")
		rec := r.end(id)
		r.want(id, rec.State == task.Completed, "ended %s", rec.State)
		// Whoever acknowledged did so once: the cursor moved with each commit, and input
		// below it was never read by a later attempt.
		for seq := int64(1); seq <= rec.ConsumedInput; seq++ {
			n := r.env.Count(fmt.Sprintf("read/%s/%d", id, seq))
			r.want(id, n >= 1 && int64(n) <= rec.Attempt, "input %d was read %d times in %d attempts", seq, n, rec.Attempt)
		}
	})
}

// The former owner tries every write it has while its task is handed off: what it does
// after the handoff is fenced, whatever it is.
func TestRace_handoff_stale_writes(t *testing.T) {
	var handed atomic.Int32
	race(t, quick(), func(r *round) {
		h := r.boss()
		defer r.signal("over")
		id := r.id("c")
		if err := r.child(id, h); err != nil {
			r.fail(id, "create = %v", err)
		}
		all := staleWrites(id, h, 1)
		at := r.chance(len(all))
		r.all(brief, func() {
			_, err := r.step(id, task.HandOff{Generation: 1, Suspend: true, Checkpoint: &task.Checkpoint{Format: "text", Version: 1, Data: []byte("mine")}})
			r.oneOf(id, "HandOff", err, fault.Finished, fault.Fenced)
		}, func() {
			// Before, it is the owner: what the state allows is allowed.
			_ = r.env.Store().Update(r.ctx, all[at].keys, all[at].do)
		})
		rec := r.get(id)
		if rec.State != task.Suspended {
			return // its owner ended it first, orphaned it, or handed it off itself
		}
		handed.Add(1)
		before := rec.Version
		for _, w := range all {
			if err := r.env.Store().Update(r.ctx, w.keys, w.do); !fault.Is(err, fault.Fenced) {
				r.fail(id, "%s by the former owner = %v", w.name, err)
			}
		}
		rec = r.get(id)
		r.want(id, rec.Version == before, "something of it was written")
		if _, err := r.main().Release(r.ctx, id); err != nil {
			r.fail(id, "Release() = %v", err)
		}
		r.end(id)
	})
	if n := int(handed.Load()); 2*n < *rounds {
		t.Errorf("%d of %d tasks were handed off: too few to prove anything", n, *rounds)
	}
}

// Children end while their parent is sealed: each end is committed, and its notice is
// read by whoever reads input above, once.
func TestRace_parent_sealed(t *testing.T) {
	race(t, quick(), func(r *round) {
		top := r.submit(r.main(), r.spec("top", "reads", "input 2; complete done | input 1; complete done"))
		s := r.spec("mid", "reads", "await go@; complete | complete")
		s.Parent = top
		mid := r.submit(r.main(), s)
		s = r.spec("kid", "script", "await go@; complete kid")
		s.Parent = mid
		kid := r.submit(r.main(), s)
		r.all(brief, func() { r.signal("go") })
		r.end(mid)
		rec := r.end(kid)
		r.want(kid, rec.State == task.Completed, "ended %s", rec.State)
		told := 0
		for _, id := range []task.ID{mid, top} {
			ins, err := r.main().Inputs(r.ctx, id, 0, store.MaxPage)
			if err != nil {
				r.fail(id, "Inputs() = %v", err)
			}
			for _, in := range ins {
				if in.From == string(kid) && in.Kind == "child.completed" {
					told++
				}
			}
		}
		r.want(kid, told == 1, "its end was told %d times", told)
		_, err := r.main().Cancel(r.ctx, top, nil)
		r.oneOf(top, "Cancel()", err, fault.Finished)
		r.end(top)
	})
}

// The process is killed at random moments of a turn that reads, writes, saves,
// acknowledges and asks, and of a turn that is interrupted: everything ends, input is
// consumed once, parts are there once, and the session goes on.
func TestRace_crash_every_step(t *testing.T) {
	o := short()
	o.Passive = false
	race(t, o, func(r *round) {
		const steps = "input 1; emit a; save cp; emit b; commit one; ask q"
		s := r.spec("t", "reads", steps+" | input 1; emit a; save cp; emit b; commit one; ask q | emit a; emit b; ask q; | complete done")
		sid := task.SessionID(fmt.Sprintf("crash-%d", r.n))
		s.Session = sid
		i := r.fresh("i", short())
		s.Here = true
		id := r.submit(i.Runtime(), s)
		if _, err := r.main().Send(r.ctx, id, mail.Input{ID: "one"}); err != nil {
			r.fail(id, "Send() = %v", err)
		}
		next := r.spec("next", "reads", "complete second")
		next.Session, next.Busy = sid, session.Interrupt
		r.all(5*time.Millisecond, i.Crash, func() {
			if _, err := r.main().Submit(r.ctx, next); err != nil {
				r.fail(id, "Submit() = %v", err)
			}
		})
		r.end(id)
		var last task.Record
		r.eventually(id, "the session is idle after two turns", func() bool {
			v, err := r.main().Session(r.ctx, sid)
			if err != nil || v.Active != "" || v.Turns < 2 {
				return false
			}
			list, err := r.main().List(r.ctx, store.Filter{Session: sid, Limit: 1})
			if err != nil || len(list) == 0 {
				return false
			}
			last = list[0]
			return true
		})
		r.want(last.ID, last.State == task.Completed && string(last.Result.Data) == "second", "the last turn is %s", last.State)
		seen := map[string]int{}
		for e, err := range r.main().SessionEvents(context.WithoutCancel(r.ctx), sid, &outlive.EventsOptions{NoFollow: true}) {
			if err != nil {
				r.fail(id, "events: %v", err)
				return
			}
			if e.Kind == journal.KindOutput {
				seen[e.Task+e.Part]++
			}
		}
		for part, n := range seen {
			r.want(id, n == 1, "part %s is there %d times", part, n)
		}
	})
}
