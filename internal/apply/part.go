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

// holds reports whether the fence is that of the attempt which runs the task now. An
// owner before a handoff may have had its number and its lease, but not the generation.
func holds(r *task.Record, f task.Fence) bool {
	former := f.Generation != 0 && f.Generation != r.Generation
	return r.State == task.Running && r.Attempt == f.Attempt && r.Lease == f.Lease && !former
}

// PartKeys returns the keys Part needs for an entry.
func PartKeys(id task.ID, e journal.Entry) []store.Key {
	return []store.Key{
		store.TaskKey(id), store.StreamKey(e.Stream),
		store.EventKey(e.Stream, e.Event), store.PartKey(e.Stream, e.Event, e.Part),
	}
}

// PartOptions say what a part is.
type PartOptions struct {
	// Flush parts are allowed after a cancel intent. Defaults to false.
	Flush bool
	// Once means that no later attempt can continue the event: what is open of it when
	// the next one starts is closed by that start. Defaults to false.
	Once bool
}

// Part stages one part of an event of a running attempt; every part is authorized
// anew. A replay of an accepted part is accepted and changes nothing: stored is then
// what the journal has, and inserted is false.
func Part(tx store.Tx, id task.ID, f task.Fence, e journal.Entry, o PartOptions) (stored journal.Entry, inserted bool, err error) {
	r, ok := tx.Task(id)
	switch {
	case !ok:
		return stored, false, ErrNoTask
	case fenced && !holds(&r, f):
		return stored, false, ErrFenced
	case !r.CancelRequestedAt.IsZero() && !o.Flush:
		return stored, false, fault.Newf(fault.CancelRequested, "emit: task %s is to be canceled", id)
	}
	e.Task, e.Attempt = string(id), f.Attempt
	var existing *journal.Entry
	if old, ok := tx.Part(e.Stream, e.Event, e.Part); ok {
		existing = &old
	}
	insert, err := journal.Accept(tx.Tail(e.Stream, e.Event), existing, e)
	switch {
	case err != nil:
		return stored, false, err
	case !insert:
		return *existing, false, nil
	}
	stored = tx.Append(e)
	progress := task.Progress{Fence: f, Final: e.Final}
	if o.Once {
		progress.Event = e.Event
	}
	if (o.Once || !r.Progressed) && r.CancelRequestedAt.IsZero() {
		if _, err := Step(tx, id, progress); err != nil {
			return stored, false, err
		}
	}
	return stored, true, nil
}
