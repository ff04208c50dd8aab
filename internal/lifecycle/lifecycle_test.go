// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outlive-dev/outlive/internal/lifecycle"
)

func TestStopCancelsWithCauseAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := lifecycle.New(t.Context())
		var cause error
		g.Go("loop", func(ctx context.Context) {
			<-ctx.Done()
			cause = context.Cause(ctx)
			<-time.After(time.Second) // something to clean up
		})
		start := time.Now()
		if err := g.Stop(t.Context()); err != nil {
			t.Fatalf("Stop() = %v, want nil", err)
		}
		if got := time.Since(start); got != time.Second {
			t.Errorf("Stop() returned after %v, want 1s", got)
		}
		if !errors.Is(cause, lifecycle.ErrStopped) {
			t.Errorf("cause = %v, want ErrStopped", cause)
		}
		select {
		case <-g.Stopped():
		default:
			t.Error("Stopped() is open after Stop")
		}
	})
}

func TestStopNamesWhatStillRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g lifecycle.Group
		release := make(chan struct{})
		stuck := func(context.Context) { <-release }
		g.Go("sweeper", stuck)
		g.Go("heartbeat", stuck)
		g.Go("attempt", stuck)
		g.Go("attempt", stuck)
		g.Go("quick", func(context.Context) {})

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := g.Stop(ctx)
		if got, want := errText(err), "still running: attempt (2), heartbeat, sweeper"; got != want {
			t.Errorf("Stop() = %q, want %q", got, want)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Stop() = %v, want one that is DeadlineExceeded", err)
		}
		var re *lifecycle.RunningError
		if !errors.As(err, &re) || !slices.Equal(re.Names, g.Running()) {
			t.Errorf("Stop() = %v, want a RunningError with names %v", err, g.Running())
		}
		select {
		case <-g.Stopped():
			t.Error("Stopped() is closed while goroutines run")
		default:
		}

		close(release)
		if err := g.Stop(t.Context()); err != nil {
			t.Errorf("second Stop() = %v, want nil", err)
		}
		<-g.Stopped()
	})
}

func TestAnyOrder(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()

	var g lifecycle.Group
	// A context that has ended does not matter when nothing runs.
	for range 2 {
		if err := g.Stop(ended); err != nil {
			t.Fatalf("Stop() of an unused group = %v, want nil", err)
		}
	}
	<-g.Stopped()
	if g.Go("late", func(context.Context) { t.Error("started after Stop") }) {
		t.Error("Go() after Stop = true, want false")
	}
	if got := g.Running(); len(got) != 0 {
		t.Errorf("Running() = %v, want none", got)
	}
}

func TestParentEndsContextNotGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancelCause(t.Context())
		g := lifecycle.New(parent)
		why := errors.New("host went away")
		var cause error
		g.Go("loop", func(ctx context.Context) {
			<-ctx.Done()
			cause = context.Cause(ctx)
		})
		cancel(why)
		synctest.Wait()
		if !errors.Is(cause, why) {
			t.Errorf("cause = %v, want %v", cause, why)
		}
		if !g.Go("after", func(context.Context) {}) {
			t.Error("Go() after the parent ended = false, want true: only Stop ends a group")
		}
		if err := g.Stop(t.Context()); err != nil {
			t.Errorf("Stop() = %v, want nil", err)
		}
	})
}

func TestGoexitCounts(t *testing.T) {
	var g lifecycle.Group
	g.Go("exits", func(context.Context) { runtime.Goexit() })
	if err := g.Stop(t.Context()); err != nil {
		t.Errorf("Stop() = %v, want nil", err)
	}
}

// TestStress starts and stops from many goroutines at once. Under the race
// detector it shows that no goroutine is started after, or missed by, a Stop.
func TestStress(t *testing.T) {
	for range 200 {
		var g lifecycle.Group
		var live, started, refused atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 8 {
					ok := g.Go("worker", func(ctx context.Context) {
						live.Add(1)
						defer live.Add(-1)
						<-ctx.Done()
					})
					if ok {
						started.Add(1)
					} else {
						refused.Add(1)
					}
				}
			})
		}
		for range 3 {
			wg.Go(func() {
				if err := g.Stop(t.Context()); err != nil {
					t.Errorf("Stop() = %v, want nil", err)
				}
				if n := live.Load(); n != 0 {
					t.Errorf("%d goroutines live after Stop, want 0", n)
				}
			})
		}
		wg.Wait()
		<-g.Stopped()
		if got := started.Load() + refused.Load(); got != 64 {
			t.Fatalf("started + refused = %d, want 64", got)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
