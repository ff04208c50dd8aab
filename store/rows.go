// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"strings"
	"time"

	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/task"
)

// Delivery is one message on its way out of the store: to a session's inbox, or to
// an outbox target whose deliverers lease it. Its id is Message.ID, by which a
// receiver recognizes what it has had before.
//
// A deliverer leases the row by a receipt of its own and a Due in the future, and
// drops it with the same receipt. What is not dropped by Due is offered again. A row
// with a reason in Dead is offered no more, until somebody clears it.
type Delivery struct {
	Target  string     `json:"target"`
	Seq     int64      `json:"seq,omitempty"` // order among those of one At
	Message mail.Input `json:"message"`
	At      time.Time  `json:"at"`
	Due     time.Time  `json:"due,omitzero"` // next offer; zero: never offered, only read
	Receipt string     `json:"receipt,omitempty"`
	Tries   int        `json:"tries,omitempty"`
	Failure string     `json:"failure,omitempty"` // of the latest try
	Dead    string     `json:"dead,omitempty"`
}

// Kinds of timers beside those of package task.
const (
	// TimerCascade: the children of Subject are to be canceled, those after Arg.
	TimerCascade = "cascade"
	// TimerTicket: a ticket expires. Subject is [TicketSubject].
	TimerTicket = "ticket"
)

// TicketSubject names a ticket in a timer.
func TicketSubject(id task.ID, ticket task.TicketID) string {
	return string(id) + "\x00" + string(ticket)
}

// OfTicketSubject is the inverse of [TicketSubject].
func OfTicketSubject(subject string) (task.ID, task.TicketID) {
	id, ticket, _ := strings.Cut(subject, "\x00")
	return task.ID(id), task.TicketID(ticket)
}

// inboxPrefix begins the targets that are sessions' inboxes.
const inboxPrefix = "session/"

// InboxTarget returns the target that is a session's inbox.
func InboxTarget(id task.SessionID) string { return inboxPrefix + string(id) }

// InboxOf returns the session whose inbox the target is.
func InboxOf(target string) (task.SessionID, bool) {
	id, ok := strings.CutPrefix(target, inboxPrefix)
	return task.SessionID(id), ok
}

// Offered reports whether deliverers may lease the row once it is due.
func (d *Delivery) Offered() bool { return !d.Due.IsZero() && d.Dead == "" }
