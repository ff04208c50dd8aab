// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

func testRollback(t *testing.T, o *Options) {
	st := o.New(t)
	put(t, st, pending("a", at(0)))
	boom := errors.New("boom")
	keys := []store.Key{
		store.TaskKey("a"), store.TaskKey("b"), store.StreamKey("a"), store.InputKey("a", "i"), store.InputsKey("a"),
		store.WorkerKey("w"), store.InvocationKey("k"), store.QueueKey("q"), store.ObserversKey("a"), store.NameKey("n"),
	}
	err := st.Update(t.Context(), keys, func(tx store.Tx) error {
		r, _ := tx.Task("a")
		r.State, r.Queue = task.Running, "q"
		tx.PutTask(r)
		b := pending("b", at(0))
		b.Name = "n"
		tx.PutTask(b)
		tx.Append(journal.Entry{Stream: "a", Kind: "k", Event: "e", Part: "p"})
		tx.PutInput(input("a", 1, "i"))
		tx.PutWorker(store.Worker{ID: "w"})
		tx.PutInvocation(store.Invocation{Key: "k", Task: "a"})
		tx.PutQueue(store.Queue{Name: "q", Limit: 3})
		tx.PutObserver(store.Observer{Task: "a", ID: "o"})
		tx.PutTimer(store.Timer{Kind: "t", Subject: "a", Due: at(0)})
		return boom
	})
	if err != boom { //nolint:errorlint // it must be returned as it is
		t.Fatalf("Update = %v, want the function's own error", err)
	}
	update(t, st, append(keys, store.EventKey("a", "e")), func(tx store.Tx) error {
		r, _ := tx.Task("a")
		_, b := tx.Task("b")
		_, in := tx.Input("a", "i")
		_, w := tx.Worker("w")
		_, inv := tx.Invocation("k")
		_, named := tx.Named("n")
		if r.State != task.Pending || b || in || w || inv || named || tx.Head("a").Seq != 0 || tx.Running("q") != 0 ||
			tx.Queue("q") != (store.Queue{}) || len(tx.Observers("a")) > 0 || len(tx.Inputs("a")) > 0 || tx.Tail("a", "e").Parts != 0 {
			t.Error("the failed update left traces")
		}
		return nil
	})
	view(t, st, func(v store.View) error {
		if list, err := v.Timers(at(9), 0); err != nil || len(list) > 0 {
			t.Errorf("Timers = %v, %v, want none", list, err)
		}
		return nil
	})
}

func testPanic(t *testing.T, o *Options) {
	st := o.New(t)
	err := st.Update(t.Context(), []store.Key{store.TaskKey("a")}, func(tx store.Tx) error {
		tx.PutTask(pending("a", at(0)))
		panic("oh no")
	})
	if err == nil || !strings.Contains(err.Error(), "oh no") || !strings.Contains(err.Error(), "storetest") {
		t.Errorf("Update of a panicking function = %v, want an error with the panic and its stack", err)
	}
	if _, ok := get(t, st, "a"); ok {
		t.Error("the panicking update left a trace")
	}
	put(t, st, pending("b", at(0)))
}

func testUndeclaredKey(t *testing.T, o *Options) {
	st := o.New(t)
	for name, use := range map[string]func(store.Tx){
		"task a":        func(tx store.Tx) { tx.Task("a") },
		"stream a":      func(tx store.Tx) { tx.Append(journal.Entry{Stream: "a"}) },
		"event a e":     func(tx store.Tx) { tx.Tail("a", "e") },
		"part a e p":    func(tx store.Tx) { tx.Part("a", "e", "p") },
		"input a i":     func(tx store.Tx) { tx.Input("a", "i") },
		"inputs a":      func(tx store.Tx) { tx.Inputs("a") },
		"worker w":      func(tx store.Tx) { tx.DropWorker("w") },
		"invocation k":  func(tx store.Tx) { tx.Invocation("k") },
		"name n":        func(tx store.Tx) { tx.Named("n") },
		"queue q":       func(tx store.Tx) { tx.Running("q") },
		"concurrency c": func(tx store.Tx) { tx.RunningWith("c") },
		"observers a":   func(tx store.Tx) { tx.PutObserver(store.Observer{Task: "a", ID: "o"}) },
	} {
		err := st.Update(t.Context(), []store.Key{store.TaskKey("other")}, func(tx store.Tx) error {
			use(tx)
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("use of the undeclared key %q = %v, want an error that names it", name, err)
		}
	}
}

func testReadYourWrites(t *testing.T, o *Options) {
	st := o.New(t)
	keys := []store.Key{
		store.TaskKey("a"), store.StreamKey("a"), store.EventKey("a", "e"), store.PartKey("a", "e", "p"), store.InputKey("a", "i"),
		store.InputsKey("a"), store.QueueKey("q"), store.ConcurrencyKey("c"), store.NameKey("n"), store.ObserversKey("a"), store.WorkerKey("w"),
	}
	update(t, st, keys, func(tx store.Tx) error {
		r := pending("a", at(0))
		r.State, r.Queue, r.ConcurrencyKey, r.Name = task.Running, "q", "c", "n"
		tx.PutTask(r)
		e := tx.Append(journal.Entry{Stream: "a", Kind: "k", Event: "e", Part: "p", Data: []byte("xyz"), Final: true})
		tx.PutInput(input("a", 1, "i"))
		tx.PutObserver(store.Observer{Task: "a", ID: "o"})
		tx.PutWorker(store.Worker{ID: "w", Epoch: 3})
		tx.DropWorker("w")
		if got, ok := tx.Task("a"); !ok || !cmp.Equal(got, r) {
			t.Errorf("Task = %v, %v, want the record just put", got, ok)
		}
		if got, ok := tx.Part("a", "e", "p"); !ok || !cmp.Equal(got, e) || e.Seq != 1 || !e.At.Equal(tx.Now()) || e.Epoch < 1 {
			t.Errorf("Part = %v, %v, want the entry just appended, %v", got, ok, e)
		}
		if got, want := tx.Tail("a", "e"), (journal.Tail{Part: "p", Bytes: 3, Final: true, Parts: 1}); got != want {
			t.Errorf("Tail = %v, want %v", got, want)
		}
		if h := tx.Head("a"); h.Seq != 1 || h.Epoch != e.Epoch {
			t.Errorf("Head = %v, want that of %v", h, e)
		}
		if n, m := tx.Running("q"), tx.RunningWith("c"); n != 1 || m != 1 {
			t.Errorf("Running, RunningWith = %d, %d, want 1, 1", n, m)
		}
		if id, ok := tx.Named("n"); !ok || id != "a" {
			t.Errorf("Named = %q, %v, want a", id, ok)
		}
		if list := tx.Inputs("a"); len(list) != 1 {
			t.Errorf("Inputs = %v, want one", list)
		}
		if list := tx.Observers("a"); len(list) != 1 {
			t.Errorf("Observers = %v, want one", list)
		}
		if w, ok := tx.Worker("w"); ok {
			t.Errorf("Worker after DropWorker = %v, want none", w)
		}
		return nil
	})
}

func testMore(t *testing.T, o *Options) {
	st := o.New(t)
	r := pending("a", at(0))
	r.Parent = "parent"
	put(t, st, r, pending("parent", at(0)))
	runs := 0
	update(t, st, []store.Key{store.TaskKey("a")}, func(tx store.Tx) error {
		runs++
		r, _ := tx.Task("a")
		if !tx.Declared(store.TaskKey(r.Parent)) {
			r.Description = "must not survive"
			tx.PutTask(r)
			return store.More(store.TaskKey(r.Parent), store.StreamKey("a"))
		}
		if r.Description != "" {
			t.Error("what was staged before More survived")
		}
		if _, ok := tx.Task(r.Parent); !ok {
			t.Error("the key asked for has no row")
		}
		tx.Append(journal.Entry{Stream: "a", Kind: "k"})
		return nil
	})
	if runs != 2 {
		t.Errorf("the function ran %d times, want 2", runs)
	}
	err := st.Update(t.Context(), nil, func(store.Tx) error { return store.More(store.TaskKey("a")) })
	wantKind(t, "Update that always asks for more", err, fault.Invalid)
}

func testNeighbours(t *testing.T, o *Options) {
	st := o.New(t)
	const n = 200
	var wg sync.WaitGroup
	boom := errors.New("boom")
	for i := range n {
		wg.Go(func() {
			id := nth("n", i)
			err := st.Update(context.Background(), []store.Key{store.TaskKey(id), store.StreamKey("all")}, func(tx store.Tx) error {
				tx.PutTask(pending(id, at(0)))
				tx.Append(journal.Entry{Stream: "all", Kind: "k", Task: string(id)})
				switch i % 4 {
				case 1:
					return boom
				case 2:
					panic("boom")
				}
				return nil
			})
			if bad := i%4 == 1 || i%4 == 2; bad != (err != nil) {
				t.Errorf("Update %d = %v", i, err)
			}
		})
	}
	wg.Wait()
	list := entries(t, st, "all")
	if len(list) != n/2 {
		t.Fatalf("%d entries, want %d", len(list), n/2)
	}
	for i, e := range list {
		if e.Seq != int64(i+1) {
			t.Fatalf("entry %d has seq %d", i, e.Seq)
		}
		if _, ok := get(t, st, task.ID(e.Task)); !ok {
			t.Errorf("task %s of an entry is missing", e.Task)
		}
	}
}

func testCopies(t *testing.T, o *Options) {
	st := o.New(t)
	update(t, st, []store.Key{store.TaskKey("a"), store.StreamKey("a")}, func(tx store.Tx) error {
		r := pending("a", at(0))
		r.Labels = map[string]string{"k": "v"}
		r.Spec = task.Payload{Media: "m", Data: []byte("data")}
		data := []byte("data")
		tx.PutTask(r)
		tx.Append(journal.Entry{Stream: "a", Kind: "k", Data: data})
		r.Labels["k"], r.Spec.Data[0], data[0] = "changed", 'X', 'X'
		got, _ := tx.Task("a")
		got.Labels["k"] = "changed too"
		return nil
	})
	got, _ := get(t, st, "a")
	if got.Labels["k"] != "v" || string(got.Spec.Data) != "data" {
		t.Errorf("Task = %v, want what was put, not what became of it", got)
	}
	if e := entries(t, st, "a"); string(e[0].Data) != "data" {
		t.Errorf("Entries = %q, want data", e[0].Data)
	}
	got.Labels["k"] = "changed"
	update(t, st, []store.Key{store.TaskKey("a")}, func(tx store.Tx) error {
		if again, _ := tx.Task("a"); again.Labels["k"] != "v" {
			t.Errorf("Task = %v, want what was put", again)
		}
		return nil
	})
}

func testContext(t *testing.T, o *Options) {
	st := o.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ran := false
	err := st.Update(ctx, nil, func(store.Tx) error { ran = true; return nil })
	if !errors.Is(err, context.Canceled) || ran {
		t.Errorf("Update with an ended context = %v, ran %v, want context.Canceled and not run", err, ran)
	}
	wantKind(t, "View with an ended context", st.View(ctx, func(store.View) error { return nil }), fault.Canceled)

	// Once admitted, the context counts no more.
	ctx, cancel = context.WithCancel(t.Context())
	err = st.Update(ctx, []store.Key{store.TaskKey("a")}, func(tx store.Tx) error {
		cancel()
		tx.PutTask(pending("a", at(0)))
		return nil
	})
	if err != nil {
		t.Errorf("Update whose context ended while it ran = %v, want nil", err)
	}
	if _, ok := get(t, st, "a"); !ok {
		t.Error("its write is missing")
	}
}

func testClosed(t *testing.T, o *Options) {
	st := o.New(t)
	put(t, st, pending("a", at(0)))
	for range 2 {
		if err := st.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	}
	wantKind(t, "Update", st.Update(t.Context(), nil, func(store.Tx) error { return nil }), fault.Closed)
	wantKind(t, "View", st.View(t.Context(), func(store.View) error { return nil }), fault.Closed)
	for range st.Changes(t.Context()) {
		t.Error("Changes of a closed store yields")
	}
}

// block keeps the committer busy until release is called.
func block(st store.Store) (release func()) {
	started, end, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(started) })
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		_ = st.Update(context.Background(), nil, func(store.Tx) error {
			once()
			<-end
			return nil
		})
	})
	<-started
	return sync.OnceFunc(func() { close(end); <-done })
}

func testBackpressure(t *testing.T, o *Options) {
	st := o.Small(t)
	release := block(st)
	defer release()
	var full, canceled atomic.Int64
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for i := range 100 {
		wg.Go(func() {
			c := context.Background()
			if i%2 == 0 {
				c = ctx
			}
			err := st.Update(c, []store.Key{store.TaskKey(nth("b", i))}, func(tx store.Tx) error {
				tx.PutTask(pending(nth("b", i), at(0)))
				return nil
			})
			switch fault.KindOf(err) {
			case fault.Unavailable:
				full.Add(1)
			case fault.Canceled:
				canceled.Add(1)
			default:
				if err != nil {
					t.Errorf("Update = %v", err)
				}
			}
		})
	}
	soon(t, "a refusal", func() bool { return full.Load() > 0 })
	cancel()
	soon(t, "an answer to a canceled context", func() bool { return canceled.Load() > 0 })
	release()
	wg.Wait()
	view(t, st, func(v store.View) error {
		counts, err := v.Counts()
		if got, want := counts[task.Pending], 100-full.Load()-canceled.Load(); got != want {
			t.Errorf("%d tasks stored, want %d: all that were not refused", got, want)
		}
		return err
	})
}

func testFairness(t *testing.T, o *Options) {
	st := o.New(t)
	release := block(st)
	var wg sync.WaitGroup
	var hot, before atomic.Int64
	add := func(id task.ID, then func()) {
		wg.Go(func() {
			err := st.Update(context.Background(), []store.Key{store.TaskKey(id)}, func(tx store.Tx) error {
				tx.PutTask(pending(id, at(0)))
				return nil
			})
			if err != nil {
				t.Errorf("Update = %v", err)
			}
			then()
		})
	}
	const many = 2000
	for range many {
		add("hot", func() { hot.Add(1) })
	}
	for i := range 10 {
		add(nth("cold", i), func() { before.Add(min(1, max(0, many-hot.Load()))) })
	}
	release()
	wg.Wait()
	if before.Load() == 0 {
		t.Error("every update of other tasks came after all of the hot one's")
	}
}

func testClock(t *testing.T, o *Options) {
	var now atomic.Int64
	now.Store(1000)
	st := o.Clocked(t, func() time.Time { return time.Unix(now.Load(), 0) })
	read := func(st store.Store) (in, out time.Time) {
		update(t, st, []store.Key{store.TaskKey("a")}, func(tx store.Tx) error {
			in = tx.Now()
			tx.PutTask(pending("a", in))
			return nil
		})
		view(t, st, func(v store.View) error { out = v.Now(); return nil })
		return in, out
	}
	first, _ := read(st)
	now.Store(10)
	for range 2 {
		in, out := read(st)
		if in.Before(first) || out.Before(in) {
			t.Errorf("the clock went from %v back to %v in Update, %v in View", first, in, out)
		}
		first = in
	}
	if o.Reopen == nil {
		return
	}
	st = o.Reopen(t, st) // its clock may be any: it is checked only against going back
	if in, _ := read(st); in.Before(first) {
		t.Errorf("reopened, the clock went from %v back to %v", first, in)
	}
}

func testTimePrecision(t *testing.T, o *Options) {
	st := o.New(t)
	precise := time.Date(2026, 7, 14, 23, 59, 59, 123456000, time.UTC)
	r := pending("a", precise)
	r.Deadline = precise.Add(time.Microsecond)
	in := input("a", 1, "i")
	in.At = precise
	update(t, st, []store.Key{store.TaskKey("a"), store.InputKey("a", "i"), store.InvocationKey("k"), store.StreamKey("a")}, func(tx store.Tx) error {
		if n := tx.Now(); n.Location() != time.UTC || n.Nanosecond()%1000 != 0 {
			t.Errorf("Now = %v, want microseconds in UTC", n)
		}
		tx.PutTask(r)
		tx.PutInput(in)
		tx.PutTimer(store.Timer{Kind: "t", Subject: "a", Due: precise})
		tx.PutInvocation(store.Invocation{Key: "k", Expires: precise})
		return nil
	})
	view(t, st, func(v store.View) error {
		got, _, _ := v.Task("a")
		inputs, _ := v.Inputs("a", 0, 0)
		timers, _ := v.Timers(precise, 0)
		if !cmp.Equal(got, r) || len(inputs) != 1 || !inputs[0].At.Equal(precise) || len(timers) != 1 || !timers[0].Due.Equal(precise) {
			t.Errorf("times came back as %v, %v, %v, want %v", got.CreatedAt, inputs, timers, precise)
		}
		if timers, _ := v.Timers(precise.Add(-time.Microsecond), 0); len(timers) > 0 {
			t.Error("a timer is due one microsecond early")
		}
		return nil
	})
}

func testEveryByte(t *testing.T, o *Options) {
	st := o.New(t)
	var all []byte
	for i := range 256 {
		all = append(all, byte(i))
	}
	for i, s := range []string{string(all), "\x00", "\xff\xff\xff\xff\xff\xff\xff\xff\xff", "A", "a", "a\x00", "a\x00b", "\xc3\x28", "ünï", `"\'`} {
		r := pending(task.ID(s), at(i))
		r.Name, r.Parent, r.Session, r.Executor, r.Queue = s, task.ID(s+"p"), task.SessionID(s), s, s
		r.Labels = map[string]string{s: s}
		r.Lease.Worker = task.WorkerID(s)
		r.State = task.Running
		keys := []store.Key{store.TaskKey(r.ID), store.StreamKey(journal.StreamID(s)), store.InputKey(r.ID, s), store.WorkerKey(task.WorkerID(s)), store.ObserversKey(r.ID)}
		update(t, st, keys, func(tx store.Tx) error {
			tx.PutTask(r)
			tx.Append(journal.Entry{Stream: journal.StreamID(s), Event: s, Part: s, Kind: s, Media: s, Data: []byte(s), Task: s})
			in := input(r.ID, 1, s)
			in.From = s
			tx.PutInput(in)
			tx.PutWorker(store.Worker{ID: task.WorkerID(s), Host: s})
			tx.PutObserver(store.Observer{Task: r.ID, ID: s, Lease: task.Lease{Worker: task.WorkerID(s)}})
			return nil
		})
		view(t, st, func(v store.View) error {
			got, ok, err := v.Task(r.ID)
			if err != nil || !ok || !cmp.Equal(got, r) {
				t.Errorf("Task(%q) = %v, %v: %s", s, ok, err, cmp.Diff(r, got))
			}
			if list, err := v.Find(s, 0); err != nil || len(list) == 0 {
				t.Errorf("Find(%q) = %v, %v", s, list, err)
			}
			if list, err := v.Children(r.Parent, "", 0); err != nil || len(list) != 1 || list[0].ID != r.ID {
				t.Errorf("Children(%q) = %d, %v, want the task", r.Parent, len(list), err)
			}
			if list, err := v.Held(r.Lease, "", 0); err != nil || len(list) != 1 || list[0].ID != r.ID {
				t.Errorf("Held(%q) = %d, %v, want the task", s, len(list), err)
			}
			list, err := v.Entries(journal.StreamID(s), 0, 0)
			if err != nil || len(list) != 1 || list[0].Event != s || list[0].Kind != s || !bytes.Equal(list[0].Data, []byte(s)) {
				t.Errorf("Entries(%q) = %+v, %v", s, list, err)
			}
			inputs, err := v.Inputs(r.ID, 0, 0)
			if err != nil || len(inputs) != 1 || inputs[0].ID != s || inputs[0].From != s {
				t.Errorf("Inputs(%q) = %v, %v", s, inputs, err)
			}
			w, _, err := v.Worker(task.WorkerID(s))
			if err != nil || w.ID != task.WorkerID(s) || w.Host != s {
				t.Errorf("Worker(%q) = %v, %v", s, w, err)
			}
			obs, err := v.ObserversOf(task.Lease{Worker: task.WorkerID(s)}, 0)
			if err != nil || len(obs) != 1 || obs[0].ID != s {
				t.Errorf("ObserversOf(%q) = %v, %v", s, obs, err)
			}
			return nil
		})
	}
	view(t, st, func(v store.View) error {
		list, err := v.Tasks(store.Filter{})
		if len(list) != 10 || !descending(list) {
			t.Errorf("Tasks = %q, want 10 in descending order", ids(list))
		}
		return err
	})
}

func descending(list []task.Record) bool {
	for i := 1; i < len(list); i++ {
		if list[i].ID >= list[i-1].ID {
			return false
		}
	}
	return true
}

func testLargeValues(t *testing.T, o *Options) {
	st := o.New(t)
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
	r := pending("a", at(0))
	r.Spec.Data = big
	r.Checkpoint = &task.Checkpoint{Format: "f", Data: big}
	in := input("a", 1, "i")
	in.Data = big
	update(t, st, []store.Key{store.TaskKey("a"), store.StreamKey("a"), store.InputKey("a", "i")}, func(tx store.Tx) error {
		tx.PutTask(r)
		for i := range 16 {
			tx.Append(journal.Entry{Stream: "a", Kind: "k", Data: big, Event: fmt.Sprint(i)})
		}
		tx.PutInput(in)
		tx.Append(journal.Entry{Stream: "a", Kind: "empty", Data: []byte{}})
		tx.Append(journal.Entry{Stream: "a", Kind: "nil"})
		return nil
	})
	if got, _ := get(t, st, "a"); !cmp.Equal(got, r) {
		t.Error("a record with 1 MiB values came back changed")
	}
	list := entries(t, st, "a")
	if len(list) != 18 || !bytes.Equal(list[3].Data, big) || list[16].Data == nil || list[17].Data != nil {
		t.Error("entries with 1 MiB, empty and nil data came back changed")
	}
}
