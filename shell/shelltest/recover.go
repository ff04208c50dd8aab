// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package shelltest

import (
	"errors"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
)

// crashPoint is one row of the failure matrix: where a process kills itself, what the
// next one sees, and how often the command was executed at most.
type crashPoint struct {
	name  string
	phase shell.Phase
	execs int
}

// crashPoints lists every failpoint of a supervised run, in the order it passes them.
func crashPoints() []crashPoint {
	return []crashPoint{
		{"daemon.before_lock", shell.UnknownRun, 0},
		{"daemon.locked", shell.NeverStarted, 0},
		{"daemon.spec_tmp", shell.NeverStarted, 0},
		{"daemon.spec_durable", shell.NeverStarted, 0},
		{"daemon.shim_forked", shell.Finished, 1},
		{"shim.entry", shell.NeverStarted, 0},
		{"shim.stage2_spawned", shell.NeverStarted, 0},
		{"shim.started_tmp", shell.NeverStarted, 0},
		{"shim.started_renamed", shell.RunLost, 0},
		{"shim.started_durable", shell.RunLost, 0},
		{"shim.running", shell.RunLost, 1},
		{"shim.command_exited", shell.RunLost, 1},
		{"shim.exit_tmp", shell.Finished, 1}, // a whole record that was not renamed counts
		{"shim.exit_renamed", shell.Finished, 1},
		{"shim.exit_durable", shell.Finished, 1},
	}
}

// Failpoints returns the names of the points at which the suite has processes killed.
func Failpoints() []string {
	var names []string
	for _, p := range crashPoints() {
		names = append(names, p.name)
	}
	return names
}

func recoverTests() []test {
	var tests []test
	for _, p := range crashPoints() {
		tests = append(tests, test{name: p.name, recoverable: true, fn: func(h *harness) {
			if h.b.StartElsewhere == nil {
				h.Skip("the backend has no process that could die")
			}
			for range repeat(3) {
				h.crash(p)
			}
		}})
	}
	return append(tests,
		test{name: "B58_killed supervisor", fn: testKilledSupervisor, recoverable: true},
		test{name: "B41_parent killed by its command", fn: testParentKilled, recoverable: true},
		test{name: "B64_stop after the supervisor died", fn: testStopLost, recoverable: true},
		test{name: "B98_start is idempotent", fn: testIdempotent, recoverable: true},
		test{name: "B62_starters race", fn: testStartersRace, recoverable: true},
		test{name: "B54_found again by a later process", fn: testFoundAgain, recoverable: true},
		test{name: "B32_listed and stopped later", fn: testListed, recoverable: true},
		test{name: "release", fn: testRelease, recoverable: true},
	)
}

// crash kills a process at the point, looks at what is left, and lets three other
// processes race to bring the run to an end.
func (h *harness) crash(p crashPoint) {
	h.Helper()
	b := h.b.Recoverable
	id := h.newID()
	r := h.sh("setsid sleep 50 >/dev/null 2>&1 & sleep 0.05; echo out")
	r.Grace = 300 * time.Millisecond
	if died := h.b.StartElsewhere(h.T, p.name, id, fence1(), r); died != strings.HasPrefix(p.name, "daemon.") {
		h.Fatalf("the starter died: %v", died)
	}
	var st shell.State
	h.eventually("the crash has happened", func() bool {
		var err error
		st, err = b.Recover(h.Context(), id)
		return err == nil && st.Phase != shell.Live
	})
	if st.Phase != p.phase {
		h.Errorf("Recover = %+v, want phase %s", st, p.phase)
	}
	if n := executions(r.Dir); n > p.execs {
		h.Errorf("executed %d times before the restart, want at most %d", n, p.execs)
	}
	if lost := st.Phase == shell.RunLost; lost != (st.Exit != nil && st.Exit.Cause == shell.Lost) {
		h.Errorf("phase %s, exit %+v", st.Phase, st.Exit)
	}
	var wg sync.WaitGroup
	for i, other := range h.peers(3) {
		wg.Go(func() {
			err := other.Start(h.Context(), id, shell.Fence{Generation: 1, Attempt: int64(2 + i)}, r)
			if err != nil && fault.KindOf(err) != fault.Fenced {
				h.Errorf("Start again = %v", err)
			}
		})
	}
	wg.Wait()
	e := h.wait(id)
	n := executions(r.Dir)
	if n > 1 || n < 1 && p.phase != shell.RunLost {
		h.Errorf("executed %d times, want once (lost: at most once)", n)
	}
	if lost := p.phase == shell.RunLost; (e.Cause == shell.Lost) != lost || !lost && !e.Succeeded() {
		h.Errorf("exit = %+v after phase %s", e, p.phase)
	}
}

// killSupervisor kills the supervisor of a run whose output has been kept so far.
func (h *harness) killSupervisor(id shell.RunID, kept string) {
	h.Helper()
	if h.b.Supervisor == nil {
		h.Skip("the backend has no supervisor")
	}
	// What is still in the pipe dies with the supervisor; this is about the spool.
	h.eventually("the output is kept", func() bool {
		c, err := h.b.Recoverable.Read(h.Context(), id, 0, 0, 0)
		return err == nil && string(c.Bytes()) == kept
	})
	if err := syscall.Kill(h.b.Supervisor(h.T, id), syscall.SIGKILL); err != nil {
		h.Fatal(err)
	}
}

func testKilledSupervisor(h *harness) {
	r := h.sh(`echo before; setsid sleep 100 &
		setsid sh -c 'env -i sh -c "echo \$\$ > pid; touch ready; exec sleep 100"; :' &
		while :; do sleep 0.1; done`)
	id := h.start(r)
	h.ready(r)
	h.killSupervisor(id, "before\n")
	e := h.wait(id)
	if e.Cause != shell.Lost || e.Reason != shell.ReasonSupervisorDied || e.Code != nil || !e.Started || e.Succeeded() {
		h.Errorf("exit = %+v, want lost", e)
	}
	if out, _ := h.read(h.b.Recoverable, id); string(out) != "before\n" {
		h.Errorf("output = %q", out)
	}
	h.noneLeft()
	// The child that has no environment is gone, too.
	h.eventually("the child without an environment is gone", func() bool {
		b, err := procState(strings.TrimSpace(slurp(r, "pid")))
		return err != nil || b == 'Z'
	})
	if err := h.b.Recoverable.Start(h.Context(), id, fence1(), r); err != nil {
		h.Errorf("Start of a lost run = %v", err)
	}
	if again := h.wait(id); again.Cause != shell.Lost || !again.EndedAt.Equal(e.EndedAt) {
		h.Errorf("exit changed from %+v to %+v", e, again)
	}
}

// testParentKilled has a command that kills its parent: that is its supervisor, and
// nobody else.
func testParentKilled(h *harness) {
	id := h.start(h.sh("kill -KILL $PPID; sleep 100"))
	if e := h.wait(id); e.Cause != shell.Lost {
		h.Errorf("exit = %+v, want lost", e)
	}
	if got := h.run(h.sh("echo next")); got.out != "next\n" {
		h.Errorf("the next command = %+v, %q", got.exit, got.out)
	}
}

func testStopLost(h *harness) {
	r := h.sh("setsid sleep 100 & touch ready; wait")
	id := h.start(r)
	h.ready(r)
	h.killSupervisor(id, "")
	h.stop(id, shell.StopRequest{Reason: "late"})
	if e := h.wait(id); e.Cause != shell.Lost {
		h.Errorf("exit = %+v, want lost", e)
	}
	h.noneLeft()
}

func testIdempotent(h *harness) {
	b := h.b.Recoverable
	r := h.sh("cat")
	r.Stdin = []byte("some")
	id := h.start(r)
	for range 3 {
		if err := b.Start(h.Context(), id, fence1(), r); err != nil {
			h.Errorf("Start again = %v", err)
		}
	}
	h.wait(id)
	if err := b.Start(h.Context(), id, shell.Fence{Generation: 2}, r); err != nil {
		h.Errorf("Start after the end = %v", err)
	}
	if err := b.Start(h.Context(), id, fence1(), r); !errors.Is(err, shell.ErrFenced) {
		h.Errorf("Start with an old fence = %v, want %v", err, shell.ErrFenced)
	}
	other := r
	other.Command += " "
	if err := b.Start(h.Context(), id, shell.Fence{Generation: 3}, other); !errors.Is(err, shell.ErrDigest) {
		h.Errorf("Start of another request = %v, want %v", err, shell.ErrDigest)
	}
	if n := executions(r.Dir); n != 1 {
		h.Errorf("executed %d times", n)
	}
	if st := h.recover(id); st.Phase != shell.Finished || !st.Started || st.Digest != r.Digest() || st.Bytes != 4 || st.StartedAt.IsZero() {
		h.Errorf("Recover = %+v, want finished", st)
	}
}

func testStartersRace(h *harness) {
	for range 5 {
		id := h.newID()
		r := h.sh("true")
		var wg sync.WaitGroup
		for _, b := range h.peers(4) {
			wg.Go(func() {
				if err := b.Start(h.Context(), id, fence1(), r); err != nil {
					h.Errorf("Start = %v", err)
				}
			})
		}
		wg.Wait()
		if e := h.wait(id); !e.Succeeded() || executions(r.Dir) != 1 {
			h.Errorf("exit = %+v, executed %d times", e, executions(r.Dir))
		}
	}
}

func testFoundAgain(h *harness) {
	if h.b.StartElsewhere == nil {
		h.Skip("the backend has no process that could die")
	}
	r := h.sh("echo first; while ! test -e go; do sleep 0.02; done; echo second; exit 6")
	id := h.newID()
	if died := h.b.StartElsewhere(h.T, "", id, fence1(), r); died {
		h.Fatal("the starter died by itself")
	}
	h.eventually("it is live", func() bool {
		st := h.recover(id)
		return st.Phase == shell.Live && st.Started
	})
	h.touch(r, "go")
	if err := h.b.Recoverable.Start(h.Context(), id, shell.Fence{Generation: 1, Attempt: 2}, r); err != nil {
		h.Errorf("Start = %v", err)
	}
	e := h.wait(id)
	out, _ := h.read(h.b.Recoverable, id)
	if code(e) != 6 || string(out) != "first\nsecond\n" || executions(r.Dir) != 1 {
		h.Errorf("exit = %+v, output %q, executed %d times", e, out, executions(r.Dir))
	}
}

func testListed(h *harness) {
	r := h.sh("touch ready; sleep 100")
	id := h.start(r)
	h.ready(r)
	later := h.peers(1)[0]
	ids, err := later.List(h.Context())
	if err != nil || len(ids) != 1 || ids[0] != id {
		h.Errorf("List = %v, %v, want %s", ids, err, id)
	}
	if err := later.Stop(h.Context(), id, shell.Fence{Generation: 9}, shell.StopRequest{Reason: "orphan"}); err != nil {
		h.Errorf("Stop = %v", err)
	}
	if e := h.wait(id); e.Cause != shell.Canceled || e.Reason != "orphan" {
		h.Errorf("exit = %+v", e)
	}
}

func testRelease(h *harness) {
	b := h.b.Recoverable
	r := h.sh("touch ready; while ! test -e go; do sleep 0.02; done")
	id := h.start(r)
	h.ready(r)
	if err := b.Release(h.Context(), id, fence1()); fault.KindOf(err) != fault.Conflict {
		h.Errorf("Release of a live run = %v, want Conflict", err)
	}
	h.touch(r, "go")
	h.wait(id)
	for range 2 {
		if err := b.Release(h.Context(), id, fence1()); err != nil {
			h.Errorf("Release = %v", err)
		}
	}
	if err := b.Start(h.Context(), id, fence1(), r); !errors.Is(err, shell.ErrReleased) {
		h.Errorf("Start after Release = %v, want %v", err, shell.ErrReleased)
	}
	if st := h.recover(id); st.Phase != shell.UnknownRun || st.Reason != shell.ReasonReleased {
		h.Errorf("Recover = %+v, want released", st)
	}
	if err := b.Stop(h.Context(), id, fence1(), shell.StopRequest{}); err != nil {
		h.Errorf("Stop after Release = %v", err)
	}
	if _, err := b.Wait(h.Context(), id); fault.KindOf(err) != fault.NotFound {
		h.Errorf("Wait = %v, want NotFound", err)
	}
	if ids, err := b.List(h.Context()); err != nil || len(ids) != 0 {
		h.Errorf("List = %v, %v", ids, err)
	}
	if n := executions(r.Dir); n != 1 {
		h.Errorf("executed %d times", n)
	}
}
