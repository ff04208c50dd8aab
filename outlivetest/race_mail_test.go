// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlivetest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/apply"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

func TestRace_late_input_read(t *testing.T) {
	race(t, quick(), func(r *round) {
		id := r.submit(r.main(), r.spec("t", "reads", "input 1; await go@; complete done | input 1; complete again"))
		if _, err := r.main().Send(r.ctx, id, mail.Input{ID: "first"}); err != nil {
			r.fail(id, "Send() = %v", err)
		}
		var second error
		r.all(brief, func() { r.signal("go") }, func() {
			_, second = r.main().Send(r.ctx, id, mail.Input{ID: "second"})
			r.oneOf(id, "Send()", second, fault.Finished)
		}, func() {
			_, err := r.main().Send(r.ctx, id, mail.Input{ID: "first"}) // again: never an error
			r.oneOf(id, "Send() again", err)
		})
		rec := r.end(id)
		want := int64(1)
		if second == nil {
			want = 2
		}
		r.want(id, rec.State == task.Completed && rec.LatestInput == want && rec.Unread() == 0, "latest %d, unread %d, want %d and none", rec.LatestInput, rec.Unread(), want)
	})
}

func TestRace_late_input_unread(t *testing.T) {
	race(t, quick(), func(r *round) {
		id := r.submit(r.main(), r.spec("t", "reads", "await go@; complete first | complete stubborn"))
		var err error
		r.all(brief, func() { r.signal("go") }, func() {
			_, err = r.main().Send(r.ctx, id, mail.Input{ID: "late"})
			r.oneOf(id, "Send()", err, fault.Finished)
		})
		rec := r.end(id)
		accepted := err == nil
		r.want(id, rec.State == task.Completed, "ended %s", rec.State)
		r.want(id, accepted == (rec.LatestInput == 1) && accepted == (r.count(id, journal.KindInputUnread) == 1) && accepted == (rec.Attempt == 2),
			"accepted %v, attempt %d", accepted, rec.Attempt)
	})
}

func TestRace_suspend_input_release(t *testing.T) {
	race(t, quick(), func(r *round) {
		id := r.submit(r.main(), r.spec("t", "reads", "await go@; suspend operator saved | input 1; complete done"))
		var released error
		r.all(brief, func() { r.signal("go") }, func() {
			_, err := r.main().Send(r.ctx, id, mail.Input{ID: "in", Delivery: mail.Steer})
			r.oneOf(id, "Send()", err)
		}, func() {
			_, released = r.main().Release(r.ctx, id)
			r.oneOf(id, "Release()", released, fault.Conflict)
		})
		if released != nil {
			rec := r.state(id, task.Suspended)
			r.want(id, rec.LatestInput == 1 && rec.ConsumedInput == 0, "input was lost")
			if _, err := r.main().Release(r.ctx, id); err != nil {
				r.fail(id, "Release() = %v", err)
			}
		}
		rec := r.end(id)
		r.want(id, rec.State == task.Completed && rec.Attempt == 2 && rec.ConsumedInput == 1, "ended %s, consumed %d", rec.State, rec.ConsumedInput)
	})
}

// child creates a parent-owned task under the hold, by an owner that knows its parent
// in its first generation.
func (r *round) child(id task.ID, h task.Hold) error {
	c := task.Create{Record: task.Record{
		ID: id, Executor: "reads.v1", ReadsInput: true, Parent: h.Parent, Owner: task.OwnerParent, Hold: h, Publication: task.Deferred,
		Spec: task.Payload{Media: "text/plain", Data: []byte("complete done")},
	}}
	return r.env.Store().Update(r.ctx, apply.CreateKeys(&c.Record), func(tx store.Tx) error {
		_, err := apply.CreateOwned(tx, c, 1)
		return err
	})
}

// boss starts a task that runs until the round is over, and returns its hold.
func (r *round) boss() task.Hold {
	id := r.submit(r.main(), r.spec("boss", "script", "await over@; complete"))
	rec := r.state(id, task.Running)
	return task.Hold{Parent: id, Attempt: rec.Attempt, Lease: rec.Lease}
}

func TestRace_handoff_nested_create(t *testing.T) {
	race(t, quick(), func(r *round) {
		h := r.boss()
		id, nested := r.id("c"), r.id("nested")
		if err := r.child(id, h); err != nil {
			r.fail(id, "create = %v", err)
		}
		below := h
		below.Parent = id
		var err error
		r.all(brief, func() {
			_, err := r.step(id, task.HandOff{Generation: 1})
			r.oneOf(id, "HandOff", err)
		}, func() {
			err = r.child(nested, below)
			r.oneOf(id, "nested create", err, fault.Fenced)
		})
		if again := r.child(r.id("late"), below); !fault.Is(again, fault.Fenced) {
			r.fail(id, "create by the old owner after the handoff = %v", again)
		}
		if _, err := r.step(id, task.Offer{Generation: 1}); !fault.Is(err, fault.Fenced) && !fault.Is(err, fault.Finished) {
			r.fail(id, "offer by the old owner after the handoff = %v", err)
		}
		rec := r.end(id)
		r.want(id, rec.State == task.Completed && rec.Publication == task.OnBackground, "ended %s", rec.State)
		if err == nil {
			kid := r.get(nested)
			r.want(nested, !kid.CreatedAt.After(r.handedOff(id)), "created after the handoff")
		}
		r.signal("over")
	})
}

// handedOff returns when the task was handed off.
func (r *round) handedOff(id task.ID) (at time.Time) {
	r.view(func(v store.View) error {
		list, err := v.Entries(journal.StreamID(id), 0, 0)
		for _, e := range list {
			if e.Kind == journal.KindHandedOff {
				at = e.At
			}
		}
		return err
	})
	return at
}

func TestRace_offer_input_seal_crash(t *testing.T) {
	race(t, quick(), func(r *round) {
		h := r.boss()
		id := r.id("c")
		if err := r.child(id, h); err != nil {
			r.fail(id, "create = %v", err)
		}
		var sent error
		legal := []fault.Kind{fault.Finished, fault.Conflict, fault.Fenced}
		r.all(brief, func() {
			_, err := r.step(id, task.Offer{Generation: 1, Result: task.Payload{Media: "text/plain", Data: []byte("first")}})
			r.oneOf(id, "Offer", err, legal...)
			r.pause(brief)
			_, err = r.step(id, task.Seal{Generation: 1})
			r.oneOf(id, "Seal", err, legal...)
		}, func() {
			_, sent = r.main().Send(r.ctx, id, mail.Input{ID: fmt.Sprint(r.n)})
			r.oneOf(id, "Send()", sent, fault.Finished)
		}, func() {
			_, err := r.step(id, task.Orphan{Generation: 1})
			r.oneOf(id, "Orphan", err, legal...)
		})
		rec := r.get(id)
		switch rec.State {
		case task.Completed:
			r.want(id, sent != nil && rec.Unread() == 0 && string(rec.Result.Data) == "first", "completed over unread input")
		case task.Failed:
			r.want(id, rec.Failure.Code == task.CodeOrphaned && rec.Failure.Outcome == task.OutcomeUnknown, "failed for %s", rec.Failure.Code)
		default:
			r.fail(id, "neither sealed nor orphaned")
		}
		r.signal("over")
	})
}

func TestRace_yield_mid_stream(t *testing.T) {
	race(t, quick(), func(r *round) {
		i := r.fresh("i", passive(quick()))
		s := r.spec("t", "script", "emit 1; emit 2; await go@; emit 3; yield a | emit 1; emit 2; emit 3; emit 4; yield b | emit 1; emit 2; emit 3; emit 4; final 5; complete done")
		s.Here = true
		id := r.submit(i.Runtime(), s)
		first := r.get(id)
		var accepted int
		stale := func() {
			e := journal.Entry{Stream: journal.StreamID(id), Event: "out", Part: "stale", Kind: journal.KindOutput, Data: []byte("stale")}
			err := r.env.Store().Update(r.ctx, apply.PartKeys(id, e), func(tx store.Tx) error {
				_, _, err := apply.Part(tx, id, task.Fence{Attempt: first.Attempt, Lease: first.Lease}, e, apply.PartOptions{})
				return err
			})
			r.oneOf(id, "a part of attempt 1", err, fault.Fenced)
			if err == nil {
				accepted = 1
			}
		}
		r.all(brief, func() { r.signal("go") }, stale, func() {
			if err := i.Stop(r.ctx); err != nil {
				r.fail(id, "Stop() = %v", err)
			}
		})
		rec := r.end(id)
		r.want(id, rec.State == task.Completed && r.count(id, journal.KindOutput) == 5+accepted, "ended %s with %d parts", rec.State, r.count(id, journal.KindOutput))
	})
}
