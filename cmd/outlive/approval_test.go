// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/outlive-dev/outlive/task"
)

// A program of somebody else asks for approval and is killed; the command line finds
// the question, answers it while nothing runs, and the program goes on.
func TestApprovalOfAnotherProgram(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds a program")
	}
	dir := t.TempDir()
	exe := filepath.Join(dir, "approval")
	b := boxAt(t, dir, filepath.Join(dir, "s.db"))
	if out, err := exec.Command("go", "build", "-o", exe, "github.com/outlive-dev/outlive/examples/approval").CombinedOutput(); err != nil {
		t.Fatalf("build the example: %v\n%s", err, out)
	}
	// program is a process of the example for the task of that name.
	program := func(name, command string) *proc {
		c := exec.Command(exe, "-db", b.store, "-name", name, "-command", command)
		c.Env = b.env
		return b.start(c)
	}
	ledger := filepath.Join(dir, "ledger")
	paid := func() int {
		text, _ := os.ReadFile(ledger)
		return strings.Count(string(text), "paid\n")
	}
	pay := "echo paid >> " + ledger
	ask := func(name, command string) (id string) {
		p := program(name, command)
		until(t, "it asks", func() bool { return strings.Contains(p.out.String(), "answer with") })
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if r := b.wait(p); r.code != -int(syscall.SIGKILL) {
			t.Fatalf("exit %d, want killed", r.code)
		}
		id, _, _ = strings.Cut(p.out.String(), " ")
		list := b.must("ps", "--needs-attention")
		for line := range strings.Lines(list) {
			if !strings.HasPrefix(line, shortID(task.ID(id))) {
				continue
			}
			if !strings.Contains(line, "waiting") || !strings.Contains(line, "run") {
				t.Errorf("ps --needs-attention says %q, want that it waits for %q", line, "run")
			}
			return id
		}
		t.Fatalf("ps --needs-attention does not list %s:\n%s", id, list)
		return ""
	}

	id := ask("once", pay)
	if out := b.must("answer", id, "approve"); !strings.Contains(out, "run approved") {
		t.Errorf("answer said %q", out)
	}
	b.want(b.run("answer", id, "run", "deny"), 4, "approved")
	if r := b.wait(program("once", pay)); r.code != 0 || paid() != 1 {
		t.Errorf("it ran %d times, exit %d: %s", paid(), r.code, r.err)
	}
	if v := b.task(id); v.State != "completed" {
		t.Errorf("task is %s, want completed", v.State)
	}

	// Killed inside the call: nobody knows, and nobody tries again.
	id = ask("killed", pay+"; kill -9 $PPID")
	b.must("answer", id, "approve")
	if r := b.wait(program("killed", pay+"; kill -9 $PPID")); r.code != -int(syscall.SIGKILL) {
		t.Errorf("exit %d, want killed: %s", r.code, r.err)
	}
	if r := b.wait(program("killed", pay)); r.code != 1 || paid() != 2 {
		t.Errorf("then it ran %d times, exit %d: %s", paid()-1, r.code, r.err)
	}
	if v := b.task(id); v.State != "failed" || v.Failure == nil || v.Failure.Outcome != "unknown" {
		t.Errorf("task is %s %+v, want failed with outcome unknown", v.State, v.Failure)
	}
	if out := b.must("ps", "--needs-attention"); !strings.Contains(out, "outcome unknown") {
		t.Errorf("ps --needs-attention says %q, want that the outcome is unknown", out)
	}

	// Other arguments than those that were approved, and a denial.
	id = ask("other", pay)
	b.must("answer", id, "run", "approve")
	if r := b.wait(program("other", pay+" twice")); r.code != 1 || !strings.Contains(r.err, "does not let these arguments through") {
		t.Errorf("other arguments: exit %d: %s", r.code, r.err)
	}
	id = ask("denied", pay)
	b.must("answer", id, "deny")
	if r := b.wait(program("denied", pay)); r.code != 1 || !strings.Contains(r.err, "denied") {
		t.Errorf("denied: exit %d: %s", r.code, r.err)
	}
	if paid() != 2 {
		t.Errorf("the command ran %d times, want once approved and once killed", paid())
	}
}
