// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package bash_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/outlivetest"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool"
	"github.com/outlive-dev/outlive/tool/bash"
	"github.com/outlive-dev/outlive/tool/control"
	"github.com/outlive-dev/outlive/tool/internal/bench"
)

// Given a process that is killed while commands run, in the background and watched by
// a call, the next one finds them, and each has been started once.
func TestCommandsOutliveTheProcess(t *testing.T) {
	t.Parallel()
	fake(t, nil, func(t *testing.T, f *bench.Fake, b *bench.Bench) {
		away := b.Bash(`{"command": "60s away", "run_in_background": true}`)
		moved := b.Bash(`{"command": "60s moved", "timeout": 1}`)
		b.Env.Crash(outlivetest.Main)
		b.Env.Reopen(outlivetest.Main)
		rt := b.Env.Runtime()
		for _, tl := range control.New(control.Options{Runtime: rt, Commands: b.Commands}).Tools() {
			b.Tools[tl.Name] = tl
		}
		want(t, b.Call("task_list", tool.Caller{}, `{}`), "2 open", string(away.Task), string(moved.Task))
		for text, id := range map[string]task.ID{"away": away.Task, "moved": moved.Task} {
			want(t, b.Call("task_output", tool.Caller{}, bench.Args("task_id", id, "timeout", 600)), "succeeded, exit code 0", text)
		}
		sh, err := bash.New(bash.Options{Runtime: rt, Commands: b.Commands, Dir: b.Dir})
		if err != nil {
			t.Fatal(err)
		}
		b.Tools["bash"] = sh
		want(t, b.Bash(`{"command": "1s again"}`), "again")
		if _, starts := f.Request(); starts != 3 {
			t.Errorf("%d starts", starts)
		}
	})
}

// Given a process that stops cleanly, the commands go on without it and are followed
// by the next one at once.
func TestCommandsOutliveAStop(t *testing.T) {
	t.Parallel()
	fake(t, nil, func(t *testing.T, f *bench.Fake, b *bench.Bench) {
		id := b.Bash(`{"command": "60s away", "timeout": 1}`).Task
		if err := b.Env.Instance(outlivetest.Main).Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r := b.Env.Get(id); !r.Unattended() {
			t.Errorf("after the stop: %s", outlivetest.Line(r))
		}
		b.Env.Reopen(outlivetest.Main)
		for _, tl := range control.New(control.Options{Runtime: b.Env.Runtime(), Commands: b.Commands}).Tools() {
			b.Tools[tl.Name] = tl
		}
		began := time.Now()
		want(t, b.Call("task_output", tool.Caller{}, bench.Args("task_id", id, "timeout", 600)), "succeeded", "away")
		if _, starts := f.Request(); starts != 1 || time.Since(began) > 60*time.Second {
			t.Errorf("%d starts, after %v", starts, time.Since(began))
		}
	})
}

// Given a process that is killed after a command went to the background, and a parent that
// is canceled when the next one is there: the command that its timer moved is stopped, and
// the one that was sent there on purpose goes on.
func TestB36_AfterARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := bench.Scripted(t, &bench.Fake{}, bench.Options{Register: func(e *outlivetest.Env) {
			e.Script("agent.v1", outlivetest.Await("over"))
		}})
		parent := b.Env.Submit(outlive.Spec{Executor: "agent.v1"}).ID
		away := b.Call("bash", tool.Caller{Parent: parent}, `{"command": "600s away", "run_in_background": true}`).Task
		moved := b.Call("bash", tool.Caller{Parent: parent}, `{"command": "600s moved", "timeout": 1}`).Task
		alone := b.Bash(`{"command": "600s alone", "timeout": 1}`).Task
		b.Env.Crash(outlivetest.Main)
		b.Env.Reopen(outlivetest.Main)
		rt := b.Env.Runtime()
		if _, err := rt.Cancel(t.Context(), parent, &outlive.CancelOptions{Reason: "enough"}); err != nil {
			t.Fatal(err)
		}
		end, err := rt.Wait(t.Context(), moved, outlive.Terminal)
		if err != nil || end.State != task.Canceled || !strings.Contains(end.CancelReason, "parent "+string(parent)+" was canceled: enough") {
			t.Errorf("the command that the timer moved: %s, %v", outlivetest.Line(end), err)
		}
		for _, id := range []task.ID{away, alone} {
			if r := b.Env.Get(id); r.Canceling() || r.State.Terminal() {
				t.Errorf("a command that goes on: %s", outlivetest.Line(r))
			}
			if end, err := rt.Wait(t.Context(), id, outlive.Terminal); err != nil || end.State != task.Completed {
				t.Errorf("a command that goes on ended %s, %v", outlivetest.Line(end), err)
			}
		}
	})
}
