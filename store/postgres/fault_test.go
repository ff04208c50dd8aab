// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package postgres_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/pgtest"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/store/postgres"
	"github.com/outlive-dev/outlive/store/storetest"
	"github.com/outlive-dev/outlive/task"
)

var rounds = flag.Int("postgres.rounds", 2, "how often the server is ended in each way")

func TestCrash(t *testing.T) {
	const url = "OUTLIVE_TEST_CRASH_URL" // of the store that this process and those that are killed share
	if os.Getenv(url) == "" {
		t.Setenv(url, migrated(t))
	}
	storetest.Crash(t, storetest.CrashOptions{
		Open:       func(t testing.TB, _ string) store.Store { return openAt(t, os.Getenv(url), postgres.Options{}) },
		Variable:   "OUTLIVE_FAILPOINT",
		Failpoints: postgres.Failpoints(),
	})
}

// appendTo appends an entry to a stream that names its number.
func appendTo(ctx context.Context, st store.Store, s journal.StreamID, n int64) error {
	return st.Update(ctx, []store.Key{store.StreamKey(s)}, func(tx store.Tx) error {
		tx.Append(journal.Entry{Stream: s, Kind: "k", Attempt: n})
		return nil
	})
}

// numbers counts how often each number is in a stream.
func numbers(t *testing.T, st store.Store, s journal.StreamID) map[int64]int {
	t.Helper()
	have := make(map[int64]int)
	if err := st.View(t.Context(), func(v store.View) error {
		for after := int64(0); ; {
			list, err := v.Entries(s, after, store.MaxPage)
			if err != nil || len(list) == 0 {
				return err
			}
			for i := range list {
				have[list[i].Attempt]++
				after = list[i].Seq
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	return have
}

// writer appends without end and remembers what it was told.
type writer struct {
	s       journal.StreamID
	acked   atomic.Int64
	failed  map[int64]bool // surely not there
	unknown map[int64]bool // may be there
}

func (w *writer) run(ctx context.Context, t *testing.T, st store.Store) {
	for n := int64(1); ctx.Err() == nil; n++ {
		err := appendTo(context.WithoutCancel(ctx), st, w.s, n)
		switch {
		case err == nil:
			w.acked.Add(1)
		case fault.Is(err, fault.UnknownOutcome):
			w.unknown[n] = true
		case fault.Is(err, fault.Unavailable):
			w.failed[n] = true
		default:
			t.Errorf("Update = %v, want a kind that says what to do", err)
			return
		}
	}
}

// The server is killed, stopped at once and restarted under the load of two instances:
// nothing that was acknowledged is lost, nothing is there twice, and both go on by
// themselves.
func TestServerDies(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, "fsync=off") // what the kernel has is not lost with the server
	dsn := server.Schema(t)
	if _, _, err := postgres.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	// One of them gives up soon, the other waits for the server.
	stores := []*postgres.Store{openAt(t, dsn, postgres.Options{}), openAt(t, dsn, postgres.Options{Wait: 20 * time.Millisecond})}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var writers []*writer
	var wg sync.WaitGroup
	for i := range 8 {
		w := &writer{s: journal.StreamID(fmt.Sprint("w", i)), failed: make(map[int64]bool), unknown: make(map[int64]bool)}
		writers = append(writers, w)
		wg.Go(func() { w.run(ctx, t, stores[i%2]) })
	}
	progress := func(what string) {
		t.Helper()
		var from []int64
		for _, w := range writers {
			from = append(from, w.acked.Load())
		}
		deadline := time.Now().Add(30 * time.Second)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for i, w := range writers {
			for w.acked.Load() < from[i]+20 {
				if <-tick.C; time.Now().After(deadline) {
					t.Fatalf("%s: writer %d does not go on", what, i)
				}
			}
		}
	}
	progress("at first")
	for range *rounds {
		for _, end := range []struct {
			name string
			do   func() error
		}{{"killed", server.Kill}, {"stopped at once", server.Stop}, {"shut down", server.Shutdown}} {
			if err := end.do(); err != nil {
				t.Fatal(err)
			}
			if err := server.Run(); err != nil {
				t.Fatal(err)
			}
			progress(end.name)
		}
	}
	cancel()
	wg.Wait()
	acked, unknown, failed := int64(0), 0, 0
	for _, w := range writers {
		have := numbers(t, stores[0], w.s)
		sure := int64(0)
		for n, times := range have {
			switch {
			case times != 1:
				t.Errorf("update %d of %s was done %d times", n, w.s, times)
			case w.failed[n]:
				t.Errorf("update %d of %s is there, and its caller heard that it is not", n, w.s)
			case !w.unknown[n]:
				sure++
			}
		}
		if sure != w.acked.Load() {
			t.Errorf("%s has %d entries, %d were acknowledged", w.s, sure, w.acked.Load())
		}
		acked, unknown, failed = acked+w.acked.Load(), unknown+len(w.unknown), failed+len(w.failed)
	}
	t.Logf("%d ends of the server, %d acknowledged, %d unknown, %d refused, none lost", 3**rounds, acked, unknown, failed)
}

// hold keeps a lock by a connection of its own.
func hold(t *testing.T, dsn, sql string) (release func()) {
	t.Helper()
	c, err := pgconn.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), "BEGIN; "+sql).ReadAll(); err != nil {
		t.Fatal(err)
	}
	return sync.OnceFunc(func() { _ = c.Close(context.Background()) })
}

func putTask(ctx context.Context, st store.Store, id task.ID) error {
	return st.Update(ctx, []store.Key{store.TaskKey(id)}, func(tx store.Tx) error {
		r, _ := tx.Task(id)
		r.ID, r.State, r.Revision = id, task.Pending, r.Revision+1
		tx.PutTask(r)
		return nil
	})
}

// Somebody hangs with a row locked: updates that need others go on, those that need it
// wait, until it is free or their patience ends.
func TestRowHeldByOthers(t *testing.T) {
	t.Parallel()
	dsn := migrated(t)
	st := openAt(t, dsn, postgres.Options{})
	hasty := openAt(t, dsn, postgres.Options{Patience: 300 * time.Millisecond})
	if err := putTask(t.Context(), st, "held"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		id   task.ID
		lock string
	}{
		{"held", `SELECT FROM outlive_task WHERE id = 'held' FOR UPDATE`},
		{"new", `INSERT INTO outlive_task (id, state, consumed, live, body) VALUES ('new', 'pending', 0, true, '{}')`},
	} {
		release := hold(t, dsn, c.lock)
		defer release()
		done := make(chan error, 1)
		go func() { done <- putTask(context.Background(), st, c.id) }()
		for i := range 40 {
			if err := putTask(t.Context(), st, task.ID(fmt.Sprint("free", i%20))); err != nil {
				t.Errorf("%s is held: Update of another = %v", c.id, err)
			}
		}
		err := putTask(t.Context(), hasty, c.id)
		if !errors.Is(err, postgres.ErrLocked) || !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s is held: Update without patience = %v, want ErrLocked", c.id, err)
		}
		select {
		case err := <-done:
			t.Errorf("%s is held: Update of it = %v, want it to wait", c.id, err)
		default:
		}
		release()
		if err := <-done; err != nil {
			t.Errorf("%s was held: Update of it = %v", c.id, err)
		}
	}
	if err := st.View(t.Context(), func(v store.View) error {
		for id, want := range map[task.ID]int64{"held": 2, "new": 1} {
			if r, _, err := v.Task(id); err != nil || r.Revision != want {
				t.Errorf("Task %s = revision %d, %v, want %d", id, r.Revision, err, want)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// An instance that hangs inside of a transaction loses it after three seconds: others go
// on, and it does its work again when it wakes.
func TestInstanceHangs(t *testing.T) {
	t.Parallel()
	dsn := migrated(t)
	a, b := openAt(t, dsn, postgres.Options{}), openAt(t, dsn, postgres.Options{})
	if err := putTask(t.Context(), a, "x"); err != nil {
		t.Fatal(err)
	}
	entered, wake, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	first := sync.OnceFunc(func() { close(entered); <-wake })
	go func() {
		done <- a.Update(context.Background(), []store.Key{store.TaskKey("x")}, func(tx store.Tx) error {
			r, _ := tx.Task("x")
			first()
			r.Revision++
			tx.PutTask(r)
			return nil
		})
	}()
	<-entered
	if err := putTask(t.Context(), b, "x"); err != nil {
		t.Errorf("Update beside an instance that hangs = %v", err)
	}
	close(wake)
	if err := <-done; err != nil {
		t.Errorf("Update of the instance that woke = %v", err)
	}
	if err := b.View(t.Context(), func(v store.View) error {
		if r, _, err := v.Task("x"); err != nil || r.Revision != 3 {
			t.Errorf("Task = revision %d, %v, want 3: no update is lost", r.Revision, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// Two instances ask for the same two keys in the middle of a batch, in different orders.
func TestNoDeadlock(t *testing.T) {
	t.Parallel()
	dsn := migrated(t)
	stores := []*postgres.Store{openAt(t, dsn, postgres.Options{}), openAt(t, dsn, postgres.Options{})}
	ids := []task.ID{"p", "q"}
	for _, id := range ids {
		if err := putTask(t.Context(), stores[0], id); err != nil {
			t.Fatal(err)
		}
	}
	const each = 60
	start := time.Now()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			one, other := store.TaskKey(ids[i%2]), store.TaskKey(ids[1-i%2])
			for range each {
				err := stores[i%2].Update(context.Background(), []store.Key{one}, func(tx store.Tx) error {
					if !tx.Declared(other) {
						return store.More(other)
					}
					for _, id := range ids {
						r, _ := tx.Task(id)
						r.Revision++
						tx.PutTask(r)
					}
					return nil
				})
				if err != nil {
					t.Errorf("Update = %v", err)
				}
			}
		})
	}
	wg.Wait()
	if err := stores[0].View(t.Context(), func(v store.View) error {
		for _, id := range ids {
			if r, _, err := v.Task(id); err != nil || r.Revision != 4*each+1 {
				t.Errorf("Task %s = revision %d, %v, want %d", id, r.Revision, err, 4*each+1)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d updates of two instances in %v", 4*each, time.Since(start))
}

// Names have no row of their own, and yet two instances do not take one twice.
func TestNameTakenOnce(t *testing.T) {
	t.Parallel()
	dsn := migrated(t)
	stores := []*postgres.Store{openAt(t, dsn, postgres.Options{}), openAt(t, dsn, postgres.Options{})}
	const names = 40
	var taken [names]atomic.Int64
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for n := range names {
				name, id := fmt.Sprint("n", n), task.ID(fmt.Sprintf("t%d-%d", n, i))
				won := false
				err := stores[i%2].Update(context.Background(), []store.Key{store.NameKey(name), store.TaskKey(id)}, func(tx store.Tx) error {
					if _, there := tx.Named(name); there {
						won = false
						return nil
					}
					tx.PutTask(task.Record{ID: id, Name: name, State: task.Pending})
					won = true
					return nil
				})
				if err != nil {
					t.Errorf("Update = %v", err)
				}
				if won {
					taken[n].Add(1)
				}
			}
		})
	}
	wg.Wait()
	for n := range names {
		if got := taken[n].Load(); got != 1 {
			t.Errorf("name n%d was taken %d times", n, got)
		}
	}
}

// Both committers of a store are at work on rows that all updates need: none is lost, and
// those of one key keep their order.
func TestTwoCommitters(t *testing.T) {
	t.Parallel()
	st := openAt(t, migrated(t), postgres.Options{})
	const goroutines, each = 300, 5
	var wg sync.WaitGroup
	for i := range goroutines {
		wg.Go(func() {
			own := task.ID(fmt.Sprint("t", i))
			for n := range int64(each) {
				err := st.Update(context.Background(), []store.Key{store.TaskKey(own), store.TaskKey("all"), store.WorkerKey("w")}, func(tx store.Tx) error {
					for _, id := range []task.ID{own, "all"} {
						r, _ := tx.Task(id)
						if id == own && r.Revision != n {
							t.Errorf("update %d of %s finds revision %d", n, own, r.Revision)
						}
						r.ID, r.State, r.Revision = id, task.Pending, r.Revision+1
						tx.PutTask(r)
					}
					w, _ := tx.Worker("w")
					w.ID, w.Epoch = "w", w.Epoch+1
					tx.PutWorker(w)
					return nil
				})
				if err != nil {
					t.Errorf("Update = %v", err)
				}
			}
		})
	}
	wg.Wait()
	if err := st.View(t.Context(), func(v store.View) error {
		r, _, err := v.Task("all")
		if err != nil {
			return err
		}
		w, _, err := v.Worker("w")
		if r.Revision != goroutines*each || w.Epoch != goroutines*each {
			t.Errorf("the shared rows counted %d and %d of %d updates", r.Revision, w.Epoch, goroutines*each)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// Two instances change a worker's row, which others only read: they take turns.
func TestWorkerChangedByTwo(t *testing.T) {
	t.Parallel()
	dsn := migrated(t)
	stores := []*postgres.Store{openAt(t, dsn, postgres.Options{}), openAt(t, dsn, postgres.Options{})}
	const each = 50
	start := time.Now()
	var wg sync.WaitGroup
	for i := range 8 {
		st := stores[i%2]
		wg.Go(func() {
			for n := range each {
				keys := []store.Key{store.WorkerKey("w")}
				if i >= 4 {
					keys = append(keys, store.StreamKey(journal.StreamID(fmt.Sprint(i))))
				}
				err := st.Update(context.Background(), keys, func(tx store.Tx) error {
					w, _ := tx.Worker("w")
					if i >= 4 {
						tx.Append(journal.Entry{Stream: journal.StreamID(fmt.Sprint(i)), Kind: "k", Attempt: w.Epoch})
						return nil
					}
					w.ID, w.Epoch = "w", w.Epoch+1
					tx.PutWorker(w)
					return nil
				})
				if err != nil {
					t.Errorf("Update %d of %d = %v", n, i, err)
				}
			}
		})
	}
	wg.Wait()
	if err := stores[0].View(t.Context(), func(v store.View) error {
		w, _, err := v.Worker("w")
		if w.Epoch != 4*each {
			t.Errorf("the row was changed %d times, want %d", w.Epoch, 4*each)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d updates in %v", 8*each, time.Since(start))
}
