// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/internal/rawlog"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// rate runs do in 64 goroutines for a while and returns how often a second.
func rate(b *testing.B, do func(worker, i int) error) float64 {
	const slice = 400 * time.Millisecond
	var n atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for w := range 64 {
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

// BenchmarkRatio compares the store with the raw log in turns, since the disk and
// the machine change from second to second: the median of the pairs' ratios is
// what counts. It does not depend on b.N.
func BenchmarkRatio(b *testing.B) {
	data := make([]byte, 256)
	row := make([]byte, 700)
	var used atomic.Int64 // ids are used once
	for _, c := range []struct {
		name string
		raw  func(l *rawlog.Log) error
		do   func(st store.Store, w int) error
	}{
		{
			"append",
			func(l *rawlog.Log) error { return l.Append(data) },
			func(st store.Store, w int) error {
				s := journal.StreamID(fmt.Sprintf("sh-stream-%016d", w))
				return st.Update(b.Context(), []store.Key{store.StreamKey(s)}, func(tx store.Tx) error {
					tx.Append(journal.Entry{Stream: s, Task: string(s), Attempt: 1, Kind: journal.KindOutput, Media: "text/plain", Data: data})
					return nil
				})
			},
		},
		{
			"lifecycle",
			func(l *rawlog.Log) error {
				for range 3 {
					if err := l.Append(row); err != nil {
						return err
					}
				}
				return nil
			},
			func(st store.Store, w int) error {
				return lifecycle(b.Context(), st, task.ID(fmt.Sprintf("ag-%012x-%04xk3j5h2l1q9", used.Add(1), w)))
			},
		},
	} {
		b.Run(c.name, func(b *testing.B) {
			st := open(b)
			l, err := rawlog.Create(filepath.Join(b.TempDir(), "log"))
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			var raws, stores, ratios []float64
			for i := range 8 {
				raw := rate(b, func(int, int) error { return c.raw(l) })
				mine := rate(b, func(w, _ int) error { return c.do(st, w) })
				if i > 0 { // the first warms up
					raws, stores, ratios = append(raws, raw), append(stores, mine), append(ratios, mine/raw)
				}
			}
			b.ReportMetric(median(raws), "raw/s")
			b.ReportMetric(median(stores), "store/s")
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}
