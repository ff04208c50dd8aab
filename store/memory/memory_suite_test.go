// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"testing"
	"time"

	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/store/memory"
	"github.com/outlive-dev/outlive/store/storetest"
)

func TestStore(t *testing.T) {
	open := func(t testing.TB, opts memory.Options) store.Store {
		st := memory.New(&opts)
		t.Cleanup(func() { st.Close() })
		return st
	}
	storetest.Run(t, storetest.Options{
		New:     func(t testing.TB) store.Store { return open(t, memory.Options{}) },
		Clocked: func(t testing.TB, clock func() time.Time) store.Store { return open(t, memory.Options{Clock: clock}) },
		Small: func(t testing.TB) store.Store {
			return open(t, memory.Options{Queue: 8, Patience: 20 * time.Millisecond})
		},
	})
}
