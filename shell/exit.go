// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package shell

import "time"

// Cause says why a run ended. It is chosen once, by the backend: the first stop
// request wins.
type Cause string

const (
	// Exited means that the command ended by itself, also by a signal.
	Exited Cause = "exited"
	// TimedOut means that it was stopped because its Timeout had passed.
	TimedOut Cause = "timed_out"
	// Canceled means that it was stopped on request, or kept from starting.
	Canceled Cause = "canceled"
	// OutputLimited means that it was stopped because it wrote too much.
	OutputLimited Cause = "output_limit"
	// Lost means that its supervisor was lost: it may have run partly or fully.
	Lost Cause = "lost"
	// StartFailed means that it could not be executed and did not run.
	StartFailed Cause = "start_failed"
)

// Reasons of a lost or unknown run.
const (
	ReasonRebooted           = "rebooted"
	ReasonContainerRestarted = "container_restarted"
	ReasonSupervisorDied     = "supervisor_died"
	ReasonCorrupt            = "corrupt"
	ReasonStateMissing       = "state_missing"
	ReasonReleased           = "released"
)

// Rusage is what the command and the descendants it waited for used.
type Rusage struct {
	User   time.Duration `json:"user"`
	System time.Duration `json:"system"`
	MaxRSS int64         `json:"max_rss"` // bytes
}

// Exit is how a run ended. It is written once and never changes.
type Exit struct {
	Cause Cause `json:"cause"`
	// Code is the exit status, 128+n after signal n, and 126 or 127 with cause
	// start_failed. It is nil only when unknown or when nothing was executed.
	Code *int `json:"code,omitempty"`
	// Signal names the signal that ended the command, such as "SIGKILL", or is empty.
	Signal string `json:"signal,omitempty"`
	// TimedOut and Canceled say that such a stop was requested, and repeat Cause
	// except for a lost run.
	TimedOut bool `json:"timed_out,omitempty"`
	Canceled bool `json:"canceled,omitempty"`
	// Started is false when the command was certainly not executed.
	Started bool `json:"started"`
	// Reason is why the run was lost, could not start or was canceled.
	Reason string `json:"reason,omitempty"`
	// TotalBytes counts all output; StdoutBytes and StderrBytes its parts when Split.
	TotalBytes  int64 `json:"total_bytes"`
	StdoutBytes int64 `json:"stdout_bytes,omitempty"`
	StderrBytes int64 `json:"stderr_bytes,omitempty"`
	// OmittedBytes is how many of TotalBytes are not kept.
	OmittedBytes int64 `json:"omitted_bytes,omitempty"`
	// Incomplete means that some process still held the output when reading ended.
	Incomplete bool `json:"incomplete,omitempty"`
	// LeftoversStopped counts processes left behind that were stopped;
	// LeftoversKept those that were left alone.
	LeftoversStopped int `json:"leftovers_stopped,omitempty"`
	LeftoversKept    int `json:"leftovers_kept,omitempty"`
	// SpoolError is the first error in keeping output, or empty.
	SpoolError string    `json:"spool_error,omitempty"`
	StartedAt  time.Time `json:"started_at,omitzero"`
	EndedAt    time.Time `json:"ended_at,omitzero"`
	Rusage     Rusage    `json:"rusage,omitzero"`
}

// Succeeded reports whether the command ended by itself with code 0.
func (e Exit) Succeeded() bool { return e.Cause == Exited && e.Code != nil && *e.Code == 0 }

// Phase is where a run stands, as far as its records tell.
type Phase string

const (
	// Live means that its supervisor is alive; the supervisor moves it on.
	Live Phase = "live"
	// Finished means that there is an exit record, with any cause but lost.
	Finished Phase = "finished"
	// NeverStarted means that the command was certainly not executed; Start may.
	NeverStarted Phase = "never_started"
	// RunLost means that the supervisor died: the outcome is unknown for good.
	RunLost Phase = "lost"
	// UnknownRun means that this backend has no records of the run: it was released
	// (Reason released), or never came here or was removed (state_missing).
	UnknownRun Phase = "unknown"
)

// State is what Recover found.
type State struct {
	Phase Phase
	// Exit is set when Phase is finished or lost.
	Exit *Exit
	// Reason is why the run is lost or unknown.
	Reason string
	// Started is true once the command may have been executed.
	Started bool
	// StartedAt is when it was, or zero.
	StartedAt time.Time
	// Bytes is how much output there is so far.
	Bytes int64
	// Digest is that of the request, or empty.
	Digest string
	// EnvironGone means that the run never started and can only be started with a
	// new Environ.
	EnvironGone bool
	// Pid is the command's main process while live, for display only: it must never
	// be signalled.
	Pid int
}
