// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package storetest is the suite that judges every driver: a driver that passes
// needs no other test of the contract in package store.
package storetest

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// Options says how to make the stores of one driver.
type Options struct {
	// New returns a fresh store, closed by the test's cleanup. Required.
	New func(t testing.TB) store.Store
	// Clocked returns a fresh store whose wall clock is the given one. Required.
	Clocked func(t testing.TB, clock func() time.Time) store.Store
	// Small returns a fresh store whose queue holds few updates and whose patience
	// is short. Required.
	Small func(t testing.TB) store.Store
	// Reopen closes a store and opens what it left behind. Defaults to skipping
	// what needs it.
	Reopen func(t testing.TB, st store.Store) store.Store
	// Peer returns another store over the same data, as another process would have
	// it. Defaults to skipping what needs it.
	Peer func(t testing.TB, st store.Store) store.Store
}

// Run runs the suite.
func Run(t *testing.T, o Options) {
	if err := flag.Set("rapid.nofailfile", "true"); err != nil { // the seed is enough, and is printed
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		test func(*testing.T, *Options)
	}{
		{"Rollback", testRollback},
		{"Panic", testPanic},
		{"UndeclaredKey", testUndeclaredKey},
		{"ReadYourWrites", testReadYourWrites},
		{"More", testMore},
		{"Neighbours", testNeighbours},
		{"Copies", testCopies},
		{"Context", testContext},
		{"Closed", testClosed},
		{"Backpressure", testBackpressure},
		{"Fairness", testFairness},
		{"Clock", testClock},
		{"TimePrecision", testTimePrecision},
		{"DenseSeq", testDenseSeq},
		{"Parts", testParts},
		{"EveryByte", testEveryByte},
		{"LargeValues", testLargeValues},
		{"Counts", testCounts},
		{"Names", testNames},
		{"Inputs", testInputs},
		{"InputsOverOnePage", testInputsOverOnePage},
		{"Workers", testWorkers},
		{"Invocations", testInvocations},
		{"Observers", testObservers},
		{"Timers", testTimers},
		{"TimerArg", testTimerArg},
		{"Tickets", testTickets},
		{"HeldBy", testHeldBy},
		{"Sessions", testSessions},
		{"Outbox", testOutbox},
		{"Forget", testForget},
		{"ExpiredInvocations", testExpiredInvocations},
		{"List", testList},
		{"Find", testFind},
		{"Children", testChildren},
		{"CursorStability", testCursorStability},
		{"Pending", testPending},
		{"Held", testHeld},
		{"Snapshot", testSnapshot},
		{"Hints", testHints},
		{"LostUpdate", testLostUpdate},
		{"ClaimExclusivity", testClaimExclusivity},
		{"Peers", testPeers},
		{"PeerHints", testPeerHints},
		{"ReopenEachStep", testReopen},
		{"Model", testModel},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, &o)
		})
	}
}

// update fails the test when the update does.
func update(tb testing.TB, st store.Store, keys []store.Key, fn func(store.Tx) error) {
	tb.Helper()
	if err := st.Update(tb.Context(), keys, fn); err != nil {
		tb.Fatalf("Update(%v) = %v", keys, err)
	}
}

// view fails the test when the view does.
func view(tb testing.TB, st store.Store, fn func(store.View) error) {
	tb.Helper()
	if err := st.View(tb.Context(), fn); err != nil {
		tb.Fatalf("View = %v", err)
	}
}

// put stores records in one update.
func put(tb testing.TB, st store.Store, records ...task.Record) {
	tb.Helper()
	var keys []store.Key
	for _, r := range records {
		keys = append(keys, store.TaskKey(r.ID))
	}
	update(tb, st, keys, func(tx store.Tx) error {
		for _, r := range records {
			tx.PutTask(r)
		}
		return nil
	})
}

// get returns a task's record.
func get(tb testing.TB, st store.Store, id task.ID) (r task.Record, ok bool) {
	tb.Helper()
	view(tb, st, func(v store.View) (err error) {
		r, ok, err = v.Task(id)
		return err
	})
	return r, ok
}

// entries returns a stream's entries.
func entries(tb testing.TB, st store.Store, s journal.StreamID) (list []journal.Entry) {
	tb.Helper()
	view(tb, st, func(v store.View) error {
		for after := int64(0); ; {
			page, err := v.Entries(s, after, store.MaxPage)
			if err != nil || len(page) == 0 {
				return err
			}
			list = append(list, page...)
			after = page[len(page)-1].Seq
		}
	})
	return list
}

func ids(list []task.Record) []task.ID {
	out := []task.ID{}
	for _, r := range list {
		out = append(out, r.ID)
	}
	return out
}

func wantKind(tb testing.TB, what string, err error, kind fault.Kind) {
	tb.Helper()
	if !fault.Is(err, kind) {
		tb.Errorf("%s = %v (kind %v), want kind %v", what, err, fault.KindOf(err), kind)
	}
}

// soon polls until ok returns true.
func soon(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			tb.Fatalf("%s did not happen within 20 s", what)
		case <-tick.C:
		}
	}
}

func pending(id task.ID, now time.Time) task.Record {
	return task.Record{
		ID: id, Executor: "test.v1", Owner: task.OwnerManager, Generation: 1, Publication: task.OnCreate,
		State: task.Pending, Version: 1, CreatedAt: now, UpdatedAt: now, DueAt: now,
	}
}

func at(n int) time.Time { return time.Unix(1_700_000_000+int64(n), 0).UTC() }

func nth(prefix string, n int) task.ID { return task.ID(fmt.Sprintf("%s%06d", prefix, n)) }
