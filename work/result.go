// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"fmt"
	"time"

	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/task"
)

// End says how an attempt ends.
type End uint8

const (
	// EndFail is the zero value, so that a forgotten result is never a success.
	EndFail End = iota
	// EndDone completes the task.
	EndDone
	// EndYield gives the attempt back; another will go on.
	EndYield
	// EndSuspend parks the task until a release.
	EndSuspend
	// EndWait parks the task until tickets are decided.
	EndWait
	// EndLeave leaves a recoverable task unattended.
	EndLeave
	// EndStopped confirms a cancel.
	EndStopped
)

// Result is how one attempt ends. Make one with the functions of this file.
type Result struct {
	End        End
	Value      task.Payload
	Failure    task.Failure
	Retryable  bool
	Checkpoint *task.Checkpoint
	Reason     string
	Tickets    []mail.Ticket // of EndWait: what to ask; Task and OpenedAt are set by the runtime
	All        bool
	Cursor     int64
	// EndedAt, when set, is when what ran outside ended; it becomes the task's end.
	EndedAt time.Time
}

// Done completes the task with v.
func Done(v task.Payload) Result { return Result{End: EndDone, Value: v} }

// Fail fails the task for good with a code of the executor's own.
func Fail(code, message string) Result {
	return Result{Failure: task.Failure{Code: code, Message: message, Outcome: task.OutcomeKnown}}
}

// Lost fails the task with outcome unknown: it may have run partly or fully.
func Lost(code, message string) Result {
	return Result{Failure: task.Failure{Code: code, Message: message, Outcome: task.OutcomeUnknown}}
}

// Retry fails the attempt; the task goes back to pending while its budget lasts.
func Retry(code, message string) Result {
	r := Fail(code, message)
	r.Retryable = true
	return r
}

// Yield gives the attempt back. A nil checkpoint keeps the one before.
func Yield(cp *task.Checkpoint) Result { return Result{End: EndYield, Checkpoint: cp} }

// Suspend parks the task until somebody releases it. Reason is parked, operator or
// idle; idle goes on at once when there is unread input.
func Suspend(reason string, cp task.Checkpoint) Result {
	return Result{End: EndSuspend, Reason: reason, Checkpoint: &cp}
}

// Ask parks the task until one of the tickets (or all) are decided. They are opened
// in the transaction that parks it. A ticket that an earlier Ask of the same task
// opened is asked again by its id and the same content: when it was decided
// meanwhile the task goes on at once. A ticket that is not asked again is withdrawn.
func Ask(cp *task.Checkpoint, all bool, tickets ...mail.Ticket) Result {
	return Result{End: EndWait, Checkpoint: cp, All: all, Tickets: tickets}
}

// Question is a ticket for a person's or a model's answer.
func Question(id, prompt string, options ...string) mail.Ticket {
	return mail.Ticket{ID: id, Kind: mail.Question, Prompt: prompt, Options: options}
}

// Approval is a ticket for a call with exactly these arguments, which are JSON. The
// call is made after [Attempt.Claim].
func Approval(id, prompt string, args []byte) (mail.Ticket, error) {
	digest, err := mail.ArgsDigest(args)
	if err != nil {
		return mail.Ticket{}, fmt.Errorf("approval %s: %w", id, err)
	}
	return mail.Ticket{ID: id, Kind: mail.Approval, Prompt: prompt, ArgsDigest: digest}, nil
}

// External is a ticket that a system decides.
func External(id, prompt string) mail.Ticket {
	return mail.Ticket{ID: id, Kind: mail.External, Prompt: prompt}
}

// Children is a ticket that ends of the task's children decide, in the transactions
// of those ends: any of them, or all.
func Children(id string, all bool, children ...task.ID) mail.Ticket {
	t := mail.Ticket{ID: id, Kind: mail.Tasks, All: all}
	for _, c := range children {
		t.IDs = append(t.IDs, string(c))
	}
	return t
}

// Leave leaves what was started to live on with nobody watching.
func Leave() Result { return Result{End: EndLeave} }

// Stopped confirms a cancel: what was running has ended.
func Stopped() Result { return Result{End: EndStopped} }

// At returns r with the recorded end of what ran outside.
func (r Result) At(t time.Time) Result {
	r.EndedAt = t
	return r
}

// WithDetail returns r with a payload: the value of Done, else the failure's detail.
func (r Result) WithDetail(p task.Payload) Result {
	if r.End == EndDone {
		r.Value = p
		return r
	}
	r.Failure.Detail = p
	return r
}
