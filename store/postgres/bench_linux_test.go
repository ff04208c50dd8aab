// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package postgres_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/internal/pgtest"
	"github.com/outlive-dev/outlive/internal/rawlog"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/store/postgres"
	"github.com/outlive-dev/outlive/task"
)

// rate runs do in some goroutines for a while and returns how often a second.
func rate(b *testing.B, goroutines int, do func(worker, i int) error) float64 {
	const slice = 500 * time.Millisecond
	var n atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for w := range goroutines {
		wg.Go(func() {
			for time.Since(start) < slice {
				if err := do(w, int(n.Add(1))); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return float64(n.Load()) / time.Since(start).Seconds()
}

// ownCPU is what this process has used.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRatio compares the store with the raw log in turns, since the disk and the
// machine change from second to second: the median of the pairs' ratios is what counts,
// and the processor's time per operation. It does not depend on b.N.
func BenchmarkRatio(b *testing.B) {
	server := pgtest.Start(b)
	data, row := make([]byte, 256), make([]byte, 700)
	var used atomic.Int64 // ids are used once
	for _, c := range []struct {
		name string
		logs int
		data []byte
		do   func(st store.Store, w int) error
	}{
		{"append", 1, data, func(st store.Store, w int) error {
			s := journal.StreamID(fmt.Sprintf("sh-stream-%016d", w))
			return st.Update(b.Context(), []store.Key{store.StreamKey(s)}, func(tx store.Tx) error {
				tx.Append(journal.Entry{Stream: s, Task: string(s), Attempt: 1, Kind: journal.KindOutput, Media: "text/plain", Data: data})
				return nil
			})
		}},
		{"lifecycle", 3, row, func(st store.Store, w int) error {
			return lifecycle(b.Context(), st, task.ID(fmt.Sprintf("ag-%012x-%04xk3j5h2l1q9", used.Add(1), w)))
		}},
	} {
		for _, flight := range []int{64, 512} {
			b.Run(fmt.Sprintf("%s/flight=%d", c.name, flight), func(b *testing.B) {
				dsn := server.Schema(b)
				if _, _, err := postgres.Migrate(b.Context(), dsn); err != nil {
					b.Fatal(err)
				}
				st := openAt(b, dsn, postgres.Options{})
				log, err := rawlog.Create(filepath.Join(b.TempDir(), "log"))
				if err != nil {
					b.Fatal(err)
				}
				defer log.Close()
				do := func(w, _ int) error { return c.do(st, w) }
				rate(b, flight, do) // plans, buffers
				const rounds = 5
				var rates, ratios []float64
				var ops float64
				var own time.Duration
				theirs := server.CPU()
				for range rounds {
					raw := rate(b, flight, func(int, int) error {
						for range c.logs {
							if err := log.Append(c.data); err != nil {
								return err
							}
						}
						return nil
					})
					before := ownCPU()
					r := rate(b, flight, do)
					own += ownCPU() - before
					ops += r / 2 // half a second each
					rates, ratios = append(rates, r), append(ratios, r/raw)
				}
				theirs = server.CPU() - theirs
				slices.Sort(rates)
				slices.Sort(ratios)
				b.ReportMetric(rates[rounds/2], "ops/s")
				b.ReportMetric(ratios[rounds/2], "ratio")
				b.ReportMetric(float64(own.Microseconds())/ops, "own-µs/op")
				b.ReportMetric(float64(theirs.Microseconds())/ops, "server-µs/op")
				b.ReportMetric(0, "ns/op")
			})
		}
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
