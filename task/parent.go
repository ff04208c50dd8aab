// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"time"

	"github.com/outlive-dev/outlive/journal"
)

// driven checks that the task is still its parent's under the given generation.
// Everything a former owner tries is fenced, whatever it tries.
func (s *step) driven(generation int64) error {
	switch {
	case generation != s.r.Generation:
		return ErrOwner
	case s.r.Owner != OwnerParent:
		return illegal(&s.r)
	}
	return nil
}

func (c HandOff) apply(s *step) error {
	if err := s.driven(c.Generation); err != nil {
		return err
	}
	r := &s.r
	if r.Canceling() {
		return ErrCancelRequested
	}
	answered, err := s.open(c.Tickets, c.Decided, c.Answered, c.All)
	if err != nil {
		return err
	}
	if err := s.consume(c.Cursor); err != nil {
		return err
	}
	s.keep(c.Checkpoint)
	if c.Suspend && r.Checkpoint == nil {
		return invalidf("suspend needs a checkpoint")
	}
	s.toManager(false)
	switch {
	case c.Suspend:
		r.Tickets, r.TicketsAll = nil, false
		s.suspended(SuspendOperator)
	case len(c.Tickets) == 0 || answered || r.WakeInput > r.ConsumedInput:
		s.pend(s.now)
	default:
		s.waits()
	}
	return nil
}

// toManager makes the manager the owner, with a new generation, and publishes.
func (s *step) toManager(orphaned bool) {
	r := &s.r
	r.Owner, r.Hold, r.Candidate = OwnerManager, Hold{}, nil
	r.Generation++
	s.journal(journal.KindHandedOff, HandedOff{Generation: r.Generation, Orphaned: orphaned})
	s.publish()
	s.bump()
}

func (c Offer) apply(s *step) error {
	if err := s.driven(c.Generation); err != nil {
		return err
	}
	r := &s.r
	if r.Canceling() {
		return ErrCancelRequested
	}
	cursor := c.Cursor
	if !r.ReadsInput {
		cursor = 0
	}
	if cursor < r.ConsumedInput {
		return fmt.Errorf("%w: cursor %d is before %d", ErrConsumed, cursor, r.ConsumedInput)
	}
	if cursor > r.LatestInput {
		return invalidf("cursor %d is past the latest input %d", cursor, r.LatestInput)
	}
	r.Candidate = &Candidate{Result: c.Result, Cursor: cursor}
	s.bump()
	return nil
}

func (c Seal) apply(s *step) error {
	if err := s.driven(c.Generation); err != nil {
		return err
	}
	r := &s.r
	switch {
	case r.Canceling():
		return ErrCancelRequested
	case r.Candidate == nil:
		return fmt.Errorf("%w: no result is offered", ErrIllegal)
	}
	if s.sealable() {
		s.accept()
		return nil
	}
	r.Candidate = nil
	s.bump()
	return nil
}

// sealable reports whether the candidate is the task's result: no input came
// after what it was made from.
func (s *step) sealable() bool {
	return s.r.Candidate != nil && s.r.Candidate.Cursor == s.r.LatestInput
}

// accept completes the task with its candidate.
func (s *step) accept() {
	r := &s.r
	c := r.Candidate
	r.ConsumedInput = c.Cursor
	s.done(c.Result, time.Time{})
}

func (c Orphan) apply(s *step) error {
	if err := s.driven(c.Generation); err != nil {
		return err
	}
	r := &s.r
	switch {
	case r.Canceling():
		if !r.Outside && (!r.Recoverable || !r.StartCommitted) {
			s.canceled(OutcomeUnknown, nil, time.Time{})
			return nil
		}
		s.toManager(true)
		s.pend(s.now)
	case s.sealable():
		s.accept()
	case r.Recoverable:
		s.toManager(true)
		s.pend(s.now)
	default:
		s.failed(Failure{Code: CodeOrphaned, Message: "its parent's attempt ended", Outcome: OutcomeUnknown}, time.Time{})
	}
	return nil
}

func (c Retake) apply(s *step) error {
	r := &s.r
	switch {
	case r.Owner != OwnerParent:
		return ErrOwner
	case c.Hold.Parent != r.Hold.Parent || c.Hold.Lease.IsZero() || !c.Hold.follows(r.Hold):
		return fmt.Errorf("%w: not the next attempt of its parent", ErrFenced)
	}
	r.Hold = c.Hold
	r.Generation++
	s.bump()
	return nil
}

// follows reports whether h is of a later attempt than old.
func (h Hold) follows(old Hold) bool {
	if h.Generation != 0 && old.Generation != 0 && h.Generation != old.Generation {
		return h.Generation > old.Generation
	}
	return h.Attempt > old.Attempt
}
