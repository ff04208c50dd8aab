// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package faultstore wraps a store and makes it fail as a real one may: before the
// commit (nothing happened), after it (it happened, but the answer is lost), and by
// running a function again. What happens when follows from a seed.
package faultstore

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"sync"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/store"
)

// Errors that are injected.
var (
	ErrBefore = fault.New(fault.Unavailable, "injected: the store is not available")
	ErrAfter  = fault.New(fault.UnknownOutcome, "injected: the commit's answer is lost")
	ErrView   = fault.New(fault.Unavailable, "injected: the store cannot be read")
)

// Options says how often what happens, each as a probability from 0 to 1.
type Options struct {
	// Seed makes a run repeatable. Defaults to 0, a seed like any other.
	Seed uint64
	// Before is how often an update fails before it commits. Defaults to 0.
	Before float64
	// After is how often an update commits and its answer is lost. Defaults to 0.
	After float64
	// Again is how often a function runs once more, the first run's writes undone.
	// Defaults to 0.
	Again float64
	// View is how often a view fails. Defaults to 0.
	View float64
}

// Counts is how often what happened.
type Counts struct{ Before, After, Again, View int }

// Store is a store that fails. Safe for concurrent use; with concurrent updates
// the seed decides what happens, but not to which of them.
//
// Concurrency: a monitor; mu guards rnd, counts and off.
type Store struct {
	store.Store
	opts Options

	mu     sync.Mutex
	rnd    *rand.Rand
	counts Counts
	off    bool
}

var _ store.Store = (*Store)(nil)

// New returns a store over st that fails as opts says. Closing it closes st.
func New(st store.Store, opts Options) *Store {
	return &Store{Store: st, opts: opts, rnd: rand.New(rand.NewPCG(opts.Seed, 0))}
}

// Heal ends all failures.
func (s *Store) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.off = true
}

// Counts returns how often what happened so far.
func (s *Store) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// roll draws whether something of that probability happens, and counts it.
func (s *Store) roll(p float64, n *int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	hit := s.rnd.Float64() < p && !s.off
	if hit {
		*n++
	}
	return hit
}

// Update implements [store.Store].
func (s *Store) Update(ctx context.Context, keys []store.Key, fn func(store.Tx) error) error {
	// All draws come first, in one order.
	before := s.roll(s.opts.Before, &s.counts.Before)
	after := s.roll(s.opts.After, &s.counts.After)
	if before {
		// The function runs, as it does in a batch whose commit fails.
		err := s.Store.Update(ctx, keys, func(tx store.Tx) error {
			if err := fn(tx); err != nil {
				return err
			}
			return ErrBefore
		})
		return err
	}
	if s.roll(s.opts.Again, &s.counts.Again) {
		if err := s.dry(ctx, keys, fn); err != nil {
			return err
		}
		ctx = context.WithoutCancel(ctx) // it was admitted
	}
	err := s.Store.Update(ctx, keys, fn)
	if err == nil && after {
		return ErrAfter
	}
	return err
}

var errDry = errors.New("faultstore: this run is undone")

// dry runs fn and undoes it; only what the store itself says is an error.
func (s *Store) dry(ctx context.Context, keys []store.Key, fn func(store.Tx) error) error {
	ran := false
	err := s.Store.Update(ctx, keys, func(tx store.Tx) error {
		ran = true
		err := fn(tx)
		if _, more := store.AsMore(err); more {
			return err
		}
		return errDry
	})
	if ran {
		return nil
	}
	return err
}

// View implements [store.Store].
func (s *Store) View(ctx context.Context, fn func(store.View) error) error {
	if s.roll(s.opts.View, &s.counts.View) {
		return ErrView
	}
	return s.Store.View(ctx, fn)
}

// Changes implements [store.Store]. No hint is lost here: losing all of them is a
// matter of not calling it.
func (s *Store) Changes(ctx context.Context) iter.Seq[store.Hint] { return s.Store.Changes(ctx) }
