// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package session is the model of a durable conversation: many tasks, its turns,
// one after another, at most one of them unfinished. It does no IO.
//
// # Guarantees
//
//  1. A session has at most one unfinished task. Who starts another meanwhile is
//     answered by a [Policy].
//  2. What arrives while no task can take it waits in the session's inbox, in order.
//  3. The transaction that ends a task decides whether the inbox wakes a successor,
//     so that nothing depends on a process that lives between the two.
package session

import (
	"strings"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/task"
)

// Errors of sessions.
var (
	// ErrBusy: a task of the session has not ended, and the policy is Reject.
	ErrBusy = fault.New(fault.Conflict, "the session has a task that has not ended")
	// ErrForeign: the session belongs to somebody else, which is told to nobody.
	ErrForeign = fault.New(fault.NotFound, "no such session")
)

// Policy says what becomes of a message to a session whose task has not ended.
type Policy string

const (
	// Enqueue makes the message input of the unfinished task. The default.
	Enqueue Policy = "enqueue"
	// Reject refuses it.
	Reject Policy = "reject"
	// Steer makes it input that the task reads at its next safe point.
	Steer Policy = "steer"
	// Interrupt cancels the task; the message starts the next one.
	Interrupt Policy = "interrupt"
	// Rollback is Interrupt, and marks the canceled turn as withdrawn.
	Rollback Policy = "rollback"
)

// Valid fails unless p is one of the policies or empty.
func (p Policy) Valid() error {
	switch p {
	case "", Enqueue, Reject, Steer, Interrupt, Rollback:
		return nil
	}
	return fault.Newf(fault.Invalid, "session policy %q is none of enqueue, reject, steer, interrupt, rollback", p)
}

// Session is one conversation's row. Active is the unfinished task, if there is one.
type Session struct {
	ID        task.SessionID `json:"id"`
	Principal string         `json:"principal,omitempty"`
	Tenant    string         `json:"tenant,omitempty"`
	Policy    Policy         `json:"policy,omitempty"` // Defaults to Enqueue.
	Active    task.ID        `json:"active,omitempty"`
	Turns     int64          `json:"turns,omitempty"` // tasks so far
	// Start is what a successor is made from: the latest turn's fields of identity and
	// schedule.
	Start *task.Record `json:"start,omitempty"`

	Latest  int64 `json:"latest,omitempty"`  // messages that ever came into the inbox
	Waiting int64 `json:"waiting,omitempty"` // messages in it now
	// FirstSeq is where the active turn begins in the session's stream.
	FirstSeq int64 `json:"first_seq,omitempty"`
	// Fruitless counts the latest turns in a row that consumed nothing and left input
	// unread.
	Fruitless int `json:"fruitless,omitempty"`
	// Rollback is set while a turn is canceled that is to be withdrawn.
	Rollback bool `json:"rollback,omitempty"`

	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Belongs fails unless the session is the principal's.
func (s *Session) Belongs(principal, tenant string) error {
	if s.Principal != principal || s.Tenant != tenant {
		return ErrForeign
	}
	return nil
}

// Action is what to do with a message.
type Action uint8

const (
	// Begin starts a task with it: none is unfinished.
	Begin Action = iota
	// Deliver sends it to the unfinished task.
	Deliver
	// Replace cancels the unfinished task and keeps the message in the inbox; the
	// transaction that ends the task makes the next one of it.
	Replace
	// Keep puts it into the inbox: the unfinished task takes no input any more, or
	// reads none.
	Keep
	// Refuse refuses it.
	Refuse
)

// Decide returns what to do with a message to s, and how to deliver it. Active is
// the session's task, or nil when it has none or that has ended. The policy, unless
// empty, is the caller's own instead of the session's.
func Decide(s *Session, active *task.Record, p Policy) (Action, mail.Delivery) {
	if active == nil || active.State.Terminal() {
		return Begin, mail.Queue
	}
	if p == "" {
		p = s.Policy
	}
	switch {
	case p == Reject:
		return Refuse, mail.Queue
	case active.Canceling() || active.MailSealed:
		return Keep, mail.Queue // its end makes the next one
	case p == Interrupt || p == Rollback:
		return Replace, mail.Interrupt
	case !active.ReadsInput:
		return Keep, mail.Queue
	case p == Steer:
		return Deliver, mail.Steer
	}
	return Deliver, mail.Queue
}

// MaxFruitless is how many turns in a row may consume nothing before notices wake the
// session no more, until somebody speaks to it: they would start turns for ever.
const MaxFruitless = 3

// Wakes reports whether a message in the inbox of s, which is idle, starts a turn by
// itself. A notice does so if the turns read input, and do read it.
func (s *Session) Wakes(in mail.Input) bool {
	if strings.HasPrefix(in.Kind, mail.KindChild) {
		return s.Start != nil && s.Start.ReadsInput && s.Fruitless < MaxFruitless
	}
	return s.Start != nil && in.Kind != KindNote
}

// KindNote is the kind of messages that wait for the next turn without starting one.
const KindNote = "note"
