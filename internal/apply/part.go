// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// ErrFenced is returned to an attempt that was replaced.
var ErrFenced = fault.New(fault.Fenced, "attempt was replaced")

// PartKeys returns the keys Part needs for an entry.
func PartKeys(id task.ID, e journal.Entry) []store.Key {
	return []store.Key{
		store.TaskKey(id), store.StreamKey(e.Stream),
		store.EventKey(e.Stream, e.Event), store.PartKey(e.Stream, e.Event, e.Part),
	}
}

// Part stages one part of an event of a running attempt; every part is authorized
// anew. A replay of an accepted part is accepted and changes nothing (inserted is
// false). Flush parts are allowed after a cancel intent.
func Part(tx store.Tx, id task.ID, f task.Fence, e journal.Entry, flush bool) (inserted bool, err error) {
	r, ok := tx.Task(id)
	switch {
	case !ok:
		return false, ErrNoTask
	case fenced && (r.State != task.Running || r.Attempt != f.Attempt || r.Lease != f.Lease):
		return false, ErrFenced
	case !r.CancelRequestedAt.IsZero() && !flush:
		return false, fault.Newf(fault.CancelRequested, "emit: task %s is to be canceled", id)
	}
	e.Task, e.Attempt = string(id), f.Attempt
	var existing *journal.Entry
	if old, ok := tx.Part(e.Stream, e.Event, e.Part); ok {
		existing = &old
	}
	insert, err := journal.Accept(tx.Tail(e.Stream, e.Event), existing, e)
	if err != nil || !insert {
		return false, err
	}
	tx.Append(e)
	if !r.Progressed && r.CancelRequestedAt.IsZero() {
		if _, err := Step(tx, id, task.Progress{Fence: f}); err != nil {
			return false, err
		}
	}
	return true, nil
}
