// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package command makes commands tasks: an executor over a recoverable shell
// backend. The command lives on under its own supervisor, whatever becomes of the
// process that started it, and whoever adopts the task later goes on where the
// journal ends.
package command

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/task"
)

// Key is the executor's name. It is protocol.
const Key = "command.v1"

// Media types of what the executor stores.
const (
	MediaSpec = "application/vnd.outlive.command+json"
	MediaExit = "application/vnd.outlive.exit+json"
)

// Failure codes of commands; CodeTimedOut and CodeOutputLimit know the outcome.
const (
	CodeTimedOut    = "timed_out"
	CodeLost        = "lost"
	CodeStartFailed = "start_failed"
	CodeOutputLimit = "output_limit"
	codeStopped     = "stopped" // by nobody who asked the store
)

// Spec is a command to run as a task. Exactly one of Command and Argv is set.
// Durations are nanoseconds.
type Spec struct {
	Command   string            `json:"command,omitempty"`
	Argv      []string          `json:"argv,omitempty"`
	Dir       string            `json:"dir"`
	Env       map[string]string `json:"env,omitempty"` // stored as given: no secrets
	Timeout   time.Duration     `json:"timeout,omitempty"`
	Grace     time.Duration     `json:"grace,omitempty"`
	Split     bool              `json:"split,omitempty"`
	StdinOpen bool              `json:"stdin_open,omitempty"`
	TTY       *shell.TTY        `json:"tty,omitempty"`
	Umask     shell.Umask       `json:"umask,omitempty"`
	Leftovers shell.Leftovers   `json:"leftovers,omitempty"`
	Output    shell.Output      `json:"output,omitzero"`
	Limits    shell.Limits      `json:"limits,omitzero"`
	// Environ marks a command whose whole environment was given by the process that
	// started it, and stored nowhere.
	Environ bool `json:"environ,omitempty"`
}

// Payload encodes the spec.
func (s Spec) Payload() task.Payload {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings and numbers
	}
	return task.Payload{Media: MediaSpec, Data: b}
}

// Decode reads a spec and refuses what it does not know.
func Decode(p task.Payload) (Spec, error) {
	var s Spec
	if p.Media != MediaSpec {
		return s, fault.Newf(fault.Invalid, "command: media type %q, want %s", p.Media, MediaSpec)
	}
	d := json.NewDecoder(strings.NewReader(string(p.Data)))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, fault.Newf(fault.Invalid, "command: %v", err)
	}
	return s, s.Request().Validate()
}

// Request is the spec as the backend's request.
func (s Spec) Request() shell.Request {
	return shell.Request{
		Command: s.Command, Argv: s.Argv, Dir: s.Dir, Env: s.Env, Timeout: s.Timeout, Grace: s.Grace, Split: s.Split,
		StdinOpen: s.StdinOpen, TTY: s.TTY, Umask: s.Umask, Leftovers: s.Leftovers, Output: s.Output, Limits: s.Limits,
	}
}

// String is the command as somebody would type it, quoted so that it can be pasted.
func (s Spec) String() string {
	if s.Command != "" {
		return s.Command
	}
	words := make([]string, len(s.Argv))
	for i, w := range s.Argv {
		words[i] = quote(w)
	}
	return strings.Join(words, " ")
}

func quote(w string) string {
	if w != "" && !strings.ContainsFunc(w, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:=@%+,", r))
	}) {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

// RunID is the backend's name of the task's run. A task has one run: a command is
// never run again.
func RunID(id task.ID) shell.RunID { return shell.RunID(string(id) + "-r" + strconv.Itoa(1)) }

// ExitOf returns how the command of a finished task ended, if it is told.
func ExitOf(r *task.Record) (shell.Exit, bool) {
	var p task.Payload
	switch {
	case r.Result != nil:
		p = *r.Result
	case r.Failure != nil:
		p = r.Failure.Detail
	}
	var e shell.Exit
	if p.Media != MediaExit || json.Unmarshal(p.Data, &e) != nil {
		return shell.Exit{}, false
	}
	return e, true
}
