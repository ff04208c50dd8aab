// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package postgres_test

import (
	"sync"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/internal/pgtest"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/store/postgres"
	"github.com/outlive-dev/outlive/store/storetest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// urls remembers where a store is.
var urls sync.Map

func openAt(t testing.TB, dsn string, opts postgres.Options) *postgres.Store {
	t.Helper()
	st, err := postgres.Open(t.Context(), dsn, &opts)
	if err != nil {
		t.Fatal(err)
	}
	urls.Store(store.Store(st), dsn)
	t.Cleanup(func() { st.Close() })
	return st
}

// migrated returns the URL of an empty store.
func migrated(t testing.TB) string {
	t.Helper()
	dsn := pgtest.Shared(t).Schema(t)
	if _, _, err := postgres.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	return dsn
}

func fresh(t testing.TB, opts postgres.Options) store.Store { return openAt(t, migrated(t), opts) }

func again(t testing.TB, st store.Store) store.Store {
	dsn, _ := urls.Load(st)
	return openAt(t, dsn.(string), postgres.Options{})
}

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Options{
		New: func(t testing.TB) store.Store { return fresh(t, postgres.Options{}) },
		Clocked: func(t testing.TB, clock func() time.Time) store.Store {
			return fresh(t, postgres.Options{Clock: clock})
		},
		Small: func(t testing.TB) store.Store {
			return fresh(t, postgres.Options{Queue: 8, Patience: 20 * time.Millisecond})
		},
		Reopen: func(t testing.TB, st store.Store) store.Store { st.Close(); return again(t, st) },
		Peer:   again,
	})
}
