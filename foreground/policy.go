// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package foreground

import (
	"fmt"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/task"
)

// Choice is what a policy may do with a task that its caller stops watching.
type Choice uint8

const (
	// DetachTask publishes the task and lets it go on. The default.
	DetachTask Choice = iota
	// CancelTask cancels it.
	CancelTask
)

// String returns detach or cancel.
func (c Choice) String() string {
	if c == CancelTask {
		return "cancel"
	}
	return "detach"
}

// Policy is what a caller wants when it stops waiting. It is a value and is read
// once per call, so that timer and error name the same time.
type Policy struct {
	// DetachAfter is how long to wait before OnTimeout is done. Defaults to 0, which
	// waits as long as it takes.
	DetachAfter time.Duration
	// OnTimeout is done when DetachAfter has passed. Defaults to DetachTask.
	OnTimeout Choice
	// OnGone is done when the caller goes: its context ends, its connection breaks.
	// Defaults to DetachTask.
	OnGone Choice
	// CleanupTimeout bounds the wait for the end after a cancel. Defaults to 5 s.
	CleanupTimeout time.Duration
}

// DefaultCleanupTimeout is the default of [Policy.CleanupTimeout].
const DefaultCleanupTimeout = 5 * time.Second

// Cleanup returns CleanupTimeout or its default.
func (p Policy) Cleanup() time.Duration {
	if p.CleanupTimeout <= 0 {
		return DefaultCleanupTimeout
	}
	return p.CleanupTimeout
}

// ErrTimeout means that a foreground call ran out of time and its task was, or is
// being, canceled. See [TimeoutError].
var ErrTimeout = fault.New(fault.Timeout, "the foreground call timed out")

// TimeoutError is ErrTimeout with the time and the task as it was left. A caller's
// own deadline is never one.
type TimeoutError struct {
	After time.Duration
	Task  task.Record
}

// Error says after how long, and whether the task has ended.
func (e *TimeoutError) Error() string {
	how := "cancel is requested"
	if e.Task.State.Terminal() {
		how = string(e.Task.State)
	}
	return fmt.Sprintf("timed out after %s, task %s: %s", e.After, e.Task.ID, how)
}

// Unwrap returns ErrTimeout.
func (e *TimeoutError) Unwrap() error { return ErrTimeout }
