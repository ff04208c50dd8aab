// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"errors"
	"fmt"

	"github.com/outlive-dev/outlive/task"
)

// Executor is code registered under a versioned name. The name is protocol: tasks
// in the store refer to it.
type Executor struct {
	// Key is the name and version, such as "report.v1". Required.
	Key string
	// Kind prefixes the ids of its tasks: two or three lower-case letters.
	// Defaults to "tk".
	Kind string
	// OnLeaseLoss says what becomes of a task whose worker is lost before anything
	// recoverable was started. Defaults to task.LoseFail.
	OnLeaseLoss task.LeaseLoss
	// ReadsInput says that attempts read the mailbox; without it Send is refused.
	// Defaults to false.
	ReadsInput bool
	// Drains says that an attempt ends by itself soon after its context ended with
	// ErrDrain. Others are left to finish until the drain's deadline. Defaults to
	// false.
	Drains bool
	// Recoverable says that what an attempt starts lives on without the worker and
	// is found again by the task's id. Defaults to false.
	Recoverable bool
	// Validate refuses a bad payload before a task is made of it. It is pure.
	// Defaults to accepting everything.
	Validate func(task.Payload) error
	// Run runs one attempt. ctx ends with a cause: *CanceledError, ErrDrain,
	// ErrFenced or ErrDeadline. Required.
	Run func(ctx context.Context, a *Attempt) Result
	// Stop stops what lives outside for a task that is to be canceled and has no
	// attempt. It is idempotent; nil means there is nothing outside. The result, when
	// not zero, ends the task. Defaults to nil.
	Stop func(ctx context.Context, a *Attempt) Result
	// Ended reports whether what an unattended task left outside has ended, so that
	// any process may adopt it just to record the end. It is quick and changes
	// nothing. Defaults to false.
	Ended func(ctx context.Context, r task.Record) bool
}

// Causes an attempt's context ends with, beside *CanceledError.
var (
	// ErrDrain: the worker stops; yield or leave at the next safe point.
	ErrDrain = errors.New("worker is draining")
	// ErrFenced: the attempt owns nothing any more; write nothing.
	ErrFenced = errors.New("attempt lost its lease")
	// ErrDeadline: the task's deadline has passed.
	ErrDeadline = errors.New("task deadline passed")
)

// CanceledError is the cause when somebody asked for the task's end.
type CanceledError struct{ Reason string }

// Error implements error.
func (e *CanceledError) Error() string { return fmt.Sprintf("task canceled: %s", e.Reason) }

// Canceled reports whether the attempt's context ended by a cancel or a deadline.
func Canceled(ctx context.Context) (reason string, ok bool) {
	cause := context.Cause(ctx)
	var c *CanceledError
	switch {
	case errors.As(cause, &c):
		return c.Reason, true
	case errors.Is(cause, ErrDeadline):
		return "deadline", true
	}
	return "", false
}
