// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlive_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/foreground"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// nap sleeps for as long as its input says, or until it is stopped.
func nap(ctx context.Context, _ *work.Attempt, d time.Duration) (string, error) {
	select {
	case <-time.After(d):
		return "slept", nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func napSpec(t *testing.T, d time.Duration) outlive.Spec {
	t.Helper()
	return outlive.Spec{Executor: "nap.v1", Input: task.Payload{Media: "application/json", Data: strconv.AppendInt(nil, int64(d), 10)}}
}

func kinds(t *testing.T, rt *outlive.Runtime, id task.ID) (got []string) {
	t.Helper()
	for e, err := range rt.Events(t.Context(), id, &outlive.EventsOptions{NoFollow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Kind)
	}
	return got
}

func count(list []string, want string) (n int) {
	for _, s := range list {
		if s == want {
			n++
		}
	}
	return n
}

func TestForegroundEndsBeforeTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, func(rt *outlive.Runtime) { outlive.Handle(rt, "nap.v1", nap) })
		out, err := rt.Run(t.Context(), napSpec(t, time.Second), foreground.Policy{DetachAfter: time.Minute})
		if err != nil || out.Detached || out.Task.State != task.Completed {
			t.Fatalf("Run() = %+v, %v, want completed", out, err)
		}
		if out.Task.Publication != task.Deferred {
			t.Errorf("publication = %s, want deferred", out.Task.Publication)
		}
	})
}

func TestForegroundDetachesWithoutRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, func(rt *outlive.Runtime) { outlive.Handle(rt, "nap.v1", nap) })
		began := time.Now()
		out, err := rt.Run(t.Context(), napSpec(t, time.Minute), foreground.Policy{DetachAfter: time.Second})
		if err != nil || !out.Detached || time.Since(began) != time.Second {
			t.Fatalf("Run() = %+v, %v after %v, want detached after 1s", out, err, time.Since(began))
		}
		rec, err := rt.Wait(t.Context(), out.Task.ID, outlive.Terminal)
		if err != nil || rec.State != task.Completed || rec.Attempt != 1 {
			t.Fatalf("Wait() = %s attempt %d, %v, want completed in attempt 1", rec.State, rec.Attempt, err)
		}
		got := kinds(t, rt, rec.ID)
		if count(got, journal.KindStarted) != 1 || count(got, journal.KindPublished) != 1 || count(got, journal.KindCompleted) != 1 {
			t.Errorf("events = %v, want one each of started, published, completed", got)
		}
	})
}

func TestForegroundTimesOutWhenItMayNotDetach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, func(rt *outlive.Runtime) { outlive.Handle(rt, "nap.v1", nap) })
		out, err := rt.Run(t.Context(), napSpec(t, time.Hour), foreground.Policy{DetachAfter: time.Second, OnTimeout: foreground.CancelTask})
		var te *foreground.TimeoutError
		if !errors.As(err, &te) || out.Task.State != task.Canceled {
			t.Fatalf("Run() = %s, %v, want canceled and a timeout error", out.Task.State, err)
		}
		if got := kinds(t, rt, out.Task.ID); count(got, journal.KindPublished) != 0 {
			t.Errorf("events = %v, want nothing published", got)
		}
	})
}

func TestCallerGoneLeavesTheTaskRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, func(rt *outlive.Runtime) { outlive.Handle(rt, "nap.v1", nap) })
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // gone before the start is the same
		out, err := rt.Run(ctx, napSpec(t, time.Minute), foreground.Policy{})
		if err != nil || !out.Detached {
			t.Fatalf("Run() = %+v, %v, want detached", out, err)
		}
		rec, err := rt.Wait(t.Context(), out.Task.ID, outlive.Terminal)
		if err != nil || rec.State != task.Completed {
			t.Fatalf("Wait() = %s, %v, want completed", rec.State, err)
		}
	})
}
