// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

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

// Kinds of inputs that the engine makes.
const (
	// KindWithdrawn is an input that its sender took back: it has no content any more,
	// and keeps its place.
	KindWithdrawn = "withdrawn"
	// kindAnswer begins the kind of an answer; the verdict follows.
	kindAnswer = "answer."
)

// notify puts a notice about child into the mailbox of the nearest ancestor that
// reads input and is not sealed; with none it goes to the root session, and with none
// of that to the outbox target that the task names. With nobody to tell the journal
// has it. A notice never makes a transition fail.
func notify(tx store.Tx, child task.Record, n task.Notify) error {
	for at, hops := child.Parent, 0; at != "" && hops < maxHops; hops++ {
		id := fmt.Sprintf("%s/%s/%d", child.ID, n.Kind, child.Version)
		keys := []store.Key{store.TaskKey(at), store.InputKey(at, id), store.StreamKey(journal.StreamID(at))}
		if need := undeclared(tx, keys); len(need) > 0 {
			return store.More(need...)
		}
		p, ok := tx.Task(at)
		if !ok {
			break
		}
		if p.ReadsInput && !p.MailSealed && !p.State.Terminal() {
			if _, seen := tx.Input(at, id); seen {
				return nil
			}
			in, err := noticeOf(&child, n, id, 0)
			if err != nil {
				return err
			}
			in.Task = string(at)
			return deliver(tx, p, in)
		}
		at = p.Parent
	}
	if child.Session == "" && child.RootSession != "" {
		if took, err := toSession(tx, child.RootSession, &child, n); took || err != nil {
			return err
		}
	}
	return toOutbox(tx, &child, n)
}

// NoticeKeys are the keys that the next transition of a task needs to tell its parent
// of it. They save the rounds of asking for them, of many tasks one by one.
func NoticeKeys(r *task.Record, kind string) []store.Key {
	if r.Parent == "" {
		return nil
	}
	id := fmt.Sprintf("%s/%s/%d", r.ID, kind, r.Version+1)
	return append(Keys(r.Parent), store.InputKey(r.Parent, id))
}

// noticeOf makes the input that tells of a child.
func noticeOf(child *task.Record, n task.Notify, id string, suppressed int) (mail.Input, error) {
	data, err := json.Marshal(Notice{Task: child.ID, Summary: task.CutText(n.Summary), Suppressed: suppressed})
	if err != nil {
		return mail.Input{}, fmt.Errorf("encode notice: %w", err)
	}
	return mail.Input{ID: id, Kind: kindChild + n.Kind, Media: mediaJSON, Data: data, From: string(child.ID)}, nil
}

const mediaJSON = "application/json"

// maxHops bounds the walk to an ancestor: no deeper nesting is admitted.
const maxHops = 16

// Notice is the data of an input of kind child.*.
type Notice struct {
	Task    task.ID `json:"task"`
	Summary string  `json:"summary,omitempty"`
	// Suppressed counts the notices before it that it stands for.
	Suppressed int `json:"suppressed,omitempty"`
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
// accepted without effect, also after the seal. A message without a delivery that
// finds the task waiting for exactly one question, which it can answer, answers it.
func Send(tx store.Tx, id task.ID, in mail.Input) (mail.Input, error) {
	in.Task = string(id)
	if old, ok := tx.Input(id, in.ID); ok {
		again := in
		if old.Delivery == mail.Answer && in.Delivery == "" {
			again.Delivery, again.Ticket = old.Delivery, old.Ticket
		}
		if !old.Same(again) {
			return old, fault.Newf(fault.Conflict, "send to %s: input id %q was used with other content", id, in.ID)
		}
		return old, nil
	}
	if err := in.Validate(); err != nil {
		return in, err
	}
	if err := (task.Limits{}).ValidateInput(&in); err != nil {
		return in, err
	}
	r, ok := tx.Task(id)
	if !ok {
		return in, ErrNoTask
	}
	row, answers, err := addressee(tx, &r, &in)
	if err != nil {
		return in, err
	}
	if answers {
		in.Delivery, in.Ticket = mail.Answer, row.ID
		return in, decided(tx, r, row, &in)
	}
	out, err := step(tx, r, task.Send{Wakes: in.Delivery.Wakes(), Input: note(in)})
	if err != nil {
		return mail.Input{}, err
	}
	in.Seq, in.At = out.Record.LatestInput, tx.Now()
	tx.PutInput(in)
	return in, nil
}

// addressee returns the ticket that a message answers, already decided by it.
func addressee(tx store.Tx, r *task.Record, in *mail.Input) (row mail.Ticket, answers bool, err error) {
	if !r.ReadsInput || r.State.Terminal() {
		return row, false, nil // the refusal of any message says why
	}
	switch {
	case in.Delivery == mail.Answer:
		if row, err = ticket(tx, r.ID, task.TicketID(in.Ticket)); err != nil {
			return row, false, err
		}
		if !row.Open() {
			return row, false, mail.ErrDecided
		}
	case in.Delivery == "" && len(r.Tickets) > 0 && r.State == task.Waiting:
		rows, err := tickets(tx, r)
		if err != nil {
			return row, false, err
		}
		one, ok := mail.Addressee(rows)
		if !ok {
			return row, false, nil
		}
		row = one
	default:
		return row, false, nil
	}
	d := mail.Decision{Verdict: mail.Answered, Media: in.Media, Value: in.Data, By: in.From}
	if row.Kind == mail.Approval {
		d.Verdict, d.Value = mail.Verdict(in.Data), nil
	}
	row, _, err = row.Decide(d, tx.Now())
	if err != nil && in.Delivery != mail.Answer {
		return row, false, nil // no answer to it: a message like any other
	}
	if err == nil && row.Decision.Verdict == mail.Expired {
		return row, false, mail.ErrExpired
	}
	return row, err == nil, err
}

func note(in mail.Input) task.InputNote {
	return task.InputNote{ID: in.ID, Kind: in.Kind, Delivery: string(in.Delivery), Ticket: task.TicketID(in.Ticket), From: in.From}
}

// Edit changes an input that nobody has consumed, or with withdraw takes its content
// back; only its sender may. It keeps its place.
func Edit(tx store.Tx, id task.ID, in mail.Input, withdraw bool) (mail.Input, error) {
	r, ok := tx.Task(id)
	if !ok {
		return in, ErrNoTask
	}
	old, ok := tx.Input(id, in.ID)
	switch {
	case !ok || old.From != in.From:
		return in, fault.Newf(fault.NotFound, "no such input: %s", in.ID)
	case r.State.Terminal():
		return old, &task.FinishedError{Record: r}
	case old.Seq <= r.ConsumedInput:
		return old, task.ErrConsumed
	case old.Delivery == mail.Answer:
		return old, fault.Newf(fault.Conflict, "input %s has decided ticket %s", in.ID, old.Ticket)
	case old.Kind == KindWithdrawn && withdraw:
		return old, nil
	case old.Kind == KindWithdrawn:
		return old, fault.Newf(fault.Conflict, "input %s was withdrawn", in.ID)
	}
	kind := journal.KindInputEdited
	if withdraw {
		old.Kind, old.Media, old.Data = KindWithdrawn, "", nil
		kind = journal.KindInputWithdrawn
	} else {
		old.Media, old.Data = in.Media, in.Data
		if err := (task.Limits{}).ValidateInput(&old); err != nil {
			return old, err
		}
	}
	s := journal.StreamID(r.Stream())
	if need := undeclared(tx, []store.Key{store.StreamKey(s)}); len(need) > 0 {
		return old, store.More(need...)
	}
	n := note(old)
	n.Seq = old.Seq
	if err := appendEntry(tx, &r, task.Journal{Kind: kind, Data: n}); err != nil {
		return old, err
	}
	tx.PutInput(old)
	return old, nil
}
