// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package apply performs one task command inside a store transaction: it loads the
// record, lets [task.Apply] decide, and stages the record together with every
// effect, so that a state never exists without the entry that tells it. It is the
// one place where a decision becomes rows.
package apply

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// ErrNoTask is returned for an id that is not there (or not the caller's).
var ErrNoTask = fault.New(fault.NotFound, "no such task")

// ErrLease is returned when the attempt's worker holds no live lease.
var ErrLease = fault.New(fault.Fenced, "worker's lease is over")

// Outcome is what a command left in the transaction.
type Outcome struct {
	Record task.Record
	// Tell lists doorbells to ring for the task's worker after the commit.
	Tell []string
}

// Keys returns the keys a command on the task needs when it has no session.
func Keys(id task.ID) []store.Key {
	return []store.Key{store.TaskKey(id), store.StreamKey(journal.StreamID(id))}
}

// Step applies c to the task and stages what follows from it.
func Step(tx store.Tx, id task.ID, c task.Command) (Outcome, error) {
	r, ok := tx.Task(id)
	if !ok {
		return Outcome{}, ErrNoTask
	}
	return step(tx, r, c)
}

// CreateOwned is Create of a task that an attempt of its parent drives. Generation is
// that of the parent as the attempt knows it: with the hold it proves that the parent
// is still driven by that very attempt (I-11). The hold alone would not: after a
// handoff the parent may have an attempt of the same number under the same lease.
func CreateOwned(tx store.Tx, c task.Create, generation int64) (Outcome, error) {
	if c.Record.Owner != task.OwnerParent {
		return Outcome{}, fault.Newf(fault.Invalid, "create task %s: owner %q does not drive it", c.Record.ID, c.Record.Owner)
	}
	parent, ok := tx.Task(c.Record.Parent)
	if err := proved(tx, c.Record.Hold, generation, parent, ok); err != nil {
		return Outcome{}, fmt.Errorf("create task under %s: %w", c.Record.Parent, err)
	}
	c.Record.Hold.Generation = generation
	return create(tx, c)
}

// CreateUnder is Create of a task of the manager by an attempt of its parent, which
// proves itself as for CreateOwned.
func CreateUnder(tx store.Tx, c task.Create, h task.Hold, generation int64) (Outcome, error) {
	parent, ok := tx.Task(c.Record.Parent)
	if err := proved(tx, h, generation, parent, ok); err != nil {
		return Outcome{}, fmt.Errorf("create task under %s: %w", c.Record.Parent, err)
	}
	return Create(tx, c)
}

// Create stages a new task of the manager. The id must be declared, and so must the
// keys of its stream, its name, its parent and its queue where it has them: CreateKeys.
func Create(tx store.Tx, c task.Create) (Outcome, error) {
	if c.Record.Owner == task.OwnerParent {
		return Outcome{}, fault.Newf(fault.Invalid, "create task %s: a parent-owned task needs the proof of its parent's attempt", c.Record.ID)
	}
	return create(tx, c)
}

func create(tx store.Tx, c task.Create) (Outcome, error) {
	if old, ok := tx.Task(c.Record.ID); ok {
		return Outcome{Record: old}, fault.Newf(fault.Exists, "create task: id %s is taken", c.Record.ID)
	}
	if n := c.Record.Name; n != "" {
		if other, taken := tx.Named(n); taken {
			return Outcome{}, fault.Newf(fault.Exists, "create task: name %q belongs to %s, which has not ended", n, other).
				WithHint("choose another --name, or end that task first")
		}
	}
	if p := c.Record.Parent; p != "" {
		if parent, ok := tx.Task(p); ok {
			if err := inherit(&c.Record, parent); err != nil {
				return Outcome{}, err
			}
			if !parent.State.Terminal() {
				parent.Children++
				parent.Revision++
				tx.PutTask(parent)
			}
		}
	}
	return step(tx, task.Record{}, c)
}

// CreateKeys returns the keys Create needs for a record.
func CreateKeys(r *task.Record) []store.Key {
	keys := []store.Key{store.TaskKey(r.ID), store.StreamKey(journal.StreamID(r.Stream()))}
	if r.Name != "" {
		keys = append(keys, store.NameKey(r.Name))
	}
	if r.Parent != "" {
		keys = append(keys, store.TaskKey(r.Parent), store.StreamKey(journal.StreamID(r.Parent)))
	}
	return keys
}

// proved wants the hold to be that of the attempt which drives the parent now, under a
// live lease: an attempt that was replaced, or has handed the parent off, creates
// nothing below it.
func proved(tx store.Tx, h task.Hold, generation int64, parent task.Record, ok bool) error {
	if !fenced {
		return nil
	}
	k := store.WorkerKey(h.Lease.Worker)
	if h.Lease.IsZero() || !ok || parent.Generation != generation {
		return ErrFenced
	}
	if !tx.Declared(k) {
		return store.More(k)
	}
	drives := parent.State == task.Running && parent.Attempt == h.Attempt && parent.Lease == h.Lease
	if parent.Owner == task.OwnerParent {
		drives = parent.State == task.Running && parent.Hold.Attempt == h.Attempt && parent.Hold.Lease == h.Lease
	}
	if !drives {
		return ErrFenced
	}
	return Live(tx, h.Lease)
}

// inherit fills what a child takes from its parent.
func inherit(r *task.Record, parent task.Record) error {
	r.Depth = parent.Depth + 1
	r.Root = parent.Root
	if r.Root == "" {
		r.Root = parent.ID
	}
	if r.RootSession == "" {
		r.RootSession = parent.RootSession
		if r.RootSession == "" {
			r.RootSession = parent.Session
		}
	}
	if !parent.CancelRequestedAt.IsZero() {
		return fault.Newf(fault.CancelRequested, "create task: its parent %s is to be canceled", parent.ID)
	}
	if limit := (task.Limits{}).WithDefaults().Children; parent.Children >= limit {
		return fault.Newf(fault.Invalid, "create task: its parent %s has %d children, the limit is %d", parent.ID, parent.Children, limit)
	}
	if r.Notify == "" {
		r.Notify = parent.Notify
	}
	// Budgets only narrow.
	if d := parent.Deadline; !d.IsZero() && (r.Deadline.IsZero() || r.Deadline.After(d)) {
		r.Deadline = d
	}
	if t := parent.Tokens; t > 0 && (r.Tokens == 0 || r.Tokens > t) {
		r.Tokens = t
	}
	if parent.MaxAttempts > 0 {
		r.MaxAttempts = min(r.MaxAttempts, parent.MaxAttempts)
	}
	return nil
}

func step(tx store.Tx, r task.Record, c task.Command) (Outcome, error) {
	if err := (task.Limits{}).WithDefaults().Validate(c); err != nil {
		return Outcome{Record: r}, err
	}
	next, effects, err := task.Apply(r, bound(forged(&r, c)), tx.Now())
	if err != nil {
		return Outcome{Record: r}, err
	}
	out := Outcome{Record: next}
	if need := missing(tx, &next, effects); len(need) > 0 {
		return Outcome{}, store.More(need...)
	}
	tx.PutTask(next)
	for _, e := range effects {
		switch e := e.(type) {
		case task.Journal:
			if err := appendEntry(tx, &next, e); err != nil {
				return Outcome{}, err
			}
		case task.Alarm:
			if e.At.IsZero() {
				tx.DropTimer(string(e.Kind), string(next.ID))
			} else {
				tx.PutTimer(store.Timer{Kind: string(e.Kind), Subject: string(next.ID), Due: e.At})
			}
		case task.Notify:
			if err := notify(tx, next, e); err != nil {
				return Outcome{}, err
			}
		case task.Tell:
			out.Tell = append(out.Tell, e.Signal)
		}
	}
	if err := follow(tx, &r, &next); err != nil {
		return Outcome{}, err
	}
	return out, nil
}

// follow stages what a transition means for other rows: tickets that the task waits
// for no longer, children of a task that is to be canceled, a parent that waits for
// its end, its session.
func follow(tx store.Tx, old, next *task.Record) error {
	for _, id := range old.Tickets {
		if slices.Contains(next.Tickets, id) {
			continue
		}
		if err := withdraw(tx, next.ID, id); err != nil {
			return err
		}
	}
	if old.CancelRequestedAt.IsZero() && !next.CancelRequestedAt.IsZero() && next.Children > 0 {
		tx.PutTimer(store.Timer{Kind: store.TimerCascade, Subject: string(next.ID), Due: tx.Now()})
	}
	if old.State.Terminal() || !next.State.Terminal() {
		return nil
	}
	if err := tellParent(tx, next); err != nil || next.Session == "" {
		return err
	}
	return endTurn(tx, next)
}

// missing returns the keys that the effects need and a caller cannot know before
// it has read the record: the session's stream.
func missing(tx store.Tx, r *task.Record, effects []task.Effect) []store.Key {
	if r.Session == "" || len(effects) == 0 {
		return nil
	}
	k := store.StreamKey(journal.StreamID(r.Stream()))
	if tx.Declared(k) {
		return nil
	}
	return []store.Key{k}
}

// Cascaded stages the entry that says which children a cancel of their parent was
// passed on to after it. One that has ended says no more: they say it themselves.
func Cascaded(tx store.Tx, parent task.ID, kids []task.ID) error {
	if len(kids) == 0 {
		return nil
	}
	if need := undeclared(tx, Keys(parent)); len(need) > 0 {
		return store.More(need...)
	}
	r, ok := tx.Task(parent)
	if !ok || r.State.Terminal() {
		return nil
	}
	if need := undeclared(tx, []store.Key{store.StreamKey(journal.StreamID(r.Stream()))}); len(need) > 0 {
		return store.More(need...)
	}
	return appendEntry(tx, &r, task.Journal{Kind: journal.KindCascaded, Data: task.Cascaded{Children: kids}})
}

func appendEntry(tx store.Tx, r *task.Record, e task.Journal) error {
	entry := journal.Entry{Stream: journal.StreamID(r.Stream()), Task: string(r.ID), Attempt: r.Attempt, Kind: e.Kind, Event: e.Closes, Final: e.Closes != ""}
	if e.Data != nil {
		data, err := json.Marshal(e.Data)
		if err != nil {
			return fmt.Errorf("encode %s: %w", e.Kind, err)
		}
		entry.Media, entry.Data = "application/json", data
	}
	tx.Append(entry)
	return nil
}

func undeclared(tx store.Tx, keys []store.Key) []store.Key {
	var need []store.Key
	for _, k := range keys {
		if !tx.Declared(k) {
			need = append(need, k)
		}
	}
	return need
}

// Live fails with Fenced unless the worker holds a live lease of that epoch. The
// worker's key must be declared.
func Live(tx store.Tx, l task.Lease) error {
	w, ok := tx.Worker(l.Worker)
	if fenced && (!ok || w.Epoch != l.Epoch || !tx.Now().Before(w.LeaseUntil)) {
		return ErrLease
	}
	return nil
}
