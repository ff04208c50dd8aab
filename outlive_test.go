// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlive_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store/memory"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

func start(t *testing.T, register func(rt *outlive.Runtime)) *outlive.Runtime {
	t.Helper()
	st := memory.New(nil)
	rt := outlive.New(st, nil)
	register(rt)
	if err := rt.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Stop() = %v", err)
		}
		if err := st.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return rt
}

func TestSubmitAndAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, func(rt *outlive.Runtime) {
			outlive.Handle(rt, "double.v1", func(_ context.Context, _ *work.Attempt, n int) (int, error) { return 2 * n, nil })
		})
		ref, err := outlive.Submit(t.Context(), rt, "double.v1", 21, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := outlive.Await[int](t.Context(), ref)
		if err != nil || got != 42 {
			t.Fatalf("Await() = %d, %v, want 42", got, err)
		}
		var kinds []string
		seq := int64(0)
		for e, err := range rt.Events(t.Context(), ref.ID(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if seq++; e.Seq != seq {
				t.Errorf("seq = %d, want %d", e.Seq, seq)
			}
			kinds = append(kinds, e.Kind)
		}
		if len(kinds) != 3 || kinds[2] != journal.KindCompleted {
			t.Errorf("events = %v, want created, started, completed", kinds)
		}
	})
}

func TestRetriesUseTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		rt := start(t, func(rt *outlive.Runtime) {
			outlive.Handle(rt, "flaky.v1", func(context.Context, *work.Attempt, struct{}) (int, error) {
				tries++
				return 0, errors.New("not yet")
			})
		})
		ref, err := outlive.Submit(t.Context(), rt, "flaky.v1", struct{}{}, &outlive.Spec{MaxAttempts: 3})
		if err != nil {
			t.Fatal(err)
		}
		rec, err := ref.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if rec.State != task.Failed || tries != 3 {
			t.Errorf("state %s after %d tries, want failed after 3", rec.State, tries)
		}
	})
}

func TestCancelReachesTheExecutor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, func(rt *outlive.Runtime) {
			outlive.Handle(rt, "sleep.v1", func(ctx context.Context, _ *work.Attempt, _ struct{}) (int, error) {
				<-ctx.Done()
				return 0, context.Cause(ctx)
			})
		})
		ref, err := outlive.Submit(t.Context(), rt, "sleep.v1", struct{}{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := ref.Cancel(t.Context(), "enough"); err != nil {
			t.Fatal(err)
		}
		rec, err := ref.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if rec.State != task.Canceled || rec.CancelReason != "enough" {
			t.Errorf("state %s, reason %q, want canceled, enough", rec.State, rec.CancelReason)
		}
		if _, err := rt.Cancel(t.Context(), ref.ID(), nil); !fault.Is(err, fault.Finished) {
			t.Errorf("second Cancel() = %v, want kind finished", err)
		}
	})
}
