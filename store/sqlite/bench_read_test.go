// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite_test

import (
	"fmt"
	"testing"

	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/store/sqlite"
	"github.com/outlive-dev/outlive/task"
)

// fill stores n tasks of that state in few commits.
func fill(b *testing.B, st store.Store, prefix string, n int, state task.State) {
	b.Helper()
	for from := 0; from < n; from += 2000 {
		var keys []store.Key
		for i := from; i < min(from+2000, n); i++ {
			keys = append(keys, store.TaskKey(task.ID(fmt.Sprintf("%s%08d", prefix, i))))
		}
		err := st.Update(b.Context(), keys, func(tx store.Tx) error {
			for i, k := range keys {
				tx.PutTask(task.Record{
					ID: task.ID(k.A), Executor: "report.v1", Owner: task.OwnerManager, State: state, Priority: i % 3,
					CreatedAt: tx.Now(), DueAt: tx.Now(), Spec: task.Payload{Media: "application/json", Data: make([]byte, 200)},
				})
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	st := open(b)
	fill(b, st, "a", 100_000, task.Completed)
	fill(b, st, "b", 20_000, task.Pending)
	fill(b, st, "c", 50, task.Suspended)
	err := st.Update(b.Context(), []store.Key{store.StreamKey("s")}, func(tx store.Tx) error {
		for range 10_000 {
			tx.Append(journal.Entry{Stream: "s", Task: "s", Kind: journal.KindOutput, Data: make([]byte, 256)})
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	for name, read := range map[string]func(v store.View) error{
		"nothing": func(store.View) error { return nil },
		"task": func(v store.View) error {
			_, _, err := v.Task("a00050000")
			return err
		},
		"entries=1000": func(v store.View) error { return got(v.Entries("s", 5000, 1000))(1000) },
		"entries=10":   func(v store.View) error { return got(v.Entries("s", 9990, 1000))(10) },
		"pending=16 of 20000": func(v store.View) error {
			return got(v.Pending(store.PendingQuery{Now: v.Now(), Limit: 16, Executors: []string{"report.v1"}}))(16)
		},
		"nextdue": func(v store.View) error {
			_, _, err := v.NextDue(v.Now())
			return err
		},
		"newest 100": func(v store.View) error { return got(v.Tasks(store.Filter{Limit: 100}))(100) },
		"newest 100 unfinished": func(v store.View) error {
			return got(v.Tasks(store.Filter{Limit: 100, States: task.States()[:4]}))(100)
		},
		"newest 100 suspended": func(v store.View) error {
			return got(v.Tasks(store.Filter{Limit: 100, States: []task.State{task.Suspended}}))(50)
		},
		"find ending": func(v store.View) error { return got(v.Find("00050000", 0))(1) },
		"counts": func(v store.View) error {
			_, err := v.Counts()
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := st.View(b.Context(), read); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("load of a task not in memory", func(b *testing.B) {
		other := openAt(b, st.Info().Path, sqlite.Options{})
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			id := task.ID(fmt.Sprintf("a%08d", i*7919%100_000))
			err := other.Update(b.Context(), []store.Key{store.TaskKey(id)}, func(store.Tx) error { return nil })
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

// got checks how many rows came.
func got[T any](list []T, err error) func(int) error {
	return func(want int) error {
		if err == nil && len(list) != want {
			return fmt.Errorf("%d rows, want %d", len(list), want)
		}
		return err
	}
}
