// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package shelltest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
)

// timeoutTests are the points of the timeout contract that a backend can show. T08 and
// T14 to T16 are also about its callers; T10 to T13 and T17 are continued in the tests
// of the renderer.
func timeoutTests() []test {
	slow := Setup{Delay: 1500 * time.Millisecond}
	return []test{
		{name: "T01", fn: testT01, setup: slow},
		{name: "T02", fn: testT02, setup: slow},
		{name: "T03", fn: testT03, setup: Setup{Latency: 400 * time.Millisecond}},
		{name: "T04", fn: testT04, setup: slow},
		{name: "T05", fn: testT05},
		{name: "T06", fn: testT06},
		{name: "T07", fn: testT07, setup: Setup{Broken: true, Delay: 300 * time.Millisecond}},
		{name: "T09", fn: testT09},
		{name: "T10", fn: timesOut(`trap "exit 9" TERM; echo part; while :; do sleep 0.05; done`, 9, "part\n")},
		{name: "T11", fn: timesOut(`trap "exit 0" TERM; echo part; while :; do sleep 0.05; done`, 0, "part\n")},
		{name: "T14", fn: testT14},
		{name: "T16", fn: testT16, recoverable: true},
		{name: "T18", fn: testT18},
		{name: "T19", fn: testT19},
		{name: "T20", fn: testT20, recoverable: true},
		{name: "T21", fn: testT21},
		{name: "T22", fn: testT22, setup: Setup{Slots: 1}},
		{name: "T23", fn: testT23},
		{name: "T24", fn: testT24},
		{name: "T24_tiny limits", fn: testTinyTimeout},
		{name: "B86_stops at the limit", fn: testB86},
	}
}

func testT01(h *harness) {
	r := h.sh("sleep 0.2; echo ok")
	r.Timeout = 1000 * time.Millisecond // less than the delay
	got := h.run(r)
	if !got.exit.Succeeded() || got.out != "ok\n" || got.exit.TimedOut {
		h.Errorf("exit = %+v, output %q, want success", got.exit, got.out)
	}
	if least := h.delay() + 200*time.Millisecond; got.took < least {
		h.Errorf("took %v, want at least %v", got.took, least)
	}
}

func testT02(h *harness) {
	r := h.sh("echo part; sleep 5; echo no")
	r.Timeout = 400 * time.Millisecond
	got := h.run(r)
	if e := got.exit; e.Cause != shell.TimedOut || !e.TimedOut || e.Canceled || got.out != "part\n" {
		h.Errorf("exit = %+v, output %q, want timed_out with the output so far", e, got.out)
	}
	if got.took < h.delay()+400*time.Millisecond || got.took > h.delay()+4*time.Second {
		h.Errorf("took %v", got.took)
	}
}

func testT03(h *harness) {
	for tries := 5; ; tries-- {
		r := h.sh("sleep 0.2; echo ok")
		r.Timeout = 300 * time.Millisecond // less than a packet takes
		got := h.run(r)
		if got.exit.Succeeded() && !got.exit.TimedOut {
			return
		}
		// On a busy machine the command itself may take longer than its limit.
		if took := got.exit.EndedAt.Sub(got.exit.StartedAt); took < r.Timeout || tries == 1 {
			h.Fatalf("exit = %+v after %v of its own, want success", got.exit, took)
		}
	}
}

// testT04 lets the caller's context end while the backend still provisions; where it
// does not, the context has ended before.
func testT04(h *harness) {
	if h.delay() == 0 {
		testCancelBeforeStart(h)
		return
	}
	r := h.sh("touch marker")
	limited := func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(h.Context(), 500*time.Millisecond)
	}
	check := func(op string, err error, took time.Duration) {
		h.Helper()
		h.notStarted(op, err, shell.StepProvision)
		if !errors.Is(err, context.DeadlineExceeded) || took > h.delay() {
			h.Errorf("%s = %v after %v, want the context's error in time", op, err, took)
		}
	}
	if h.b.Shell != nil {
		ctx, cancel := limited()
		began := time.Now()
		_, err := h.b.Shell.Execute(ctx, r)
		cancel()
		check("Execute", err, time.Since(began))
	}
	var id shell.RunID
	if h.b.Recoverable != nil {
		ctx, cancel := limited()
		id = h.newID()
		began := time.Now()
		err := h.b.Recoverable.Start(ctx, id, fence1(), r)
		cancel()
		check("Start", err, time.Since(began))
	}
	pause(h.delay() + 300*time.Millisecond)
	if there(r, "marker") || executions(r.Dir) != 0 {
		h.Error("the command was executed")
	}
	if id != "" {
		if st := h.recover(id); st.Started || st.Phase == shell.Live {
			h.Errorf("Recover = %+v, want not started", st)
		}
	}
}

func testT05(h *harness) {
	const command = `trap "" TERM; echo part; touch ready; setsid sleep 100 & while :; do sleep 0.05; done`
	if h.b.Shell != nil {
		ctx, cancel := context.WithCancel(h.Context())
		defer cancel()
		r := h.sh(command)
		r.Grace = 300 * time.Millisecond
		var began time.Time
		var wg sync.WaitGroup
		wg.Go(func() {
			poll(patience, func() bool { return there(r, "ready") })
			began = time.Now()
			cancel()
		})
		resp, err := h.b.Shell.Execute(ctx, r)
		wg.Wait()
		var x *shell.ExecError
		if !errors.As(err, &x) || x.Started != shell.Yes || !errors.Is(err, context.Canceled) {
			h.Fatalf("Execute = %v, want an ExecError with the context's error", err)
		}
		if x.Partial == nil || string(x.Partial.Output) != "part\n" || resp != nil && resp.Exit.TimedOut {
			h.Errorf("partial = %+v", x.Partial)
		}
		if took := time.Since(began); took > 5*time.Second {
			h.Errorf("returned after %v", took)
		}
		h.noneLeft()
	}
	if h.b.Recoverable != nil {
		r := h.sh(command)
		r.Grace = 300 * time.Millisecond
		e, took := h.stopWhenReady(r, "")
		if e.Cause != shell.Canceled || code(e) != 137 || took > 4*time.Second {
			h.Errorf("exit = %+v, code %d, after %v", e, code(e), took)
		}
	}
}

// testT06 cuts the link three times, and then for good.
func testT06(h *harness) {
	if h.b.Cut == nil {
		h.Skip("the backend has no link to cut")
	}
	h.cutThrice()
	r := h.sh("touch ready; sleep 100")
	r.Grace = 200 * time.Millisecond
	var wg sync.WaitGroup
	wg.Go(func() {
		poll(patience, func() bool { return there(r, "ready") })
		h.b.Down()
	})
	_, err := h.b.Shell.Execute(h.Context(), r)
	wg.Wait()
	var x *shell.ExecError
	if !errors.As(err, &x) || x.Phase != shell.StepTransport || x.Started != shell.Yes {
		h.Fatalf("Execute over a dead link = %v, want an ExecError in phase transport, started", err)
	}
	if x.Partial != nil && x.Partial.Exit.TimedOut || fault.KindOf(err) == fault.Timeout {
		h.Errorf("Execute over a dead link = %v, %+v: it is no timeout", err, x.Partial)
	}
	if pids := carriers(markEnv + "=" + h.mark); len(pids) > 0 {
		h.noneLeft() // the backend itself stops what nobody watches
	}
}

// cutThrice cuts the link three times while a command writes.
func (h *harness) cutThrice() {
	h.Helper()
	r := h.sh("for i in 1 2 3 4 5 6 7 8; do echo $i; touch at$i; sleep 0.1; done; exit 7")
	id := h.newID()
	var wg sync.WaitGroup
	wg.Go(func() {
		for _, at := range []string{"at1", "at3", "at5"} {
			poll(patience, func() bool { return there(r, at) })
			h.b.Cut()
		}
	})
	if err := h.b.Recoverable.Start(h.Context(), id, fence1(), r); err != nil {
		h.Fatalf("Start = %v", err)
	}
	out, _ := h.read(h.b.Recoverable, id)
	e := h.wait(id)
	wg.Wait()
	if string(out) != "1\n2\n3\n4\n5\n6\n7\n8\n" || code(e) != 7 || e.TimedOut {
		h.Errorf("output %q, exit %+v", out, e)
	}
}

func testT07(h *harness) {
	if !h.b.Provisions {
		h.Skip("the backend provisions nothing that could fail")
	}
	r := h.sh("true")
	r.Timeout = 50 * time.Millisecond // it would have passed meanwhile
	if h.b.Shell != nil {
		_, err := h.b.Shell.Execute(h.Context(), r)
		h.notStarted("Execute", err, shell.StepProvision)
	}
	if h.b.Recoverable != nil {
		h.notStarted("Start", h.b.Recoverable.Start(h.Context(), h.newID(), fence1(), r), shell.StepProvision)
	}
	if executions(r.Dir) != 0 {
		h.Error("the command was executed")
	}
}

// testT09 has two ways to stop at once: one cause is recorded.
func testT09(h *harness) {
	const command = `trap "" TERM; touch ready; while :; do sleep 0.02; done`
	try := func(limit, stop time.Duration) shell.Exit {
		h.Helper()
		r := h.sh(command)
		r.Timeout, r.Grace = limit, 50*time.Millisecond
		if h.b.Recoverable == nil {
			ctx, cancel := context.WithCancel(h.Context())
			defer cancel()
			var wg sync.WaitGroup
			defer wg.Wait()
			wg.Go(func() {
				poll(patience, func() bool { return there(r, "ready") })
				pause(stop)
				cancel()
			})
			resp, err := h.b.Shell.Execute(ctx, r)
			if (err != nil) != (resp.Exit.Cause == shell.Canceled) {
				h.Errorf("Execute = %+v, %v", resp.Exit, err)
			}
			return resp.Exit
		}
		id := h.start(r)
		pause(stop)
		h.stop(id, shell.StopRequest{})
		return h.wait(id)
	}
	if e := try(100*time.Millisecond, 400*time.Millisecond); e.Cause != shell.TimedOut {
		h.Errorf("time limit first: %+v", e)
	}
	if e := try(10*time.Second, 100*time.Millisecond); e.Cause != shell.Canceled {
		h.Errorf("stop first: %+v", e)
	}
	causes := map[shell.Cause]int{}
	for range repeat(8) {
		e := try(60*time.Millisecond, 60*time.Millisecond)
		causes[e.Cause]++
		if e.TimedOut == e.Canceled || e.TimedOut != (e.Cause == shell.TimedOut) {
			h.Errorf("exit = %+v, want exactly one cause", e)
		}
	}
	h.Logf("causes: %v", causes)
}

// timesOut returns a test of a command that has its own way to end on TERM.
func timesOut(command string, want int, out string) func(h *harness) {
	return func(h *harness) {
		r := h.sh(command)
		r.Timeout = 400 * time.Millisecond
		got := h.run(r)
		if got.exit.Cause != shell.TimedOut || !got.exit.TimedOut || got.code() != want || !strings.HasPrefix(got.out, out) || got.exit.Succeeded() {
			h.Errorf("exit = %+v, code %d, output %q, want timed_out, %d, %q", got.exit, got.code(), got.out, want, out)
		}
	}
}

func testT14(h *harness) {
	r := h.sh("sleep 1.5; echo ok")
	r.Timeout = shell.NoTimeout
	if got := h.run(r); !got.exit.Succeeded() || got.out != "ok\n" {
		h.Errorf("exit = %+v, output %q", got.exit, got.out)
	}
}

// testT16 stops waiting: the same command goes on, and nothing is started again.
func testT16(h *harness) {
	r := h.sh("echo $$ > pid; while ! test -e go; do sleep 0.02; done; echo $$")
	id := h.start(r)
	ctx, cancel := context.WithTimeout(h.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := h.b.Recoverable.Wait(ctx, id); !errors.Is(err, context.DeadlineExceeded) {
		h.Errorf("Wait = %v", err)
	}
	h.touch(r, "go")
	later := h.peers(1)[0]
	e := h.waitOn(later, id)
	out, _ := h.read(later, id)
	if !e.Succeeded() || strings.TrimSpace(string(out)) != strings.TrimSpace(slurp(r, "pid")) || executions(r.Dir) != 1 {
		h.Errorf("exit = %+v, output %q, pid was %q, executed %d times", e, out, slurp(r, "pid"), executions(r.Dir))
	}
}

func testT18(h *harness) {
	r := h.sh(`trap "" TERM; setsid sh -c 'trap "" TERM; while :; do sleep 1; done' & while :; do sleep 1; done`)
	r.Timeout, r.Grace, r.Drain, r.DrainCap = 300*time.Millisecond, 300*time.Millisecond, 200*time.Millisecond, 400*time.Millisecond
	got := h.run(r)
	if got.exit.Cause != shell.TimedOut || got.code() != 137 {
		h.Errorf("exit = %+v, code %d", got.exit, got.code())
	}
	if d := got.exit.EndedAt.Sub(got.exit.StartedAt); d > r.Timeout+r.Grace+r.DrainCap+time.Second {
		h.Errorf("took %v", d)
	}
}

func testT19(h *harness) {
	h.Skip("the clock of a machine is not to be stepped; shell/local.TestT19 has one that is")
}

// testT20 kills the process that started a run with a time limit.
func testT20(h *harness) {
	if h.b.StartElsewhere == nil {
		h.Skip("the backend has no process that could die")
	}
	r := h.sh("while :; do sleep 0.05; done")
	r.Timeout = 2 * time.Second
	id := h.newID()
	if died := h.b.StartElsewhere(h.T, "", id, fence1(), r); died {
		h.Fatal("the starter died by itself")
	}
	e := h.wait(id)
	ran := e.EndedAt.Sub(e.StartedAt)
	if e.Cause != shell.TimedOut || !e.TimedOut || ran < 2*time.Second || ran > 2*time.Second+600*time.Millisecond {
		h.Errorf("exit = %+v after %v, want timed_out after 2 s", e, ran)
	}
}

func testT21(h *harness) {
	r := h.sh("true")
	r.Timeout = -time.Second
	h.refused("negative time limit", r, fault.Invalid)
	r = h.sh("sleep 0.3")
	r.Timeout = 60 * 24 * time.Hour // as milliseconds it does not fit 32 bits
	if got := h.run(r); !got.exit.Succeeded() {
		h.Errorf("exit with a limit of 60 days = %+v", got.exit)
	}
}

// testT22 has two commands and one slot.
func testT22(h *harness) {
	first, second := h.sh("touch ready; sleep 1"), h.sh("sleep 0.1")
	second.Timeout = 500 * time.Millisecond
	var wg sync.WaitGroup
	wg.Go(func() { h.run(first) })
	if !poll(patience, func() bool { return there(first, "ready") }) {
		h.Error("the first command does not start")
	}
	if got := h.run(second); !got.exit.Succeeded() || got.exit.TimedOut {
		h.Errorf("exit = %+v, want success", got.exit)
	}
	wg.Wait()
}

func testT23(h *harness) {
	r := h.sh("head -c 1000000 /dev/zero; sleep 100")
	r.Timeout = 600 * time.Millisecond
	if got := h.run(r); got.exit.Cause != shell.TimedOut || len(got.out) != 1000000 || got.exit.Incomplete {
		h.Errorf("exit = %+v, %d bytes of output", got.exit, len(got.out))
	}
	// What still holds the output after the end makes it incomplete, never silently.
	r = h.sh("setsid sleep 100 & sleep 100")
	r.Timeout, r.Leftovers, r.Drain = 200*time.Millisecond, shell.KeepLeftovers, 100*time.Millisecond
	if got := h.run(r); got.exit.Cause != shell.TimedOut {
		h.Errorf("exit = %+v, want timed_out", got.exit)
	}
}

// testT24 lets commands end just when their time is over.
func testT24(h *harness) {
	var mu sync.Mutex
	timedOut := 0
	n := repeat(50)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range n / 2 {
				r := h.argv("sleep", "0.05")
				r.Timeout = 51 * time.Millisecond
				got := h.run(r)
				switch {
				case got.exit.Cause == shell.Exited && got.code() == 0 && !got.exit.TimedOut:
				case got.exit.Cause == shell.TimedOut && got.exit.TimedOut && (got.code() == 143 || got.code() == 0):
					mu.Lock()
					timedOut++
					mu.Unlock()
				default:
					h.Errorf("exit = %+v, code %d", got.exit, got.code())
				}
			}
		})
	}
	wg.Wait()
	h.Logf("%d of %d timed out", timedOut, n)
}

// testTinyTimeout stops the command while it is still about to become one. It is no
// shell: one that is about to start a child can swallow a TERM.
func testTinyTimeout(h *harness) {
	for i := range 8 {
		r := h.argv("sleep", "100")
		r.Timeout = time.Duration(1+i*300) * time.Microsecond
		got := h.run(r)
		if got.exit.Cause != shell.TimedOut || got.code() != 143 || got.exit.EndedAt.Sub(got.exit.StartedAt) > 2*time.Second {
			h.Errorf("exit = %+v, code %d", got.exit, got.code())
		}
	}
}

func testB86(h *harness) {
	r := h.argv("sleep", "5")
	r.Timeout = 500 * time.Millisecond
	got := h.run(r)
	if ran := got.exit.EndedAt.Sub(got.exit.StartedAt); got.exit.Cause != shell.TimedOut || ran < 500*time.Millisecond || ran > 1500*time.Millisecond {
		h.Errorf("exit = %+v after %v", got.exit, ran)
	}
}
