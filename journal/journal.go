// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package journal is the model of the one event log: streams of entries, the parts
// of events, and the cursors that readers hold. It does no IO.
package journal

import "time"

// StreamID names one ordered log: a session's or a task's own id.
type StreamID string

// Entry is one part of one logical event. Seq is dense per stream and starts at 1.
// An entry without Part is a whole event of its own and is never a replay.
type Entry struct {
	Stream  StreamID  `json:"stream"`
	Epoch   int64     `json:"epoch"`
	Seq     int64     `json:"seq"`
	Task    string    `json:"task,omitempty"`
	Attempt int64     `json:"attempt,omitempty"`
	Event   string    `json:"event,omitempty"`
	Part    string    `json:"part,omitempty"`
	Final   bool      `json:"final,omitempty"`
	Kind    string    `json:"kind"`
	Media   string    `json:"media,omitempty"`
	Data    []byte    `json:"data,omitempty"`
	At      time.Time `json:"at"`
}

// Cursor is a position in a stream. The zero Cursor is before everything.
type Cursor struct {
	Epoch int64
	Seq   int64
}

// Head is the newest position of a stream; Seq 0 means that it is empty.
type Head struct {
	Epoch int64
	Seq   int64
}

// Tail is what is known of one event: its last part, how many bytes its parts
// hold together, and whether the final part is there.
type Tail struct {
	Part  string
	Bytes int64
	Final bool
	Parts int64
}

// Kinds of lifecycle entries. Protocol: append only.
const (
	KindCreated         = "task.created"
	KindStarted         = "task.started"
	KindRecovered       = "task.recovered"
	KindPublished       = "task.published"
	KindWaiting         = "task.waiting"
	KindResumed         = "task.resumed"
	KindSuspended       = "task.suspended"
	KindReleased        = "task.released"
	KindUnattended      = "task.unattended"
	KindYielded         = "task.yielded"
	KindRetrying        = "task.retrying"
	KindCancelRequested = "task.cancel_requested"
	KindCompleted       = "task.completed"
	KindFailed          = "task.failed"
	KindCanceled        = "task.canceled"
	KindCascaded        = "task.cascaded"
	KindHandedOff       = "task.handed_off"
	KindInput           = "task.input"
	KindInputUnread     = "task.input_unread"
	KindTurnWithdrawn   = "turn.withdrawn"
	KindInputEdited     = "task.input_edited"
	KindInputWithdrawn  = "task.input_withdrawn"
	KindPanic           = "task.panic"
	KindOutput          = "output"
	KindMessage         = "message"
	KindAbandoned       = "event.abandoned"
	KindGap             = "gap"
	KindObserverOn      = "observer.attached"
	KindObserverOff     = "observer.detached"
)

// Terminal reports whether kind is a task's one last lifecycle entry.
func Terminal(kind string) bool {
	return kind == KindCompleted || kind == KindFailed || kind == KindCanceled
}
