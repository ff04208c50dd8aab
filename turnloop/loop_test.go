// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package turnloop_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/turnloop"
)

type (
	item  = turnloop.Item[string]
	turn  = turnloop.Turn[string]
	loop  = turnloop.Loop[string]
	later = turnloop.Preempt[string]
)

// stage is a loop over strings whose agent takes a while for each item and is at a safe
// point after each.
type stage struct {
	*loop
	t     *testing.T
	mu    sync.Mutex
	turns []string // the items of each turn
	kept  memory
	while time.Duration
	cfg   turnloop.Config[string]
}

// memory is a place for one checkpoint that counts what is done to it.
type memory struct {
	cp             *turnloop.Checkpoint[string]
	saved, deleted int
	fail           error
}

func (m *memory) Load(context.Context) (*turnloop.Checkpoint[string], error) { return m.cp, m.fail }

func (m *memory) Save(_ context.Context, c turnloop.Checkpoint[string]) error {
	m.cp = &c
	m.saved++
	return nil
}

func (m *memory) Delete(context.Context) error {
	m.cp = nil
	m.deleted++
	return nil
}

// pass lets a bubble's time pass.
func pass(d time.Duration) { <-time.After(d) }

func all(_ context.Context, items []item) (turnloop.Plan[string], error) {
	return turnloop.Plan[string]{Consume: items}, nil
}

// bubble runs a test over a stage on fake time; set changes its configuration.
func bubble(t *testing.T, set func(*stage), test func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, while: time.Second}
		s.cfg = turnloop.Config[string]{GenInput: all, PrepareAgent: s.prepare, Checkpoints: &s.kept}
		if set != nil {
			set(s)
		}
		s.open()
		test(s)
	})
}

func (s *stage) open() {
	l, err := turnloop.New(s.cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	s.loop = l
}

func (s *stage) prepare(_ context.Context, tn *turn) (turnloop.Agent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns = append(s.turns, texts(tn.Items)+string(tn.State))
	return s.agent(tn), nil
}

func (s *stage) agent(tn *turn) turnloop.Agent {
	return func(ctx context.Context, at turnloop.SafePoint) iter.Seq2[turnloop.Event, error] {
		return func(yield func(turnloop.Event, error) bool) {
			for _, i := range tn.Items {
				select {
				case <-time.After(s.while):
				case <-ctx.Done():
					yield(nil, ctx.Err())
					return
				}
				if !yield(i.Value, nil) {
					return
				}
				if err := at(turnloop.AfterModel); err != nil {
					var c *turnloop.CancelError
					if errors.As(err, &c) {
						c.State = []byte("!" + i.Value)
					}
					yield(nil, err)
					return
				}
			}
		}
	}
}

func readAll(events iter.Seq2[turnloop.Event, error]) (last error) {
	for _, err := range events {
		last = err
	}
	return last
}

func texts(items []item) string {
	vs := make([]string, len(items))
	for n, i := range items {
		vs[n] = i.Value
	}
	return strings.Join(vs, "")
}

func (s *stage) push(v string, p *later) <-chan turnloop.Outcome {
	s.t.Helper()
	ack, err := s.Push(v, p)
	if err != nil {
		s.t.Fatalf("Push(%s) = %v", v, err)
	}
	return ack
}

func (s *stage) run() { s.runIn(s.t.Context()) }

func (s *stage) runIn(ctx context.Context) {
	s.t.Helper()
	if err := s.Run(ctx); err != nil {
		s.t.Fatal(err)
	}
	synctest.Wait()
}

func (s *stage) end() turnloop.Exit[string] {
	s.t.Helper()
	exit, err := s.Wait(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return exit
}

// want compares the turns there were and an exit.
func (s *stage) want(exit turnloop.Exit[string], turns, unhandled, interrupted, state string, reason turnloop.Reason) {
	s.t.Helper()
	got := fmt.Sprintf("%s: %v | %s | %s %s", exit.Reason, s.turns, texts(exit.Unhandled), texts(exit.Interrupted), exit.State)
	if want := fmt.Sprintf("%s: [%s] | %s | %s %s", reason, turns, unhandled, interrupted, state); got != want {
		s.t.Errorf("got  %s (%v)\nwant %s", got, exit.Err, want)
	}
}

func (s *stage) wantOutcome(ack <-chan turnloop.Outcome, want turnloop.Outcome) {
	s.t.Helper()
	select {
	case got := <-ack:
		if _, more := <-ack; got != want || more {
			s.t.Errorf("outcome %q, want %q once", got, want)
		}
	default:
		s.t.Errorf("no outcome, want %q", want)
	}
}

func TestTurns(t *testing.T) {
	bubble(t, nil, func(s *stage) {
		s.push("a", nil) // before Run
		s.run()
		s.push("b", nil)
		s.push("c", nil)
		pass(10 * time.Second)
		s.push("d", nil)
		synctest.Wait()
		s.Stop(&turnloop.StopOptions{Cause: "done"})
		s.Stop(&turnloop.StopOptions{Cause: "done again"})
		exit := s.end()
		s.want(exit, "a bc d", "", "", "", turnloop.Stopped)
		if exit.Err != nil || exit.Cause != "done" || s.kept.saved+s.kept.deleted > 0 {
			t.Errorf("exit %+v, checkpoints %+v", exit, s.kept)
		}
		if _, err := s.Push("e", nil); !errors.Is(err, turnloop.ErrClosed) {
			t.Errorf("Push after the end = %v", err)
		}
		for range 2 {
			if got := texts(s.TakeLate()); got != "e" {
				t.Errorf("late: %q", got)
			}
		}
		if _, err := s.Push("f", nil); !errors.Is(err, turnloop.ErrTaken) {
			t.Errorf("Push after TakeLate = %v", err)
		}
	})
}

// What a plan leaves is not planned again until something more comes, and what it drops
// is gone.
func TestPlanLeavesAndDrops(t *testing.T) {
	plans := 0
	bubble(t, func(s *stage) {
		s.cfg.GenInput = func(_ context.Context, items []item) (p turnloop.Plan[string], err error) {
			plans++
			for _, i := range items {
				switch {
				case i.Value == "drop":
					p.Drop = append(p.Drop, i)
				case len(items) > 2:
					p.Consume = append(p.Consume, i)
				}
			}
			return p, nil
		}
	}, func(s *stage) {
		s.run()
		for _, v := range []string{"a", "drop", "b", "c"} {
			s.push(v, nil)
			synctest.Wait()
		}
		pass(time.Hour)
		if plans != 4 {
			t.Errorf("planned %d times, want 4", plans)
		}
		s.push("d", nil)
		s.Stop(nil)
		s.want(s.end(), "abc", "d", "", "", turnloop.Stopped)
	})
}

func TestBadPlan(t *testing.T) {
	for name, plan := range map[string]func([]item) turnloop.Plan[string]{
		"a stranger": func([]item) turnloop.Plan[string] { return turnloop.Plan[string]{Consume: []item{{Seq: 9}}} },
		"twice": func(i []item) turnloop.Plan[string] {
			return turnloop.Plan[string]{Consume: i, Drop: i[:1]}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(s *stage) {
				s.cfg.GenInput = func(_ context.Context, items []item) (turnloop.Plan[string], error) { return plan(items), nil }
			}, func(s *stage) {
				s.push("a", nil)
				s.push("b", nil)
				s.run()
				exit := s.end()
				s.want(exit, "", "ab", "", "", turnloop.Failed)
				if !fault.Is(exit.Err, fault.Invalid) {
					t.Errorf("error %v", exit.Err)
				}
			})
		})
	}
}

// E76: pushes race the end. Each is unhandled, or late, or in a turn.
func TestE76_PushesRaceTheEnd(t *testing.T) {
	t.Parallel()
	for range 50 {
		l, err := turnloop.New(turnloop.Config[string]{
			GenInput: func(context.Context, []item) (p turnloop.Plan[string], err error) { return p, nil },
			PrepareAgent: func(context.Context, *turn) (turnloop.Agent, error) {
				return nil, errors.New("not called")
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		const n = 500
		var wg sync.WaitGroup
		var mu sync.Mutex
		accepted, refused := map[string]bool{}, map[string]bool{}
		for i := range n {
			wg.Go(func() {
				v := fmt.Sprint(i)
				_, err := l.Push(v, nil)
				mu.Lock()
				defer mu.Unlock()
				if accepted[v] = err == nil; err != nil {
					refused[v] = true
				}
			})
			if i == n/2 {
				wg.Go(func() { l.Stop(nil) })
			}
		}
		wg.Wait()
		exit, err := l.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range exit.Unhandled {
			if !accepted[i.Value] {
				t.Errorf("%s is unhandled and was refused", i.Value)
			}
		}
		late := l.TakeLate()
		for _, i := range late {
			if !refused[i.Value] {
				t.Errorf("%s is late and was accepted", i.Value)
			}
		}
		if len(exit.Unhandled)+len(late) != n || len(late) != len(refused) {
			t.Errorf("%d unhandled, %d late, %d refused of %d", len(exit.Unhandled), len(late), len(refused), n)
		}
	}
}

// E77: the callback returns before the agent has said that it was cut. What it leaves is
// read after it has ended.
func TestE77_EarlyReturn(t *testing.T) {
	set := func(s *stage) {
		s.cfg.OnEvents = func(_ context.Context, _ *turn, events iter.Seq2[turnloop.Event, error]) error {
			for _, err := range events {
				return err // at the first event
			}
			return nil
		}
	}
	t.Run("stop", func(t *testing.T) {
		bubble(t, set, func(s *stage) {
			s.push("a", nil)
			s.push("b", nil)
			s.run()
			s.Stop(&turnloop.StopOptions{At: turnloop.AnySafePoint})
			s.want(s.end(), "ab", "", "ab", "!a", turnloop.Stopped)
			if s.kept.cp == nil || string(s.kept.cp.State) != "!a" {
				t.Errorf("checkpoint %+v", s.kept.cp)
			}
		})
	})
	t.Run("preempt", func(t *testing.T) {
		bubble(t, set, func(s *stage) {
			s.push("a", nil)
			s.run()
			s.wantOutcome(s.push("b", &later{}), turnloop.Applied)
			pass(1500 * time.Millisecond)
			s.Stop(nil)
			s.want(s.end(), "a ab", "", "", "", turnloop.Stopped)
		})
	})
}

// A callback that reads its events elsewhere, and returns, does not leave the agent
// behind.
func TestEventsReadElsewhere(t *testing.T) {
	bubble(t, func(s *stage) {
		s.cfg.OnEvents = func(_ context.Context, _ *turn, events iter.Seq2[turnloop.Event, error]) error {
			go func() { _ = readAll(events) }()
			pass(time.Millisecond)
			return nil
		}
	}, func(s *stage) {
		s.push("a", nil)
		s.run()
		pass(2 * time.Millisecond)
		s.Stop(nil)
		s.want(s.end(), "a", "", "", "", turnloop.Stopped)
	})
	bubble(t, func(s *stage) {
		s.cfg.OnEvents = func(context.Context, *turn, iter.Seq2[turnloop.Event, error]) error { return nil }
	}, func(s *stage) {
		s.push("a", nil)
		s.run()
		s.want(s.end(), "a", "", "a", "", turnloop.Failed)
	})
}

// E79: a delayed preemption finds its turn over.
func TestE79_StalePreemption(t *testing.T) {
	bubble(t, nil, func(s *stage) {
		s.push("a", nil)
		s.run()
		ack := s.push("b", &later{Delay: 1500 * time.Millisecond})
		pass(time.Second) // a has ended, b runs
		synctest.Wait()
		s.wantOutcome(ack, turnloop.TurnEnded)
		pass(time.Second)
		s.Stop(nil)
		s.want(s.end(), "a b", "", "", "", turnloop.Stopped)
	})
}

// E80: a preemption while a turn is planned cuts that turn when it begins.
func TestE80_PreemptionDuringPlanning(t *testing.T) {
	bubble(t, func(s *stage) {
		s.cfg.GenInput = func(ctx context.Context, items []item) (turnloop.Plan[string], error) {
			pass(time.Second)
			return all(ctx, items)
		}
	}, func(s *stage) {
		s.push("a", nil)
		s.run()
		ack := s.push("b", &later{Immediate: true})
		pass(500 * time.Millisecond)
		select {
		case o := <-ack:
			t.Errorf("%s before the turn began", o)
		default:
		}
		pass(600 * time.Millisecond)
		s.wantOutcome(ack, turnloop.Applied)
		pass(5 * time.Second)
		s.Stop(nil)
		s.want(s.end(), "a ab", "", "", "", turnloop.Stopped)
	})
}

// What was preempted comes back first, with its count, and other outcomes.
func TestPreempted(t *testing.T) {
	bubble(t, nil, func(s *stage) {
		s.wantOutcome(s.push("a", &later{}), turnloop.NotRunning)
		s.run()
		pass(5 * time.Second)
		s.wantOutcome(s.push("b", &later{}), turnloop.NoTarget)
		synctest.Wait()
		s.wantOutcome(s.push("c", &later{At: turnloop.AfterTools, Timeout: 300 * time.Millisecond}), turnloop.Applied)
		pass(400 * time.Millisecond) // no such point came: it is cut at once
		synctest.Wait()
		s.wantOutcome(s.push("d", &later{Decide: func(tn *turn) *later {
			if texts(tn.Items) != "bc" || tn.Items[0].Cuts != 1 || tn.Items[1].Cuts != 0 {
				t.Errorf("Decide sees %+v", tn.Items)
			}
			return nil
		}}), "")
		pass(5 * time.Second)
		s.Stop(nil)
		s.want(s.end(), "a b bc d", "", "", "", turnloop.Stopped)
	})
}

// E81: what was preempted and then stopped is interrupted; only who had a part in the
// cut is told.
func TestE81_PreemptThenStop(t *testing.T) {
	var preempted, stopped bool
	bubble(t, func(s *stage) {
		s.cfg.OnEvents = func(_ context.Context, tn *turn, events iter.Seq2[turnloop.Event, error]) error {
			last := readAll(events)
			closed := func(c <-chan struct{}) bool {
				select {
				case <-c:
					return true
				default:
					return false
				}
			}
			preempted, stopped = closed(tn.Preempted()), closed(tn.Stopped())
			if tn.StopCause() != "why" {
				t.Errorf("StopCause = %q", tn.StopCause())
			}
			return last
		}
	}, func(s *stage) {
		s.push("a", nil)
		s.run()
		s.push("b", &later{})
		s.Stop(&turnloop.StopOptions{At: turnloop.AfterModel, Cause: "why"}) // asks nothing more
		s.want(s.end(), "a", "b", "a", "!a", turnloop.Stopped)
		if !preempted || stopped {
			t.Errorf("preempted %v, stopped %v, want the first alone", preempted, stopped)
		}
	})
}

// A callback's error comes before a cut, and that before an interrupt.
func TestReasons(t *testing.T) {
	boom := errors.New("boom")
	agentSays := func(err error) func(*stage) {
		return func(s *stage) {
			s.cfg.PrepareAgent = func(context.Context, *turn) (turnloop.Agent, error) {
				return func(context.Context, turnloop.SafePoint) iter.Seq2[turnloop.Event, error] {
					return func(yield func(turnloop.Event, error) bool) {
						pass(time.Second)
						yield(nil, err)
					}
				}, nil
			}
		}
	}
	both := func(s *stage) {
		agentSays(fmt.Errorf("%w and %w", &turnloop.CancelError{State: []byte("c")}, &turnloop.InterruptError{State: []byte("i")}))(s)
	}
	for _, tt := range []struct {
		name   string
		set    func(*stage)
		stop   *turnloop.StopOptions
		reason turnloop.Reason
		items  string
		state  string
	}{
		{"the agent fails", agentSays(boom), nil, turnloop.Failed, "a", ""},
		{"it ends as cut, and nobody asked", agentSays(&turnloop.CancelError{}), nil, turnloop.Failed, "a", ""},
		{"cut and interrupted", both, &turnloop.StopOptions{At: turnloop.AnySafePoint}, turnloop.Stopped, "a", "c"},
		{"it waits while it is stopped", agentSays(&turnloop.InterruptError{State: []byte("i")}), &turnloop.StopOptions{At: turnloop.AnySafePoint}, turnloop.Interrupted, "a", "i"},
		{"the callback fails on top", func(s *stage) {
			both(s)
			s.cfg.OnEvents = func(_ context.Context, _ *turn, events iter.Seq2[turnloop.Event, error]) error {
				_ = readAll(events)
				return boom
			}
		}, &turnloop.StopOptions{At: turnloop.AnySafePoint}, turnloop.Failed, "a", "c"},
		{"it ends well although it is cut", nil, &turnloop.StopOptions{At: turnloop.AfterTools}, turnloop.Stopped, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, tt.set, func(s *stage) {
				s.push("a", nil)
				s.run()
				if tt.stop != nil {
					s.Stop(tt.stop)
				} else {
					time.AfterFunc(time.Minute, func() { s.Stop(nil) })
				}
				exit := s.end()
				if got := texts(exit.Interrupted); exit.Reason != tt.reason || got != tt.items || string(exit.State) != tt.state {
					t.Errorf("%s, interrupted %q, state %q (%v); want %s, %q, %q", exit.Reason, got, exit.State, exit.Err, tt.reason, tt.items, tt.state)
				}
			})
		})
	}
}

func TestBadUse(t *testing.T) {
	t.Parallel()
	prepare := func(context.Context, *turn) (turnloop.Agent, error) { return nil, nil }
	for _, cfg := range []turnloop.Config[string]{
		{}, {GenInput: all}, {PrepareAgent: prepare}, {GenInput: all, PrepareAgent: prepare, Limit: -1},
	} {
		if _, err := turnloop.New(cfg); !fault.Is(err, fault.Invalid) {
			t.Errorf("New(%+v) = %v", cfg, err)
		}
	}
	l, err := turnloop.New(turnloop.Config[string]{GenInput: all, PrepareAgent: prepare, Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := l.Push("a", nil); err != nil {
			t.Error(err)
		}
	}
	if _, err := l.Push("a", nil); !errors.Is(err, turnloop.ErrFull) {
		t.Errorf("Push into a full loop = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait = %v", err)
	}
	if late := l.TakeLate(); late != nil {
		t.Errorf("late before the end: %v", late)
	}
	if err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Run(t.Context()); !fault.Is(err, fault.Conflict) {
		t.Errorf("the second Run = %v", err)
	}
	exit, err := l.Wait(t.Context())
	if err != nil || exit.Reason != turnloop.Failed || texts(exit.Unhandled) != "aa" {
		t.Errorf("without an agent: %+v, %v", exit, err)
	}
	l.Stop(nil) // nothing
}
