// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/store/sqlite"
	"github.com/outlive-dev/outlive/store/storetest"
)

func openAt(t testing.TB, path string, opts sqlite.Options) *sqlite.Store {
	t.Helper()
	if opts.Grow == 0 {
		opts.Grow = -1
	}
	st, err := sqlite.Open(t.Context(), path, &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

func fresh(t testing.TB, opts sqlite.Options) store.Store {
	return openAt(t, filepath.Join(t.TempDir(), "outlive.db"), opts)
}

func again(t testing.TB, st store.Store) store.Store {
	return openAt(t, st.Info().Path, sqlite.Options{})
}

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Options{
		New:     func(t testing.TB) store.Store { return fresh(t, sqlite.Options{}) },
		Clocked: func(t testing.TB, clock func() time.Time) store.Store { return fresh(t, sqlite.Options{Clock: clock}) },
		Small: func(t testing.TB) store.Store {
			return fresh(t, sqlite.Options{Queue: 8, Patience: 20 * time.Millisecond})
		},
		Reopen: func(t testing.TB, st store.Store) store.Store { st.Close(); return again(t, st) },
		Peer:   again,
	})
}

func TestCrash(t *testing.T) {
	storetest.Crash(t, storetest.CrashOptions{
		Open: func(t testing.TB, dir string) store.Store {
			return openAt(t, filepath.Join(dir, "outlive.db"), sqlite.Options{})
		},
		Variable:   "OUTLIVE_FAILPOINT",
		Failpoints: sqlite.Failpoints(),
	})
}
