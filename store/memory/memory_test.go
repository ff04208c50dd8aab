// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/store/memory"
	"github.com/outlive-dev/outlive/task"
)

func TestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New(nil)
		defer st.Close()
		ctx, cancel := context.WithCancel(t.Context())
		seen := make(chan store.Hint, 100)
		var wg sync.WaitGroup
		wg.Go(func() {
			for h := range st.Changes(ctx) {
				seen <- h
			}
		})
		for i := range 100 {
			wg.Go(func() {
				id := task.ID(fmt.Sprintf("t%d", i))
				key := []store.Key{store.TaskKey(id), store.StreamKey("s")}
				err := st.Update(ctx, key, func(tx store.Tx) error {
					if _, ok := tx.Task(id); ok {
						return fmt.Errorf("exists")
					}
					tx.PutTask(task.Record{ID: id, State: task.Pending, CreatedAt: tx.Now()})
					tx.Append(journal.Entry{Stream: "s", Kind: "k"})
					return nil
				})
				if err != nil {
					t.Errorf("Update = %v", err)
				}
			})
		}
		synctest.Wait()
		time.Sleep(time.Second)
		err := st.View(ctx, func(v store.View) error {
			h, _ := v.Head("s")
			if h.Seq != 100 {
				t.Errorf("Head = %v, want 100 entries", h)
			}
			list, _ := v.Pending(store.PendingQuery{Now: v.Now()})
			if len(list) != 100 {
				t.Errorf("Pending = %d tasks, want 100", len(list))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		wg.Wait()
		if len(seen) < 2 {
			t.Errorf("Changes gave %d hints, want the first and at least one more", len(seen))
		}
	})
}
