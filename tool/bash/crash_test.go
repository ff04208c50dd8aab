// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package bash_test

import (
	"testing"
	"time"

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
