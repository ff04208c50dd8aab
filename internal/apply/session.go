// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/session"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// Turn is a message to a session: it starts a task, or becomes what the policy makes
// of it.
type Turn struct {
	Create  task.Create
	Policy  session.Policy // Defaults to the session's.
	Message mail.Input     // the same as input, for a task that has not ended
}

// Begin stages a message to a session, which first use creates. Began reports whether
// it started the task of Create; otherwise the record is that of the session's
// unfinished task, which the message was given to, or waits for.
func Begin(tx store.Tx, t Turn) (out Outcome, began bool, err error) {
	id := t.Create.Record.Session
	if err := t.Policy.Valid(); err != nil {
		return out, false, err
	}
	s, active, err := sessionOf(tx, id)
	if err != nil {
		return out, false, err
	}
	who := &t.Create.Record
	if s.ID == "" {
		s = session.Session{ID: id, Principal: who.Principal, Tenant: who.Tenant, Policy: t.Policy, CreatedAt: tx.Now()}
	} else if err := s.Belongs(who.Principal, who.Tenant); err != nil {
		return out, false, err
	}
	action, delivery := session.Decide(&s, active, t.Policy)
	in := t.Message
	in.Delivery = delivery
	switch action {
	case session.Begin:
		out, err = begin(tx, &s, t.Create)
		return out, err == nil, err
	case session.Deliver:
		if need := undeclared(tx, []store.Key{store.InputKey(active.ID, in.ID)}); len(need) > 0 {
			return out, false, store.More(need...)
		}
		if _, err := Send(tx, active.ID, in); err != nil {
			return out, false, err
		}
		out.Record, _ = tx.Task(active.ID)
		return out, false, nil
	case session.Keep, session.Replace:
		if err := keep(tx, &s, in); err != nil {
			return out, false, err
		}
		if action == session.Replace {
			p := t.Policy
			if p == "" {
				p = s.Policy
			}
			s.Rollback = p == session.Rollback
		}
		tx.PutSession(s)
		if action == session.Keep {
			return Outcome{Record: *active}, false, nil
		}
		out, err = Step(tx, active.ID, task.RequestCancel{Reason: "interrupted by the next message"})
		return out, false, err
	default:
		return Outcome{Record: *active}, false, fmt.Errorf("%w: %s", session.ErrBusy, active.ID)
	}
}

// sessionOf reads a session's row, zero when there is none, and its unfinished task.
func sessionOf(tx store.Tx, id task.SessionID) (s session.Session, active *task.Record, err error) {
	keys := []store.Key{store.SessionKey(id), store.OutboxKey(store.InboxTarget(id)), store.StreamKey(journal.StreamID(id))}
	if need := undeclared(tx, keys); len(need) > 0 {
		return s, nil, store.More(need...)
	}
	s, _ = tx.Session(id)
	if s.Active == "" {
		return s, nil, nil
	}
	if need := undeclared(tx, []store.Key{store.TaskKey(s.Active)}); len(need) > 0 {
		return s, nil, store.More(need...)
	}
	if r, ok := tx.Task(s.Active); ok {
		active = &r
	}
	return s, active, nil
}

// begin starts a turn and gives it what waits in the inbox.
func begin(tx store.Tx, s *session.Session, c task.Create) (Outcome, error) {
	id := c.Record.ID
	if need := undeclared(tx, append(CreateKeys(&c.Record), store.TaskKey(id))); len(need) > 0 {
		return Outcome{}, store.More(need...)
	}
	first := tx.Head(journal.StreamID(s.ID)).Seq + 1
	out, err := create(tx, c)
	if err != nil {
		return out, err
	}
	start := task.Record{
		Executor: c.Record.Executor, Kind: c.Record.Kind, Description: c.Record.Description, Labels: c.Record.Labels,
		Session: s.ID, Principal: c.Record.Principal, Tenant: c.Record.Tenant, OnLeaseLoss: c.Record.OnLeaseLoss,
		ReadsInput: c.Record.ReadsInput, Recoverable: c.Record.Recoverable, Queue: c.Record.Queue, ConcurrencyKey: c.Record.ConcurrencyKey,
		Priority: c.Record.Priority, MaxAttempts: c.Record.MaxAttempts, Backoff: c.Record.Backoff, Liveness: c.Record.Liveness,
		Retention: c.Record.Retention, Notify: c.Record.Notify, Tokens: c.Record.Tokens,
	}
	s.Active, s.Start, s.FirstSeq, s.Rollback, s.UpdatedAt = id, &start, first, false, tx.Now()
	s.Turns++
	if c.Record.ReadsInput {
		for _, d := range tx.Outbox(store.InboxTarget(s.ID)) {
			if err := take(tx, s, d); err != nil {
				return out, err
			}
			in := d.Message
			in.Task = string(id)
			if need := undeclared(tx, []store.Key{store.InputKey(id, in.ID)}); len(need) > 0 {
				return out, store.More(need...)
			}
			if _, seen := tx.Input(id, in.ID); seen {
				continue
			}
			now, _ := tx.Task(id)
			if err := deliver(tx, now, in); err != nil {
				return out, err
			}
		}
		out.Record, _ = tx.Task(id)
	}
	tx.PutSession(*s)
	return out, nil
}

// keep puts a message into the inbox; the caller puts the session.
func keep(tx store.Tx, s *session.Session, in mail.Input) error {
	target := store.InboxTarget(s.ID)
	k := store.DeliveryKey(target, in.ID)
	if !tx.Declared(k) {
		return store.More(k)
	}
	in.Task, in.Seq, in.Ticket = "", 0, ""
	if in.At.IsZero() {
		in.At = tx.Now()
	}
	d, there := tx.Delivery(target, in.ID)
	if !there {
		s.Latest++
		s.Waiting++
		d = store.Delivery{Target: target, Seq: s.Latest, At: in.At} // what was sent before comes before
	}
	d.Message = in
	tx.PutDelivery(d)
	s.UpdatedAt = tx.Now()
	return nil
}

// take removes a message from the inbox; the caller puts the session.
func take(tx store.Tx, s *session.Session, d store.Delivery) error {
	k := store.DeliveryKey(d.Target, d.Message.ID)
	if !tx.Declared(k) {
		return store.More(k)
	}
	tx.DropDelivery(d.Target, d.Message.ID)
	s.Waiting = max(s.Waiting-1, 0)
	return nil
}

// endTurn stages what the end of a turn means for its session, in the transaction of
// the end: what it left unread goes back to the inbox, a turn that is rolled back is
// marked, and a message that wakes starts the successor.
func endTurn(tx store.Tx, r *task.Record) error {
	s, _, err := sessionOf(tx, r.Session)
	if err != nil || s.Active != r.ID {
		return err
	}
	if r.Unread() > 0 && r.ConsumedInput == 0 {
		s.Fruitless++
	} else {
		s.Fruitless = 0
	}
	if r.Unread() > 0 {
		if need := undeclared(tx, []store.Key{store.InputsKey(r.ID)}); len(need) > 0 {
			return store.More(need...)
		}
		for _, in := range tx.Inputs(r.ID) {
			if in.Delivery == mail.Answer || in.Kind == mail.KindWithdrawn {
				continue
			}
			if err := keep(tx, &s, in); err != nil {
				return err
			}
		}
	}
	if s.Rollback {
		stream := journal.StreamID(s.ID)
		data, err := json.Marshal(Withdrawn{From: s.FirstSeq, To: tx.Head(stream).Seq})
		if err != nil {
			return fmt.Errorf("encode withdrawn turn: %w", err)
		}
		tx.Append(journal.Entry{Stream: stream, Kind: journal.KindTurnWithdrawn, Media: mediaJSON, Data: data})
	}
	s.Active, s.Rollback, s.UpdatedAt = "", false, tx.Now()
	tx.PutSession(s)
	return wake(tx, &s)
}

// Withdrawn is the data of a turn.withdrawn entry: the entries of the session from
// From to To are of a turn that was rolled back.
type Withdrawn struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// wake starts the next turn of an idle session if its inbox holds something that
// starts one: a message, which becomes the turn's payload, or a notice that an
// executor which reads input can be woken by.
func wake(tx store.Tx, s *session.Session) error {
	if s.Active != "" {
		return nil
	}
	for _, d := range tx.Outbox(store.InboxTarget(s.ID)) {
		if !s.Wakes(d.Message) {
			continue
		}
		notice := strings.HasPrefix(d.Message.Kind, mail.KindChild)
		rec := s.Start.Clone()
		// Derived, since a transaction may run again: the message's place is of this
		// session alone, and what it comes from cannot be guessed.
		var random [14]byte
		sum := sha256.Sum256([]byte(string(s.ID) + "\x00" + d.Message.ID + "\x00" + strconv.FormatInt(s.Turns, 10) + "\x00" + s.CreatedAt.String()))
		copy(random[:], sum[:])
		rec.ID = task.NewID(rec.Kind, tx.Now(), random)
		rec.Publication = task.OnCreate
		if notice {
			rec.DueAt = d.Message.At.Add(noticeWindow)
		} else {
			if err := take(tx, s, d); err != nil {
				return err
			}
			rec.Spec = task.Payload{Media: d.Message.Media, Data: d.Message.Data}
		}
		_, err := begin(tx, s, task.Create{Record: rec})
		return err
	}
	return nil
}

// noticeWindow is how long the notices of one session are gathered before a turn is
// started for them: one that finds them all costs a model less than one for each.
const noticeWindow = 200 * time.Millisecond

// toSession gives a notice to a session: to its unfinished turn if that reads input,
// else to its inbox, which wakes it. It reports whether the session took it.
func toSession(tx store.Tx, id task.SessionID, child *task.Record, n task.Notify) (took bool, err error) {
	s, active, err := sessionOf(tx, id)
	if err != nil || s.ID == "" {
		return false, err
	}
	if active != nil && active.ReadsInput && !active.MailSealed && !active.State.Terminal() {
		return true, toMailbox(tx, *active, child, n)
	}
	if n.Kind == task.NoticeCreated {
		return true, nil
	}
	suppressed := 0
	if n.Replaces != "" {
		k := store.DeliveryKey(store.InboxTarget(id), n.Replaces)
		if !tx.Declared(k) {
			return false, store.More(k)
		}
		if old, ok := tx.Delivery(k.A, k.B); ok {
			before, _ := mail.NoticeOf(old.Message)
			suppressed = before.Suppressed + 1
			if err := take(tx, &s, old); err != nil {
				return false, err
			}
		}
	}
	if err := keep(tx, &s, noticeOf(child, n, suppressed)); err != nil {
		return false, err
	}
	tx.PutSession(s)
	return true, wake(tx, &s)
}

// toOutbox gives a notice to the outbox target of its task, if it has one.
func toOutbox(tx store.Tx, child *task.Record, n task.Notify) error {
	if child.Notify == "" {
		return nil
	}
	in := noticeOf(child, n, 0)
	k := store.DeliveryKey(child.Notify, in.ID)
	if !tx.Declared(k) {
		return store.More(k)
	}
	if child.Parent == "" {
		in.Kind = "task." + n.Kind
	}
	in.At = tx.Now()
	if _, there := tx.Delivery(k.A, k.B); !there {
		tx.PutDelivery(store.Delivery{Target: k.A, Seq: child.Version, Message: in, At: tx.Now(), Due: tx.Now()})
	}
	return nil
}
