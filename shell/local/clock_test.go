// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/shell"
)

// TestT19 steps the clock of the wall, by an hour at each look and in both directions:
// a command is stopped neither early nor late, since its limit is on another clock. The
// time during which the machine is suspended does not count.
func TestT19(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]time.Duration{"forward": time.Hour, "back": -time.Hour} {
		var looks atomic.Int64
		began := time.Now().Round(0)
		s := &Shell{wall: func() time.Time { return began.Add(time.Duration(looks.Add(1)) * step) }}
		run := func(text string, limit time.Duration) (shell.Exit, time.Duration) {
			t.Helper()
			at := time.Now()
			r := sh(t, text)
			r.Timeout = limit
			resp, err := s.Execute(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			return resp.Exit, time.Since(at)
		}
		if e, took := run("sleep 0.2", 10*time.Second); !e.Succeeded() {
			t.Errorf("%s: stopped early: %+v after %v", name, e, took)
		}
		e, took := run("sleep 60", 300*time.Millisecond)
		if e.Cause != shell.TimedOut || took < 300*time.Millisecond || took > 10*time.Second {
			t.Errorf("%s: %+v after %v, want timed_out after 300ms", name, e, took)
		}
		if d := e.EndedAt.Sub(e.StartedAt); d.Abs() != time.Hour {
			t.Errorf("%s: the records are dated %v apart, want the hour that the clock was stepped", name, d)
		}
	}
}
