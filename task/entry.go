// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package task

import "time"

// Created is the data of a task.created entry.
type Created struct {
	Executor string `json:"executor"`
	Kind     string `json:"kind,omitempty"`
	Name     string `json:"name,omitempty"`
	Owner    Owner  `json:"owner"`
	Parent   ID     `json:"parent,omitempty"`
	RetryOf  ID     `json:"retry_of,omitempty"`
}

// Started is the data of task.started, task.recovered and task.unattended entries:
// which attempt, and the worker that holds it or let it go.
type Started struct {
	Attempt  int64    `json:"attempt"`
	Worker   WorkerID `json:"worker,omitempty"`
	StopOnly bool     `json:"stop_only,omitempty"` // started to run the stop hook
	Lost     bool     `json:"lost,omitempty"`      // unattended because its worker was lost
}

// Parked is the data of task.waiting and task.suspended entries.
type Parked struct {
	Attempt int64      `json:"attempt"`
	Tickets []TicketID `json:"tickets,omitempty"`
	All     bool       `json:"all,omitempty"` // waits for all of Tickets, not for any
	Reason  string     `json:"reason,omitempty"`
}

// Resumed is the data of a task.resumed entry. Reason is decided or input.
type Resumed struct {
	Reason string   `json:"reason"`
	Ticket TicketID `json:"ticket,omitempty"`
}

// Yielded is the data of a task.yielded entry: the attempt went back to pending of
// its own accord. Reason is yield, input (unread input came first) or answered
// (what it wanted to wait for was decided already).
type Yielded struct {
	Attempt int64  `json:"attempt"`
	Reason  string `json:"reason"`
}

// Retrying is the data of a task.retrying entry: the attempt failed or was lost
// and another will follow.
type Retrying struct {
	Attempt  int64     `json:"attempt"`
	Failures int       `json:"failures"`
	DueAt    time.Time `json:"due_at"`
	Code     string    `json:"code"`
	Message  string    `json:"message,omitempty"`
}

// CancelRequested is the data of a task.cancel_requested entry. Code is deadline
// when a deadline asked.
type CancelRequested struct {
	Reason string `json:"reason,omitempty"`
	Code   string `json:"code,omitempty"`
}

// Cascaded is the data of a task.cascaded entry: the children that a cancel of their
// parent was passed on to, in the same transaction.
type Cascaded struct {
	Children []ID `json:"children"`
}

// HandedOff is the data of a task.handed_off entry. Orphaned means that the
// parent's attempt ended without handing over.
type HandedOff struct {
	Generation int64 `json:"generation"`
	Orphaned   bool  `json:"orphaned,omitempty"`
}

// Ended is the data of the one terminal entry.
type Ended struct {
	Attempt    int64     `json:"attempt"`
	Generation int64     `json:"generation"`
	Code       string    `json:"code,omitempty"`
	Message    string    `json:"message,omitempty"`
	Outcome    Outcome   `json:"outcome,omitempty"`
	Unread     int64     `json:"unread,omitempty"`
	EndedAt    time.Time `json:"ended_at"` // may be before the entry's own time
}

// InputNote is the data of a task.input entry: what was sent, without its content.
type InputNote struct {
	Seq      int64    `json:"seq"`
	ID       string   `json:"id,omitempty"`
	Kind     string   `json:"kind,omitempty"`
	Delivery string   `json:"delivery,omitempty"`
	Ticket   TicketID `json:"ticket,omitempty"`
	From     string   `json:"from,omitempty"`
}

// InputUnread is the data of a task.input_unread entry: the inputs after After, up
// to Latest, that a task which ended never consumed.
type InputUnread struct {
	After  int64 `json:"after"`
	Latest int64 `json:"latest"`
}
