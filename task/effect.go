// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package task

import "time"

// Effect is something that belongs to a transition and is written in the same
// transaction by the engine. The set is sealed. [Apply] returns them in this order:
// Journal (in the order they are to be appended), Notify, Alarm, Tell.
type Effect interface{ effect() }

// Journal asks for one lifecycle entry in the task's stream.
type Journal struct {
	Kind string // journal.Kind*, snake case
	Data any    // a small struct that marshals to JSON; nil for none
	// Closes names an event that takes no more parts from here on.
	Closes string
}

// Notify asks for a notice to the direct parent (or by the fallback of the mail
// rules to an ancestor, the root session, or the outbox). It comes from published
// tasks only. Kind is one of the Notice constants.
type Notify struct {
	// ID is the notice's own, the same for ever.
	ID      string
	Kind    string
	Summary string
	// Replaces is the id of the notice before of the same task that this one makes
	// worthless: it says how the task is now. Of an end, and of the first, there is none.
	Replaces string
}

// Alarm asks for the timer row (Kind, task) to be due At; a zero At removes it.
type Alarm struct {
	Kind AlarmKind
	At   time.Time
}

// AlarmKind names a timer.
type AlarmKind string

const (
	// AlarmDeadline is due at the task's deadline.
	AlarmDeadline AlarmKind = "deadline"
	// AlarmRetention is due when the finished task may be forgotten.
	AlarmRetention AlarmKind = "retention"
)

// Tell asks the engine to tell the attempt's worker after the commit (a doorbell:
// losing it costs one poll). Signal is one of the Signal constants.
type Tell struct{ Signal string }

const (
	// SignalCancel means that a cancel was requested.
	SignalCancel = "cancel"
	// SignalDetached means that the foreground caller is gone; nothing is restarted.
	SignalDetached = "detached"
	// SignalInput means that there is new input.
	SignalInput = "input"
)

// Kinds of notices.
const (
	NoticeCreated      = "created"
	NoticeBackgrounded = "backgrounded"
	NoticeWaiting      = "waiting"
	NoticeCompleted    = "completed"
	NoticeFailed       = "failed"
	NoticeCanceled     = "canceled"
)

func (Journal) effect() {}
func (Notify) effect()  {}
func (Alarm) effect()   {}
func (Tell) effect()    {}
