// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package task

// State is where a task is in its life.
type State string

const (
	// Pending wants an attempt; a worker's claim moves it on.
	Pending State = "pending"
	// Running has an attempt, is driven by its parent, or is unattended.
	Running State = "running"
	// Waiting waits for tickets; a decision moves it on.
	Waiting State = "waiting"
	// Suspended has a checkpoint and needs an explicit release.
	Suspended State = "suspended"
	// Completed ended with a result. Terminal.
	Completed State = "completed"
	// Failed ended with a failure. Terminal.
	Failed State = "failed"
	// Canceled ended on request. Terminal.
	Canceled State = "canceled"
)

// States lists every state in the order of the table.
func States() []State {
	return []State{Pending, Running, Waiting, Suspended, Completed, Failed, Canceled}
}

// Terminal reports whether nothing can change the state any more.
func (s State) Terminal() bool { return s == Completed || s == Failed || s == Canceled }

// Boundary reports whether a foreground caller stops waiting in this state.
func (s State) Boundary() bool { return s.Terminal() || s == Waiting || s == Suspended }

// Owner says who drives a task's lifecycle.
type Owner string

const (
	// OwnerManager tasks are claimed by workers.
	OwnerManager Owner = "manager"
	// OwnerParent tasks are driven by their parent's attempt on its own stack.
	OwnerParent Owner = "parent"
)

// Publication says when others may learn that the task exists.
type Publication string

const (
	// Deferred tasks are hidden until published.
	Deferred Publication = "deferred"
	// OnCreate tasks are public from their creation.
	OnCreate Publication = "on_create"
	// OnBackground tasks were deferred and became public.
	OnBackground Publication = "on_background"
)

// LeaseLoss says what becomes of a running task whose worker is lost.
type LeaseLoss string

const (
	// LoseFail ends it as failed(worker_lost), outcome unknown. The default.
	LoseFail LeaseLoss = "fail"
	// LoseRetry makes it pending again: the executor may run twice.
	LoseRetry LeaseLoss = "retry"
)

// Outcome says whether a failure's effects are known.
type Outcome string

const (
	// OutcomeKnown means what happened is known.
	OutcomeKnown Outcome = "known"
	// OutcomeUnknown means it may have happened partly or fully.
	OutcomeUnknown Outcome = "unknown"
)

// LivenessPolicy is what to do when nobody wants a live task any more.
type LivenessPolicy string

const (
	// LiveContinue goes on. The default.
	LiveContinue LivenessPolicy = "continue"
	// LiveCancel cancels it after the grace.
	LiveCancel LivenessPolicy = "cancel"
	// LivePark suspends it at the next safe point.
	LivePark LivenessPolicy = "park"
)

// Reasons of a suspension.
const (
	// SuspendParked means that nobody wanted it and its liveness policy said park.
	SuspendParked = "parked"
	// SuspendOperator means that a person or an operator asked.
	SuspendOperator = "operator"
	// SuspendIdle means that it had nothing to do. Unread input keeps it going.
	SuspendIdle = "idle"
)

// LostAttempts is how many attempts in a row may be lost with their workers before
// a task without MaxAttempts that retries on lease loss counts as poison.
const LostAttempts = 5

// Failure codes the core writes. Executors add their own.
const (
	CodeWorkerLost = "worker_lost"
	CodeOrphaned   = "orphaned"
	CodeDeadline   = "deadline"
	CodePoison     = "poison"
	CodeCanceled   = "canceled"
	CodePanic      = "panic"
)
