// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

func input(id task.ID, seq int64, name string) mail.Input {
	return mail.Input{Task: string(id), Seq: seq, ID: name, Kind: "message", Media: "text/plain", Data: []byte(name), Delivery: mail.Queue, At: at(int(seq))}
}

func testDenseSeq(t *testing.T, o *Options) {
	st := o.New(t)
	const writers, each = 16, 50
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				streams := []journal.StreamID{"one", journal.StreamID(fmt.Sprint("own", w))}
				err := st.Update(context.Background(), []store.Key{store.StreamKey(streams[0]), store.StreamKey(streams[1])}, func(tx store.Tx) error {
					for _, s := range streams {
						before := tx.Head(s)
						e := tx.Append(journal.Entry{Stream: s, Kind: "k"})
						if e.Seq != before.Seq+1 || tx.Head(s).Seq != e.Seq {
							t.Errorf("Append after %v gave seq %d", before, e.Seq)
						}
					}
					if i%5 == 4 {
						return fmt.Errorf("mints nothing")
					}
					return nil
				})
				if (err != nil) != (i%5 == 4) {
					t.Errorf("Update = %v", err)
				}
			}
		})
	}
	wg.Wait()
	check := func(s journal.StreamID, want int) {
		list := entries(t, st, s)
		if len(list) != want {
			t.Errorf("stream %s has %d entries, want %d", s, len(list), want)
		}
		for i, e := range list {
			if e.Seq != int64(i+1) {
				t.Fatalf("entry %d of stream %s has seq %d", i, s, e.Seq)
			}
		}
	}
	check("one", writers*each*4/5)
	for w := range writers {
		check(journal.StreamID(fmt.Sprint("own", w)), each*4/5)
	}
}

func testParts(t *testing.T, o *Options) {
	st := o.New(t)
	const s = "s"
	keys := []store.Key{store.StreamKey(s), store.EventKey(s, "e"), store.EventKey(s, "f"), store.PartKey(s, "e", "0"), store.PartKey(s, "e", "1")}
	appendPart := func(part, data string, final bool) {
		update(t, st, keys, func(tx store.Tx) error {
			if _, ok := tx.Part(s, "e", part); ok {
				return nil // a replay
			}
			tx.Append(journal.Entry{Stream: s, Event: "e", Part: part, Kind: "k", Data: []byte(data), Final: final})
			return nil
		})
	}
	for range 2 {
		appendPart("0", "abc", false)
		appendPart("1", "de", true)
	}
	want := journal.Tail{Part: "1", Bytes: 5, Final: true, Parts: 2}
	update(t, st, keys, func(tx store.Tx) error {
		if got := tx.Tail(s, "e"); got != want {
			t.Errorf("Tail = %v, want %v", got, want)
		}
		if e, ok := tx.Part(s, "e", "0"); !ok || e.Seq != 1 || string(e.Data) != "abc" || e.Final {
			t.Errorf("Part = %v, %v", e, ok)
		}
		tx.Append(journal.Entry{Stream: s, Event: "f", Kind: "whole"})
		if got := tx.Tail(s, "f"); got != (journal.Tail{}) {
			t.Errorf("Tail of an event without parts = %v, want zero", got)
		}
		tx.Append(journal.Entry{Stream: s, Event: "f", Kind: journal.KindAbandoned, Final: true})
		return nil
	})
	view(t, st, func(v store.View) error {
		if got, err := v.Tail(s, "e"); err != nil || got != want {
			t.Errorf("Tail = %v, %v, want %v", got, err, want)
		}
		if got, err := v.Tail(s, "f"); err != nil || got != (journal.Tail{Final: true}) {
			t.Errorf("Tail of an event closed without a part = %v, %v, want final", got, err)
		}
		return nil
	})
	if list := entries(t, st, s); len(list) != 4 {
		t.Errorf("%d entries, want 4: a replay writes nothing", len(list))
	}
}

func testCounts(t *testing.T, o *Options) {
	st := o.New(t)
	count := func(wantRunning, wantKey int) {
		t.Helper()
		update(t, st, []store.Key{store.QueueKey("q"), store.ConcurrencyKey("c")}, func(tx store.Tx) error {
			if n, m := tx.Running("q"), tx.RunningWith("c"); n != wantRunning || m != wantKey {
				t.Errorf("Running, RunningWith = %d, %d, want %d, %d", n, m, wantRunning, wantKey)
			}
			return nil
		})
	}
	count(0, 0)
	var list []task.Record
	for i := range 10 {
		r := pending(nth("c", i), at(i))
		r.Queue, r.State = "q", task.Running
		if i%2 == 0 {
			r.ConcurrencyKey = "c"
		}
		list = append(list, r)
	}
	put(t, st, list...)
	count(10, 5)
	list[0].State, list[1].State, list[2].State = task.Completed, task.Waiting, task.Pending
	list[3].Queue = "other"
	put(t, st, list[:4]...)
	count(6, 3)
	update(t, st, []store.Key{store.QueueKey("q")}, func(tx store.Tx) error {
		tx.PutQueue(store.Queue{Name: "q", Limit: 7, Paused: true})
		return nil
	})
	update(t, st, []store.Key{store.QueueKey("q"), store.TaskKey(list[4].ID)}, func(tx store.Tx) error {
		if got, want := tx.Queue("q"), (store.Queue{Name: "q", Limit: 7, Paused: true}); got != want || tx.Running("q") != 6 {
			t.Errorf("Queue, Running = %v, %d, want %v, 6", got, tx.Running("q"), want)
		}
		return nil
	})
	view(t, st, func(v store.View) error {
		counts, err := v.Counts()
		want := map[task.State]int64{task.Completed: 1, task.Waiting: 1, task.Pending: 1, task.Running: 7}
		if d := cmp.Diff(want, counts); d != "" || err != nil {
			t.Errorf("Counts (-want +got): %v\n%s", err, d)
		}
		queues, err := v.Queues()
		if len(queues) != 1 || queues[0].Limit != 7 {
			t.Errorf("Queues = %v, %v", queues, err)
		}
		return err
	})
}

func testNames(t *testing.T, o *Options) {
	st := o.New(t)
	named := func(want task.ID) {
		t.Helper()
		update(t, st, []store.Key{store.NameKey("n")}, func(tx store.Tx) error {
			if id, ok := tx.Named("n"); id != want || ok != (want != "") {
				t.Errorf("Named = %q, %v, want %q", id, ok, want)
			}
			return nil
		})
	}
	named("")
	a, b := pending("a", at(0)), pending("b", at(1))
	a.Name, b.Name = "n", "n"
	put(t, st, a)
	named("a")
	a.State = task.Failed
	put(t, st, a)
	named("")
	update(t, st, []store.Key{store.NameKey("n"), store.TaskKey("b")}, func(tx store.Tx) error {
		tx.PutTask(b)
		if id, _ := tx.Named("n"); id != "b" {
			t.Errorf("Named = %q, want b", id)
		}
		b.State = task.Canceled
		tx.PutTask(b)
		if id, ok := tx.Named("n"); ok {
			t.Errorf("Named = %q, want none", id)
		}
		b.State = task.Suspended
		tx.PutTask(b)
		return nil
	})
	named("b")
}

func testInputs(t *testing.T, o *Options) {
	st := o.New(t)
	r := pending("a", at(0))
	put(t, st, r)
	keys := []store.Key{store.TaskKey("a"), store.InputsKey("a")}
	for i := range 5 {
		keys = append(keys, store.InputKey("a", fmt.Sprint(i+1)))
	}
	seqs := func(list []mail.Input) (out []int64) {
		for _, in := range list {
			out = append(out, in.Seq)
		}
		return out
	}
	update(t, st, keys, func(tx store.Tx) error {
		for i := range 5 {
			tx.PutInput(input("a", int64(i+1), fmt.Sprint(i+1)))
		}
		return nil
	})
	update(t, st, keys, func(tx store.Tx) error {
		if got := seqs(tx.Inputs("a")); !cmp.Equal(got, []int64{1, 2, 3, 4, 5}) {
			t.Errorf("Inputs = %v, want 1 to 5", got)
		}
		r, _ := tx.Task("a")
		r.ConsumedInput = 2
		tx.PutTask(r)
		if got := seqs(tx.Inputs("a")); !cmp.Equal(got, []int64{3, 4, 5}) {
			t.Errorf("Inputs after the cursor moved = %v, want 3 to 5", got)
		}
		in := input("a", 4, "4")
		in.Data = []byte("changed")
		tx.PutInput(in)
		if list := tx.Inputs("a"); len(list) != 3 || string(list[1].Data) != "changed" {
			t.Errorf("Inputs after one was replaced = %v", list)
		}
		return nil
	})
	update(t, st, keys, func(tx store.Tx) error {
		if list := tx.Inputs("a"); len(list) != 3 || string(list[1].Data) != "changed" {
			t.Errorf("Inputs = %v, want 3 to 5 with 4 changed", list)
		}
		in, ok := tx.Input("a", "1")
		if want := input("a", 1, "1"); !ok || !cmp.Equal(in, want) {
			t.Errorf("Input = %v, %v, want %v", in, ok, want)
		}
		return nil
	})
	view(t, st, func(v store.View) error {
		list, err := v.Inputs("a", 1, 2)
		if got := seqs(list); !cmp.Equal(got, []int64{2, 3}) {
			t.Errorf("View.Inputs = %v, %v, want 2, 3", got, err)
		}
		return err
	})
}

// More inputs are unread than one page holds, and several updates of one batch
// move the cursor through them: each must see what follows.
func testInputsOverOnePage(t *testing.T, o *Options) {
	st := o.New(t)
	const total = 2*store.MaxPage + 300
	put(t, st, pending("a", at(0)))
	for from := 0; from < total; from += 500 {
		var keys []store.Key
		for i := from; i < min(from+500, total); i++ {
			keys = append(keys, store.InputKey("a", fmt.Sprint(i+1)))
		}
		update(t, st, keys, func(tx store.Tx) error {
			for i := range keys {
				tx.PutInput(input("a", int64(from+i+1), fmt.Sprint(from+i+1)))
			}
			return nil
		})
	}
	release := block(st)
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := make(map[int64]int)
	for range 5 {
		wg.Go(func() {
			var got []int64
			err := st.Update(context.Background(), []store.Key{store.TaskKey("a"), store.InputsKey("a")}, func(tx store.Tx) error {
				got = nil
				r, _ := tx.Task("a")
				for _, in := range tx.Inputs("a") {
					got = append(got, in.Seq)
					r.ConsumedInput = in.Seq
				}
				tx.PutTask(r)
				return nil
			})
			if err != nil {
				t.Errorf("Update = %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, seq := range got {
				seen[seq]++
			}
		})
	}
	release()
	wg.Wait()
	for i := int64(1); i <= total; i++ {
		if seen[i] != 1 {
			t.Fatalf("input %d was consumed %d times, want once", i, seen[i])
		}
	}
}

func testWorkers(t *testing.T, o *Options) {
	st := o.New(t)
	w := store.Worker{
		ID: "w", Epoch: 2, Host: "h", Boot: "b", PIDNS: 1 << 63, PID: 7, LockPath: "/l", LockDev: 1, LockIno: 1<<64 - 1,
		Executors: []string{"a.v1", "b.v1"}, Slots: 3, Draining: true, StartedAt: at(1), RenewedAt: at(2), LeaseUntil: at(3),
	}
	update(t, st, []store.Key{store.WorkerKey("w"), store.WorkerKey("x")}, func(tx store.Tx) error {
		tx.PutWorker(w)
		tx.PutWorker(store.Worker{ID: "x"})
		return nil
	})
	view(t, st, func(v store.View) error {
		got, ok, err := v.Worker("w")
		if !ok || !cmp.Equal(got, w) {
			t.Errorf("Worker = %v, want %v", got, w)
		}
		if list, _ := v.Workers(); len(list) != 2 || !cmp.Equal(list[0], w) {
			t.Errorf("Workers = %v", list)
		}
		return err
	})
	update(t, st, []store.Key{store.WorkerKey("w")}, func(tx store.Tx) error {
		if got, ok := tx.Worker("w"); !ok || !cmp.Equal(got, w) {
			t.Errorf("Tx.Worker = %v, %v", got, ok)
		}
		tx.DropWorker("w")
		return nil
	})
	view(t, st, func(v store.View) error {
		if _, ok, _ := v.Worker("w"); ok {
			t.Error("a dropped worker is there")
		}
		return nil
	})
}

func testInvocations(t *testing.T, o *Options) {
	st := o.New(t)
	i := store.Invocation{Key: "k", Task: "a", Digest: "d", Expires: at(5)}
	for range 2 {
		update(t, st, []store.Key{store.InvocationKey("k"), store.InvocationKey("none")}, func(tx store.Tx) error {
			if got, ok := tx.Invocation("k"); ok && got != i {
				t.Errorf("Invocation = %v, want %v", got, i)
			}
			if _, ok := tx.Invocation("none"); ok {
				t.Error("an invocation that nobody put is there")
			}
			tx.PutInvocation(i)
			return nil
		})
	}
	update(t, st, []store.Key{store.InvocationKey("k")}, func(tx store.Tx) error {
		if got, ok := tx.Invocation("k"); !ok || got != i {
			t.Errorf("Invocation = %v, %v, want %v", got, ok, i)
		}
		return nil
	})
}

func testObservers(t *testing.T, o *Options) {
	st := o.New(t)
	l := task.Lease{Worker: "w", Epoch: 1}
	all := []store.Observer{
		{Task: "a", ID: "1", Kind: "claim", Lease: l, CreatedAt: at(1)},
		{Task: "a", ID: "2", Kind: "claim", Until: at(9), CreatedAt: at(2)},
		{Task: "b", ID: "1", Kind: "claim", Lease: l, Attend: true, CreatedAt: at(3)},
	}
	keys := []store.Key{store.ObserversKey("a"), store.ObserversKey("b")}
	update(t, st, keys, func(tx store.Tx) error {
		for _, o := range []int{1, 0, 2} {
			tx.PutObserver(all[o])
		}
		return nil
	})
	update(t, st, keys, func(tx store.Tx) error {
		if got := tx.Observers("a"); !cmp.Equal(got, all[:2]) {
			t.Errorf("Observers = %v, want %v", got, all[:2])
		}
		tx.DropObserver("a", "2")
		tx.DropObserver("a", "none")
		if got := tx.Observers("a"); !cmp.Equal(got, all[:1]) {
			t.Errorf("Observers after a drop = %v, want %v", got, all[:1])
		}
		return nil
	})
	view(t, st, func(v store.View) error {
		if got, err := v.Observers("a"); err != nil || !cmp.Equal(got, all[:1]) {
			t.Errorf("View.Observers = %v, %v, want %v", got, err, all[:1])
		}
		want := []store.Observer{all[0], all[2]}
		if got, err := v.ObserversOf(l, 0); err != nil || !cmp.Equal(got, want) {
			t.Errorf("ObserversOf = %v, %v, want %v", got, err, want)
		}
		return nil
	})
}

func testTimers(t *testing.T, o *Options) {
	st := o.New(t)
	update(t, st, nil, func(tx store.Tx) error {
		tx.PutTimer(store.Timer{Kind: "k", Subject: "b", Due: at(2)})
		tx.PutTimer(store.Timer{Kind: "k", Subject: "a", Due: at(9)})
		tx.PutTimer(store.Timer{Kind: "k", Subject: "a", Due: at(1)}) // replaces
		tx.PutTimer(store.Timer{Kind: "l", Subject: "a", Due: at(3)})
		tx.DropTimer("k", "none")
		return nil
	})
	due := func(now time.Time) (out []string) {
		view(t, st, func(v store.View) error {
			list, err := v.Timers(now, 0)
			for _, a := range list {
				out = append(out, a.Kind+a.Subject)
			}
			return err
		})
		return out
	}
	if got := due(at(2)); !cmp.Equal(got, []string{"ka", "kb"}) {
		t.Errorf("Timers due at 2 = %v, want ka, kb", got)
	}
	view(t, st, func(v store.View) error {
		if next, ok, err := v.NextDue(at(2)); err != nil || !ok || !next.Equal(at(3)) {
			t.Errorf("NextDue = %v, %v, %v, want %v", next, ok, err, at(3))
		}
		return nil
	})
	update(t, st, nil, func(tx store.Tx) error { tx.DropTimer("k", "a"); return nil })
	if got := due(at(9)); !cmp.Equal(got, []string{"kb", "la"}) {
		t.Errorf("Timers = %v, want kb, la", got)
	}
}
