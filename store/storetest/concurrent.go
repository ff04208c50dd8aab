// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// listen collects a store's hints until the test ends.
func listen(t *testing.T, st store.Store) <-chan store.Hint {
	ctx, cancel := context.WithCancel(t.Context())
	hints := make(chan store.Hint, 10000) // more than any test rings
	var wg sync.WaitGroup
	wg.Go(func() {
		for h := range st.Changes(ctx) {
			hints <- h
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	if h := <-hints; !h.Any {
		t.Errorf("the first hint = %v, want Any", h)
	}
	return hints
}

// wantHint waits for a hint that want accepts.
func wantHint(t *testing.T, hints <-chan store.Hint, what string, want func(store.Hint) bool) {
	t.Helper()
	timeout := time.After(10 * time.Second)
	for {
		select {
		case h := <-hints:
			if h.Any || want(h) {
				return
			}
		case <-timeout:
			t.Fatalf("no hint of %s within 10 s", what)
		}
	}
}

func testHints(t *testing.T, o *Options) {
	st := o.New(t)
	hints := listen(t, st)
	r := pending("a", at(0))
	put(t, st, r)
	wantHint(t, hints, "a pending task", func(h store.Hint) bool { return h.Pending && slices.Contains(h.Tasks, r.ID) })
	update(t, st, []store.Key{store.StreamKey("s")}, func(tx store.Tx) error {
		tx.Append(journal.Entry{Stream: "s", Kind: "k"})
		return nil
	})
	wantHint(t, hints, "a stream", func(h store.Hint) bool { return slices.Contains(h.Streams, "s") })
	update(t, st, []store.Key{store.WorkerKey("w")}, func(tx store.Tx) error {
		tx.PutWorker(store.Worker{ID: "w", Epoch: 1})
		return nil
	})
	wantHint(t, hints, "a worker", func(h store.Hint) bool { return h.Workers })
	r.State, r.Queue = task.Running, "q"
	put(t, st, r)
	wantHint(t, hints, "a change", func(h store.Hint) bool { return slices.Contains(h.Tasks, r.ID) })
	r.State = task.Completed
	put(t, st, r)
	wantHint(t, hints, "a free place in a queue", func(h store.Hint) bool { return h.Pending })
	_ = st.Update(t.Context(), []store.Key{store.TaskKey("b")}, func(tx store.Tx) error {
		tx.PutTask(pending("b", at(0)))
		return fmt.Errorf("no")
	})
	select {
	case h := <-hints:
		t.Errorf("an update that failed rang %v", h)
	default:
	}
}

// increment adds one to a counter kept in a task's revision.
func increment(st store.Store, id task.ID) error {
	return st.Update(context.Background(), []store.Key{store.TaskKey(id)}, func(tx store.Tx) error {
		r, _ := tx.Task(id)
		r.ID = id
		r.Revision++
		tx.PutTask(r)
		return nil
	})
}

func testLostUpdate(t *testing.T, o *Options) {
	st := o.New(t)
	race(t, st, st)
}

// race increments one counter through two stores over the same data.
func race(t *testing.T, a, b store.Store) {
	const each = 100
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			st := a
			if i%2 == 1 {
				st = b
			}
			for range each {
				if err := increment(st, "counter"); err != nil {
					t.Errorf("Update = %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, st := range []store.Store{a, b} {
		if r, _ := get(t, st, "counter"); r.Revision != 8*each {
			t.Errorf("the counter is %d after %d increments", r.Revision, 8*each)
		}
	}
}

func testPeers(t *testing.T, o *Options) {
	if o.Peer == nil {
		t.Skip("this driver has no peers")
	}
	a := o.New(t)
	b := o.Peer(t, a)
	race(t, a, b)
	// What one has read is not remembered over what the other wrote, in every kind.
	stores := []store.Store{a, b}
	for i := range 20 {
		st := stores[i%2]
		keys := []store.Key{
			store.TaskKey("t"), store.StreamKey("s"), store.EventKey("s", "e"), store.QueueKey("q"), store.ConcurrencyKey("c"),
			store.WorkerKey("w"), store.TaskKey(nth("r", i)),
		}
		update(t, st, keys, func(tx store.Tx) error {
			n := int64(i)
			w, _ := tx.Worker("w")
			if tx.Head("s").Seq != n || tx.Tail("s", "e").Parts != n || w.Epoch != n || tx.Running("q") != i || tx.RunningWith("c") != i || tx.Queue("q").Limit != i {
				t.Errorf("step %d reads %v, %v, %v, %d, %d, %v", i, tx.Head("s"), tx.Tail("s", "e"), w, tx.Running("q"), tx.RunningWith("c"), tx.Queue("q"))
			}
			tx.Append(journal.Entry{Stream: "s", Event: "e", Part: fmt.Sprint(i), Kind: "k"})
			tx.PutWorker(store.Worker{ID: "w", Epoch: n + 1})
			tx.PutQueue(store.Queue{Name: "q", Limit: i + 1})
			r := pending(nth("r", i), at(i))
			r.State, r.Queue, r.ConcurrencyKey = task.Running, "q", "c"
			tx.PutTask(r)
			return nil
		})
	}
	if a.Info().ID != b.Info().ID {
		t.Errorf("peers have the ids %q and %q", a.Info().ID, b.Info().ID)
	}
}

func testPeerHints(t *testing.T, o *Options) {
	if o.Peer == nil {
		t.Skip("this driver has no peers")
	}
	a := o.New(t)
	b := o.Peer(t, a)
	hints := listen(t, b)
	for i := range 5 {
		put(t, a, pending(nth("t", i), at(i)))
		wantHint(t, hints, "a peer's commit", func(h store.Hint) bool { return h.Any })
	}
}

// claim is one attempt to claim a task, as porcupine sees it.
type claim struct {
	id  task.ID
	won bool
}

func testClaimExclusivity(t *testing.T, o *Options) {
	a := o.New(t)
	stores := []store.Store{a}
	if o.Peer != nil {
		stores = append(stores, o.Peer(t, a))
	}
	const tasks, workers = 40, 8
	var list []task.Record
	for i := range tasks {
		list = append(list, pending(nth("t", i), at(i)))
	}
	put(t, a, list...)
	var mu sync.Mutex
	var history []porcupine.Operation
	var clock atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			st := stores[w%len(stores)]
			for i := range tasks {
				id := nth("t", (i*7+w)%tasks)
				call := clock.Add(1)
				won := false
				err := st.Update(context.Background(), []store.Key{store.TaskKey(id)}, func(tx store.Tx) error {
					won = false
					r, _ := tx.Task(id)
					if r.State != task.Pending {
						return nil
					}
					r.State, r.Lease, r.Attempt = task.Running, task.Lease{Worker: task.WorkerID(fmt.Sprint(w)), Epoch: 1}, r.Attempt+1
					tx.PutTask(r)
					won = true
					return nil
				})
				if err != nil {
					t.Errorf("Update = %v", err)
					return
				}
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: w, Input: id, Call: call, Output: claim{id, won}, Return: clock.Add(1)})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	model := porcupine.Model{
		Partition: func(h []porcupine.Operation) [][]porcupine.Operation {
			byID := make(map[task.ID][]porcupine.Operation)
			for _, op := range h {
				id := op.Input.(task.ID)
				byID[id] = append(byID[id], op)
			}
			var out [][]porcupine.Operation
			for _, ops := range byID {
				out = append(out, ops)
			}
			return out
		},
		Init: func() any { return false },
		Step: func(taken, _, output any) (bool, any) {
			return output.(claim).won == !taken.(bool), true
		},
	}
	if !porcupine.CheckOperations(model, history) {
		t.Error("the claims are not linearizable: a task was claimed twice, or a claim was refused though nobody held it")
	}
	view(t, a, func(v store.View) error {
		n := 0
		for w := range workers {
			held, err := v.Held(task.Lease{Worker: task.WorkerID(fmt.Sprint(w)), Epoch: 1}, "", 0)
			if err != nil {
				return err
			}
			n += len(held)
		}
		if n != tasks {
			t.Errorf("%d tasks are held, want %d", n, tasks)
		}
		return nil
	})
}

func testReopen(t *testing.T, o *Options) {
	if o.Reopen == nil {
		t.Skip("this driver keeps nothing")
	}
	st := o.New(t)
	id := st.Info().ID
	r := pending("a", at(0))
	steps := []func(r *task.Record){
		func(*task.Record) {},
		func(r *task.Record) { r.State, r.Lease = task.Running, task.Lease{Worker: "w", Epoch: 1} },
		func(r *task.Record) { r.State, r.Lease = task.Waiting, task.Lease{} },
		func(r *task.Record) { r.State = task.Pending },
		func(r *task.Record) { r.State = task.Completed },
	}
	for i, step := range steps {
		step(&r)
		update(t, st, []store.Key{store.TaskKey("a"), store.StreamKey("a"), store.EventKey("a", "e")}, func(tx store.Tx) error {
			if got := tx.Head("a").Seq; got != int64(i) || tx.Tail("a", "e").Parts != int64(i) {
				t.Errorf("step %d: Head = %d, Tail = %v", i, got, tx.Tail("a", "e"))
			}
			tx.PutTask(r)
			tx.Append(journal.Entry{Stream: "a", Kind: string(r.State), Event: "e", Part: fmt.Sprint(i)})
			return nil
		})
		st = o.Reopen(t, st)
		if got, _ := get(t, st, "a"); got.State != r.State || got.Lease != r.Lease {
			t.Errorf("step %d: reopened, the task is %v", i, got)
		}
		if got := st.Info().ID; got != id {
			t.Errorf("step %d: reopened, the store's id is %q, want %q", i, got, id)
		}
	}
	if list := entries(t, st, "a"); len(list) != len(steps) {
		t.Errorf("%d entries, want %d", len(list), len(steps))
	}
}
