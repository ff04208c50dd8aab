// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlivetest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/session"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// Two start a task in one session at the same instant: the outcome is the policy's,
// and there are never two unfinished tasks.
func TestRace_session_two_starts(t *testing.T) {
	policies := []session.Policy{session.Enqueue, session.Reject, session.Steer, session.Interrupt, session.Rollback}
	race(t, quick(), func(r *round) {
		p := policies[r.n%len(policies)]
		sid := task.SessionID(fmt.Sprintf("session-%d", r.n))
		start := func(name string) (task.Record, error) {
			s := r.spec(name, "reads", "input 9; complete | complete done")
			s.Session, s.Busy = sid, p
			return r.main().Submit(r.ctx, s)
		}
		var recs [2]task.Record
		var errs [2]error
		r.all(brief, func() { recs[0], errs[0] = start("a") }, func() { recs[1], errs[1] = start("b") })
		refused := 0
		for i, err := range errs {
			if err != nil {
				refused++
				r.oneOf(recs[i].ID, "Submit()", err, fault.Conflict)
			}
		}
		turns := map[task.ID]task.Record{}
		unfinished := 0
		for _, name := range []string{"a", "b"} {
			r.view(func(v store.View) error {
				if rec, ok, err := v.Task(r.id(name)); err != nil || ok {
					turns[rec.ID] = rec
					if !rec.State.Terminal() {
						unfinished++
					}
					return err
				}
				return nil
			})
		}
		id := recs[0].ID
		r.want(id, unfinished <= 1 && len(turns) == 1, "%d unfinished of %d turns with own ids", unfinished, len(turns))
		r.want(id, (p == session.Reject) == (refused == 1), "policy %s refused %d", p, refused)
		if p == session.Enqueue || p == session.Steer {
			r.want(id, recs[0].ID == recs[1].ID, "two tasks: %s, %s", recs[0].ID, recs[1].ID)
		}
		if p == session.Interrupt || p == session.Rollback {
			r.eventually(id, "the successor", func() bool {
				s, err := r.main().Session(r.ctx, sid)
				return err == nil && s.Turns == 2
			})
		}
		// The stream of the session is dense, and tells the turns one after another.
		s, err := r.main().Session(r.ctx, sid)
		if err != nil {
			r.fail(id, "Session() = %v", err)
			return
		}
		running := ""
		r.view(func(v store.View) error {
			list, err := v.Entries(journal.StreamID(sid), 0, store.MaxPage)
			for i, e := range list {
				r.want(id, e.Seq == int64(i+1), "entry %d has seq %d", i, e.Seq)
				switch {
				case e.Kind == journal.KindCreated:
					r.want(id, running == "", "%s began before %s ended", e.Task, running)
					running = e.Task
				case journal.Terminal(e.Kind):
					running = ""
				}
			}
			return err
		})
		if s.Active != "" {
			if _, err := r.main().Cancel(context.WithoutCancel(r.ctx), s.Active, nil); err != nil {
				r.oneOf(s.Active, "Cancel()", err, fault.Finished)
			}
			r.end(s.Active)
		}
	})
}

// Two decide a ticket at once, while it is withdrawn by a cancel: one decision counts.
func TestRace_two_deciders(t *testing.T) {
	race(t, quick(), func(r *round) {
		id := r.submit(r.main(), r.spec("t", "reads", "ask q | complete done"))
		r.state(id, task.Waiting)
		var errs [2]error
		decide := func(i int) func() {
			return func() {
				_, errs[i] = r.main().Answer(r.ctx, id, "q", mail.Decision{Verdict: mail.Answered, Value: []byte{byte(i)}, By: fmt.Sprint(i)})
				r.oneOf(id, "Answer()", errs[i], fault.Conflict, fault.Finished)
			}
		}
		fns := []func(){decide(0), decide(1)}
		canceled := r.n%2 == 0
		if canceled {
			fns = append(fns, func() {
				_, err := r.main().Cancel(r.ctx, id, nil)
				r.oneOf(id, "Cancel()", err, fault.Finished)
			})
		}
		r.all(brief, fns...)
		rec := r.end(id)
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			}
		}
		r.want(id, won == 1 || canceled && won == 0 && rec.State == task.Canceled, "%d decisions won", won)
		rows, err := r.main().Tickets(r.ctx, id)
		if err != nil || len(rows) != 1 || rows[0].Open() {
			r.fail(id, "tickets %+v, %v", rows, err)
			return
		}
		r.want(id, (won == 1) == (rows[0].Decision.Verdict == mail.Answered), "decided %s, %d won", rows[0].Decision.Verdict, won)
	})
}

// Twelve continue one session at once: all reach one task, each message once.
func TestRace_twelve_continues(t *testing.T) {
	race(t, quick(), func(r *round) {
		sid := task.SessionID(fmt.Sprintf("twelve-%d", r.n))
		first := r.spec("t", "reads", "input 12; complete done")
		first.Session = sid
		id := r.submit(r.main(), first)
		var fns []func()
		for i := range 12 {
			fns = append(fns, func() {
				s := r.spec(fmt.Sprint("m", i), "reads", "complete")
				s.Session, s.Invocation = sid, fmt.Sprint("m", i)
				for range 2 { // a client that asks again
					rec, err := r.main().Submit(r.ctx, s)
					if err != nil || rec.ID != id {
						r.fail(id, "Submit() = %s, %v", rec.ID, err)
					}
				}
			})
		}
		r.all(brief, fns...)
		rec := r.end(id)
		r.want(id, rec.State == task.Completed && rec.LatestInput == 12 && rec.ConsumedInput == 12, "%d inputs, %d consumed", rec.LatestInput, rec.ConsumedInput)
	})
}

// Children end before, while and after their parent asks for them: it goes on exactly
// when all have ended, with a notice of each, stored once.
func TestRace_children_end(t *testing.T) {
	race(t, quick(), func(r *round) {
		id, kids := r.parent("p")
		rec := r.end(id)
		r.want(id, rec.State == task.Completed, "ended %s", rec.State)
		seen := map[string]int{}
		ins, err := r.main().Inputs(r.ctx, id, 0, store.MaxPage)
		if err != nil {
			r.fail(id, "Inputs() = %v", err)
		}
		for _, in := range ins {
			if in.Kind == "child.completed" {
				seen[in.From]++
			}
		}
		for _, kid := range kids {
			r.want(id, seen[string(kid)] == 1, "%d notices of %s", seen[string(kid)], kid)
		}
	})
}

// parent starts a task that spawns three children and waits for all of them.
func (r *round) parent(name string) (task.ID, []task.ID) {
	id := r.id(name)
	var kids []task.ID
	for i := range 3 {
		kids = append(kids, r.id(fmt.Sprintf("%s-kid%d", name, i)))
	}
	r.submit(r.main(), outlive.Spec{ID: id, Executor: "parent.v1"})
	return id, kids
}

// parents is the executor of such tasks.
func parents() work.Executor {
	return work.Executor{
		Key: "parent.v1", ReadsInput: true, OnLeaseLoss: task.LoseRetry, Drains: true,
		Run: func(ctx context.Context, a *work.Attempt) work.Result {
			var kids []task.ID
			var n int
			if _, err := fmt.Sscanf(string(a.ID()), "p-%d", &n); err != nil {
				return work.Fail("id", err.Error())
			}
			for i := range 3 {
				kid := task.ID(fmt.Sprintf("p-kid%d-%d", i, n))
				_, err := a.Spawn(ctx, work.Child{
					ID: kid, Invocation: fmt.Sprint(i), Executor: "script.v1",
					Input: task.Payload{Media: "text/plain", Data: fmt.Appendf(nil, "sleep %dus; complete done", (n*7+i*131)%900)},
				})
				if err != nil {
					return work.Retry("spawn", err.Error())
				}
				kids = append(kids, kid)
				if i == 0 { // its end may come first
					select {
					case <-time.After(450 * time.Microsecond):
					case <-ctx.Done():
					}
				}
			}
			row, err := a.Ticket(ctx, "kids")
			if err != nil || row.Open() {
				return work.Ask(nil, true, work.Children("kids", true, kids...))
			}
			done := work.Done(task.Payload{})
			done.Cursor = a.Task().LatestInput
			return done
		},
	}
}
