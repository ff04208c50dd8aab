// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package batch_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/batch"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

var errRace = fault.New(fault.Unavailable, "lost a race")

// contended is a driver whose rows others want too.
type contended struct {
	stub
	races  int                     // commits that are still to lose one
	loser  task.ID                 // always loses
	held   atomic.Pointer[task.ID] // is locked by somebody
	making atomic.Pointer[task.ID] // is being made by somebody
	loaded func([]store.Key)       // hears of every load
}

func (d *contended) Load(keys []store.Key, rows *batch.Rows) error {
	if d.loaded != nil {
		d.loaded(keys)
	}
	if id := d.held.Load(); id != nil {
		for _, k := range keys {
			if k.A == string(*id) {
				return &batch.BlockedError{Keys: map[store.Key]struct{}{k: {}}, Err: errRace}
			}
		}
	}
	return d.stub.Load(keys, rows)
}

func (d *contended) Commit() error {
	making := d.making.Load()
	for _, c := range d.staged.Tasks {
		if c.New.ID == d.loser {
			return &batch.AgainError{Err: errRace}
		}
		if making != nil && c.New.ID == *making {
			return &batch.BlockedError{Err: errRace}
		}
	}
	if d.races > 0 {
		d.races--
		return &batch.AgainError{Err: errRace}
	}
	return d.stub.Commit()
}

func TestLostRaceRunsAgain(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	d := &contended{races: 2}
	for i, err := range gathered(t, d, batch.Options{}, 8, func(i int, tx store.Tx) error {
		runs.Add(1)
		return putTask(i, tx)
	}) {
		if err != nil {
			t.Errorf("update %d = %v", i, err)
		}
	}
	if runs.Load() != 3*8 || len(d.batches) != 1 || d.batches[0] != 8 {
		t.Errorf("%d runs, commits of %v, want three runs of each and one commit", runs.Load(), d.batches)
	}
}

func TestWhoAlwaysLosesFailsAlone(t *testing.T) {
	t.Parallel()
	d := &contended{loser: id(5)}
	for i, err := range gathered(t, d, batch.Options{}, 8, putTask) {
		if want := i == 5; want != errors.Is(err, errRace) || !want && err != nil {
			t.Errorf("update %d = %v", i, err)
		}
	}
	if len(d.tasks) != 7 {
		t.Errorf("%d tasks stored, want 7", len(d.tasks))
	}
}

// Whoever is blocked waits, until the patience ends or the rows are free; the others do not.
func TestBlockedGoOnWithout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		set  func(d *contended, id *task.ID)
	}{
		{"a row is locked", func(d *contended, id *task.ID) { d.held.Store(id) }},
		{"a row is being made", func(d *contended, id *task.ID) { d.making.Store(id) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			blocked := id(5)
			d := &contended{}
			c.set(d, &blocked)
			for i, err := range gathered(t, d, batch.Options{Patience: 20 * time.Millisecond}, 8, putTask) {
				if want := i == 5; want != errors.Is(err, errRace) || !want && err != nil {
					t.Errorf("update %d = %v", i, err)
				}
			}
			d = &contended{}
			c.set(d, &blocked)
			tries := 0
			d.loaded = func(keys []store.Key) {
				for _, k := range keys {
					if k.A != string(blocked) {
						continue
					}
					if tries++; tries == 3 {
						c.set(d, nil)
					}
				}
			}
			for i, err := range gathered(t, d, batch.Options{}, 8, putTask) {
				if err != nil {
					t.Errorf("update %d = %v, want it to wait", i, err)
				}
			}
			if len(d.tasks) != 8 {
				t.Errorf("%d tasks stored, want 8", len(d.tasks))
			}
		})
	}
}

// Those that ask for more keys get them in one load, and keep their order by key.
func TestMoreIsLoadedTogether(t *testing.T) {
	t.Parallel()
	d := &contended{}
	var loads atomic.Int64
	d.loaded = func([]store.Key) { loads.Add(1) }
	for i, err := range gathered(t, d, batch.Options{}, 8, func(i int, tx store.Tx) error {
		if more := store.TaskKey(id(100 + i)); !tx.Declared(more) {
			return store.More(more)
		}
		return putTask(i, tx)
	}) {
		if err != nil {
			t.Errorf("update %d = %v", i, err)
		}
	}
	if loads.Load() != 2 {
		t.Errorf("%d loads, want 2", loads.Load())
	}
}
