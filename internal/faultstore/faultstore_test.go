// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package faultstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/internal/faultstore"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/store/memory"
	"github.com/outlive-dev/outlive/store/storetest"
)

// run does 200 updates and returns what happened to them and what is stored.
func run(t *testing.T, opts faultstore.Options) (outcomes []error, runs int, stored int64, counts faultstore.Counts) {
	st := faultstore.New(memory.New(nil), opts)
	defer st.Close()
	for range 200 {
		outcomes = append(outcomes, st.Update(t.Context(), []store.Key{store.StreamKey("s")}, func(tx store.Tx) error {
			runs++
			tx.Append(journal.Entry{Stream: "s", Kind: "k"})
			return nil
		}))
	}
	counts = st.Counts()
	st.Heal()
	err := st.View(t.Context(), func(v store.View) error {
		h, err := v.Head("s")
		stored = h.Seq
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return outcomes, runs, stored, counts
}

func TestFaults(t *testing.T) {
	t.Parallel()
	opts := faultstore.Options{Seed: 7, Before: 0.2, After: 0.2, Again: 0.3, View: 1}
	outcomes, runs, stored, counts := run(t, opts)
	var want int64
	for _, err := range outcomes {
		switch {
		case err == nil, errors.Is(err, faultstore.ErrAfter):
			want++
		case !errors.Is(err, faultstore.ErrBefore):
			t.Errorf("Update = %v", err)
		}
	}
	if stored != want || counts.Before == 0 || counts.After == 0 || counts.Again == 0 || runs != 200+counts.Again {
		t.Errorf("%d stored of %d, %d runs, %+v", stored, want, runs, counts)
	}
	again, _, _, _ := run(t, opts)
	for i := range outcomes {
		if !errors.Is(again[i], outcomes[i]) {
			t.Fatalf("update %d: %v, then %v with the same seed", i, outcomes[i], again[i])
		}
	}
}

// With functions run again and nothing else, the contract holds.
func TestContractHoldsUnderReruns(t *testing.T) {
	open := func(t testing.TB, opts *memory.Options) store.Store {
		st := faultstore.New(memory.New(opts), faultstore.Options{Seed: 1, Again: 0.3})
		t.Cleanup(func() { st.Close() })
		return st
	}
	storetest.Run(t, storetest.Options{
		New:     func(t testing.TB) store.Store { return open(t, nil) },
		Clocked: func(t testing.TB, clock func() time.Time) store.Store { return open(t, &memory.Options{Clock: clock}) },
		Small: func(t testing.TB) store.Store {
			return open(t, &memory.Options{Queue: 8, Patience: 20 * time.Millisecond})
		},
	})
}
