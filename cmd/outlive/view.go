// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool/command"
)

// taskView is a task as --json prints it. Its keys are protocol: the first block is
// always there.
type taskView struct {
	ID          task.ID           `json:"id"`
	Name        string            `json:"name"`
	State       task.State        `json:"state"`
	ExitCode    *int              `json:"exit_code"`
	Owner       task.Owner        `json:"owner"`
	Generation  int64             `json:"generation"`
	Attempt     int64             `json:"attempt"`
	Version     int64             `json:"version"`
	Publication task.Publication  `json:"publication"`
	Executor    string            `json:"executor"`
	Description string            `json:"description"`
	Session     task.SessionID    `json:"session"`
	Parent      task.ID           `json:"parent"`
	CreatedAt   time.Time         `json:"created_at"`
	StartedAt   *time.Time        `json:"started_at"`
	DoneAt      *time.Time        `json:"done_at"`
	Result      json.RawMessage   `json:"result"`
	Failure     *failureView      `json:"failure"`
	Tickets     []task.TicketID   `json:"tickets"`
	CancelAt    *time.Time        `json:"cancel_requested_at"`
	CancelWhy   string            `json:"cancel_reason"`
	Labels      map[string]string `json:"labels"`

	Unverified bool          `json:"unverified,omitempty"`
	Unattended bool          `json:"unattended,omitempty"`
	RetryOf    task.ID       `json:"retry_of,omitempty"`
	Worker     task.WorkerID `json:"worker,omitempty"`
	Host       string        `json:"host,omitempty"`
	Dir        string        `json:"dir,omitempty"`
	Queue      string        `json:"queue,omitempty"`
	DueAt      *time.Time    `json:"due_at,omitempty"`
	Deadline   *time.Time    `json:"deadline,omitempty"`
	Failures   int           `json:"failures,omitempty"`
	Needs      string        `json:"needs,omitempty"`
	Output     *outputView   `json:"output,omitempty"`
}

type failureView struct {
	Code    string       `json:"code"`
	Message string       `json:"message"`
	Outcome task.Outcome `json:"outcome"`
}

type outputView struct {
	Bytes   int64 `json:"bytes"`
	Omitted int64 `json:"omitted,omitempty"`
}

func viewTask(r *task.Record) taskView {
	v := taskView{
		ID: r.ID, Name: r.Name, State: r.State, Owner: r.Owner, Generation: r.Generation, Attempt: r.Attempt, Version: r.Version,
		Publication: r.Publication, Executor: r.Executor, Description: r.Description, Session: r.Session, Parent: r.Parent, RetryOf: r.RetryOf,
		CreatedAt: r.CreatedAt, StartedAt: stamp(r.StartedAt), DoneAt: stamp(r.DoneAt), Tickets: r.Tickets, CancelAt: stamp(r.CancelRequestedAt),
		CancelWhy: r.CancelReason, Labels: r.Labels, Unattended: r.Unattended(), Worker: r.Lease.Worker, Host: r.Place.Host, Queue: r.Queue,
		DueAt: stamp(r.DueAt), Deadline: stamp(r.Deadline), Failures: r.Failures,
	}
	if v.Tickets == nil {
		v.Tickets = []task.TicketID{}
	}
	if v.Labels == nil {
		v.Labels = map[string]string{}
	}
	if r.Result != nil && json.Valid(r.Result.Data) {
		v.Result = r.Result.Data
	}
	if f := r.Failure; f != nil {
		v.Failure = &failureView{Code: f.Code, Message: f.Message, Outcome: f.Outcome}
	}
	if x, ok := command.ExitOf(r); ok {
		v.ExitCode = x.Code
		v.Output = &outputView{Bytes: x.TotalBytes, Omitted: x.OmittedBytes}
	}
	if s, ok := specOf(r); ok {
		v.Dir = s.Dir
	}
	return v
}

// stamp is a time as --json prints it: null when there is none.
func stamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func specOf(r *task.Record) (command.Spec, bool) {
	var s command.Spec
	if r.Spec.Media != command.MediaSpec || json.Unmarshal(r.Spec.Data, &s) != nil {
		return command.Spec{}, false
	}
	return s, true
}

func (a *app) printTask(r task.Record) error { return a.printJSON(viewTask(&r)) }

// stateWord is the state as a list shows it: "exit 3" and never "completed" for a
// code that is not zero.
func stateWord(r *task.Record) string {
	switch r.State {
	case task.Completed:
		if x, ok := command.ExitOf(r); ok && x.Cause == shell.Exited && x.Code != nil && *x.Code != 0 {
			if x.Signal != "" {
				return x.Signal
			}
			return fmt.Sprintf("exit %d", *x.Code)
		}
		return "completed"
	case task.Failed:
		return strings.ReplaceAll(r.Failure.Code, "_", " ")
	case task.Running, task.Pending:
		if r.Canceling() {
			return "canceling"
		}
		return string(r.State)
	default:
		return string(r.State)
	}
}

// age is a duration in one unit, as people say it.
func age(d time.Duration) string {
	switch {
	case d < time.Second:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

// cutTo cuts s to n columns, one per rune, at a rune.
func cutTo(s string, n int) string {
	if n <= 0 || utf8.RuneCountInString(s) <= n {
		return s
	}
	r := []rune(s)
	return string(r[:max(0, n-1)]) + "…"
}
