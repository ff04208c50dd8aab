// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"context"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool/command"
	"github.com/outlive-dev/outlive/work"
)

// backend is one run that a starter may have left in any state.
type backend struct {
	shell.Recoverable
	state   shell.State
	refuse  error // what Start says when the supervisor dies meanwhile
	starts  int
	stopped bool
}

func (b *backend) Recover(context.Context, shell.RunID) (shell.State, error) { return b.state, nil }

func (b *backend) Start(context.Context, shell.RunID, shell.Fence, shell.Request) error {
	b.starts++
	switch b.state.Phase {
	case shell.NeverStarted:
		b.state = shell.State{Phase: shell.Finished, Exit: &shell.Exit{Cause: shell.Exited, Code: new(int), Started: true}}
	case shell.Live:
		b.state.Phase = shell.NeverStarted
		return b.refuse
	}
	return nil
}

func (b *backend) Stop(context.Context, shell.RunID, shell.Fence, shell.StopRequest) error {
	b.stopped = true
	b.state = shell.State{Phase: shell.Finished, Exit: &shell.Exit{Cause: shell.Canceled, Canceled: true}}
	return nil
}

func (b *backend) Read(context.Context, shell.RunID, int64, int, time.Duration) (shell.Chunk, error) {
	return shell.Chunk{End: b.state.Exit != nil}, nil
}

func (b *backend) Wait(context.Context, shell.RunID) (shell.Exit, error) {
	if b.state.Exit == nil {
		return shell.Exit{}, shell.ErrNoRun
	}
	return *b.state.Exit, nil
}

// port accepts everything.
type port struct{ work.Port }

func (port) Tail(context.Context, string) (journal.Tail, error) { return journal.Tail{}, nil }
func (port) Emit(_ context.Context, p work.Part) (journal.Entry, bool, error) {
	return journal.Entry{Task: "sh-1", Event: p.Event, Part: p.ID}, true, nil
}

// TestNeverStarted has an adopter find a run in any state. One whose environment came
// from a process that has died must not be started with another one, and one whose
// supervisor died before the command could run is not waited for for ever.
func TestNeverStarted(t *testing.T) {
	t.Parallel()
	ended := shell.Exit{Cause: shell.Exited, Code: new(int), Started: true}
	forgone := shell.Exit{Cause: shell.Canceled, Canceled: true}
	stopped := shell.Exit{Cause: shell.Canceled, Canceled: true, Started: true, Code: new(int)}
	for _, tt := range []struct {
		name    string
		state   shell.State
		refuse  error
		environ bool
		starts  int
		stopped bool
		code    string // of the failure
	}{
		{"no trace of the run", shell.State{Phase: shell.UnknownRun, Reason: shell.ReasonStateMissing}, nil, true, 0, true, command.CodeStartFailed},
		{"locked, then dead", shell.State{Phase: shell.NeverStarted}, nil, true, 0, true, command.CodeStartFailed},
		{"it has run", shell.State{Phase: shell.Finished, Exit: &ended}, nil, true, 1, false, ""},
		{"it was given up", shell.State{Phase: shell.Finished, Exit: &forgone}, nil, true, 1, false, command.CodeStartFailed},
		{"its supervisor was stopped", shell.State{Phase: shell.Finished, Exit: &stopped}, nil, true, 1, false, "stopped"},
		{"anybody may start it", shell.State{Phase: shell.NeverStarted}, nil, false, 1, false, ""},
		{"it was started, and its supervisor died", shell.State{Phase: shell.Live}, nil, false, 1, true, command.CodeStartFailed},
		{"its supervisor dies at the last moment", shell.State{Phase: shell.Live}, shell.ErrEnvironmentGone, true, 1, true, command.CodeStartFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := &backend{state: tt.state, refuse: tt.refuse}
			c := command.New(command.Options{Dir: t.TempDir(), Open: func(string) (shell.Recoverable, error) { return b, nil }})
			spec := command.Spec{Argv: []string{"true"}, Dir: "/", Environ: tt.environ}
			rec := task.Record{ID: "sh-1", Spec: spec.Payload(), StartCommitted: true, Generation: 1, Attempt: 2}
			res := c.Executor().Run(t.Context(), work.NewAttempt(rec, nil, port{}))
			if b.starts != tt.starts || b.stopped != tt.stopped || res.Failure.Code != tt.code {
				t.Errorf("started %d times, stopped %v, failure %q; want %d, %v, %q", b.starts, b.stopped, res.Failure.Code, tt.starts, tt.stopped, tt.code)
			}
		})
	}
}
