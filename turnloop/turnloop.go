// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package turnloop

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/lifecycle"
)

// Event is what an agent tells while it runs. The loop passes it on.
type Event = any

// Points are places in an agent's work where it can be cut without losing anything.
type Points uint8

// The safe points.
const (
	AfterModel Points = 1 << iota
	AfterTools

	AnySafePoint = AfterModel | AfterTools
)

// SafePoint is what an agent calls when it is at a safe point. An error means that it
// is to end there: it yields the error, a *[CancelError], after it has put into State
// what it needs to go on, and returns.
type SafePoint func(at Points) error

// Agent performs one turn. It yields events; an error it yields is its last word. It
// ends soon after ctx ends.
type Agent func(ctx context.Context, at SafePoint) iter.Seq2[Event, error]

// Item is one pushed value.
type Item[T any] struct {
	// Seq is its place in the order of the pushes.
	Seq int64 `json:"seq"`
	// Cuts is how many turns it was in that were preempted.
	Cuts int `json:"cuts,omitempty"`
	// Value is what was pushed.
	Value T `json:"value"`
}

// Plan says what becomes of buffered items. Items in neither list stay buffered, until
// something more is pushed. A plan that consumes nothing starts no turn.
type Plan[T any] struct {
	Consume []Item[T] // the turn's
	Drop    []Item[T] // to be forgotten
}

// Turn is one run of the agent, as the callbacks see it.
//
// Concurrency: the fields do not change; the methods may be called from anywhere.
type Turn[T any] struct {
	// ID counts the turns of a loop from 1.
	ID int64
	// Items are what it consumes.
	Items []Item[T]
	// State is what the agent of an interrupted turn left, when this one resumes it.
	State []byte

	preempted, stopped chan struct{}
	cause              func() string
}

// Preempted is closed when the turn is cut, or cut sooner, because of a push.
func (t *Turn[T]) Preempted() <-chan struct{} { return t.preempted }

// Stopped is closed when the turn is cut, or cut sooner, because the loop stops.
func (t *Turn[T]) Stopped() <-chan struct{} { return t.stopped }

// StopCause is the cause of the first stop that gave one.
func (t *Turn[T]) StopCause() string { return t.cause() }

// Config is what a loop is made of. The callbacks are called one after another from one
// goroutine. A callback that panics has failed.
type Config[T any] struct {
	// GenInput plans the next turn from what is buffered, oldest first. Required.
	GenInput func(ctx context.Context, items []Item[T]) (Plan[T], error)
	// PrepareAgent makes the agent of a planned turn. Required.
	PrepareAgent func(ctx context.Context, turn *Turn[T]) (Agent, error)
	// OnEvents reads a turn's events; events is not to be kept. A turn whose callback
	// returns an error ends the loop, its items are interrupted; returning the agent's
	// own *CancelError or *InterruptError is no such error. Defaults to reading all and
	// returning the agent's error.
	OnEvents func(ctx context.Context, turn *Turn[T], events iter.Seq2[Event, error]) error
	// GenResume decides what becomes of the turn that a checkpoint holds. Defaults to
	// planning anew with its items first.
	GenResume func(ctx context.Context, r Resume[T]) (ResumePlan[T], error)
	// Checkpoints keeps what is left when the loop stops, for the next one. Defaults to
	// none: the exit has it.
	Checkpoints Checkpoints[T]
	// Limit is how many items may be buffered. Defaults to 65 536.
	Limit int
	// DrainTimeout is how long an agent may take to end after OnEvents returned early.
	// Defaults to 10 s.
	DrainTimeout time.Duration
}

// Loop runs turns until it is stopped. Make it with [New].
//
// Concurrency: a monitor. All methods may be called from anywhere, also before Run and
// from callbacks, where Wait would wait for itself. mu guards all fields below it and is
// held over no callback.
type Loop[T any] struct {
	cfg   Config[T]
	group lifecycle.Group
	wake  chan struct{} // doorbell of the loop, cap 1
	done  chan struct{} // closed when exit is there

	mu       sync.Mutex
	started  bool
	stopped  bool // pushes are refused
	closed   bool // the buffer is
	late     []Item[T]
	taken    bool // the late items were
	buffer   []Item[T]
	seq      int64
	changed  bool // the buffer, since the last plan
	deciding int  // pushes whose strategy runs
	turnID   int64
	planning context.CancelFunc // not nil while a turn is planned
	turn     *active[T]
	pending  map[*preempt]struct{}
	stop     stopping
	resuming bool // a turn of the checkpoint is to be planned
	exit     Exit[T]

	held *held // of the loop's own goroutine; nil without a checkpoint
}

// New returns a loop that has not begun.
func New[T any](cfg Config[T]) (*Loop[T], error) {
	switch {
	case cfg.GenInput == nil:
		return nil, fault.New(fault.Invalid, "new turn loop: GenInput is required")
	case cfg.PrepareAgent == nil:
		return nil, fault.New(fault.Invalid, "new turn loop: PrepareAgent is required")
	case cfg.Limit < 0 || cfg.DrainTimeout < 0:
		return nil, fault.New(fault.Invalid, "new turn loop: negative limit or timeout")
	}
	if cfg.OnEvents == nil {
		cfg.OnEvents = readAll[T]
	}
	if cfg.Limit == 0 {
		cfg.Limit = 1 << 16
	}
	if cfg.DrainTimeout == 0 {
		cfg.DrainTimeout = 10 * time.Second
	}
	return &Loop[T]{
		cfg: cfg, wake: make(chan struct{}, 1), done: make(chan struct{}), pending: map[*preempt]struct{}{},
	}, nil
}

func readAll[T any](_ context.Context, _ *Turn[T], events iter.Seq2[Event, error]) error {
	for _, err := range events {
		if err != nil {
			return err
		}
	}
	return nil
}

// Reason says why a loop has ended.
type Reason string

// The reasons.
const (
	Stopped      Reason = "stopped"       // by Stop
	Failed       Reason = "failed"        // by a callback, or the agent where nobody took its error
	Interrupted  Reason = "interrupted"   // the agent waits for somebody
	ContextEnded Reason = "context_ended" // that of Run
)

// Exit is how a loop has ended and what is left. Late items are got with
// [Loop.TakeLate].
type Exit[T any] struct {
	Reason Reason
	// Err is the callback's error, the agent's *CancelError or *InterruptError, or the
	// context's cause; nil after a stop between turns.
	Err error
	// Cause is that of the first stop that gave one.
	Cause string
	// Unhandled items were in no turn.
	Unhandled []Item[T]
	// Interrupted items were in the turn that did not end.
	Interrupted []Item[T]
	// State is what the agent of that turn left.
	State []byte
	// Checkpointed says that all this is in Checkpoints.
	Checkpointed bool
	// CheckpointErr is why a checkpoint was not kept, or not deleted.
	CheckpointErr error
}

// CancelError is what a [SafePoint] returns, and the agent yields.
type CancelError struct {
	// At is the point where the turn was cut.
	At Points
	// State is the agent's: what it needs to go on.
	State []byte
}

// Error says at which point.
func (e *CancelError) Error() string {
	switch e.At {
	case AfterModel:
		return "the turn was cut after the model"
	case AfterTools:
		return "the turn was cut after the tools"
	default:
		return "the turn was cut"
	}
}

// InterruptError is what an agent yields that waits for somebody: the loop ends and is
// to be resumed.
type InterruptError struct {
	// Info is for the caller.
	Info any
	// State is the agent's: what it needs to go on.
	State []byte
}

// Error says that the agent waits.
func (e *InterruptError) Error() string { return "the agent waits for an answer" }

// PanicError is the panic of a callback or an agent.
type PanicError struct {
	Value any
	Stack []byte
}

// Error says what was panicked with.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Run starts the loop and returns. It is called once. When ctx ends the turn is cut at
// once and the loop ends.
func (l *Loop[T]) Run(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.started {
		return fault.New(fault.Conflict, "run turn loop: it was run before")
	}
	l.started = true
	l.group.Go("turns", func(context.Context) { l.serve(ctx) })
	return nil
}

// Wait waits for the end. The error is that of ctx, which leaves the loop alone.
func (l *Loop[T]) Wait(ctx context.Context) (Exit[T], error) {
	select {
	case <-l.done:
	default:
		select {
		case <-l.done:
		case <-ctx.Done():
			return Exit[T]{}, context.Cause(ctx)
		}
	}
	return l.exit, nil
}

// TakeLate returns the items that came too late: that Push refused because the loop
// ended. From then on Push keeps none. Before the end there are none to take; a second
// call gives the same.
func (l *Loop[T]) TakeLate() []Item[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		return nil
	}
	l.taken = true
	return append([]Item[T](nil), l.late...)
}

func (l *Loop[T]) ring() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}
