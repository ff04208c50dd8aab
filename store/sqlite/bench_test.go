// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/internal/rawlog"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/store/sqlite"
	"github.com/outlive-dev/outlive/task"
)

func open(tb testing.TB) *sqlite.Store {
	tb.Helper()
	st, err := sqlite.Open(tb.Context(), filepath.Join(tb.TempDir(), "outlive.db"), nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { st.Close() })
	return st
}

// spread runs do b.N times over that many goroutines and reports the rate.
func spread(b *testing.B, goroutines int, do func(worker, i int) error) {
	b.Helper()
	b.ReportAllocs()
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	start := time.Now()
	for w := range goroutines {
		wg.Go(func() {
			for {
				i := int(next.Add(1))
				if i > b.N {
					return
				}
				if err := do(w, i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "ops/s")
}

func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprintf("writers=%d", n), func(b *testing.B) {
			st := open(b)
			data := make([]byte, 256)
			spread(b, n, func(w, _ int) error {
				s := journal.StreamID(fmt.Sprintf("sh-stream-%016d", w))
				return st.Update(b.Context(), []store.Key{store.StreamKey(s)}, func(tx store.Tx) error {
					tx.Append(journal.Entry{Stream: s, Task: string(s), Attempt: 1, Kind: journal.KindOutput, Media: "text/plain", Data: data})
					return nil
				})
			})
		})
	}
}

// BenchmarkRawLog is the limit the others are compared with, in the same run.
func BenchmarkRawLog(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprintf("writers=%d", n), func(b *testing.B) {
			l, err := rawlog.Create(filepath.Join(b.TempDir(), "log"))
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			data := make([]byte, 256)
			spread(b, n, func(int, int) error { return l.Append(data) })
		})
	}
	b.Run("lifecycle=64", func(b *testing.B) {
		l, err := rawlog.Create(filepath.Join(b.TempDir(), "log"))
		if err != nil {
			b.Fatal(err)
		}
		defer l.Close()
		data := make([]byte, 700)
		spread(b, 64, func(int, int) error {
			for range 3 {
				if err := l.Append(data); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func BenchmarkAppendPart(b *testing.B) {
	st := open(b)
	data := make([]byte, 256)
	spread(b, 64, func(w, i int) error {
		s := journal.StreamID(fmt.Sprintf("sh-stream-%016d", w))
		part := fmt.Sprint(i)
		keys := []store.Key{store.StreamKey(s), store.EventKey(s, "out"), store.PartKey(s, "out", part)}
		return st.Update(b.Context(), keys, func(tx store.Tx) error {
			if _, ok := tx.Part(s, "out", part); ok || tx.Tail(s, "out").Final {
				return nil
			}
			tx.Append(journal.Entry{Stream: s, Task: string(s), Attempt: 1, Event: "out", Part: part, Kind: journal.KindOutput, Media: "text/plain", Data: data})
			return nil
		})
	})
}

func BenchmarkLifecycle(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprintf("flight=%d", n), func(b *testing.B) {
			st := open(b)
			spread(b, n, func(w, i int) error {
				return lifecycle(b.Context(), st, task.ID(fmt.Sprintf("ag-%012x-%04xk3j5h2l1q9", i, w)))
			})
		})
	}
}

// lifecycle creates, starts and completes a task, each with its entry and each
// acknowledged.
func lifecycle(ctx context.Context, st store.Store, id task.ID) error {
	keys := []store.Key{store.TaskKey(id), store.StreamKey(journal.StreamID(id))}
	step := func(kind string, attempt int64, change func(tx store.Tx, r *task.Record)) error {
		return st.Update(ctx, keys, func(tx store.Tx) error {
			r, _ := tx.Task(id)
			change(tx, &r)
			r.Version++
			r.Revision++
			r.UpdatedAt = tx.Now()
			tx.PutTask(r)
			tx.Append(journal.Entry{Stream: journal.StreamID(id), Task: string(id), Attempt: attempt, Kind: kind, Media: "application/json", Data: []byte(`{"attempt":1}`)})
			return nil
		})
	}
	err := step(journal.KindCreated, 0, func(tx store.Tx, r *task.Record) {
		*r = task.Record{
			ID: id, Executor: "report.v1", Spec: task.Payload{Media: "application/json", Data: []byte(`{"week":40}`)},
			Owner: task.OwnerManager, Generation: 1, Publication: task.OnCreate, State: task.Pending,
			MaxAttempts: 3, CreatedAt: tx.Now(), DueAt: tx.Now(), Retention: 24 * time.Hour,
		}
	})
	if err != nil {
		return err
	}
	err = step(journal.KindStarted, 1, func(tx store.Tx, r *task.Record) {
		r.State, r.Lease, r.StartedAt, r.DueAt = task.Running, task.Lease{Worker: "w-1", Epoch: 1}, tx.Now(), time.Time{}
		r.Attempt++
	})
	if err != nil {
		return err
	}
	return step(journal.KindCompleted, 1, func(tx store.Tx, r *task.Record) {
		r.State, r.Lease, r.DoneAt = task.Completed, task.Lease{}, tx.Now()
		r.Result = &task.Payload{Media: "application/json", Data: []byte(`{"ok":true}`)}
	})
}

func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "outlive.db")
	for i := 0; b.Loop(); i++ {
		st, err := sqlite.Open(b.Context(), path, nil)
		if err != nil {
			b.Fatal(err)
		}
		if i == 0 {
			if err := lifecycle(b.Context(), st, "ag-1"); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		st.Close()
		b.StartTimer()
	}
}
