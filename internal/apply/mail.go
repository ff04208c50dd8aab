// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"fmt"
	"strings"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// kindAnswer begins the kind of an answer; the verdict follows.
const kindAnswer = "answer."

// notify puts a notice about child into the mailbox of the nearest ancestor that
// reads input and is not sealed; with none it goes to the root session, and with none
// of that to the outbox target that the task names. With nobody to tell the journal
// has it. A notice never makes a transition fail.
//
// That a task was created its parent knows, who made it, and so does its session: that
// is told to an outbox target only, if there is no one else to tell.
//
// A notice that is not of an end replaces the one before it of the same task where
// nobody has consumed that: at most two of a task wait, the later one says how
// the task is now and how many it stands for (I-46).
func notify(tx store.Tx, child task.Record, n task.Notify) error {
	if !notifies(&child) {
		return nil
	}
	for at, hops := child.Parent, 0; at != "" && hops < maxHops; hops++ {
		if need := undeclared(tx, Keys(at)); len(need) > 0 {
			return store.More(need...)
		}
		p, ok := tx.Task(at)
		if !ok {
			break
		}
		if p.ReadsInput && !p.MailSealed && !p.State.Terminal() {
			return toMailbox(tx, p, &child, n)
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

// toMailbox gives a notice to a task that reads input.
func toMailbox(tx store.Tx, p task.Record, child *task.Record, n task.Notify) error {
	if n.Kind == task.NoticeCreated {
		return nil
	}
	keys := []store.Key{store.InputKey(p.ID, n.ID), store.StreamKey(journal.StreamID(p.Stream()))}
	if n.Replaces != "" {
		keys = append(keys, store.InputKey(p.ID, n.Replaces))
	}
	if need := undeclared(tx, keys); len(need) > 0 {
		return store.More(need...)
	}
	if _, seen := tx.Input(p.ID, n.ID); seen {
		return nil
	}
	suppressed := 0
	if n.Replaces != "" {
		old, ok := tx.Input(p.ID, n.Replaces)
		if ok && old.Seq > p.ConsumedInput && old.Kind != mail.KindWithdrawn {
			before, _ := mail.NoticeOf(old)
			suppressed = before.Suppressed + 1
			// It is withdrawn, not changed: who has read it and not committed that yet gets
			// the new one all the same.
			if err := retract(tx, &p, old); err != nil {
				return err
			}
		}
	}
	in := noticeOf(child, n, suppressed)
	in.Task = string(p.ID)
	return deliver(tx, p, in)
}

// retract takes the content of an unconsumed input back; it keeps its place.
func retract(tx store.Tx, p *task.Record, in mail.Input) error {
	in.Kind, in.Media, in.Data = mail.KindWithdrawn, "", nil
	n := note(in)
	n.Seq = in.Seq
	if err := appendEntry(tx, p, task.Journal{Kind: journal.KindInputWithdrawn, Data: n}); err != nil {
		return err
	}
	tx.PutInput(in)
	return nil
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
func noticeOf(child *task.Record, n task.Notify, suppressed int) mail.Input {
	data := mail.Notice{Task: string(child.ID), Summary: n.Summary, Suppressed: suppressed}
	if r := child.Result; r != nil && readable(r) {
		data.Summary = string(r.Data)
	}
	return mail.Input{ID: n.ID, Kind: mail.KindChild + n.Kind, Media: mediaJSON, Data: data.Encode(), From: string(child.ID)}
}

// readable reports whether a payload says what it says in characters.
func readable(p *task.Payload) bool {
	media, _, _ := strings.Cut(p.Media, ";")
	return media == "" || media == mediaJSON || strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "+json")
}

const mediaJSON = "application/json"

// maxHops bounds the walk to an ancestor: no deeper nesting is admitted.
const maxHops = 16

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
	case old.Kind == mail.KindWithdrawn && withdraw:
		return old, nil
	case old.Kind == mail.KindWithdrawn:
		return old, fault.Newf(fault.Conflict, "input %s was withdrawn", in.ID)
	}
	if need := undeclared(tx, []store.Key{store.StreamKey(journal.StreamID(r.Stream()))}); len(need) > 0 {
		return old, store.More(need...)
	}
	if withdraw {
		err := retract(tx, &r, old)
		old.Kind, old.Media, old.Data = mail.KindWithdrawn, "", nil
		return old, err
	}
	old.Media, old.Data = in.Media, in.Data
	if err := (task.Limits{}).ValidateInput(&old); err != nil {
		return old, err
	}
	n := note(old)
	n.Seq = old.Seq
	if err := appendEntry(tx, &r, task.Journal{Kind: journal.KindInputEdited, Data: n}); err != nil {
		return old, err
	}
	tx.PutInput(old)
	return old, nil
}
