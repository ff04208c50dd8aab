// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"

	"github.com/outlive-dev/outlive/fault"
)

// The refusals of [Apply]. Each is found with errors.Is through any wrap.
var (
	// ErrFenced means that another attempt, or nobody, holds the task now.
	ErrFenced = fault.New(fault.Fenced, "the attempt does not hold the task any more")
	// ErrOwner means that ownership has moved with a new generation.
	ErrOwner = fault.New(fault.Fenced, "ownership of the task has moved").
			WithHint("Create it again with the same invocation to get the task as it is now.")
	// ErrExists means that the record to create from is not the zero Record.
	ErrExists = fault.New(fault.Exists, "the task exists")
	// ErrVersion means that the caller decided on stale facts.
	ErrVersion = fault.New(fault.Conflict, "the task has changed since it was read")
	// ErrIllegal means that the command has no meaning in the task's state.
	ErrIllegal = fault.New(fault.Conflict, "not possible in this state")
	// ErrNotDue means that the task, or its deadline, is not due yet.
	ErrNotDue = fault.New(fault.Conflict, "not due yet")
	// ErrStarted means that the start was committed before.
	ErrStarted = fault.New(fault.Conflict, "the start is already committed")
	// ErrConsumed means that the input was consumed before.
	ErrConsumed = fault.New(fault.Conflict, "the input is already consumed")
	// ErrHolding means that the attempt drives children it must hand off or cancel.
	ErrHolding = fault.New(fault.Conflict, "children are neither handed off nor ended")
	// ErrCancelRequested means that only AckCancel is left to the attempt.
	ErrCancelRequested = fault.New(fault.CancelRequested, "cancel is requested")
	// ErrFinished means that the task is terminal; see [FinishedError].
	ErrFinished = fault.New(fault.Finished, "the task has ended")
	// ErrNoInput means that the task's executor does not read input.
	ErrNoInput = fault.New(fault.NoInput, "the executor does not read input")
)

// FinishedError is ErrFinished with how the task ended.
type FinishedError struct {
	Record Record // the terminal record
}

// Error says how the task ended: its state, and of a failure the code and the message.
func (e *FinishedError) Error() string {
	text := fmt.Sprintf("the task has ended: %s", e.Record.State)
	f := e.Record.Failure
	switch {
	case f == nil:
		return text
	case f.Message == "":
		return text + " (" + f.Code + ")"
	case f.Code == string(e.Record.State):
		return text + " (" + f.Message + ")"
	}
	return text + " (" + f.Code + ": " + f.Message + ")"
}

// Unwrap returns ErrFinished.
func (e *FinishedError) Unwrap() error { return ErrFinished }

func invalidf(format string, args ...any) error { return fault.Newf(fault.Invalid, format, args...) }

func illegal(r *Record) error {
	what := string(r.State)
	if r.State == Running {
		switch {
		case r.Owner == OwnerParent:
			what = "running under its parent"
		case r.Unattended():
			what = "running unattended"
		}
	}
	return fmt.Errorf("%w (%s)", ErrIllegal, what)
}
