// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
)

func Example() {
	r := shell.Request{Command: "make test", Dir: "/src", Timeout: time.Minute, Env: map[string]string{"TOKEN": "secret"}}
	fmt.Println(r.Validate())

	// The values of the environment are no part of what a run is.
	other := r
	other.Env = map[string]string{"TOKEN": "renewed"}
	fmt.Println(r.Digest() == other.Digest())

	other.Timeout *= 2
	fmt.Println(r.Digest() == other.Digest())
	// Output:
	// <nil>
	// true
	// false
}

func ExampleExit_Succeeded() {
	zero := 0
	fmt.Println(shell.Exit{Cause: shell.Exited, Code: &zero}.Succeeded())
	fmt.Println(shell.Exit{Cause: shell.TimedOut, Code: &zero}.Succeeded())
	// Output:
	// true
	// false
}

func TestValidate(t *testing.T) {
	t.Parallel()
	ok := shell.Request{Command: "x", Dir: "/"}
	with := func(change func(r *shell.Request)) shell.Request {
		r := ok
		change(&r)
		return r
	}
	for _, tt := range []struct {
		name string
		req  shell.Request
		want string
	}{
		{"good", ok, ""},
		{"argv", shell.Request{Argv: []string{"x", ""}, Dir: "/"}, ""},
		{"at once", with(func(r *shell.Request) { r.Grace = shell.AtOnce }), ""},
		{"umask", with(func(r *shell.Request) { r.Umask = shell.UmaskOf(0) }), ""},
		{"nothing", shell.Request{Dir: "/"}, "no command"},
		{"both", with(func(r *shell.Request) { r.Argv = []string{"x"} }), "both"},
		{"NUL", with(func(r *shell.Request) { r.Command = "a\x00b" }), "NUL"},
		{"NUL in argument", shell.Request{Argv: []string{"x", "\x00"}, Dir: "/"}, "NUL byte in argument 1"},
		{"empty name", shell.Request{Argv: []string{""}, Dir: "/"}, "empty program name"},
		{"no directory", shell.Request{Command: "x"}, "not absolute"},
		{"relative directory", with(func(r *shell.Request) { r.Dir = "a" }), "not absolute"},
		{"T21_negative timeout", with(func(r *shell.Request) { r.Timeout = -1 }), "negative timeout"},
		{"grace", with(func(r *shell.Request) { r.Grace = -2 }), "negative grace"},
		{"cookie", with(func(r *shell.Request) { r.Env = map[string]string{shell.Cookie: "x"} }), "cannot be set"},
		{"env name", with(func(r *shell.Request) { r.Env = map[string]string{"A=": "x"} }), "bad environment name"},
		{"env value", with(func(r *shell.Request) { r.Env = map[string]string{"A": "\x00"} }), "NUL"},
		{"environ", with(func(r *shell.Request) { r.Environ = []string{"A=\x00"} }), "NUL"},
		{"stop without limit", with(func(r *shell.Request) { r.Output.OnLimit = shell.StopAtLimit }), "limit"},
		{"limit without stop", with(func(r *shell.Request) { r.Output.Limit = 1 }), "limit"},
		{"on_limit", with(func(r *shell.Request) { r.Output.OnLimit = "x" }), "on_limit"},
		{"leftovers", with(func(r *shell.Request) { r.Leftovers = "x" }), "leftovers"},
		{"umask bits", with(func(r *shell.Request) { r.Umask = 0o22 }), "umask"},
		{"two inputs", with(func(r *shell.Request) { r.Stdin, r.StdinOpen = []byte("x"), true }), "input"},
		{"terminal", with(func(r *shell.Request) { r.TTY = &shell.TTY{} }), "terminal"},
	} {
		err := tt.req.Validate()
		if tt.want == "" && err != nil || tt.want != "" && (fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: Validate() = %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestRunID(t *testing.T) {
	t.Parallel()
	for id, ok := range map[shell.RunID]bool{
		"sh-0a-r1": true, "": false, "A-r1": false, "../x": false, "a_b": false,
		shell.RunID(strings.Repeat("x", 64)): true, shell.RunID(strings.Repeat("x", 65)): false,
	} {
		if err := id.Valid(); (err == nil) != ok || err != nil && fault.KindOf(err) != fault.Invalid {
			t.Errorf("RunID(%q).Valid() = %v, want ok %v", id, err, ok)
		}
	}
}

func TestFence(t *testing.T) {
	t.Parallel()
	a, b, c := shell.Fence{Generation: 1, Attempt: 9}, shell.Fence{Generation: 2, Attempt: 1}, shell.Fence{Generation: 2, Attempt: 2}
	if !a.Less(b) || !b.Less(c) || c.Less(b) || a.Less(a) {
		t.Error("fences are not ordered by generation, then attempt")
	}
}

// TestDigest checks that every field but the excepted ones is part of the digest, and
// that a default says the same as its value.
func TestDigest(t *testing.T) {
	t.Parallel()
	base := shell.Request{Command: "x", Dir: "/"}
	same := []shell.Request{base.WithDefaults()}
	environ := base
	environ.Environ, environ.Attached = []string{"A=1"}, true
	same = append(same, environ)
	for i, r := range same {
		if r.Digest() != base.Digest() {
			t.Errorf("request %d has another digest: %+v", i, r)
		}
	}
	seen := map[string]string{base.Digest(): "base"}
	for name, change := range map[string]func(r *shell.Request){
		"command":    func(r *shell.Request) { r.Command = "y" },
		"argv":       func(r *shell.Request) { r.Command, r.Argv = "", []string{"x"} },
		"two args":   func(r *shell.Request) { r.Command, r.Argv = "", []string{"x", "y"} },
		"joined":     func(r *shell.Request) { r.Command, r.Argv = "", []string{"xy"} },
		"dir":        func(r *shell.Request) { r.Dir = "/tmp" },
		"env":        func(r *shell.Request) { r.Env = map[string]string{"A": ""} },
		"stdin":      func(r *shell.Request) { r.Stdin = []byte("x") },
		"stdin open": func(r *shell.Request) { r.StdinOpen = true },
		"timeout":    func(r *shell.Request) { r.Timeout = 1 },
		"grace":      func(r *shell.Request) { r.Grace = 1 },
		"drain":      func(r *shell.Request) { r.Drain = 1 },
		"drain cap":  func(r *shell.Request) { r.DrainCap = 1 },
		"umask":      func(r *shell.Request) { r.Umask = shell.UmaskOf(0) },
		"head":       func(r *shell.Request) { r.Output.SpoolHead = 1 },
		"tail":       func(r *shell.Request) { r.Output.SpoolTail = 1 },
		"limit":      func(r *shell.Request) { r.Output.OnLimit, r.Output.Limit = shell.StopAtLimit, 1 },
		"split":      func(r *shell.Request) { r.Split = true },
		"leftovers":  func(r *shell.Request) { r.Leftovers = shell.KeepLeftovers },
		"tty":        func(r *shell.Request) { r.TTY = &shell.TTY{Cols: 1, Rows: 1} },
	} {
		r := base
		change(&r)
		if other, ok := seen[r.Digest()]; ok {
			t.Errorf("%s has the same digest as %s", name, other)
		}
		seen[r.Digest()] = name
	}
}

func TestExecError(t *testing.T) {
	t.Parallel()
	err := error(&shell.ExecError{Phase: shell.StepStart, Started: shell.No, Cause: context.Canceled})
	if !errors.Is(err, context.Canceled) || fault.KindOf(err) != fault.Canceled {
		t.Errorf("%v does not wrap its cause", err)
	}
	if diff := cmp.Diff("start: context canceled (command started: no)", err.Error()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}
