// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/placement"
	"github.com/outlive-dev/outlive/shell"
)

// scoped returns a backend that starts supervisors through a program that stands for
// systemd-run.
func scoped(t *testing.T, script string, must bool) (r *Recoverable, said func() string) {
	t.Helper()
	r = open(t)
	dir := t.TempDir()
	program, log := filepath.Join(dir, "systemd-run"), filepath.Join(dir, "log")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"$*\" >>"+log+"\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	r.place = func() (placement.Decision, error) {
		return placement.Decision{Prefix: []string{program, "--user", "--scope"}, Must: must}, nil
	}
	return r, func() string { return slurp(log) }
}

const becomes = "while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"\n"

func TestScope(t *testing.T) {
	t.Parallel()
	r, said := scoped(t, becomes, true)
	req := sh(t, "echo x >>ran; cat; ls /proc/self/fd")
	req.StdinOpen = true
	id := start(t, r, req)
	a := attach(t, r, id, 0)
	if _, err := a.WriteStdin(t.Context(), []byte("in\n")); err != nil {
		t.Errorf("WriteStdin = %v", err)
	}
	if err := a.CloseStdin(); err != nil {
		t.Errorf("CloseStdin = %v", err)
	}
	e := waitFor(t, r, id)
	if out, _ := readAll(t, r, id); !e.Succeeded() || string(out) != "in\n0\n1\n2\n3\n" { // 3 is ls's own
		t.Errorf("exit = %+v, output %q", e, out)
	}
	if want := "--user --scope -- /proc/self/fd/7 __shim " + r.dir(id) + " scope\n"; said() != want {
		t.Errorf("systemd-run was given %q, want %q", said(), want)
	}
	for range 20 { // that a supervisor ends at once must not pass for that it never began
		req := sh(t, "echo x >>ran")
		if e := waitFor(t, r, start(t, r, req)); !e.Succeeded() || slurp(filepath.Join(req.Dir, "ran")) != "x\n" {
			t.Fatalf("exit = %+v, executed %q", e, slurp(filepath.Join(req.Dir, "ran")))
		}
	}
}

// TestNoScope has a systemd-run that fails, or does not answer.
func TestNoScope(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{"fails": "exit 1\n", "hangs": "exec sleep 300\n"} {
		r, said := scoped(t, script, false)
		r.scopePatience = 300 * time.Millisecond
		req := sh(t, "echo x >>ran")
		e := waitFor(t, r, start(t, r, req))
		if n := strings.Count(said(), "\n"); !e.Succeeded() || slurp(filepath.Join(req.Dir, "ran")) != "x\n" || n != 1 {
			t.Errorf("%s: exit = %+v, asked %d times, executed %q", name, e, n, slurp(filepath.Join(req.Dir, "ran")))
		}
		r, _ = scoped(t, script, true)
		r.scopePatience = 300 * time.Millisecond
		req = sh(t, "echo x >>ran")
		err := r.Start(t.Context(), newID(t), fence1, req)
		var x *shell.ExecError
		if !errors.As(err, &x) || x.Started != shell.No || !strings.Contains(err.Error(), "systemd made no scope") {
			t.Errorf("%s, when it must: Start = %v", name, err)
		}
		if slurp(filepath.Join(req.Dir, "ran")) != "" {
			t.Errorf("%s, when it must: it was executed", name)
		}
	}
}

func TestDetachMode(t *testing.T) {
	t.Parallel()
	if _, err := Open(filepath.Join(t.TempDir(), "runs"), &Options{Detach: "nohup"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("Open = %v, want Invalid", err)
	}
}
