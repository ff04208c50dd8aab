// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"slices"
	"time"

	"github.com/outlive-dev/outlive/journal"
)

func (c RequestCancel) apply(s *step) error {
	if c.IfVersion != 0 && c.IfVersion != s.r.Version {
		return ErrVersion
	}
	first := s.intend(c.Reason, "")
	if len(c.Cascade) > 0 {
		s.journal(journal.KindCascaded, Cascaded{Children: c.Cascade})
	}
	switch {
	case c.Force:
		s.tell(SignalCancel)
		s.canceled(OutcomeUnknown, nil, time.Time{})
	case first:
		s.stop(c.WorkerGone)
	default:
		s.tell(SignalCancel) // the bell may have been lost
	}
	return nil
}

func (c Deadline) apply(s *step) error {
	if s.r.Deadline.IsZero() || s.now.Before(s.r.Deadline) {
		return ErrNotDue
	}
	if s.intend("the deadline passed", CodeDeadline) {
		s.stop(c.WorkerGone)
	}
	return nil
}

// intend records the intent to cancel and reports whether it is the first: the
// first reason stays.
func (s *step) intend(reason, code string) bool {
	r := &s.r
	if r.Canceling() {
		return false
	}
	r.CancelRequestedAt, r.CancelReason, r.CancelCode = s.now, CutText(reason), code
	s.journal(journal.KindCancelRequested, CancelRequested{Reason: r.CancelReason, Code: code})
	s.bump()
	return true
}

// stop carries a new intent out as far as the record alone can: a live owner is
// told and acknowledges, anything else ends here or is started once more to stop
// what lives outside.
func (s *step) stop(workerGone bool) {
	r := &s.r
	switch {
	case r.State != Running:
		s.stopLater(OutcomeKnown)
	case r.Owner == OwnerParent:
		// The parent's attempt acknowledges, or the task is orphaned.
	case r.Unattended() || workerGone:
		s.stopLater(OutcomeUnknown)
	default:
		s.tell(SignalCancel)
	}
}

// stopLater makes a task that is to be canceled and has no live owner pending, if
// something outside must be stopped first, or ends it.
func (s *step) stopLater(o Outcome) {
	r := &s.r
	if !r.Outside && (r.State != Running || !r.Recoverable || !r.StartCommitted) {
		s.canceled(o, nil, time.Time{})
		return
	}
	r.Tickets, r.TicketsAll, r.SuspendReason = nil, false, ""
	s.pend(s.now)
}

func (c Send) apply(s *step) error {
	r := &s.r
	if !r.ReadsInput {
		return ErrNoInput
	}
	r.LatestInput++
	s.touch()
	note := c.Input
	note.Seq = r.LatestInput
	s.journal(journal.KindInput, note)
	switch {
	case c.Wakes && r.State == Waiting:
		s.resume(Resumed{Reason: "input"})
	case c.Wakes:
		r.WakeInput = r.LatestInput
	}
	s.tell(SignalInput)
	return nil
}

// resume makes a waiting task pending.
func (s *step) resume(why Resumed) {
	s.journal(journal.KindResumed, why)
	s.pend(s.now)
}

func (c Decide) apply(s *step) error {
	r := &s.r
	i := slices.Index(r.Tickets, c.Ticket)
	satisfied := c.Satisfied
	if i >= 0 {
		// A copy: the slice is shared with the record before.
		left := slices.Concat(r.Tickets[:i], r.Tickets[i+1:])
		satisfied = satisfied || !r.TicketsAll || len(left) == 0
		if len(left) == 0 {
			left, r.TicketsAll = nil, false
		}
		r.Tickets = left
		s.touch()
	}
	if satisfied && r.State == Waiting {
		s.resume(Resumed{Reason: "decided", Ticket: c.Ticket})
	}
	return nil
}

func (c Release) apply(s *step) error {
	r := &s.r
	if c.IfVersion != 0 && c.IfVersion != r.Version {
		return ErrVersion
	}
	if r.State != Suspended {
		return illegal(r)
	}
	r.SuspendReason = ""
	s.journal(journal.KindReleased, nil)
	s.pend(s.now)
	return nil
}

// publish makes a deferred task public. It moves no fence, so it never disturbs an
// attempt. A task that has ended sends the notice of its end instead.
func (s *step) publish() {
	r := &s.r
	if r.Publication != Deferred {
		return
	}
	r.Publication = OnBackground
	s.touch()
	if r.State.Terminal() {
		s.notify(terminalNotice(r))
		return
	}
	s.journal(journal.KindPublished, nil)
	s.notify(NoticeBackgrounded, r.Description)
	s.tell(SignalDetached)
}

func (c Reveal) apply(s *step) error {
	switch {
	case s.r.Publication != Deferred:
	case c.Policy == LiveCancel && !s.r.State.Terminal():
		if s.intend("its caller is gone", "") {
			s.stop(c.WorkerGone)
		}
	default:
		s.publish()
	}
	return nil
}

func (c Publish) apply(s *step) error {
	s.publish()
	return nil
}
