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

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
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
	return create(tx, c)
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
	return nil
}

func step(tx store.Tx, r task.Record, c task.Command) (Outcome, error) {
	if err := (task.Limits{}).WithDefaults().Validate(c); err != nil {
		return Outcome{Record: r}, err
	}
	next, effects, err := task.Apply(r, forged(&r, c), tx.Now())
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
	return out, nil
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

func appendEntry(tx store.Tx, r *task.Record, e task.Journal) error {
	entry := journal.Entry{Stream: journal.StreamID(r.Stream()), Task: string(r.ID), Attempt: r.Attempt, Kind: e.Kind}
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

// notify puts a notice about child into the mailbox of the nearest ancestor that
// reads input and is not sealed. With none there is nobody to tell: the journal has
// it. A notice never makes a transition fail.
func notify(tx store.Tx, child task.Record, n task.Notify) error {
	for at, hops := child.Parent, 0; at != "" && hops < maxHops; hops++ {
		id := fmt.Sprintf("%s/%s/%d", child.ID, n.Kind, child.Version)
		keys := []store.Key{store.TaskKey(at), store.InputKey(at, id), store.StreamKey(journal.StreamID(at))}
		if need := undeclared(tx, keys); len(need) > 0 {
			return store.More(need...)
		}
		p, ok := tx.Task(at)
		if !ok {
			return nil
		}
		if p.ReadsInput && !p.MailSealed && !p.State.Terminal() {
			if _, seen := tx.Input(at, id); seen {
				return nil
			}
			data, err := json.Marshal(Notice{Task: child.ID, Summary: n.Summary})
			if err != nil {
				return fmt.Errorf("encode notice: %w", err)
			}
			in := mail.Input{Task: string(at), ID: id, Kind: "child." + n.Kind, Media: "application/json", Data: data, From: string(child.ID)}
			return deliver(tx, p, in)
		}
		at = p.Parent
	}
	return nil
}

// maxHops bounds the walk to an ancestor: no deeper nesting is admitted.
const maxHops = 16

// Notice is the data of an input of kind child.*.
type Notice struct {
	Task    task.ID `json:"task"`
	Summary string  `json:"summary,omitempty"`
}

func deliver(tx store.Tx, p task.Record, in mail.Input) error {
	out, err := step(tx, p, task.Send{Wakes: in.Delivery.Wakes(), Input: note(in)})
	if err != nil {
		if _, more := store.AsMore(err); more {
			return err
		}
		return nil
	}
	in.Seq, in.At = out.Record.LatestInput, tx.Now()
	tx.PutInput(in)
	return nil
}

// Send stages one input to a task. The same id with the same content again is
// accepted without effect, also after the seal.
func Send(tx store.Tx, id task.ID, in mail.Input) (mail.Input, error) {
	if old, ok := tx.Input(id, in.ID); ok {
		in.Task = string(id)
		if !old.Same(in) {
			return old, fault.Newf(fault.Conflict, "send to %s: input id %q was used with other content", id, in.ID)
		}
		return old, nil
	}
	out, err := Step(tx, id, task.Send{Wakes: in.Delivery.Wakes(), Input: note(in)})
	if err != nil {
		return mail.Input{}, err
	}
	in.Task, in.Seq, in.At = string(id), out.Record.LatestInput, tx.Now()
	tx.PutInput(in)
	return in, nil
}

func note(in mail.Input) task.InputNote {
	return task.InputNote{ID: in.ID, Kind: in.Kind, Delivery: string(in.Delivery), From: in.From}
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
