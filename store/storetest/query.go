// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

func wantIDs(tb testing.TB, what string, list []task.Record, err error, want ...task.ID) {
	tb.Helper()
	if err != nil {
		tb.Errorf("%s = %v", what, err)
	}
	if want == nil {
		want = []task.ID{}
	}
	if d := cmp.Diff(want, ids(list)); d != "" {
		tb.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func testList(t *testing.T, o *Options) {
	st := o.New(t)
	states := task.States()
	var all []task.Record
	for i := range 14 {
		r := pending(nth("t", i), at(i))
		r.State = states[i%7]
		if i%2 == 0 {
			r.Labels = map[string]string{"even": "yes", "n": string(rune('a' + i))}
			r.Session = "s"
		}
		if i%3 == 0 {
			r.Queue = "q"
		}
		all = append(all, r)
	}
	put(t, st, all...)
	view(t, st, func(v store.View) error {
		check := func(what string, f store.Filter, want func(r *task.Record) bool) {
			t.Helper()
			var list []task.ID
			for i := len(all) - 1; i >= 0; i-- {
				if want(&all[i]) {
					list = append(list, all[i].ID)
				}
			}
			got, err := v.Tasks(f)
			wantIDs(t, what, got, err, list...)
		}
		check("all", store.Filter{}, func(*task.Record) bool { return true })
		check("unfinished", store.Filter{States: states[:4]}, func(r *task.Record) bool { return !r.State.Terminal() })
		check("two unfinished states of a queue", store.Filter{States: states[:2], Queue: "q"}, func(r *task.Record) bool {
			return r.Queue == "q" && (r.State == states[0] || r.State == states[1])
		})
		check("finished", store.Filter{States: states[4:]}, func(r *task.Record) bool { return r.State.Terminal() })
		check("mixed", store.Filter{States: []task.State{task.Failed, task.Running}}, func(r *task.Record) bool {
			return r.State == task.Failed || r.State == task.Running
		})
		check("label", store.Filter{Label: map[string]string{"even": "yes"}}, func(r *task.Record) bool { return r.Labels != nil })
		check("two labels", store.Filter{Label: map[string]string{"even": "yes", "n": "e"}}, func(r *task.Record) bool { return r.Labels["n"] == "e" })
		check("session", store.Filter{Session: "s", States: states[:4]}, func(r *task.Record) bool { return r.Session == "s" && !r.State.Terminal() })
		check("queue", store.Filter{Queue: "q"}, func(r *task.Record) bool { return r.Queue == "q" })
		check("before", store.Filter{Before: nth("t", 5)}, func(r *task.Record) bool { return r.ID < nth("t", 5) })
		check("before, unfinished", store.Filter{Before: nth("t", 9), States: states[:4]}, func(r *task.Record) bool {
			return r.ID < nth("t", 9) && !r.State.Terminal()
		})
		list, err := v.Tasks(store.Filter{Limit: 3, Label: map[string]string{"even": "yes"}})
		wantIDs(t, "limit", list, err, nth("t", 12), nth("t", 10), nth("t", 8))
		list, err = v.Tasks(store.Filter{Limit: 2, States: states[:4]})
		wantIDs(t, "limit, unfinished", list, err, nth("t", 10), nth("t", 9))
		return nil
	})
}

func testFind(t *testing.T, o *Options) {
	st := o.New(t)
	a, b, c := pending("sh-abc1xyz", at(0)), pending("sh-abd2xyz", at(1)), pending("ag-zzzzzzz", at(2))
	c.Name = "sh-abc1xyz"
	d := pending("ag-yyyyyyy", at(3))
	d.Name, d.State = "xyz", task.Completed
	put(t, st, a, b, c, d)
	view(t, st, func(v store.View) error {
		for part, want := range map[string][]task.ID{
			"sh-ab": {b.ID, a.ID}, "sh-abc": {a.ID}, "2xyz": {b.ID}, "xyz": {b.ID, a.ID, d.ID}, "sh-abc1xyz": {a.ID, c.ID},
			"none": nil, "": nil, "zzzzzzz": {c.ID}, "%": nil, "sh_ab": nil, "SH-AB": nil,
		} {
			list, err := v.Find(part, 0)
			wantIDs(t, "Find "+part, list, err, want...)
		}
		list, err := v.Find("sh-ab", 1)
		wantIDs(t, "Find with limit 1", list, err, b.ID)
		return nil
	})
}

func testChildren(t *testing.T, o *Options) {
	st := o.New(t)
	var all []task.Record
	for i := range 5 {
		r := pending(nth("c", i), at(i))
		r.Parent = "p"
		all = append(all, r)
	}
	other := pending("x", at(0))
	other.Parent = "p\x00"
	put(t, st, append(all, other, pending("p", at(0)))...)
	all[1].State = task.Completed
	put(t, st, all[1])
	view(t, st, func(v store.View) error {
		list, err := v.Children("p", "", 3)
		wantIDs(t, "Children", list, err, nth("c", 0), nth("c", 1), nth("c", 2))
		list, err = v.Children("p", list[2].ID, 3)
		wantIDs(t, "Children, second page", list, err, nth("c", 3), nth("c", 4))
		list, err = v.Children("none", "", 0)
		wantIDs(t, "Children of nobody", list, err)
		return nil
	})
}

func testCursorStability(t *testing.T, o *Options) {
	st := o.New(t)
	for i := range 10 {
		put(t, st, pending(nth("t", i*10), at(i)))
	}
	var seen []task.ID
	before := task.ID("")
	for page := range 5 {
		view(t, st, func(v store.View) error {
			list, err := v.Tasks(store.Filter{Before: before, Limit: 3})
			seen = append(seen, ids(list)...)
			if len(list) > 0 {
				before = list[len(list)-1].ID
			}
			return err
		})
		// Newer tasks come, and older ones change, between the pages.
		put(t, st, pending(nth("t", 1000+page), at(99)))
		r := pending(nth("t", 0), at(0))
		r.State, r.Description = task.Completed, "changed"
		put(t, st, r)
	}
	want := []task.ID{}
	for i := 9; i >= 0; i-- {
		want = append(want, nth("t", i*10))
	}
	if d := cmp.Diff(want, seen); d != "" {
		t.Errorf("pages (-want +got):\n%s", d)
	}
	// The same for entries under appends.
	var seqs []int64
	for after := int64(0); after < 20; after += 5 {
		update(t, st, []store.Key{store.StreamKey("s")}, func(tx store.Tx) error {
			for range 7 {
				tx.Append(journal.Entry{Stream: "s", Kind: "k"})
			}
			return nil
		})
		view(t, st, func(v store.View) error {
			list, err := v.Entries("s", after, 5)
			for _, e := range list {
				seqs = append(seqs, e.Seq)
			}
			return err
		})
	}
	for i, seq := range seqs {
		if seq != int64(i+1) {
			t.Fatalf("pages of entries = %v, want 1 to 20", seqs)
		}
	}
}

func testPending(t *testing.T, o *Options) {
	st := o.New(t)
	mk := func(id task.ID, prio, due int, exec string) task.Record {
		r := pending(id, at(0))
		r.Priority, r.DueAt, r.Executor = prio, at(due), exec
		return r
	}
	stop := mk("stop", 9, 50, "a.v1")
	stop.CancelRequestedAt = at(50)
	noDue := mk("nodue", 0, 0, "b.v1")
	noDue.DueAt, noDue.CreatedAt = time.Time{}, at(5)
	running := mk("running", -9, 0, "a.v1")
	running.State = task.Running
	put(t, st,
		mk("urgent", -5, 100, "a.v1"), mk("early", 0, 10, "a.v1"), mk("late", 0, 20, "b.v1"), mk("later", 0, 20, "a.v1"),
		mk("slow", 3, 10, "a.v1"), mk("old", 1, -100, "c.v1"), mk("future", -9, 1000, "a.v1"), stop, noDue, running)
	query := func(q store.PendingQuery) (list []task.Record, err error) {
		view(t, st, func(v store.View) error {
			list, err = v.Pending(q)
			return nil
		})
		return list, err
	}
	// One step is worth 60 s of waiting: old (1, waited 200) comes before early.
	list, err := query(store.PendingQuery{Now: at(100)})
	wantIDs(t, "Pending", list, err, "stop", "urgent", "old", "nodue", "early", "late", "later", "slow")
	list, err = query(store.PendingQuery{Now: at(100), Aging: time.Hour})
	wantIDs(t, "Pending with slow aging", list, err, "stop", "urgent", "nodue", "early", "late", "later", "old", "slow")
	list, err = query(store.PendingQuery{Now: at(100), Limit: 3})
	wantIDs(t, "Pending with a limit", list, err, "stop", "urgent", "old")
	list, err = query(store.PendingQuery{Now: at(100), Executors: []string{"b.v1", "none.v1"}})
	wantIDs(t, "Pending of one executor", list, err, "nodue", "late")
	list, err = query(store.PendingQuery{Now: at(9)})
	wantIDs(t, "Pending early", list, err, "old", "nodue")
	list, err = query(store.PendingQuery{Now: at(1000), Limit: 2})
	wantIDs(t, "Pending at the instant it is due", list, err, "stop", "urgent")
	held := func(id task.ID, prio int, queue, key string, canceled bool) task.Record {
		r := mk(id, prio, 10, "q.v1")
		if r.Queue, r.ConcurrencyKey = queue, key; canceled {
			r.CancelRequestedAt = at(50)
		}
		return r
	}
	put(t, st,
		held("q-full", -1, "full", "", false), held("q-stop", 0, "full", "", true), held("q-busy", 0, "free", "busy", false),
		held("q-free", 1, "free", "idle", false), held("q-none", 2, "", "", false), held("q-key", 3, "", "full", false))
	free := store.PendingQuery{Now: at(100), Executors: []string{"q.v1"}, FullQueues: []string{"full", "other"}, BusyKeys: []string{"busy"}}
	list, err = query(free)
	wantIDs(t, "Pending beside full queues and busy keys", list, err, "q-stop", "q-free", "q-none", "q-key")
	free.FullQueues, free.Limit = nil, 3
	list, err = query(free)
	wantIDs(t, "Pending beside a busy key", list, err, "q-stop", "q-full", "q-free")
	view(t, st, func(v store.View) error {
		for _, c := range []struct{ now, next int }{{-1000, -100}, {9, 10}, {10, 20}, {100, 1000}} {
			if next, ok, err := v.NextDue(at(c.now)); err != nil || !ok || !next.Equal(at(c.next)) {
				t.Errorf("NextDue(%d) = %v, %v, %v, want %v", c.now, next, ok, err, at(c.next))
			}
		}
		if next, ok, err := v.NextDue(at(1000)); ok || err != nil {
			t.Errorf("NextDue after everything = %v, %v, want none", next, err)
		}
		return nil
	})
}

func testHeld(t *testing.T, o *Options) {
	st := o.New(t)
	mk := func(id task.ID, owner task.Owner, l task.Lease, s task.State) task.Record {
		r := pending(id, at(0))
		r.Owner, r.Lease, r.State = owner, l, s
		return r
	}
	l1, l2 := task.Lease{Worker: "w", Epoch: 1}, task.Lease{Worker: "w", Epoch: 2}
	put(t, st,
		mk("a", task.OwnerManager, l1, task.Running), mk("b", task.OwnerManager, l1, task.Running), mk("c", task.OwnerManager, l1, task.Running),
		mk("d", task.OwnerManager, l2, task.Running), mk("e", task.OwnerManager, task.Lease{}, task.Running),
		mk("f", task.OwnerParent, task.Lease{}, task.Running), mk("g", task.OwnerManager, task.Lease{}, task.Pending),
		mk("h", task.OwnerManager, task.Lease{}, task.Running))
	view(t, st, func(v store.View) error {
		list, err := v.Held(l1, "", 2)
		wantIDs(t, "Held", list, err, "a", "b")
		list, err = v.Held(l1, "b", 2)
		wantIDs(t, "Held, second page", list, err, "c")
		list, err = v.Held(l2, "", 0)
		wantIDs(t, "Held of another epoch", list, err, "d")
		list, err = v.Unattended("", 0)
		wantIDs(t, "Unattended", list, err, "e", "h")
		list, err = v.Unattended("e", 0)
		wantIDs(t, "Unattended, second page", list, err, "h")
		return nil
	})
	put(t, st, mk("a", task.OwnerManager, task.Lease{}, task.Completed), mk("b", task.OwnerManager, l2, task.Running))
	view(t, st, func(v store.View) error {
		list, err := v.Held(l1, "", 0)
		wantIDs(t, "Held after changes", list, err, "c")
		list, err = v.Held(l2, "", 0)
		wantIDs(t, "Held after changes", list, err, "b", "d")
		return nil
	})
}

func testSnapshot(t *testing.T, o *Options) {
	st := o.New(t)
	put(t, st, pending("a", at(0)))
	view(t, st, func(v store.View) error {
		before, err := v.Counts()
		if err != nil {
			return err
		}
		for i := range 3 {
			put(t, st, pending(nth("n", i), at(0)))
			update(t, st, []store.Key{store.StreamKey("a")}, func(tx store.Tx) error {
				tx.Append(journal.Entry{Stream: "a", Kind: "k"})
				return nil
			})
		}
		list, err := v.Tasks(store.Filter{})
		if len(list) != 1 || err != nil {
			t.Errorf("a view sees %d tasks, %v, that came after it began", len(list)-1, err)
		}
		if es, err := v.Entries("a", 0, 0); len(es) != 0 || err != nil {
			t.Errorf("a view sees %d entries, %v, that came after it began", len(es), err)
		}
		after, err := v.Counts()
		if !cmp.Equal(before, after) {
			t.Errorf("Counts changed from %v to %v within one view", before, after)
		}
		return err
	})
	view(t, st, func(v store.View) error {
		list, err := v.Tasks(store.Filter{})
		if got := ids(list); !slices.Contains(got, nth("n", 2)) {
			t.Errorf("the next view sees %v, not what was committed", got)
		}
		return err
	})
}
