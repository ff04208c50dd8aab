// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package foreground

import (
	"errors"
	"fmt"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/task"
)

// Event is what a call can learn while it waits.
type Event uint8

const (
	// Boundary: the task waits, is suspended or has ended.
	Boundary Event = iota
	// Timer: DetachAfter has passed, or CleanupTimeout since the decision to cancel.
	Timer
	// CallerGone: the caller's context ended, also before the start.
	CallerGone
	// DetachAsked: somebody asked to send the task to the background.
	DetachAsked
	// PublishResult: a publish is done, with Signal.Err.
	PublishResult
	// CancelResult: a cancel request is done, with Signal.Err.
	CancelResult
)

// Signal is one event with the state that the last action left.
type Signal struct {
	Event Event
	State State
	Err   error // of PublishResult and CancelResult
	// Last says that the claim behind the call is over: nothing can be tried again.
	Last bool
}

// Phase is how far a call has come.
type Phase uint8

const (
	// Watching waits for a boundary.
	Watching Phase = iota
	// Publishing has decided to leave the task and waits for its publication.
	Publishing
	// Canceling has decided to cancel the task and waits for its end.
	Canceling
	// Over has returned.
	Over
)

// Cause is why a call was decided.
type Cause uint8

const (
	// NoCause means that nothing is decided.
	NoCause Cause = iota
	// ByBoundary means that the task waits or is suspended.
	ByBoundary
	// ByTimer means that DetachAfter passed.
	ByTimer
	// ByCaller means that the caller is gone.
	ByCaller
	// ByRequest means that somebody asked.
	ByRequest
	// ByRefusal means that the caller is gone and publishing was refused.
	ByRefusal
)

// State is what a call has decided so far. The zero State has decided nothing. It is
// a value: the loop keeps the one of the last [Action].
type State struct {
	Phase Phase
	Cause Cause
	Gone  bool  // the caller is gone, whatever was decided before
	Err   error // publishing was refused for good, and what followed from it
}

// Do is what to perform.
type Do uint8

// String returns the name of the constant in lower snake case.
func (d Do) String() string {
	return [...]string{
		"wait", "return", "publish_then_return", "publish_then_detach", "detach", "cancel_then_wait", "return_timeout",
		"return_gone", "return_error",
	}[d]
}

const (
	// Wait for the next signal.
	Wait Do = iota
	// Return the record: its result, its failure, or what it waits for. Of a task that
	// has ended the outcome is taken with it.
	Return
	// PublishThenReturn publishes and signals PublishResult; Return follows.
	PublishThenReturn
	// PublishThenDetach publishes and signals PublishResult; Detach follows.
	PublishThenDetach
	// Detach returns the receipt of a task that goes on by itself.
	Detach
	// CancelThenWait requests cancel for Action.Reason, starts the cleanup timer if it
	// is not running, and signals CancelResult.
	CancelThenWait
	// ReturnTimeout returns a TimeoutError with the record as it is.
	ReturnTimeout
	// ReturnGone returns the cause of the caller's context with the record as it is.
	ReturnGone
	// ReturnError returns Action.Err with the record as it is. Unless the task has
	// ended its claim is not taken, so that it will be revealed.
	ReturnError
)

// Action is what to perform, and the state to pass with the next signal.
type Action struct {
	Do    Do
	State State
	// Reason is that of a cancel request.
	Reason string
	// Ended says that a publish is meant also for a task that has ended by now, since
	// nobody is there to take its outcome. Without it the publishing transaction
	// leaves a terminal record alone.
	Ended bool
	Err   error
}

// Decide returns what a foreground call does next. r is the task's record as of
// now, at least as new as the signal.
func Decide(p Policy, s Signal, r task.Record) Action {
	st := s.State
	if s.Event == CallerGone && st.Phase != Over {
		st.Gone = true
	}
	switch st.Phase {
	case Watching:
		return watching(p, s, st, &r)
	case Publishing:
		return publishing(p, s, st, &r)
	case Canceling:
		return canceling(p, s, st, &r)
	default:
		return Action{Do: Wait, State: st}
	}
}

func watching(p Policy, s Signal, st State, r *task.Record) Action {
	if r.State.Boundary() {
		if r.State.Terminal() && !st.Gone {
			return over(Return, st, nil)
		}
		cause := ByBoundary
		if st.Gone {
			cause = ByCaller
		}
		return publish(p, st, cause, r)
	}
	switch s.Event {
	case CallerGone:
		if p.OnGone == CancelTask {
			return cancel(p, st, ByCaller, nil)
		}
		return publish(p, st, ByCaller, r)
	case Timer:
		switch {
		case p.DetachAfter <= 0:
			return wait(st)
		case p.OnTimeout == CancelTask || r.Owner == task.OwnerParent:
			return cancel(p, st, ByTimer, nil)
		}
		return publish(p, st, ByTimer, r)
	case DetachAsked:
		if r.Owner != task.OwnerParent {
			return publish(p, st, ByRequest, r)
		}
	case Boundary, PublishResult, CancelResult:
	}
	return wait(st)
}

// publish leaves the task to itself, by way of its publication if it needs one.
func publish(p Policy, st State, cause Cause, r *task.Record) Action {
	then, after := PublishThenDetach, Detach
	if r.State.Boundary() {
		then, after = PublishThenReturn, Return
	}
	parents := r.Owner == task.OwnerParent && !r.State.Terminal()
	switch {
	case parents && cause == ByCaller:
		return cancel(p, st, cause, nil) // it lives on nobody's stack but the caller's
	case r.Publication != task.Deferred || parents:
		st.Cause = cause
		return over(after, st, nil)
	case st.Err != nil && r.State.Terminal():
		return over(ReturnError, st, st.Err)
	case st.Err != nil && st.Gone:
		return cancel(p, st, ByRefusal, st.Err)
	case st.Err != nil && then == PublishThenReturn:
		return over(ReturnError, st, st.Err)
	case st.Err != nil:
		return wait(st) // refused for good, and the caller is still there
	}
	st.Phase, st.Cause = Publishing, cause
	return Action{Do: then, State: st, Ended: st.Gone}
}

func publishing(p Policy, s Signal, st State, r *task.Record) Action {
	if s.Event != PublishResult {
		return wait(st)
	}
	if r.State.Terminal() && !st.Gone {
		return over(Return, st, nil)
	}
	if r.Publication != task.Deferred {
		s.Err = nil // it took effect, or somebody else published
	}
	switch {
	case s.Err == nil && st.Gone && r.State.Terminal() && r.Publication == task.Deferred:
		// It ended first, and the caller went after publishing was decided: nobody
		// will take the outcome, so it is published after all.
		return Action{Do: PublishThenReturn, State: st, Ended: true}
	case s.Err == nil && r.State.Boundary():
		return over(Return, st, nil)
	case s.Err == nil:
		return over(Detach, st, nil)
	case s.Last:
		return over(ReturnError, st, fmt.Errorf("publish: %w", s.Err))
	case transient(s.Err):
		do := PublishThenDetach
		if r.State.Boundary() {
			do = PublishThenReturn
		}
		return Action{Do: do, State: st, Ended: st.Gone}
	}
	err := fmt.Errorf("publish: %w", s.Err)
	switch {
	case r.State.Terminal():
		return over(ReturnError, st, err) // gone, and there is nothing to cancel
	case st.Gone:
		return cancel(p, st, ByRefusal, err)
	case r.State.Boundary():
		return over(ReturnError, st, err)
	}
	// The caller is still there, so nothing is lost: go on watching.
	return wait(State{Phase: Watching, Err: err})
}

// transient reports whether trying again may help. Whatever the store does not say
// plainly may.
func transient(err error) bool {
	switch fault.KindOf(err) {
	case fault.Forbidden, fault.NotFound, fault.Invalid, fault.Unsupported, fault.Finished, fault.Fenced:
		return false
	default:
		return true
	}
}

func cancel(p Policy, st State, cause Cause, err error) Action {
	st.Phase, st.Cause, st.Err = Canceling, cause, err
	a := Action{Do: CancelThenWait, State: st}
	switch cause {
	case ByTimer:
		a.Reason = fmt.Sprintf("timed out after %s", p.DetachAfter)
	case ByRefusal:
		a.Reason = "foreground projection publication failed"
	default:
		a.Reason = "the caller is gone"
	}
	return a
}

func canceling(p Policy, s Signal, st State, r *task.Record) Action {
	switch {
	case r.State == task.Canceled:
		return ended(st)
	case r.State.Terminal():
		// Completion wins, and so does a failure of its own.
		return over(Return, st, nil)
	case s.Event == Timer:
		return ended(st)
	case s.Event != CancelResult || s.Err == nil:
		return wait(st)
	case transient(s.Err) && !s.Last:
		return cancel(p, st, st.Cause, st.Err)
	}
	st.Err = errors.Join(st.Err, fmt.Errorf("cleanup failed: %w", s.Err))
	return ended(st)
}

// ended returns from a call that decided to cancel.
func ended(st State) Action {
	switch {
	case st.Err != nil:
		return over(ReturnError, st, st.Err)
	case st.Cause == ByTimer:
		return over(ReturnTimeout, st, nil)
	}
	return over(ReturnGone, st, nil)
}

func wait(st State) Action { return Action{Do: Wait, State: st} }

func over(do Do, st State, err error) Action {
	st.Phase = Over
	return Action{Do: do, State: st, Err: err}
}
