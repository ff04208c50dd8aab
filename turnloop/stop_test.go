// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package turnloop_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/turnloop"
)

// E82: stops add up, and never weaken.
func TestE82_StopsAddUp(t *testing.T) {
	bubble(t, nil, func(s *stage) {
		s.push("a", nil)
		s.run()
		s.Stop(nil)
		s.Stop(&turnloop.StopOptions{At: turnloop.AfterTools, Timeout: time.Minute})
		s.Stop(&turnloop.StopOptions{Timeout: 100 * time.Millisecond})
		s.Stop(&turnloop.StopOptions{Timeout: time.Hour})
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { s.Stop(nil) })
		}
		wg.Wait()
		began := time.Now()
		s.want(s.end(), "a", "", "a", "", turnloop.Stopped)
		if d := time.Since(began); d != 100*time.Millisecond {
			t.Errorf("ended after %v, want the earliest deadline", d)
		}
	})
	bubble(t, nil, func(s *stage) {
		s.push("a", nil)
		s.run()
		s.Stop(nil)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { s.Stop(&turnloop.StopOptions{Immediate: true}) })
		}
		wg.Wait()
		began := time.Now()
		s.want(s.end(), "a", "", "a", "", turnloop.Stopped)
		if d := time.Since(began); d != 0 {
			t.Errorf("ended after %v", d)
		}
	})
}

// A stop when idle lets pushes in until it is.
func TestIdleStop(t *testing.T) {
	bubble(t, nil, func(s *stage) {
		s.run()
		s.Stop(&turnloop.StopOptions{Idle: 10 * time.Second})
		pass(9 * time.Second)
		s.push("a", nil)
		began := time.Now()
		s.want(s.end(), "a", "", "", "", turnloop.Stopped)
		if d := time.Since(began); d != 11*time.Second {
			t.Errorf("ended after %v, want the turn and 10 s", d)
		}
	})
}

// E84: a plan that fails leaves all items where they were.
func TestE84_PlanFails(t *testing.T) {
	boom := errors.New("boom")
	for name, set := range map[string]func(s *stage){
		"GenInput": func(s *stage) {
			s.cfg.GenInput = func(context.Context, []item) (p turnloop.Plan[string], err error) { return p, boom }
		},
		"PrepareAgent": func(s *stage) {
			s.cfg.PrepareAgent = func(context.Context, *turn) (turnloop.Agent, error) { return nil, boom }
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, set, func(s *stage) {
				for _, v := range []string{"a", "b", "c"} {
					s.push(v, nil)
				}
				s.run()
				exit := s.end()
				s.want(exit, "", "abc", "", "", turnloop.Failed)
				if !errors.Is(exit.Err, boom) {
					t.Errorf("error %v", exit.Err)
				}
			})
		})
	}
	bubble(t, func(s *stage) {
		s.cfg.GenInput = func(context.Context, []item) (turnloop.Plan[string], error) { panic("no") }
	}, func(s *stage) {
		s.push("a", nil)
		s.run()
		exit := s.end()
		s.want(exit, "", "a", "", "", turnloop.Failed)
		var p *turnloop.PanicError
		if !errors.As(exit.Err, &p) || p.Value != "no" || len(p.Stack) == 0 {
			t.Errorf("error %v", exit.Err)
		}
	})
}

// A stop at once ends a plan that heeds its context.
func TestStopDuringPlanning(t *testing.T) {
	bubble(t, func(s *stage) {
		s.cfg.GenInput = func(ctx context.Context, _ []item) (p turnloop.Plan[string], err error) {
			<-ctx.Done()
			return p, ctx.Err()
		}
	}, func(s *stage) {
		s.push("a", nil)
		s.run()
		s.Stop(&turnloop.StopOptions{Immediate: true})
		exit := s.end()
		s.want(exit, "", "a", "", "", turnloop.Stopped)
		if exit.Err != nil || !exit.Checkpointed {
			t.Errorf("exit %+v", exit)
		}
	})
}

func TestContextEnds(t *testing.T) {
	bubble(t, nil, func(s *stage) {
		ctx, cancel := context.WithCancelCause(s.t.Context())
		s.push("a", nil)
		s.runIn(ctx)
		ack := s.push("b", &later{Delay: time.Minute})
		cause := errors.New("the server goes down")
		cancel(cause)
		exit := s.end()
		s.want(exit, "a", "b", "a", "", turnloop.ContextEnded)
		if !errors.Is(exit.Err, cause) {
			t.Errorf("error %v", exit.Err)
		}
		s.wantOutcome(ack, turnloop.TurnEnded)
	})
}
