// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package batch_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/batch"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// stub is a driver that keeps tasks and fails as it is told.
type stub struct {
	tasks   map[task.ID]*task.Record
	staged  *batch.Staging
	batches []int // the number of tasks of every commit
	begin   error
	commit  error
	bad     task.ID // cannot be written
	loads   int
}

func (d *stub) Begin() (time.Time, error) { return time.Time{}, d.begin }

func (d *stub) Load(keys []store.Key, rows *batch.Rows) error {
	d.loads++
	for _, k := range keys {
		rows.Tasks[task.ID(k.A)] = d.tasks[task.ID(k.A)]
	}
	return nil
}

func (d *stub) Flush(s *batch.Staging) error {
	for _, c := range s.Tasks {
		if c.New.ID == d.bad {
			return errors.New("the row cannot be written")
		}
	}
	d.staged = s
	return nil
}

func (d *stub) Commit() error {
	if d.commit != nil {
		return d.commit
	}
	for _, c := range d.staged.Tasks {
		d.tasks[c.New.ID] = c.New
	}
	d.batches = append(d.batches, len(d.staged.Tasks))
	return nil
}

func (d *stub) Rollback() { d.staged = nil }

// together runs n updates in one batch and returns their errors.
func together(t *testing.T, d *stub, n int, fn func(i int, tx store.Tx) error) []error {
	t.Helper()
	return gathered(t, d, batch.Options{}, n, fn)
}

// keeper is a driver that keeps tasks as a stub does.
type keeper interface {
	batch.Driver
	clear()
}

func (d *stub) clear() { d.tasks = make(map[task.ID]*task.Record) }

// gathered runs n updates in one batch of any driver.
func gathered(t *testing.T, d keeper, o batch.Options, n int, fn func(i int, tx store.Tx) error) []error {
	t.Helper()
	d.clear()
	e := batch.New(d, new(batch.Hub), o)
	release := e.Hold()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			errs[i] = e.Update(context.Background(), []store.Key{store.TaskKey(id(i))}, func(tx store.Tx) error { return fn(i, tx) })
		})
	}
	for queued := 0; queued < n; queued = e.Waiting() {
		runtime.Gosched()
	}
	release()
	wg.Wait()
	e.Close()
	return errs
}

func id(i int) task.ID { return task.ID(fmt.Sprintf("t%02d", i)) }

func putTask(i int, tx store.Tx) error {
	tx.PutTask(task.Record{ID: id(i), State: task.Pending})
	return nil
}

func TestGuiltyUpdateFailsAlone(t *testing.T) {
	t.Parallel()
	d := &stub{bad: id(13)}
	for i, err := range together(t, d, 32, putTask) {
		if (err != nil) != (i == 13) {
			t.Errorf("update %d = %v", i, err)
		}
	}
	if len(d.tasks) != 31 {
		t.Errorf("%d tasks stored, want 31", len(d.tasks))
	}
}

func TestBatchFailsTogether(t *testing.T) {
	t.Parallel()
	down := fault.New(fault.Unavailable, "down")
	lost := fault.New(fault.UnknownOutcome, "lost")
	for _, c := range []struct {
		d    *stub
		want error
	}{{&stub{begin: down}, down}, {&stub{commit: down}, down}, {&stub{commit: lost}, lost}} {
		for i, err := range together(t, c.d, 8, putTask) {
			if !errors.Is(err, c.want) {
				t.Errorf("update %d = %v, want %v", i, err, c.want)
			}
		}
		if len(c.d.tasks) != 0 {
			t.Errorf("%d tasks stored, want none", len(c.d.tasks))
		}
	}
}

// An answer to facts that were never committed must not be given.
func TestRefusalOnLostFacts(t *testing.T) {
	t.Parallel()
	lost := fault.New(fault.UnknownOutcome, "lost")
	exists := errors.New("exists")
	var ran atomic.Bool
	d := &stub{commit: lost}
	for i, err := range together(t, d, 2, func(i int, tx store.Tx) error {
		if ran.Swap(true) { // the other one has staged
			return exists
		}
		return putTask(i, tx)
	}) {
		if !errors.Is(err, lost) {
			t.Errorf("update %d = %v, want %v", i, err, lost)
		}
	}
	d = &stub{commit: lost}
	for i, err := range together(t, d, 2, func(int, store.Tx) error { return exists }) {
		if !errors.Is(err, exists) {
			t.Errorf("update %d that refuses on committed facts = %v, want its own error", i, err)
		}
	}
}

func TestOneLoadOneCommit(t *testing.T) {
	t.Parallel()
	d := &stub{}
	together(t, d, 100, putTask)
	if d.loads != 1 || len(d.batches) != 1 || d.batches[0] != 100 {
		t.Errorf("%d loads, commits of %v, want one of each with 100 tasks", d.loads, d.batches)
	}
}
