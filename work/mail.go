// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"time"

	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/task"
)

// Child describes a task to create under the attempt's own. Its budgets are never
// wider than its parent's: deadline, attempts and depth.
type Child struct {
	// Invocation makes the creation idempotent under the parent: the same key with the
	// same request gives the same child, also to a later attempt. Defaults to none.
	Invocation string
	// ID is the child's id. Defaults to a new one.
	ID task.ID
	// Executor is the registered name. Required.
	Executor string
	// Input is the payload. Defaults to none.
	Input task.Payload
	// Name is unique among unfinished tasks. Defaults to none.
	Name string
	// Description is for people. Defaults to none.
	Description string
	// Labels are for filters. Defaults to none.
	Labels map[string]string
	// Queue limits how many run at once. Defaults to no queue.
	Queue string
	// MaxAttempts limits retries of failures. Defaults to 1.
	MaxAttempts int
	// Backoff is the delay between retries. Defaults to 1 s doubling up to 5 min.
	Backoff task.Backoff
	// Timeout sets a deadline for the whole child. Defaults to none.
	Timeout time.Duration
	// Tokens is how many tokens of models the child may use, at most its parent's.
	// Defaults to the parent's.
	Tokens int64
	// Detach lets the child go on when its parent is canceled. Defaults to false.
	Detach bool
}

// Turn is what the attempt does to a child it drives: exactly one of the fields.
type Turn struct {
	// HandOff passes the child to the manager. Defaults to nil.
	HandOff *HandOff
	// Offer stores a result first, to be sealed second. Defaults to nil.
	Offer *Offer
	// Seal completes the child with the result offered, or withdraws that when input
	// came in between. Defaults to false.
	Seal bool
	// Fail fails the child. Defaults to nil.
	Fail *task.Failure
	// Stopped confirms that the child, which is to be canceled, has stopped. Defaults
	// to false.
	Stopped bool
}

// HandOff says how a child goes on under the manager: at once, or when Tickets are
// decided, or with Suspend when somebody releases it.
type HandOff struct {
	Checkpoint *task.Checkpoint
	Cursor     int64
	Tickets    []mail.Ticket
	All        bool
	Suspend    bool
}

// Offer is a result and the input cursor it was made at.
type Offer struct {
	Result task.Payload
	Cursor int64
}

// Ticket returns a ticket of the task as it is now, with its decision if there is
// one. Kind NotFound when the task never asked it.
func (a *Attempt) Ticket(ctx context.Context, id task.TicketID) (mail.Ticket, error) {
	return a.port.Ticket(ctx, id)
}

// Claim uses an approval for a call with these arguments, which are JSON, and for
// none other: with other arguments the kind is Forbidden, and the approval stays
// unused. It is claimed once. When an earlier attempt has claimed it and did not
// Settle it, the kind is UnknownOutcome: the call may have been made, and is not to
// be made again.
func (a *Attempt) Claim(ctx context.Context, id task.TicketID, args []byte) error {
	digest, err := mail.ArgsDigest(args)
	if err != nil {
		return err
	}
	return a.port.Claim(ctx, id, digest)
}

// Settle records that the call of a claimed approval has been made.
func (a *Attempt) Settle(ctx context.Context, id task.TicketID) error {
	return a.port.Settle(ctx, id)
}

// Spawn creates a child that the manager runs in the background. Kind Fenced when
// this attempt is over: it creates nothing then. Kind CancelRequested when the task
// is to be canceled.
func (a *Attempt) Spawn(ctx context.Context, c Child) (task.Record, error) {
	return a.port.Spawn(ctx, c)
}

// Held is a child that this attempt drives itself. While it has not ended, was not
// handed off and not canceled, the attempt cannot end by Done, Ask, Suspend or Yield;
// when the attempt ends otherwise the child is orphaned. A Held is for one goroutine.
type Held struct {
	a   *Attempt
	rec task.Record
}

// Hold creates a child that this attempt drives itself, or by the same invocation
// takes back the one that an earlier attempt of the task drove. A child that was
// handed off or has ended meanwhile is returned as it is, see Task.
func (a *Attempt) Hold(ctx context.Context, c Child) (*Held, error) {
	rec, err := a.port.Hold(ctx, c)
	if err != nil {
		return nil, err
	}
	return &Held{a: a, rec: rec}, nil
}

// Task returns the child's record as it was after the latest call.
func (h *Held) Task() task.Record { return h.rec.Clone() }

// HandOff passes the child to the manager, with a new generation: from then on
// everything this attempt tries with it is Fenced.
func (h *Held) HandOff(ctx context.Context, o HandOff) error {
	return h.turn(ctx, Turn{HandOff: &o})
}

// Offer stores a candidate result.
func (h *Held) Offer(ctx context.Context, result task.Payload, cursor int64) error {
	return h.turn(ctx, Turn{Offer: &Offer{Result: result, Cursor: cursor}})
}

// Seal completes the child with the result offered. When input came in between,
// sealed is false, the candidate is withdrawn, and the child goes on.
func (h *Held) Seal(ctx context.Context) (sealed bool, err error) {
	err = h.turn(ctx, Turn{Seal: true})
	return err == nil && h.rec.State.Terminal(), err
}

// Fail fails the child.
func (h *Held) Fail(ctx context.Context, code, message string) error {
	return h.turn(ctx, Turn{Fail: &task.Failure{Code: code, Message: message, Outcome: task.OutcomeKnown}})
}

// Stopped confirms that the child, which is to be canceled, has stopped.
func (h *Held) Stopped(ctx context.Context) error { return h.turn(ctx, Turn{Stopped: true}) }

func (h *Held) turn(ctx context.Context, t Turn) error {
	rec, err := h.a.port.Drive(ctx, h.rec.ID, h.rec.Generation, t)
	if err == nil {
		h.rec = rec
	}
	return err
}
