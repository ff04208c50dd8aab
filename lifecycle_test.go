// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlive_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/foreground"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/outlivetest"
	"github.com/outlive-dev/outlive/store/memory"
	"github.com/outlive-dev/outlive/task"
)

func TestARuntimeIsUsedOnce(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	rt := outlive.New(st, nil)
	if err := rt.Stop(t.Context()); err != nil {
		t.Errorf("Stop() before Start() = %v", err)
	}
	if err := rt.Start(t.Context()); !fault.Is(err, fault.Closed) {
		t.Errorf("Start() after Stop() = %v, want kind closed", err)
	}
}

func TestAFailedStartSaysSoAgain(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	rt := outlive.New(st, nil)
	outlive.Handle(rt, "nap.v1", nap)
	for range 2 {
		if err := rt.Start(t.Context()); !fault.Is(err, fault.Closed) {
			t.Errorf("Start() on a closed store = %v, want kind closed", err)
		}
	}
	if err := rt.Stop(t.Context()); err != nil {
		t.Errorf("Stop() = %v", err)
	}
}

func TestNothingRunsBeforeStart(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	rt := outlive.New(st, nil)
	outlive.Handle(rt, "nap.v1", nap)
	if _, err := rt.Run(t.Context(), napSpec(t, 0), foreground.Policy{}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Run() before Start() = %v, want kind unavailable", err)
	}
}

// What was handed over in memory must not hide what was published since.
func TestWaitSeesAPublicationAfterTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		env.Script("job.v1", outlivetest.Complete("done"))
		rt := env.Runtime()
		out, err := rt.Run(t.Context(), outlive.Spec{Executor: "job.v1"}, foreground.Policy{})
		if err != nil || out.Task.Publication != task.Deferred {
			t.Fatalf("Run() = %s, %v", outlivetest.Line(out.Task), err)
		}
		if _, err := rt.Publish(t.Context(), out.Task.ID); err != nil {
			t.Fatal(err)
		}
		rec, err := rt.Wait(t.Context(), out.Task.ID, outlive.Terminal)
		if err != nil || rec.Publication != task.OnBackground {
			t.Errorf("Wait() = %s, %v, want it published", outlivetest.Line(rec), err)
		}
	})
}

func TestEventsOfATaskThatHasEndedEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		env.Script("job.v1", outlivetest.Emit("one"), outlivetest.Complete("done"))
		rt := env.Runtime()
		id := env.Submit(outlive.Spec{Executor: "job.v1"}).ID
		env.Idle()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for _, after := range []int64{0, 3, 4, 40} {
			for _, err := range rt.Events(ctx, id, &outlive.EventsOptions{After: journal.Cursor{Epoch: 1, Seq: after}}) {
				if err != nil {
					t.Errorf("Events() after %d = %v", after, err)
				}
			}
		}
	})
}

// A call that was given up by its own process, while the process lives on, is not
// hidden for as long as that lives.
func TestACallGivenUpIsRevealed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		env.Script("job.v1", outlivetest.Ignore(), outlivetest.Await("go"), outlivetest.Complete("done"))
		_, err := env.Runtime().Run(t.Context(), outlive.Spec{ID: "t", Executor: "job.v1"},
			foreground.Policy{DetachAfter: time.Second, OnTimeout: foreground.CancelTask})
		var te *foreground.TimeoutError
		if !errors.As(err, &te) {
			t.Fatalf("Run() = %v, want a timeout error", err)
		}
		if r := env.Get("t"); r.Publication != task.Deferred {
			t.Errorf("%s, want hidden for now", outlivetest.Line(r))
		}
		<-time.After(15 * time.Second)
		env.Idle()
		if r := env.Get("t"); r.Publication != task.OnBackground || !r.Canceling() {
			t.Errorf("%s, want revealed", outlivetest.Line(r))
		}
		env.Signal("go")
		env.Idle()
	})
}
