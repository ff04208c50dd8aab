// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package turnloop_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlive-dev/outlive/turnloop"
)

// E85: what is kept for the next loop, and what is not.
func TestE85_WhatIsKept(t *testing.T) {
	stale := &turnloop.Checkpoint[string]{Unhandled: []item{{Seq: 7, Value: "s"}}}
	for _, tt := range []struct {
		name           string
		set            func(*stage)
		do             func(*stage)
		reason         turnloop.Reason
		saved, deleted int
		kept           string // interrupted, unhandled
	}{
		{"stopped in a turn", nil, func(s *stage) {
			s.push("b", nil)
			s.Stop(&turnloop.StopOptions{At: turnloop.AnySafePoint})
		}, turnloop.Stopped, 1, 0, "sa,b"},
		{"stopped idle", nil, func(s *stage) {
			pass(time.Minute)
			s.Stop(nil)
		}, turnloop.Stopped, 0, 1, ""},
		{"a callback fails while it stops", func(s *stage) {
			s.cfg.OnEvents = func(_ context.Context, _ *turn, events iter.Seq2[turnloop.Event, error]) error {
				_ = readAll(events)
				return errors.New("boom")
			}
		}, func(s *stage) { s.Stop(&turnloop.StopOptions{At: turnloop.AnySafePoint}) }, turnloop.Failed, 0, 0, ",s"},
		{"skipped", nil, func(s *stage) {
			s.Stop(&turnloop.StopOptions{At: turnloop.AnySafePoint, SkipCheckpoint: true})
		}, turnloop.Stopped, 0, 1, ""},
		{"the context ends", nil, nil, turnloop.ContextEnded, 0, 0, ",s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(s *stage) {
				s.kept.cp = stale
				if tt.set != nil {
					tt.set(s)
				}
			}, func(s *stage) {
				ctx, cancel := context.WithCancel(s.t.Context())
				defer cancel()
				s.push("a", nil)
				s.runIn(ctx)
				if tt.do == nil {
					cancel()
				} else {
					tt.do(s)
				}
				exit := s.end()
				kept := ""
				if cp := s.kept.cp; cp != nil {
					kept = texts(cp.Interrupted) + "," + texts(cp.Unhandled)
				}
				if exit.Reason != tt.reason || s.kept.saved != tt.saved || s.kept.deleted != tt.deleted || kept != tt.kept || exit.Checkpointed != (tt.saved > 0) {
					t.Errorf("%s, saved %d, deleted %d, kept %q, exit %+v; want %s, %d, %d, %q", exit.Reason, s.kept.saved, s.kept.deleted, kept, exit, tt.reason, tt.saved, tt.deleted, tt.kept)
				}
			})
		})
	}
}

// E86: a checkpoint that cannot be read ends the loop; nothing pushed is lost.
func TestE86_BrokenCheckpoint(t *testing.T) {
	broken := errors.New("not a checkpoint")
	bubble(t, func(s *stage) { s.kept.fail = broken }, func(s *stage) {
		s.push("a", nil)
		s.run()
		exit := s.end()
		s.want(exit, "", "a", "", "", turnloop.Failed)
		if !errors.Is(exit.Err, broken) || s.kept.saved+s.kept.deleted > 0 {
			t.Errorf("exit %+v, %+v", exit, s.kept)
		}
	})
}

func interrupted() *turnloop.Checkpoint[string] {
	return &turnloop.Checkpoint[string]{
		Interrupted: []item{{Seq: 3, Value: "i"}}, State: []byte("!half"), Unhandled: []item{{Seq: 5, Value: "u"}},
	}
}

func TestResume(t *testing.T) {
	resume := func(yes bool) func(*stage) {
		return func(s *stage) {
			s.kept.cp = interrupted()
			s.cfg.GenResume = func(_ context.Context, r turnloop.Resume[string]) (p turnloop.ResumePlan[string], err error) {
				got := texts(r.Interrupted) + " " + string(r.State) + " " + texts(r.Unhandled) + " " + texts(r.New)
				if got != "i !half u n" {
					t.Errorf("GenResume sees %s", got)
				}
				if p.Resume = yes; yes {
					p.Consume = r.New
				} else {
					p.Consume = slices.Concat(r.New, r.Interrupted)
				}
				return p, nil
			}
		}
	}
	t.Run("goes on", func(t *testing.T) {
		bubble(t, resume(true), func(s *stage) {
			s.push("n", nil)
			s.run()
			if s.kept.cp == nil {
				t.Error("the checkpoint is gone while its turn runs")
			}
			pass(10 * time.Second)
			s.Stop(nil)
			s.want(s.end(), "in!half", "u", "", "", turnloop.Stopped)
		})
	})
	t.Run("anew", func(t *testing.T) {
		bubble(t, resume(false), func(s *stage) {
			s.push("n", nil)
			s.run()
			if s.kept.cp != nil || s.kept.deleted != 1 {
				t.Error("an abandoned checkpoint is there while the new turn runs")
			}
			pass(10 * time.Second)
			s.Stop(nil)
			s.want(s.end(), "ni", "u", "", "", turnloop.Stopped)
		})
	})
	t.Run("without GenResume", func(t *testing.T) {
		bubble(t, func(s *stage) { s.kept.cp = interrupted() }, func(s *stage) {
			s.push("n", nil)
			s.run()
			pass(10 * time.Second)
			s.Stop(nil)
			s.want(s.end(), "iun", "", "", "", turnloop.Stopped)
		})
	})
	t.Run("stopped before", func(t *testing.T) {
		bubble(t, resume(true), func(s *stage) {
			s.push("n", nil)
			s.Stop(nil)
			s.run()
			s.want(s.end(), "", "un", "i", "!half", turnloop.Stopped)
			if cp := s.kept.cp; cp == nil || string(cp.State) != "!half" {
				t.Errorf("kept %+v", cp)
			}
		})
	})
	t.Run("the agent cannot be made", func(t *testing.T) {
		bubble(t, func(s *stage) {
			resume(true)(s)
			s.cfg.PrepareAgent = func(context.Context, *turn) (turnloop.Agent, error) { return nil, errors.New("boom") }
		}, func(s *stage) {
			s.push("n", nil)
			s.run()
			s.want(s.end(), "", "un", "i", "!half", turnloop.Failed)
			if diff := cmp.Diff(interrupted(), s.kept.cp); diff != "" {
				t.Errorf("the checkpoint has changed:\n%s", diff)
			}
		})
	})
}

// E87: a push whose strategy still runs is waited for before a turn is resumed.
func TestE87_ResumeWaitsForStrategies(t *testing.T) {
	bubble(t, func(s *stage) {
		s.kept.cp = interrupted()
		s.cfg.GenResume = func(_ context.Context, r turnloop.Resume[string]) (p turnloop.ResumePlan[string], err error) {
			p.Resume, p.Consume = true, r.New
			return p, nil
		}
	}, func(s *stage) {
		go func() {
			_, _ = s.Push("n", &later{Decide: func(*turn) *later {
				pass(time.Second)
				return nil
			}})
		}()
		synctest.Wait()
		s.run()
		pass(10 * time.Second)
		s.Stop(nil)
		s.want(s.end(), "in!half", "u", "", "", turnloop.Stopped)
	})
}

// An agent that waits for somebody ends the loop; the next one goes on.
func TestInterrupt(t *testing.T) {
	bubble(t, func(s *stage) {
		s.cfg.PrepareAgent = func(_ context.Context, tn *turn) (turnloop.Agent, error) {
			s.turns = append(s.turns, texts(tn.Items)+string(tn.State))
			if tn.State != nil {
				return s.agent(tn), nil
			}
			return func(context.Context, turnloop.SafePoint) iter.Seq2[turnloop.Event, error] {
				return func(yield func(turnloop.Event, error) bool) {
					yield(nil, &turnloop.InterruptError{Info: "may I?", State: []byte("?")})
				}
			}, nil
		}
		s.cfg.GenResume = func(_ context.Context, r turnloop.Resume[string]) (p turnloop.ResumePlan[string], err error) {
			p.Resume, p.Consume = true, r.New
			return p, nil
		}
	}, func(s *stage) {
		s.push("a", nil)
		s.run()
		exit := s.end()
		s.want(exit, "a", "", "a", "?", turnloop.Interrupted)
		var i *turnloop.InterruptError
		if !errors.As(exit.Err, &i) || i.Info != "may I?" || !exit.Checkpointed {
			t.Errorf("exit %+v", exit)
		}
		s.open()
		s.push("yes", nil)
		s.run()
		pass(10 * time.Second)
		s.Stop(nil)
		s.want(s.end(), "a ayes?", "", "", "", turnloop.Stopped)
		if s.kept.cp != nil {
			t.Errorf("kept %+v", s.kept.cp)
		}
	})
}
