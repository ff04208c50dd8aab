// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package postgres_test

import (
	"testing"
	"time"

	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/store/postgres"
	"github.com/outlive-dev/outlive/task"
)

// What another instance makes pending is found, wherever it lies: at once when it is due
// now, whatever its executor and priority, and a little later when it was due long ago.
func TestPendingBesideFloors(t *testing.T) {
	t.Parallel()
	dsn := migrated(t)
	a, b := openAt(t, dsn, postgres.Options{}), openAt(t, dsn, postgres.Options{})
	now := time.Now().UTC().Truncate(time.Microsecond)
	put := func(id task.ID, executor string, priority int, due time.Time) {
		t.Helper()
		if err := a.Update(t.Context(), []store.Key{store.TaskKey(id)}, func(tx store.Tx) error {
			tx.PutTask(task.Record{ID: id, Executor: executor, Priority: priority, State: task.Pending, CreatedAt: due, DueAt: due})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	pending := func() map[task.ID]bool {
		t.Helper()
		found := make(map[task.ID]bool)
		if err := b.View(t.Context(), func(v store.View) error {
			list, err := v.Pending(store.PendingQuery{Now: now.Add(time.Minute)})
			for i := range list {
				found[list[i].ID] = true
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return found
	}
	put("first", "m.v1", 0, now)
	if !pending()["first"] {
		t.Fatal("the first task is not found")
	}
	for _, c := range []struct {
		executor string
		priority int
	}{{"m.v1", 0}, {"m.v1", -1}, {"m.v1", 1}, {"a.v1", 0}, {"z.v1", 9}, {"z.v1", -9}} {
		id := task.ID(c.executor + string(rune('k'+c.priority)))
		put(id, c.executor, c.priority, now)
		if !pending()[id] {
			t.Errorf("a task of %s with priority %d is not found at once", c.executor, c.priority)
		}
	}
	put("late", "m.v1", 0, now.Add(-time.Hour))
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !pending()["late"] {
		select {
		case <-deadline.C:
			t.Fatal("a task that was due long ago is never found")
		case <-tick.C:
		}
	}
}
