// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package bench is what the tests of the tools share: an instance with the tools over
// real commands, or over scripted ones.
package bench

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/outlivetest"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool"
	"github.com/outlive-dev/outlive/tool/bash"
	"github.com/outlive-dev/outlive/tool/command"
	"github.com/outlive-dev/outlive/tool/control"
)

// Bench is one instance and its tools.
type Bench struct {
	T        *testing.T
	Env      *outlivetest.Env
	Runtime  *outlive.Runtime
	Commands *command.Commands
	Dir      string
	Tools    map[string]tool.Tool // by name
	Control  *control.Control
}

// Options change a Bench before it is made.
type Options struct {
	// Register adds executors. Defaults to none.
	Register func(*outlivetest.Env)
	// Bash changes the options of the bash tool. Defaults to no change.
	Bash func(*bash.Options)
	// Control changes the options of the control tools. Defaults to no change.
	Control func(*control.Options)
}

// Real makes a Bench whose commands are processes.
func Real(t *testing.T, o Options) *Bench {
	t.Helper()
	runs := filepath.Join(t.TempDir(), "runs")
	var opened []*local.Recoverable
	t.Cleanup(func() {
		for tries := 0; supervised(runs) && tries < 1000; tries++ { // supervisors write until they end
			<-time.After(10 * time.Millisecond)
		}
		for _, b := range opened {
			if err := b.Close(); err != nil {
				t.Errorf("Close() = %v", err)
			}
		}
	})
	open := func(dir string) (shell.Recoverable, error) {
		b, err := local.Open(dir, nil)
		if err == nil {
			opened = append(opened, b)
		}
		return b, err
	}
	return newBench(t, command.Options{Dir: runs, Open: open}, o)
}

// supervised reports whether a process names a path below dir in its arguments.
func supervised(dir string) bool {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range all {
		if b, err := os.ReadFile(p); err == nil && strings.Contains(string(b), dir) {
			return true
		}
	}
	return false
}

// Scripted makes a Bench over a fake backend.
func Scripted(t *testing.T, f *Fake, o Options) *Bench {
	t.Helper()
	return newBench(t, command.Options{Dir: "/runs", Open: func(string) (shell.Recoverable, error) { return f, nil }}, o)
}

func newBench(t *testing.T, co command.Options, o Options) *Bench {
	t.Helper()
	b := &Bench{T: t, Dir: t.TempDir(), Env: outlivetest.New(t, nil), Commands: command.New(co), Tools: map[string]tool.Tool{}}
	b.Env.Register(b.Commands.Executor())
	if o.Register != nil {
		o.Register(b.Env)
	}
	b.Runtime = b.Env.Runtime()
	bo := bash.Options{Runtime: b.Runtime, Commands: b.Commands, Dir: b.Dir, FirstOutput: 100 * time.Millisecond}
	if o.Bash != nil {
		o.Bash(&bo)
	}
	sh, err := bash.New(bo)
	if err != nil {
		t.Fatalf("New() = %v", err)
	}
	b.Tools["bash"] = sh
	ko := control.Options{Runtime: b.Runtime, Commands: b.Commands, Names: bo.Names, Limits: bo.Limits}
	if o.Control != nil {
		o.Control(&ko)
	}
	b.Control = control.New(ko)
	for _, tl := range b.Control.Tools() {
		b.Tools[tl.Name] = tl
	}
	return b
}

// Bash runs a command for nobody in particular.
func (b *Bench) Bash(args string) tool.Result {
	b.T.Helper()
	return b.Call("bash", tool.Caller{}, args)
}

// Call calls a tool and fails the test on an error.
func (b *Bench) Call(name string, c tool.Caller, args string) tool.Result {
	b.T.Helper()
	r, err := b.Try(b.T.Context(), name, c, args)
	if err != nil {
		b.T.Fatalf("%s(%s) = %q, %v", name, args, r.Text, err)
	}
	return r
}

// Try calls a tool.
func (b *Bench) Try(ctx context.Context, name string, c tool.Caller, args string) (tool.Result, error) {
	b.T.Helper()
	r, err := b.Tools[name].Call(ctx, c, json.RawMessage(args))
	if r.Text == "" {
		b.T.Errorf("%s(%s) has no text", name, args)
	}
	return r, err
}

// Stop stops a task at the end of the test, so that nothing is left running.
func (b *Bench) Stop(r tool.Result) {
	b.T.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(b.T.Context()), 30*time.Second)
		defer cancel()
		_, _ = b.Runtime.Cancel(ctx, r.Task, nil)
		if _, err := b.Runtime.Wait(ctx, r.Task, outlive.Terminal); err != nil {
			b.T.Errorf("stop %s: %v", r.Task, err)
		}
	})
}

// Await waits for the first output of a task.
func (b *Bench) Await(id task.ID) {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), 30*time.Second)
	defer cancel()
	for e, err := range b.Runtime.Events(ctx, id, nil) {
		if err != nil {
			b.T.Fatalf("wait for output of %s: %v", id, err)
		}
		if e.Kind == journal.KindOutput {
			return
		}
	}
	b.T.Fatalf("%s ended without output", id)
}

// Args is the JSON of a call's arguments.
func Args(pairs ...any) string {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // what a test wrote
	}
	return string(b)
}
