// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"fmt"
	"iter"

	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/task"
)

// Part is one part of one event to append. ID is stable across replays of the same
// source: the same id with the same bytes again is accepted and changes nothing.
type Part struct {
	Event string
	ID    string
	Kind  string // Defaults to journal.KindOutput.
	Media string
	Data  []byte
	Final bool
	// Flush marks the rest of what a canceled attempt had produced: allowed after
	// the intent, within the final flush's bounds.
	Flush bool
	// Once says that no later attempt can continue the event: its id is to name the
	// attempt, and what a lost attempt left open is closed by the start of the next one.
	Once bool
}

// Begin is what CommitStart records.
type Begin struct {
	Checkpoint *task.Checkpoint
	Place      task.Place
	// Outside says that something lives outside that a cancel must stop.
	Outside bool
}

// Port is the runtime behind an attempt. Every call is fenced: it fails with kind
// fault.Fenced once the attempt is over.
type Port interface {
	CommitStart(ctx context.Context, b Begin) error
	Checkpoint(ctx context.Context, cp task.Checkpoint) error
	// Emit returns the entry of the part as it is stored, and whether this call put it
	// there: a part that was there before is not inserted again.
	Emit(ctx context.Context, p Part) (stored journal.Entry, inserted bool, err error)
	Tail(ctx context.Context, event string) (journal.Tail, error)
	Inputs(ctx context.Context, after int64, wait bool) ([]mail.Input, error)
	CommitInput(ctx context.Context, cursor int64, cp *task.Checkpoint) error
	Ticket(ctx context.Context, id task.TicketID) (mail.Ticket, error)
	Claim(ctx context.Context, id task.TicketID, digest string) error
	Settle(ctx context.Context, id task.TicketID) error
	Spawn(ctx context.Context, c Child) (task.Record, error)
	Hold(ctx context.Context, c Child) (task.Record, error)
	Drive(ctx context.Context, child task.ID, generation int64, t Turn) (task.Record, error)
}

// Attempt is one try of one task by one worker: only what is legal while it runs.
// Its methods may be called from several goroutines.
type Attempt struct {
	rec      task.Record
	detached <-chan struct{}
	port     Port
}

// NewAttempt is for the runtime and for tests.
func NewAttempt(rec task.Record, detached <-chan struct{}, port Port) *Attempt {
	return &Attempt{rec: rec, detached: detached, port: port}
}

// Task returns the record as it was when the attempt began.
func (a *Attempt) Task() task.Record { return a.rec.Clone() }

// ID returns the task's id.
func (a *Attempt) ID() task.ID { return a.rec.ID }

// Number returns the attempt's number, from 1.
func (a *Attempt) Number() int64 { return a.rec.Attempt }

// Fence returns what the attempt writes under; things outside the store keep the
// pair (generation, attempt) as their own fence.
func (a *Attempt) Fence() (generation, attempt int64) { return a.rec.Generation, a.rec.Attempt }

// Detached is closed when the caller that watched the task has left it to go on.
func (a *Attempt) Detached() <-chan struct{} { return a.detached }

// CommitStart records durably that something is about to start, or has started,
// outside. It may be called once per task; a lost attempt is then adopted.
func (a *Attempt) CommitStart(ctx context.Context, b Begin) error { return a.port.CommitStart(ctx, b) }

// Checkpoint stores the executor's state; the next attempt finds it in Task.
func (a *Attempt) Checkpoint(ctx context.Context, cp task.Checkpoint) error {
	return a.port.Checkpoint(ctx, cp)
}

// Emit appends one part durably and reports whether it was new: a part that is there
// is accepted again and changes nothing.
func (a *Attempt) Emit(ctx context.Context, p Part) (inserted bool, err error) {
	e, inserted, err := a.port.Emit(ctx, p)
	if err == nil && (e.Task != string(a.rec.ID) || e.Event != p.Event || e.Part != p.ID) {
		return false, fmt.Errorf("emit part %s of event %s: the store answered for part %q of event %q of task %q", p.ID, p.Event, e.Part, e.Event, e.Task)
	}
	return inserted && err == nil, err
}

// Tail tells where an event ends, so that a later attempt continues there.
func (a *Attempt) Tail(ctx context.Context, event string) (journal.Tail, error) {
	return a.port.Tail(ctx, event)
}

// Inputs yields the task's input after what is consumed, waiting for more until
// ctx ends or the caller stops.
func (a *Attempt) Inputs(ctx context.Context) iter.Seq2[mail.Input, error] {
	return func(yield func(mail.Input, error) bool) {
		after := a.rec.ConsumedInput
		for {
			ins, err := a.port.Inputs(ctx, after, true)
			if err != nil {
				yield(mail.Input{}, err)
				return
			}
			for _, in := range ins {
				after = in.Seq
				if !yield(in, nil) {
					return
				}
			}
		}
	}
}

// CommitInput records that inputs up to cursor are consumed, and the checkpoint
// that holds their effect, together: an input at or below the cursor is never given
// again, one above it always is. An executor that consumes some inputs and not those
// before them keeps the consumed ones in its checkpoint (sparse acknowledgements),
// with the cursor where it was, until the cursor can pass them all.
func (a *Attempt) CommitInput(ctx context.Context, cursor int64, cp *task.Checkpoint) error {
	return a.port.CommitInput(ctx, cursor, cp)
}
