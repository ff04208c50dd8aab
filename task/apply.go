// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/outlive-dev/outlive/journal"
)

// Apply returns the record after c and the effects that belong to the change. It
// reads no clock and does no IO. An error means that nothing changed; a transition
// that is not the one asked for (a Complete that goes back to pending because of
// unread input) is a result, to be read from the record's state. A command that
// finds nothing to do returns the record as it was.
//
// Checks come in this order: the task has ended (but see Publish and Reveal), the
// fence, the intent to cancel, the state, the arguments.
//
// Apply never writes to what r or c point to. The record it returns may share
// memory with both.
func Apply(r Record, c Command, now time.Time) (Record, []Effect, error) {
	if r.UpdatedAt.After(now) {
		now = r.UpdatedAt // the store's clock never goes back
	}
	s := step{r: r, now: now}
	if err := s.apply(c); err != nil {
		if c == nil {
			return r, nil, err
		}
		id := r.ID
		if create, ok := c.(Create); ok {
			id = create.Record.ID
		}
		return r, nil, fmt.Errorf("%s task %s: %w", c.Op(), id, err)
	}
	if s.bumped {
		s.r.Version++
	}
	if s.bumped || s.touched {
		s.r.Revision++
		s.r.UpdatedAt = now
	}
	s.identify()
	slices.SortStableFunc(s.fx, func(a, b Effect) int { return rank(a) - rank(b) })
	return s.r, s.fx, nil
}

func rank(e Effect) int {
	switch e.(type) {
	case Journal:
		return 0
	case Notify:
		return 1
	case Alarm:
		return 2
	default:
		return 3
	}
}

// A step is one Apply at work: the record under change and what belongs to it.
type step struct {
	r       Record
	now     time.Time
	fx      []Effect
	bumped  bool // Version moves
	touched bool // Revision moves
}

func (s *step) apply(c Command) error {
	switch {
	case c == nil:
		return invalidf("no command")
	case c.Op() == OpCreate:
	case s.r.ID == "":
		return invalidf("no task")
	case s.r.State.Terminal() && c.Op() != OpPublish && c.Op() != OpReveal:
		return &FinishedError{Record: s.r}
	}
	return c.apply(s)
}

// create builds the record from the given fields of identity, ownership,
// visibility and schedule; everything else starts at its own beginning.
func (c Create) apply(s *step) error {
	in := c.Record
	switch {
	case s.r.ID != "":
		return ErrExists
	case in.ID == "":
		return invalidf("id is missing")
	case in.Executor == "":
		return invalidf("executor is missing")
	}
	r := Record{
		ID: in.ID, Executor: in.Executor, Kind: in.Kind, Name: in.Name, Description: in.Description, Spec: in.Spec,
		Invocation: in.Invocation, Digest: in.Digest, Parent: in.Parent, Root: cmp.Or(in.Root, in.ID), Depth: in.Depth, Bound: in.Bound,
		Session: in.Session, RootSession: in.RootSession, CausedBy: in.CausedBy, Notify: in.Notify, RetryOf: in.RetryOf,
		Principal: in.Principal, Tenant: in.Tenant, Labels: in.Labels, Place: in.Place,

		Owner: cmp.Or(in.Owner, OwnerManager), Generation: 1, OnLeaseLoss: cmp.Or(in.OnLeaseLoss, LoseFail),
		ReadsInput: in.ReadsInput, Recoverable: in.Recoverable, Publication: cmp.Or(in.Publication, OnCreate),

		Queue: in.Queue, ConcurrencyKey: in.ConcurrencyKey, Priority: in.Priority, DueAt: in.DueAt,
		MaxAttempts: in.MaxAttempts, Backoff: in.Backoff, Deadline: in.Deadline, Tokens: in.Tokens, Liveness: in.Liveness,
		CreatedAt: s.now, UpdatedAt: s.now, Retention: in.Retention,
	}
	r.Liveness.Policy = cmp.Or(r.Liveness.Policy, LiveContinue)
	if r.Publication != Deferred && r.Publication != OnCreate {
		return invalidf("publication %q: a task is created deferred or on_create", r.Publication)
	}
	if r.OnLeaseLoss != LoseFail && r.OnLeaseLoss != LoseRetry {
		return invalidf("on_lease_loss %q: neither fail nor retry", r.OnLeaseLoss)
	}
	switch r.Owner {
	case OwnerManager:
		r.State = Pending
		if r.DueAt.Before(s.now) {
			r.DueAt = s.now
		}
	case OwnerParent:
		if in.Hold.Parent == "" || in.Hold.Parent != in.Parent || in.Hold.Attempt < 1 || in.Hold.Lease.IsZero() {
			return invalidf("a parent-owned task needs the hold of its parent's attempt")
		}
		r.State, r.Hold, r.StartedAt, r.DueAt = Running, in.Hold, s.now, time.Time{}
	default:
		return invalidf("owner %q: neither manager nor parent", r.Owner)
	}
	s.r = r
	s.bump()
	s.journal(journal.KindCreated, Created{
		Executor: r.Executor, Kind: r.Kind, Name: r.Name, Owner: r.Owner, Parent: r.Parent, RetryOf: r.RetryOf,
	})
	s.notify(NoticeCreated, r.Description)
	if !r.Deadline.IsZero() {
		s.fx = append(s.fx, Alarm{Kind: AlarmDeadline, At: r.Deadline})
	}
	return nil
}

// bump moves Version (and with it Revision) by one, however often it is called.
func (s *step) bump() { s.bumped = true }

// touch moves Revision alone.
func (s *step) touch() { s.touched = true }

func (s *step) journal(kind string, data any) {
	s.fx = append(s.fx, Journal{Kind: kind, Data: data})
}

// notify asks for a notice if the task is published.
func (s *step) notify(kind, summary string) {
	if s.r.Publication != Deferred {
		s.fx = append(s.fx, Notify{Kind: kind, Summary: summary})
	}
}

// identify gives the notices their ids, which name the version they tell of. The first
// one needs no other to replace, and an end tells more than what was before.
func (s *step) identify() {
	for i, e := range s.fx {
		n, ok := e.(Notify)
		if !ok {
			continue
		}
		n.ID = fmt.Sprintf("%s/%s/%d", s.r.ID, n.Kind, s.r.Version)
		if n.Kind != NoticeCreated && !s.r.State.Terminal() {
			n.Replaces, s.r.Told = s.r.Told, n.ID
		}
		s.fx[i] = n
	}
}

// tell rings the worker of the attempt, if there is one.
func (s *step) tell(signal string) {
	if !s.r.Lease.IsZero() {
		s.fx = append(s.fx, Tell{Signal: signal})
	}
}

// pend makes the task pending from at on, without an attempt.
func (s *step) pend(at time.Time) {
	s.r.State, s.r.Lease, s.r.DueAt, s.r.Stopping = Pending, Lease{}, at, false
	s.bump()
}

// end makes the task terminal and seals it: the mailbox takes nothing more and
// every former owner's generation is stale. endedAt, when set, is when what ran
// outside really ended; a time in the future is not believed.
func (s *step) end(state State, f *Failure, endedAt time.Time) {
	r := &s.r
	r.State, r.Failure = state, f
	r.Generation++
	r.MailSealed, r.Stopping = true, false
	r.Lease, r.Hold, r.DueAt = Lease{}, Hold{}, time.Time{}
	r.Tickets, r.TicketsAll, r.SuspendReason, r.Candidate, r.OpenEvents = nil, false, "", nil, nil
	r.DoneAt = s.now
	if !endedAt.IsZero() && endedAt.Before(s.now) {
		r.DoneAt = endedAt
		if endedAt.Before(r.CreatedAt) {
			r.DoneAt = r.CreatedAt
		}
	}
	s.bump()

	ended := Ended{Attempt: r.Attempt, Generation: r.Generation, Unread: r.Unread(), EndedAt: r.DoneAt}
	if f != nil {
		ended.Code, ended.Message, ended.Outcome = f.Code, f.Message, f.Outcome
	}
	if r.Unread() > 0 {
		s.journal(journal.KindInputUnread, InputUnread{After: r.ConsumedInput, Latest: r.LatestInput})
	}
	s.journal(terminalKind(state), ended)
	s.notify(terminalNotice(r))
	if !r.Deadline.IsZero() {
		s.fx = append(s.fx, Alarm{Kind: AlarmDeadline})
	}
	if r.Retention > 0 {
		s.fx = append(s.fx, Alarm{Kind: AlarmRetention, At: s.now.Add(r.Retention)})
	}
}

func terminalKind(s State) string {
	switch s {
	case Completed:
		return journal.KindCompleted
	case Failed:
		return journal.KindFailed
	default:
		return journal.KindCanceled
	}
}

// terminalNotice returns kind and summary of the notice of a terminal record.
func terminalNotice(r *Record) (kind, summary string) {
	switch {
	case r.State == Completed:
		return NoticeCompleted, ""
	case r.State == Failed:
		kind = NoticeFailed
	default:
		kind = NoticeCanceled
	}
	summary = r.Failure.Code
	if r.Failure.Message != "" {
		summary += ": " + r.Failure.Message
	}
	return kind, summary
}
