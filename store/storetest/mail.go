// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/session"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

func testTickets(t *testing.T, o *Options) {
	st := o.New(t)
	row := mail.Ticket{
		Task: "a", ID: "q", Kind: mail.Question, Prompt: "Deploy?", Schema: json.RawMessage(`{"type":"string"}`), Options: []string{"yes", "no"},
		ArgsDigest: "d", OpenedAt: at(1), ExpiresAt: at(2),
	}
	keys := []store.Key{store.TicketKey("a", "q"), store.TicketKey("a", "r"), store.TicketKey("a\x00q", ""), store.TicketKey("b", "q")}
	decided := row
	decided.Decision = &mail.Decision{Verdict: mail.Answered, Value: []byte{0, 255}, By: "ann", At: at(3)}
	update(t, st, keys, func(tx store.Tx) error {
		if _, ok := tx.Ticket("a", "q"); ok {
			t.Error("a ticket that was never put is there")
		}
		tx.PutTicket(row)
		got, _ := tx.Ticket("a", "q")
		if d := cmp.Diff(row, got); d != "" {
			t.Errorf("Ticket after PutTicket (-want +got):\n%s", d)
		}
		got.Options[0] = "changed"
		if again, _ := tx.Ticket("a", "q"); again.Options[0] != "yes" {
			t.Error("a returned ticket is shared")
		}
		for _, id := range []string{"r", "s"} {
			other := row
			if other.ID = id; id == "s" {
				other.Task, other.ID = "b", "q"
			}
			tx.PutTicket(other)
		}
		return nil
	})
	update(t, st, keys, func(tx store.Tx) error {
		tx.PutTicket(decided)
		return nil
	})
	view(t, st, func(v store.View) error {
		got, ok, err := v.Ticket("a", "q")
		if d := cmp.Diff(decided, got); !ok || err != nil || d != "" {
			t.Errorf("Ticket = %v, %v (-want +got):\n%s", ok, err, d)
		}
		if _, ok, err := v.Ticket("a", "x"); ok || err != nil {
			t.Errorf("an unknown ticket: %v, %v", ok, err)
		}
		all, err := v.Tickets("a", "", 0)
		if err != nil || len(all) != 2 || all[0].ID != "q" || all[1].ID != "r" {
			t.Errorf("Tickets = %v, %v", all, err)
		}
		all, err = v.Tickets("a", "q", 1)
		if err != nil || len(all) != 1 || all[0].ID != "r" {
			t.Errorf("Tickets after q = %v, %v", all, err)
		}
		return nil
	})
}

func testHeldBy(t *testing.T, o *Options) {
	st := o.New(t)
	child := func(id task.ID, owner task.Owner, state task.State) task.Record {
		r := pending(id, at(0))
		r.Parent, r.Owner, r.State = "p", owner, state
		return r
	}
	put(t, st, child("a", task.OwnerParent, task.Running), child("b", task.OwnerParent, task.Completed), child("c", task.OwnerManager, task.Running))
	view(t, st, func(v store.View) error {
		list, err := v.Driven("", 0)
		if d := cmp.Diff([]task.ID{"a"}, ids(list)); err != nil || d != "" {
			t.Errorf("Driven, %v (-want +got):\n%s", err, d)
		}
		list, err = v.Driven("a", 0)
		if err != nil || len(list) != 0 {
			t.Errorf("Driven after a = %v, %v", ids(list), err)
		}
		return nil
	})
	update(t, st, []store.Key{store.HeldKey("p"), store.HeldKey("q"), store.TaskKey("d"), store.TaskKey("a")}, func(tx store.Tx) error {
		if n, none := tx.Held("p"), tx.Held("q"); n != 1 || none != 0 {
			t.Errorf("Held = %d, %d, want 1, 0", n, none)
		}
		tx.PutTask(child("d", task.OwnerParent, task.Running))
		if n := tx.Held("p"); n != 2 {
			t.Errorf("Held after a create = %d, want 2", n)
		}
		tx.PutTask(child("a", task.OwnerParent, task.Failed))
		tx.PutTask(child("d", task.OwnerManager, task.Pending))
		if n := tx.Held("p"); n != 0 {
			t.Errorf("Held after the end and a handoff = %d, want 0", n)
		}
		return nil
	})
	update(t, st, []store.Key{store.HeldKey("p")}, func(tx store.Tx) error {
		if n := tx.Held("p"); n != 0 {
			t.Errorf("Held after the commit = %d, want 0", n)
		}
		return nil
	})
}

func testSessions(t *testing.T, o *Options) {
	st := o.New(t)
	start := pending("t", at(0))
	start.Spec = task.Payload{Media: "text/plain", Data: []byte("go")}
	row := session.Session{
		ID: "s2", Principal: "ann", Tenant: "x", Policy: session.Steer, Active: "t", Turns: 3, Start: &start, Latest: 4, Waiting: 1,
		CreatedAt: at(1), UpdatedAt: at(2),
	}
	keys := []store.Key{store.SessionKey("s1"), store.SessionKey("s2"), store.SessionKey("s3")}
	update(t, st, keys, func(tx store.Tx) error {
		if _, ok := tx.Session("s2"); ok {
			t.Error("a session that was never put is there")
		}
		for _, id := range []task.SessionID{"s3", "s1", "s2"} {
			other := row
			other.ID = id
			tx.PutSession(other)
		}
		got, _ := tx.Session("s2")
		if d := cmp.Diff(row, got); d != "" {
			t.Errorf("Session after PutSession (-want +got):\n%s", d)
		}
		got.Start.Spec.Data[0] = 'x'
		if again, _ := tx.Session("s2"); string(again.Start.Spec.Data) != "go" {
			t.Error("a returned session is shared")
		}
		return nil
	})
	view(t, st, func(v store.View) error {
		got, ok, err := v.Session("s2")
		if d := cmp.Diff(row, got); !ok || err != nil || d != "" {
			t.Errorf("Session = %v, %v (-want +got):\n%s", ok, err, d)
		}
		all, err := v.Sessions("s1", 2)
		if err != nil || len(all) != 2 || all[0].ID != "s2" || all[1].ID != "s3" {
			t.Errorf("Sessions after s1 = %v, %v", all, err)
		}
		return nil
	})
}

func delivery(target, id string, seq int64) store.Delivery {
	return store.Delivery{Target: target, Seq: seq, At: at(1), Message: mail.Input{ID: id, Kind: "k", Data: []byte(id), At: at(1)}}
}

func testOutbox(t *testing.T, o *Options) {
	st := o.New(t)
	names := func(list []store.Delivery) (ids []string) {
		for _, d := range list {
			ids = append(ids, d.Message.ID)
		}
		return ids
	}
	keys := []store.Key{store.OutboxKey("x")}
	for _, id := range []string{"a", "b", "c", "d"} {
		keys = append(keys, store.DeliveryKey("x", id))
	}
	update(t, st, keys, func(tx store.Tx) error {
		tx.PutDelivery(delivery("x", "b", 1))
		tx.PutDelivery(delivery("x", "a", 2))
		late := delivery("x", "c", 0)
		late.At, late.Due = at(2), at(5)
		tx.PutDelivery(late)
		if d := cmp.Diff([]string{"b", "a", "c"}, names(tx.Outbox("x"))); d != "" {
			t.Errorf("Outbox (-want +got):\n%s", d)
		}
		return nil
	})
	update(t, st, keys, func(tx store.Tx) error {
		if d := cmp.Diff([]string{"b", "a", "c"}, names(tx.Outbox("x"))); d != "" {
			t.Errorf("Outbox after the commit (-want +got):\n%s", d)
		}
		tx.DropDelivery("x", "b")
		tx.PutDelivery(delivery("x", "d", 0))
		if _, ok := tx.Delivery("x", "b"); ok {
			t.Error("a dropped message is there")
		}
		if d := cmp.Diff([]string{"d", "a", "c"}, names(tx.Outbox("x"))); d != "" {
			t.Errorf("Outbox after changes (-want +got):\n%s", d)
		}
		return nil
	})
	update(t, st, []store.Key{store.DeliveryKey("y", "e")}, func(tx store.Tx) error {
		e := delivery("y", "e", 0)
		e.Due = at(4)
		tx.PutDelivery(e)
		return nil
	})
	view(t, st, func(v store.View) error {
		for now, want := range map[int][]string{3: nil, 4: {"e"}, 5: {"e", "c"}} {
			list, err := v.Due(at(now), 0)
			if d := cmp.Diff(want, names(list), cmpopts.EquateEmpty()); err != nil || d != "" {
				t.Errorf("Due at %d, %v (-want +got):\n%s", now, err, d)
			}
		}
		list, err := v.Outbox("x", 2)
		if d := cmp.Diff([]string{"d", "a"}, names(list)); err != nil || d != "" {
			t.Errorf("Outbox, %v (-want +got):\n%s", err, d)
		}
		return nil
	})
	update(t, st, keys, func(tx store.Tx) error {
		c, _ := tx.Delivery("x", "c")
		c.Dead, c.Tries, c.Failure = "gave up", 9, "refused"
		tx.PutDelivery(c)
		return nil
	})
	view(t, st, func(v store.View) error {
		list, err := v.Due(at(100), 0)
		if d := cmp.Diff([]string{"e"}, names(list)); err != nil || d != "" {
			t.Errorf("Due with a dead message, %v (-want +got):\n%s", err, d)
		}
		list, err = v.Outbox("x", 0)
		if err != nil || len(list) != 3 || list[2].Dead != "gave up" || string(list[2].Message.Data) != "c" || !list[2].Due.Equal(at(5)) {
			t.Errorf("Outbox = %+v, %v", list, err)
		}
		return nil
	})
}

// A task that is forgotten goes in bounded steps, its own row last.
func testForget(t *testing.T, o *Options) {
	st := o.New(t)
	const n = 25
	fill := func(id task.ID, state task.State) {
		r := pending(id, at(0))
		r.State, r.Parent, r.LatestInput = state, "p", n
		keys := []store.Key{store.TaskKey(id), store.StreamKey(journal.StreamID(id)), store.EventKey(journal.StreamID(id), "e"), store.ObserversKey(id)}
		for i := range n {
			keys = append(keys, store.InputKey(id, fmt.Sprint(i)), store.TicketKey(id, task.TicketID(fmt.Sprint(i))))
		}
		update(t, st, keys, func(tx store.Tx) error {
			tx.PutTask(r)
			for i := range n {
				tx.Append(journal.Entry{Stream: journal.StreamID(id), Task: string(id), Kind: "k", Event: "e", Part: fmt.Sprint(i)})
				tx.PutInput(input(id, int64(i+1), fmt.Sprint(i)))
				tx.PutTicket(mail.Ticket{Task: string(id), ID: fmt.Sprint(i)})
			}
			tx.PutObserver(store.Observer{Task: id, ID: "o", CreatedAt: at(0)})
			tx.PutTimer(store.Timer{Kind: string(task.AlarmRetention), Subject: string(id), Due: at(1)})
			return nil
		})
	}
	fill("a", task.Completed)
	fill("ab", task.Completed)
	fill("live", task.Pending)
	forget := func(id task.ID) (left bool) {
		update(t, st, []store.Key{store.TaskKey(id)}, func(tx store.Tx) error {
			tx.ForgetTask(id, 10)
			return nil
		})
		_, left = get(t, st, id)
		return left
	}
	steps := 1
	for ; forget("a"); steps++ {
		if steps > 50 {
			t.Fatal("it never goes")
		}
	}
	if steps < 3*n/10 {
		t.Errorf("%d rows went in %d steps of 10", 3*n, steps)
	}
	forget("live")
	for id, want := range map[task.ID]int{"a": 0, "ab": n, "live": n} {
		view(t, st, func(v store.View) error {
			ins, err1 := v.Inputs(id, 0, 0)
			ts, err2 := v.Tickets(id, "", 0)
			obs, err3 := v.Observers(id)
			if len(ins) != want || len(ts) != want || len(entries(t, st, journal.StreamID(id))) != want || len(obs) != min(want, 1) {
				t.Errorf("task %s has %d inputs, %d tickets, %d observers, want %d (%v, %v, %v)", id, len(ins), len(ts), len(obs), want, err1, err2, err3)
			}
			return nil
		})
	}
	view(t, st, func(v store.View) error {
		kids, err := v.Children("p", "", 0)
		due, err2 := v.Timers(at(2), 0)
		counts, err3 := v.Counts()
		if len(kids) != 2 || len(due) != 2 || counts[task.Completed] != 1 {
			t.Errorf("children %v, timers %v, counts %v (%v, %v, %v)", ids(kids), due, counts, err, err2, err3)
		}
		return nil
	})
	update(t, st, []store.Key{store.TaskKey("a"), store.StreamKey("a"), store.EventKey("a", "e"), store.PartKey("a", "e", "3")}, func(tx store.Tx) error {
		if _, ok := tx.Task("a"); ok || tx.Head("a").Seq != 0 || tx.Tail("a", "e") != (journal.Tail{}) {
			t.Error("something of the task is left")
		}
		if _, ok := tx.Part("a", "e", "3"); ok {
			t.Error("a part is left")
		}
		return nil
	})
}

func testExpiredInvocations(t *testing.T, o *Options) {
	st := o.New(t)
	keys := []store.Key{store.InvocationKey("a"), store.InvocationKey("b"), store.InvocationKey("c")}
	update(t, st, keys, func(tx store.Tx) error {
		for i, k := range []string{"c", "b", "a"} {
			tx.PutInvocation(store.Invocation{Key: k, Task: "t", Expires: at(i)})
		}
		return nil
	})
	view(t, st, func(v store.View) error {
		list, err := v.Invocations(at(2), 0)
		if err != nil || len(list) != 2 || list[0].Key != "c" || list[1].Key != "b" {
			t.Errorf("Invocations = %v, %v", list, err)
		}
		return nil
	})
	update(t, st, keys, func(tx store.Tx) error {
		tx.DropInvocation("b")
		if _, ok := tx.Invocation("b"); ok {
			t.Error("a dropped key is there")
		}
		return nil
	})
	update(t, st, keys, func(tx store.Tx) error {
		if _, ok := tx.Invocation("b"); ok {
			t.Error("a dropped key is there after the commit")
		}
		return nil
	})
}

func testTimerArg(t *testing.T, o *Options) {
	st := o.New(t)
	want := store.Timer{Kind: store.TimerCascade, Subject: "a", Due: at(1), Arg: "last"}
	update(t, st, nil, func(tx store.Tx) error {
		tx.PutTimer(want)
		return nil
	})
	view(t, st, func(v store.View) error {
		list, err := v.Timers(at(1).Add(time.Hour), 0)
		if d := cmp.Diff([]store.Timer{want}, list); err != nil || d != "" {
			t.Errorf("Timers, %v (-want +got):\n%s", err, d)
		}
		return nil
	})
}
