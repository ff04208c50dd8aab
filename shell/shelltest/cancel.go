// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package shelltest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
)

func cancelTests() []test {
	return []test{
		{name: "before start", fn: testCancelBeforeStart},
		{name: "provisioning", fn: testT04, setup: Setup{Delay: 1500 * time.Millisecond}},
		{name: "running", fn: testCancelRunning},
		{name: "draining", fn: testCancelDraining, recoverable: true},
		{name: "twice", fn: testCancelTwice, recoverable: true},
		{name: "after the end", fn: testCancelAfterEnd, recoverable: true},
		{name: "bad request", fn: testCancelBad, recoverable: true},
		{name: "B61_canceled context", fn: testCanceledContext, recoverable: true},
	}
}

// stopWhenReady runs a request and stops it when it has made the file "ready". took is
// counted from the stop.
func (h *harness) stopWhenReady(r shell.Request, reason string) (e shell.Exit, took time.Duration) {
	h.Helper()
	if h.b.Recoverable != nil {
		id := h.start(r)
		h.ready(r)
		began := time.Now()
		h.stop(id, shell.StopRequest{Reason: reason})
		return h.wait(id), time.Since(began)
	}
	ctx, cancel := context.WithCancelCause(h.Context())
	defer cancel(nil)
	type end struct {
		resp *shell.Response
		err  error
	}
	ends := make(chan end, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		resp, err := h.b.Shell.Execute(ctx, r)
		ends <- end{resp, err}
	})
	h.ready(r)
	began := time.Now()
	cancel(errors.New(reason))
	got := <-ends
	wg.Wait()
	var x *shell.ExecError
	if !errors.As(got.err, &x) || x.Started != shell.Yes || fault.KindOf(got.err) != fault.Canceled || x.Partial == nil {
		h.Fatalf("Execute = %v, want an ExecError of kind canceled with the output so far", got.err)
	}
	return x.Partial.Exit, time.Since(began)
}

func testCancelBeforeStart(h *harness) {
	r := h.sh("true")
	if h.b.Shell != nil {
		ctx, cancel := context.WithCancel(h.Context())
		cancel()
		_, err := h.b.Shell.Execute(ctx, r)
		h.notStarted("Execute with a canceled context", err, "")
		if !errors.Is(err, context.Canceled) {
			h.Errorf("Execute with a canceled context = %v", err)
		}
	}
	if h.b.Recoverable != nil {
		id := h.newID()
		h.stop(id, shell.StopRequest{Reason: "early"})
		if err := h.b.Recoverable.Start(h.Context(), id, fence1(), r); err != nil {
			h.Fatalf("Start = %v", err)
		}
		if e := h.wait(id); e.Cause != shell.Canceled || e.Started || e.Code != nil || e.Reason != "early" {
			h.Errorf("exit = %+v, want canceled, not started", e)
		}
	}
	if executions(r.Dir) != 0 {
		h.Error("the command was executed")
	}
}

func testCancelRunning(h *harness) {
	e, _ := h.stopWhenReady(h.sh("echo part; touch ready; sleep 100; echo no"), "enough")
	if e.Cause != shell.Canceled || e.TotalBytes != 5 {
		h.Errorf("exit = %+v, want canceled and 5 bytes", e)
	}
}

// testCancelDraining stops a run whose command has ended and whose grandchild still
// writes: it ends soon, with one cause that fits the rest of the record.
func testCancelDraining(h *harness) {
	r := h.sh("(while :; do echo more; sleep 0.05; done) & touch ready; exit 4")
	r.Drain, r.DrainCap, r.Grace = 20*time.Second, 20*time.Second, 300*time.Millisecond
	id := h.start(r)
	h.ready(r)
	pause(200 * time.Millisecond)
	began := time.Now()
	h.stop(id, shell.StopRequest{})
	e := h.wait(id)
	if took := time.Since(began); took > 5*time.Second {
		h.Errorf("took %v", took)
	}
	if code(e) != 4 || e.Cause != shell.Exited && e.Cause != shell.Canceled || e.LeftoversStopped == 0 {
		h.Errorf("exit = %+v, code %d", e, code(e))
	}
}

func testCancelTwice(h *harness) {
	r := h.sh(`trap "" TERM; touch ready; while :; do sleep 0.05; done`)
	r.Grace = time.Minute
	id := h.start(r)
	h.ready(r)
	h.stop(id, shell.StopRequest{Reason: "first"})
	h.stop(id, shell.StopRequest{Cause: shell.TimedOut, Reason: "second", Grace: shell.AtOnce})
	e := h.wait(id)
	if e.Cause != shell.Canceled || e.Reason != "first" || code(e) != 137 {
		h.Errorf("exit = %+v, code %d, want the first cause and the shorter grace", e, code(e))
	}
}

func testCancelAfterEnd(h *harness) {
	id := h.start(h.sh("exit 5"))
	before := h.wait(id)
	h.stop(id, shell.StopRequest{Reason: "late"})
	if e := h.wait(id); e.Cause != shell.Exited || code(e) != 5 || e.Canceled || !e.EndedAt.Equal(before.EndedAt) {
		h.Errorf("exit = %+v, was %+v", e, before)
	}
}

func testCancelBad(h *harness) {
	id := h.start(h.sh("true"))
	for _, s := range []shell.StopRequest{{Cause: shell.Exited}, {Cause: "x"}, {Grace: -5}} {
		if err := h.b.Recoverable.Stop(h.Context(), id, fence1(), s); fault.KindOf(err) != fault.Invalid {
			h.Errorf("Stop(%+v) = %v, want Invalid", s, err)
		}
	}
	h.wait(id)
}

// testCanceledContext ends the wait for a run: the run does not care.
func testCanceledContext(h *harness) {
	r := h.sh("while ! test -e go; do sleep 0.02; done; echo done")
	id := h.start(r)
	ctx, cancel := context.WithTimeout(h.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := h.b.Recoverable.Wait(ctx, id); !errors.Is(err, context.DeadlineExceeded) {
		h.Errorf("Wait = %v, want the context's error", err)
	}
	h.touch(r, "go")
	if e := h.wait(id); !e.Succeeded() {
		h.Errorf("exit = %+v", e)
	}
}
