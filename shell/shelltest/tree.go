// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package shelltest

import (
	"strings"
	"syscall"
	"time"

	"github.com/outlive-dev/outlive/shell"
)

func treeTests() []test {
	const loop = "while :; do sleep 0.05; done"
	return []test{
		{name: "B01_grandchild", fn: leftBehind("echo done; sleep 100 &", 1)},
		{name: "B38_setsid grandchild", fn: leftBehind("echo done; setsid sleep 100 & sleep 0.1", 1)},
		{name: "B04_process substitution", fn: leftBehind("exec > >(cat); echo done", 0)},
		{name: "B05_goes on writing", fn: leftBehind("echo done; (while :; do echo done; sleep 0.1; done) &", 2)},
		{name: "B42_double fork ignoring TERM", fn: leftBehind(`echo done; (setsid sh -c 'trap "" TERM; sleep 100; sleep 100' &) & sleep 0.2`, 2)},
		{name: "B30_leftovers kept", fn: testLeftoversKept},
		{name: "B02_time limit ends the whole tree", fn: testLimitEndsTree},
		{name: "stop", fn: stopped("touch ready; sleep 100", 0, 143)},
		{name: "trap TERM", fn: stopped(`trap "exit 0" TERM; touch ready; `+loop, 0, 0)},
		{name: "B10_ignoring TERM", fn: stopped(`trap "" TERM; touch ready; `+loop, 200*time.Millisecond, 137)},
		{name: "at once", fn: stopped(`trap "exit 0" TERM; touch ready; `+loop, shell.AtOnce, 137)},
		{name: "B34_whole tree", fn: stopped("(sleep 100; sleep 100) & setsid sleep 100 & touch ready; wait", 0, 143)},
		{name: "stopped by SIGSTOP", fn: stopped("touch ready; kill -STOP $$", 0, 143)},
		{name: "fork storm", fn: stopped(`f() { while :; do (sleep 0.01 &) ; done; }; f & f & touch ready; wait`, 300*time.Millisecond, 143)},
		{name: "zombies only", fn: testZombies},
		{name: "B37_group of its own", fn: testGroup},
	}
}

// leftBehind returns a test of a command that ends with code 0 and leaves processes.
func leftBehind(command string, stopped int) func(h *harness) {
	return func(h *harness) {
		r := h.sh(command)
		r.Grace, r.Drain, r.DrainCap = 300*time.Millisecond, 200*time.Millisecond, 500*time.Millisecond
		got := h.run(r)
		if !got.exit.Succeeded() || !strings.HasPrefix(got.out, "done\n") || got.exit.Incomplete {
			h.Errorf("exit = %+v, output %q", got.exit, got.out)
		}
		if n := got.exit.LeftoversStopped; n == 0 && stopped > 0 || n > stopped+1 { // on a busy machine one may not have ended yet
			h.Errorf("stopped %d, want %d", n, stopped)
		}
		if got.took > 5*time.Second+h.delay() {
			h.Errorf("took %v", got.took)
		}
	}
}

func testLeftoversKept(h *harness) {
	r := h.sh("sleep 100 & echo done")
	r.Leftovers = shell.KeepLeftovers
	r.Drain = 100 * time.Millisecond
	got := h.run(r)
	if !got.exit.Succeeded() || got.exit.LeftoversKept != 1 || !got.exit.Incomplete || got.out != "done\n" {
		h.Errorf("exit = %+v, output %q, want one process kept, incomplete", got.exit, got.out)
	}
	left := carriers(markEnv + "=" + h.mark)
	if len(left) != 1 {
		h.Errorf("processes %v are left, want one", left)
	}
	for _, pid := range left {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// testLimitEndsTree has a pipeline of which the shell is not the last to hold the output.
func testLimitEndsTree(h *harness) {
	r := h.sh("echo part; (sleep 100; sleep 100) | cat")
	r.Timeout = 400 * time.Millisecond
	if got := h.run(r); got.exit.Cause != shell.TimedOut || !strings.HasPrefix(got.out, "part\n") || got.took > 5*time.Second+h.delay() {
		h.Errorf("exit = %+v, output %q, after %v", got.exit, got.out, got.took)
	}
}

// stopped returns a test of a command that is stopped once it is ready: through Stop,
// or, in a plain shell, by the end of its context.
func stopped(command string, grace time.Duration, want int) func(h *harness) {
	return func(h *harness) {
		r := h.sh(command)
		r.Grace = grace
		e, took := h.stopWhenReady(r, "test")
		if e.Cause != shell.Canceled || code(e) != want || !e.Canceled || e.TimedOut {
			h.Errorf("exit = %+v, code %d, want canceled, %d", e, code(e), want)
		}
		if h.b.Recoverable != nil && e.Reason != "test" {
			h.Errorf("reason = %q", e.Reason)
		}
		if took > 5*time.Second {
			h.Errorf("took %v", took)
		}
	}
}

// testZombies has a command whose group has nothing but zombies when it is stopped.
func testZombies(h *harness) {
	r := h.sh(`sh -c 'sleep 0.05 & exec sleep 100' & touch ready; wait`)
	e, took := h.stopWhenReady(r, "test")
	if e.Cause != shell.Canceled || took > 4*time.Second {
		h.Errorf("exit = %+v after %v", e, took)
	}
}

// testGroup checks that a stop by the command itself reaches only its own group.
func testGroup(h *harness) {
	if got := h.run(h.sh("trap '' TERM; kill -TERM 0; echo alive")); got.out != "alive\n" || got.code() != 0 {
		h.Errorf("exit = %+v, output %q", got.exit, got.out)
	}
}
