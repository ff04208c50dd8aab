// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"fmt"

	"github.com/outlive-dev/outlive/fault"
)

var (
	// ErrDigest means that the run id is taken by another request.
	ErrDigest = fault.New(fault.Conflict, "start: the run exists with another request")
	// ErrFenced means that the run has a newer owner.
	ErrFenced = fault.New(fault.Fenced, "the run has a newer owner")
	// ErrReleased means that the run was given up: it will not be started again.
	ErrReleased = fault.New(fault.Finished, "the run was released")
	// ErrLive means that the run has not ended.
	ErrLive = fault.New(fault.Conflict, "the run is live")
	// ErrNoRun means that there is no such run.
	ErrNoRun = fault.New(fault.NotFound, "no such run")
	// ErrEnvironmentGone means that the run never started, and the environment that
	// was given for it was not stored.
	ErrEnvironmentGone = fault.New(fault.Unsupported, "start: the run did not start and its environment is gone")
	// ErrNoStdin means that the run does not read input, or no more.
	ErrNoStdin = fault.New(fault.Closed, "the run takes no input")
)

// Step is where an execution failed.
type Step string

// The steps of an execution, in order.
const (
	StepProvision Step = "provision"
	StepStart     Step = "start"
	StepRun       Step = "run"
	StepDrain     Step = "drain"
	StepTransport Step = "transport"
)

// Certainty answers a question that may have no answer.
type Certainty string

// The three answers.
const (
	No    Certainty = "no"
	Yes   Certainty = "yes"
	Maybe Certainty = "unknown"
)

// ExecError is an execution that did not get to its exit. Only one whose Started is
// [No] may be tried again by itself.
type ExecError struct {
	Phase   Step
	Started Certainty
	Cause   error
	// Partial is what is known so far, or nil.
	Partial *Response
}

// Error names the phase, the cause, and whether the command may have run.
func (e *ExecError) Error() string {
	return fmt.Sprintf("%s: %v (command started: %s)", e.Phase, e.Cause, e.Started)
}

// Unwrap returns the cause.
func (e *ExecError) Unwrap() error { return e.Cause }
