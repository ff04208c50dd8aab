// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlivetest_test

import (
	"fmt"
	"testing"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/apply"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// A child ends before, while and after its parent is handed off to wait for it: the
// parent goes on, once, and has one notice of the end.
func TestRace_child_end_handoff(t *testing.T) {
	race(t, quick(), func(r *round) {
		h := r.boss()
		id := r.id("c")
		if err := r.child(id, h); err != nil {
			r.fail(id, "create = %v", err)
		}
		s := r.spec("kid", "script", "await end@; complete done")
		s.Parent = id
		kid := r.submit(r.main(), s)
		r.all(brief, func() { r.signal("end") }, func() {
			err := r.env.Store().Update(r.ctx, apply.Keys(id), func(tx store.Tx) error {
				_, err := apply.HandOff(tx, id, task.HandOff{Generation: 1, All: true}, []mail.Ticket{work.Children("kids", true, kid)})
				return err
			})
			r.oneOf(id, "HandOff", err)
		})
		rec := r.end(id)
		r.want(id, rec.State == task.Completed, "ended %s", rec.State)
		r.end(kid)
		ends := 0
		ins, err := r.main().Inputs(r.ctx, id, 0, store.MaxPage)
		for _, in := range ins {
			if in.Kind == "child.completed" {
				ends++
			}
		}
		r.want(id, err == nil && ends == 1, "%d notices of the end, %v", ends, err)
		rows, err := r.main().Tickets(r.ctx, id)
		r.want(id, err == nil && len(rows) == 1 && rows[0].Decision != nil && rows[0].Decision.Verdict == mail.Ended, "tickets %+v, %v", rows, err)
		r.signal("over")
	})
}

// A sender edits and withdraws while the executor consumes: what was consumed stays as
// it was read, and what was withdrawn was not consumed before.
func TestRace_withdraw_consume(t *testing.T) {
	race(t, quick(), func(r *round) {
		id := r.submit(r.main(), r.spec("t", "reads", "await go@; input 1; commit read; await over@; complete | complete done"))
		if _, err := r.main().Send(r.ctx, id, mail.Input{ID: "m", Data: []byte("first"), From: "ann"}); err != nil {
			r.fail(id, "Send() = %v", err)
		}
		var edited, withdrawn error
		r.all(brief, func() { r.signal("go") }, func() {
			_, edited = r.main().Edit(r.ctx, id, mail.Input{ID: "m", Data: []byte("second"), From: "ann"})
			r.oneOf(id, "Edit()", edited, fault.Conflict)
		}, func() {
			_, withdrawn = r.main().Withdraw(r.ctx, id, "m", "ann")
			r.oneOf(id, "Withdraw()", withdrawn, fault.Conflict)
		})
		r.eventually(id, "consumed", func() bool { return r.get(id).ConsumedInput == 1 })
		ins, err := r.main().Inputs(r.ctx, id, 0, 0)
		if err != nil || len(ins) != 1 {
			r.fail(id, "inputs %v, %v", ins, err)
			return
		}
		want := "first"
		if edited == nil {
			want = "second"
		}
		if withdrawn == nil {
			want = ""
		}
		r.want(id, string(ins[0].Data) == want && (ins[0].Kind == "withdrawn") == (withdrawn == nil), "content %q, want %q", ins[0].Data, want)
		if _, late := r.main().Withdraw(r.ctx, id, "m", "ann"); !fault.Is(late, fault.Conflict) {
			r.fail(id, "Withdraw() of what is consumed = %v", late)
		}
		r.signal("over")
		rec := r.end(id)
		r.want(id, rec.State == task.Completed && rec.Unread() == 0, "%s, %d unread", rec.State, rec.Unread())
	})
}

// A steer meets the decision of the ticket that the task waits for: it goes on, and
// neither is lost.
func TestRace_steer_decide(t *testing.T) {
	race(t, quick(), func(r *round) {
		id := r.submit(r.main(), r.spec("t", "reads", "ask q | ask q | complete done"))
		r.state(id, task.Waiting)
		var steered error
		r.all(brief, func() {
			_, steered = r.main().Send(r.ctx, id, mail.Input{ID: fmt.Sprint("s", r.n), Delivery: mail.Steer})
			r.oneOf(id, "Send()", steered, fault.Finished)
		}, func() {
			_, err := r.main().Answer(r.ctx, id, "q", mail.Decision{Verdict: mail.Answered, Value: []byte("x")})
			r.oneOf(id, "Answer()", err)
		})
		rec := r.end(id)
		want := int64(2)
		if steered != nil {
			want = 1 // the answer alone
		}
		r.want(id, rec.State == task.Completed && rec.LatestInput == want, "%s with %d inputs", rec.State, rec.LatestInput)
	})
}
