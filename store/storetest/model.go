// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// oracle is a store on plain maps: what the driver must agree with.
type oracle struct {
	tasks   map[task.ID]task.Record
	entries map[journal.StreamID][]journal.Entry
	inputs  map[task.ID]map[string]mail.Input
	timers  map[string]store.Timer
}

func (o *oracle) clone() *oracle {
	c := &oracle{maps.Clone(o.tasks), maps.Clone(o.entries), make(map[task.ID]map[string]mail.Input), maps.Clone(o.timers)}
	for id, m := range o.inputs {
		c.inputs[id] = maps.Clone(m)
	}
	return c
}

func (o *oracle) count(want func(*task.Record) bool) (n int) {
	for _, r := range o.tasks {
		if want(&r) {
			n++
		}
	}
	return n
}

func (o *oracle) tail(s journal.StreamID, event string) (t journal.Tail) {
	for _, e := range o.entries[s] {
		if e.Event == event && e.Part != "" {
			t = journal.Tail{Part: e.Part, Bytes: t.Bytes + int64(len(e.Data)), Final: t.Final || e.Final, Parts: t.Parts + 1}
		}
	}
	return t
}

func (o *oracle) unread(id task.ID) (list []mail.Input) {
	for _, in := range o.inputs[id] {
		if in.Seq > o.tasks[id].ConsumedInput {
			list = append(list, in)
		}
	}
	slices.SortFunc(list, func(a, b mail.Input) int { return int(a.Seq - b.Seq) })
	return list
}

var errModel = errors.New("the model's own error")

// testModel runs random updates on the store and on the oracle: every read within
// an update, and every view after it, must agree. A failure prints its seed.
func testModel(t *testing.T, o *Options) {
	rapid.Check(t, func(rt *rapid.T) {
		st := o.New(t)
		defer st.Close()
		want := &oracle{map[task.ID]task.Record{}, map[journal.StreamID][]journal.Entry{}, map[task.ID]map[string]mail.Input{}, map[string]store.Timer{}}
		for range rapid.IntRange(1, 25).Draw(rt, "updates") {
			next := modelUpdate(t, rt, st, want)
			if next != nil {
				want = next
			}
		}
		modelView(t, rt, st, want)
	})
}

var (
	modelIDs    = rapid.SampledFrom([]task.ID{"a", "b", "c", "d"})
	modelNames  = rapid.SampledFrom([]string{"", "", "n", "m"})
	modelStates = rapid.SampledFrom(task.States())
)

// modelUpdate runs one update of several steps and returns the oracle after it,
// or nil when it failed on purpose.
func modelUpdate(t *testing.T, rt *rapid.T, st store.Store, want *oracle) *oracle {
	var keys []store.Key
	for _, id := range []task.ID{"a", "b", "c", "d"} {
		s := journal.StreamID(id)
		keys = append(keys, store.TaskKey(id), store.StreamKey(s), store.InputsKey(id), store.EventKey(s, "e"))
		for i := range 4 {
			keys = append(keys, store.InputKey(id, fmt.Sprint(i)))
		}
	}
	for _, n := range []string{"n", "m"} {
		keys = append(keys, store.NameKey(n), store.QueueKey(n), store.ConcurrencyKey(n))
	}
	fails := rapid.IntRange(0, 4).Draw(rt, "fails") == 0
	steps := rapid.IntRange(1, 6).Draw(rt, "steps")
	var next *oracle
	var ended any // rapid ends a check by a panic, which must not become the store's error
	err := st.Update(t.Context(), keys, func(tx store.Tx) (err error) {
		defer func() {
			if ended = recover(); ended != nil {
				err = errModel
			}
		}()
		next = want.clone()
		for range steps {
			modelStep(rt, tx, next)
			modelReads(rt, tx, next)
		}
		if fails {
			return errModel
		}
		return nil
	})
	if ended != nil {
		panic(ended)
	}
	if fails != errors.Is(err, errModel) || !fails && err != nil {
		rt.Fatalf("Update = %v, want failure %v", err, fails)
	}
	if fails {
		return nil
	}
	return next
}

func modelStep(rt *rapid.T, tx store.Tx, next *oracle) {
	id := modelIDs.Draw(rt, "id")
	s := journal.StreamID(id)
	switch rapid.IntRange(0, 5).Draw(rt, "verb") {
	case 0, 1:
		r := task.Record{
			ID: id, State: modelStates.Draw(rt, "state"), Name: modelNames.Draw(rt, "name"), Queue: modelNames.Draw(rt, "queue"),
			ConcurrencyKey: modelNames.Draw(rt, "key"), Priority: rapid.IntRange(-2, 2).Draw(rt, "priority"),
			Executor: rapid.SampledFrom([]string{"x.v1", "y.v1"}).Draw(rt, "executor"), Owner: task.OwnerManager,
			DueAt: at(rapid.IntRange(0, 5).Draw(rt, "due")), CreatedAt: at(0), UpdatedAt: tx.Now(),
			// The cursor never goes back.
			ConsumedInput: max(next.tasks[id].ConsumedInput, rapid.Int64Range(0, 3).Draw(rt, "consumed")), Revision: next.tasks[id].Revision + 1,
			Description: rapid.String().Draw(rt, "text"),
		}
		if r.State == task.Running && rapid.Bool().Draw(rt, "leased") {
			r.Lease = task.Lease{Worker: "w", Epoch: 1}
		}
		tx.PutTask(r)
		next.tasks[id] = r
	case 2:
		e := journal.Entry{Stream: s, Kind: "k", Data: []byte(rapid.StringN(0, 20, -1).Draw(rt, "data"))}
		next.entries[s] = append(slices.Clone(next.entries[s]), tx.Append(e))
	case 3:
		e := journal.Entry{Stream: s, Kind: "k", Event: "e", Part: fmt.Sprint(len(next.entries[s])), Data: []byte("12345"), Final: rapid.Bool().Draw(rt, "final")}
		next.entries[s] = append(slices.Clone(next.entries[s]), tx.Append(e))
	case 4:
		n := rapid.IntRange(0, 3).Draw(rt, "input")
		in := input(id, int64(n+1), fmt.Sprint(n))
		in.Data = []byte(rapid.StringN(0, 20, -1).Draw(rt, "data"))
		tx.PutInput(in)
		if next.inputs[id] == nil {
			next.inputs[id] = make(map[string]mail.Input)
		}
		next.inputs[id][in.ID] = in
	case 5:
		a := store.Timer{Kind: "k", Subject: string(id), Due: at(rapid.IntRange(0, 5).Draw(rt, "due"))}
		if rapid.Bool().Draw(rt, "drop") {
			tx.DropTimer(a.Kind, a.Subject)
			delete(next.timers, a.Subject)
		} else {
			tx.PutTimer(a)
			next.timers[a.Subject] = a
		}
	}
}

func modelReads(rt *rapid.T, tx store.Tx, want *oracle) {
	id := modelIDs.Draw(rt, "read")
	s := journal.StreamID(id)
	same(rt, "Task", first(tx.Task(id)), want.tasks[id])
	same(rt, "Head", tx.Head(s).Seq, int64(len(want.entries[s])))
	same(rt, "Tail", tx.Tail(s, "e"), want.tail(s, "e"))
	same(rt, "Inputs", tx.Inputs(id), want.unread(id))
	for _, n := range []string{"n", "m"} {
		same(rt, "Running", tx.Running(n), want.count(func(r *task.Record) bool { return r.State == task.Running && r.Queue == n }))
		same(rt, "RunningWith", tx.RunningWith(n), want.count(func(r *task.Record) bool { return r.State == task.Running && r.ConcurrencyKey == n }))
		var named task.ID
		for _, r := range want.tasks {
			if r.Name == n && !r.State.Terminal() {
				named = max(named, r.ID)
			}
		}
		same(rt, "Named", first(tx.Named(n)), named)
	}
}

func first[T any](v T, _ bool) T { return v }

func same[T any](rt *rapid.T, what string, got, want T) {
	if d := cmp.Diff(want, got); d != "" {
		rt.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

func modelView(t *testing.T, rt *rapid.T, st store.Store, want *oracle) {
	sorted := slices.Collect(maps.Values(want.tasks))
	slices.SortFunc(sorted, func(a, b task.Record) int { return cmpID(b.ID, a.ID) })
	pick := func(list []task.Record, keep func(*task.Record) bool) (out []task.ID) {
		out = []task.ID{}
		for _, r := range list {
			if keep(&r) {
				out = append(out, r.ID)
			}
		}
		return out
	}
	err := st.View(t.Context(), func(v store.View) error {
		list, err := v.Tasks(store.Filter{})
		if err != nil {
			return err
		}
		same(rt, "Tasks", ids(list), pick(sorted, func(*task.Record) bool { return true }))
		for i := range list {
			same(rt, "a task of Tasks", list[i], want.tasks[list[i].ID])
		}
		states := []task.State{task.Running, task.Waiting}
		list, err = v.Tasks(store.Filter{States: states})
		if err != nil {
			return err
		}
		same(rt, "Tasks by state", ids(list), pick(sorted, func(r *task.Record) bool { return slices.Contains(states, r.State) }))
		ascending := slices.Clone(sorted)
		slices.Reverse(ascending)
		list, err = v.Held(task.Lease{Worker: "w", Epoch: 1}, "", 0)
		if err != nil {
			return err
		}
		same(rt, "Held", ids(list), pick(ascending, func(r *task.Record) bool { return r.State == task.Running && !r.Lease.IsZero() }))
		list, err = v.Unattended("", 0)
		if err != nil {
			return err
		}
		same(rt, "Unattended", ids(list), pick(ascending, (*task.Record).Unattended))
		list, err = v.Pending(store.PendingQuery{Now: at(3)})
		if err != nil {
			return err
		}
		got := ids(list)
		slices.Sort(got)
		same(rt, "Pending", got, pick(ascending, func(r *task.Record) bool { return r.State == task.Pending && !r.DueAt.After(at(3)) }))
		counts, err := v.Counts()
		wantCounts := make(map[task.State]int64)
		for _, r := range sorted {
			wantCounts[r.State]++
		}
		same(rt, "Counts", counts, wantCounts)
		for _, id := range []task.ID{"a", "b", "c", "d"} {
			s := journal.StreamID(id)
			es, err := v.Entries(s, 0, 0)
			if err != nil {
				return err
			}
			same(rt, "Entries", es, want.entries[s])
			tail, err := v.Tail(s, "e")
			if err != nil {
				return err
			}
			same(rt, "View.Tail", tail, want.tail(s, "e"))
		}
		return err
	})
	if err != nil {
		rt.Fatalf("View = %v", err)
	}
}

func cmpID(a, b task.ID) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
