// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package shelltest

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
)

func limitTests() []test {
	return []test{
		{name: "of each process", fn: testRlimits},
		{name: "none but what was there", fn: testNoLimits},
		{name: "more than may be", fn: testTooMuch},
		{name: "negative", fn: testNegativeLimits},
		{name: "memory", fn: testMemoryLimit},
		{name: "processes", fn: testPidsLimit},
		{name: "a group of its own", fn: testOwnGroup, recoverable: true},
		{name: "who goes first when memory is short", fn: testOOMScore, recoverable: true},
	}
}

func (h *harness) rlimited() {
	h.Helper()
	if !h.capabilities().Rlimits {
		h.Skip("the backend has no limits, and refuses them")
	}
}

// limited runs a request with limits of the whole run, which the machine may not have.
func (h *harness) limited(r shell.Request) result {
	h.Helper()
	h.rlimited()
	id := h.newID()
	err := h.b.Recoverable.Start(h.Context(), id, fence1(), r)
	if fault.Is(err, fault.Unsupported) {
		h.Skip("refused here: ", err)
	}
	if err != nil {
		h.Fatalf("Start = %v", err)
	}
	e := h.wait(id)
	out, omitted := h.read(h.b.Recoverable, id)
	return result{exit: e, out: string(out), omitted: omitted}
}

func testRlimits(h *harness) {
	h.rlimited()
	r := h.sh("ulimit -n; ulimit -Hn; ulimit -u; ulimit -c")
	r.Limits = shell.Limits{Files: 77, Processes: 4096}
	if got := h.run(r); !got.exit.Succeeded() || got.out != "77\n77\n4096\n0\n" {
		h.Errorf("exit = %+v, limits %q", got.exit, got.out)
	}
}

// testNoLimits compares a command without limits with this process: only that a core is
// not dumped, unless it is asked for, is changed.
func testNoLimits(h *harness) {
	h.rlimited()
	want, err := os.ReadFile("/proc/self/limits")
	if err != nil {
		h.Fatal(err)
	}
	got := h.run(h.sh("ulimit -c; ulimit -c hard && cat /proc/self/limits"))
	core, rest, _ := strings.Cut(got.out, "\n")
	if core != "0" {
		h.Errorf("core size %s, want 0", core)
	}
	for line := range strings.Lines(string(want)) {
		name := strings.TrimSpace(line[:min(25, len(line))])
		if name == "Max core file size" || name == "Max open files" { // Go raises its own
			continue
		}
		if !strings.Contains(rest, line) {
			h.Errorf("the command does not have %q", line)
		}
	}
	if !got.exit.Succeeded() {
		h.Errorf("exit = %+v: a core cannot be asked for", got.exit)
	}
}

func testTooMuch(h *harness) {
	h.rlimited()
	r := h.sh("true")
	r.Limits.Files = 1 << 40
	got := h.run(r)
	if got.exit.Cause != shell.StartFailed || got.code() != 126 || !strings.Contains(got.exit.Reason, "limit nofile") {
		h.Errorf("exit = %+v, want start_failed", got.exit)
	}
	if executions(r.Dir) != 0 {
		h.Error("it was executed")
	}
}

func testNegativeLimits(h *harness) {
	for what, l := range map[string]shell.Limits{
		"memory": {Memory: -1}, "processes": {Pids: -1}, "processor time": {MilliCPU: -1}, "files": {Files: -1}, "user's processes": {Processes: -1},
	} {
		r := h.sh("true")
		r.Limits = l
		h.refused("negative "+what, r, fault.Invalid)
	}
}

func testMemoryLimit(h *harness) {
	r := h.sh("head -c 200000000 /dev/zero | tail -c 150000000 >/dev/null; echo over")
	r.Limits.Memory = 32 << 20
	got := h.limited(r)
	if got.exit.Signal != "SIGKILL" || got.exit.Reason != shell.ReasonOutOfMemory || got.out != "" {
		h.Errorf("exit = %+v, output %q, want it killed for its memory", got.exit, got.out)
	}
	r = h.sh("echo fits")
	r.Limits.Memory = 64 << 20
	if got := h.limited(r); !got.exit.Succeeded() {
		h.Errorf("exit = %+v", got.exit)
	}
}

func testPidsLimit(h *harness) {
	r := h.sh("for i in 1 2 3 4 5 6 7 8; do sleep 0.3 & done 2>err; wait; test -s err && echo refused")
	r.Limits.Pids = 5
	if got := h.limited(r); !strings.Contains(got.out, "refused") {
		h.Errorf("exit = %+v, output %q, want forks refused", got.exit, got.out)
	}
}

// testOwnGroup has a run whose processes leave its session and its environment: they are
// found by their group all the same.
func testOwnGroup(h *harness) {
	r := h.sh("env -i setsid sleep 300 >/dev/null 2>&1 & env -i setsid sh -c 'sleep 300 & sleep 300' >/dev/null 2>&1 & sleep 0.2")
	r.Limits.Pids = 100
	if got := h.limited(r); !got.exit.Succeeded() || got.exit.LeftoversStopped != 4 {
		h.Errorf("exit = %+v, want four leftovers stopped", got.exit)
	}
}

// testOOMScore compares the command with its supervisor.
func testOOMScore(h *harness) {
	if h.b.Supervisor == nil {
		h.Skip("the backend does not tell its supervisor")
	}
	r := h.sh("cat /proc/self/oom_score_adj; while ! test -e go; do sleep 0.02; done")
	id := h.start(r)
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", h.b.Supervisor(h.T, id)))
	if err != nil {
		h.Fatal(err)
	}
	h.touch(r, "go")
	h.wait(id)
	out, _ := h.read(h.b.Recoverable, id)
	score := func(s string) int {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil {
			h.Errorf("score %q", s)
		}
		return n
	}
	if command, supervisor := score(string(out)), score(string(b)); command <= supervisor {
		h.Errorf("the command has %d, its supervisor %d", command, supervisor)
	}
}
