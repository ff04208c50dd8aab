// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlive_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/outlivetest"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// does registers an executor that reads input and runs fn.
func does(env *outlivetest.Env, key string, fn func(ctx context.Context, a *work.Attempt) work.Result) {
	env.Register(work.Executor{Key: key, ReadsInput: true, OnLeaseLoss: task.LoseRetry, Drains: true, Run: fn})
}

func done(a *work.Attempt, text string) work.Result {
	r := work.Done(task.Payload{Data: []byte(text)})
	r.Cursor = a.Task().LatestInput
	return r
}

// A parent that waits for its children goes on exactly when they have ended, with a
// notice of each: also if its process dies between any two steps.
func TestParentWaitsForChildren(t *testing.T) {
	t.Parallel()
	for _, crash := range []string{"", "spawned", "waiting", "one"} {
		t.Run(crash, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				env := outlivetest.New(t, nil)
				env.Script("kid.v1")
				stall := crash == "spawned"
				does(env, "parent.v1", func(ctx context.Context, a *work.Attempt) work.Result {
					var kids []task.ID
					for i := range 3 {
						script := fmt.Sprintf("sleep %dm; complete", i+1)
						kid, err := a.Spawn(ctx, work.Child{Executor: "kid.v1", Invocation: fmt.Sprint(i), Input: task.Payload{Data: []byte(script)}})
						if err != nil {
							return work.Retry("spawn", err.Error())
						}
						kids = append(kids, kid.ID)
					}
					if stall {
						stall = false
						<-ctx.Done()
						return work.Yield(nil)
					}
					if row, err := a.Ticket(ctx, "kids"); err != nil || row.Open() {
						return work.Ask(nil, true, work.Children("kids", true, kids...))
					}
					return done(a, "all")
				})
				submit(env, "p", "parent.v1")
				rt := env.Runtime()
				if crash == "one" {
					time.Sleep(90 * time.Second) // fake
					env.Idle()
				}
				if crash != "" {
					env.Crash(outlivetest.Main)
					rt = env.Reopen(outlivetest.Main).Runtime()
				}
				time.Sleep(10 * time.Minute) // fake
				r := wantState(t, env, "p", task.Completed)
				ins, err := rt.Inputs(t.Context(), "p", 0, 0)
				seen := map[string]int{}
				for _, in := range ins {
					seen[in.Kind]++
				}
				// A child whose worker died is run again, which it says in no notice.
				if err != nil || seen["child.completed"] != 3 || r.Children != 3 {
					t.Errorf("inputs %v of %d children, %v, want three ends", seen, r.Children, err)
				}
			})
		})
	}
}

func TestHandOffFencesTheOldOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		env.Script("kid.v1", outlivetest.Input(1), outlivetest.Complete("by the manager")).ReadsInput = true
		var problems []string
		does(env, "parent.v1", func(ctx context.Context, a *work.Attempt) work.Result {
			if a.Number() > 1 {
				return done(a, "") // told that the child goes on in the background
			}
			bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
			h, err := a.Hold(ctx, work.Child{ID: "kid", Executor: "kid.v1", Invocation: "k"})
			if err != nil {
				return work.Fail("hold", err.Error())
			}
			var old *work.Held
			if again, err := a.Hold(ctx, work.Child{ID: "other", Executor: "kid.v1", Invocation: "k"}); err != nil || again.Task().ID != "kid" {
				bad("the same invocation: %v", err)
			} else {
				old = again
			}
			if _, err := a.Hold(ctx, work.Child{Executor: "kid.v1", Invocation: "k", Name: "other"}); !fault.Is(err, fault.Exists) {
				bad("the same key for another request: %v", err)
			}
			if err := h.HandOff(ctx, work.HandOff{Tickets: []mail.Ticket{work.External("go", "")}}); err != nil {
				return work.Fail("handoff", err.Error())
			}
			// A second handle knows the child as it was before.
			for name, try := range map[string]func(*work.Held) error{
				"offer":   func(h *work.Held) error { return h.Offer(ctx, task.Payload{}, 0) },
				"seal":    func(h *work.Held) error { _, err := h.Seal(ctx); return err },
				"fail":    func(h *work.Held) error { return h.Fail(ctx, "x", "") },
				"stopped": func(h *work.Held) error { return h.Stopped(ctx) },
				"handoff": func(h *work.Held) error { return h.HandOff(ctx, work.HandOff{}) },
			} {
				if err := try(old); !fault.Is(err, fault.Fenced) {
					bad("%s after the handoff: %v", name, err)
				}
			}
			return done(a, "")
		})
		submit(env, "p", "parent.v1")
		wantState(t, env, "p", task.Completed)
		for _, p := range problems {
			t.Error(p)
		}
		kid := wantState(t, env, "kid", task.Waiting)
		if kid.Generation != 2 || kid.Owner != task.OwnerManager || kid.Publication != task.OnBackground {
			t.Errorf("child %+v", kid)
		}
		rt := env.Runtime()
		if _, err := rt.Send(t.Context(), "kid", mail.Input{Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		if _, err := rt.Answer(t.Context(), "kid", "go", mail.Decision{Verdict: mail.Answered}); err != nil {
			t.Fatal(err)
		}
		wantState(t, env, "kid", task.Completed)
	})
}

// The end of an attempt that drives a child is refused; one that failed leaves an
// orphan; the next attempt takes a child back, and what was offered is sealed.
func TestHeldChildren(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"done", "retry", "offer", "offer, input", "orphan"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				env := outlivetest.New(t, nil)
				env.Script("kid.v1").ReadsInput = true
				var took []task.State
				does(env, "parent.v1", func(ctx context.Context, a *work.Attempt) work.Result {
					if how == "orphan" && a.Number() > 1 {
						<-ctx.Done()
						return work.Yield(nil)
					}
					h, err := a.Hold(ctx, work.Child{ID: "kid", Executor: "kid.v1", Invocation: "k"})
					if err != nil {
						return work.Fail("hold", err.Error())
					}
					took = append(took, h.Task().State)
					if a.Number() > 1 {
						if !h.Task().State.Terminal() {
							if err := h.Fail(ctx, "gave_up", "second attempt"); err != nil {
								return work.Fail("fail", err.Error())
							}
						}
						return done(a, "")
					}
					if strings.HasPrefix(how, "offer") {
						if err := h.Offer(ctx, task.Payload{Data: []byte("first")}, 0); err != nil {
							return work.Fail("offer", err.Error())
						}
					}
					if how == "done" {
						return done(a, "too early")
					}
					return work.Retry("again", "")
				})
				env.Submit(outlive.Spec{ID: "p", Executor: "parent.v1", MaxAttempts: 2})
				env.Idle()
				if how == "offer, input" {
					if _, err := env.Runtime().Send(t.Context(), "kid", mail.Input{Data: []byte("late")}); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Minute) // fake
				env.Idle()
				p, kid := env.Get("p"), env.Get("kid")
				code := ""
				if kid.Failure != nil {
					code = kid.Failure.Code
				}
				switch how {
				case "done":
					if p.State != task.Failed || !strings.Contains(p.Failure.Message, "neither handed off nor ended") || code != task.CodeOrphaned {
						t.Errorf("parent %s %+v, child %s %s", p.State, p.Failure, kid.State, code)
					}
				case "retry", "offer, input":
					if p.State != task.Completed || code != "gave_up" || kid.Generation != 3 || len(took) != 2 {
						t.Errorf("parent %s %+v, child %s %q generation %d, took %v", p.State, p.Failure, kid.State, code, kid.Generation, took)
					}
				case "offer":
					if p.State != task.Completed || kid.State != task.Completed || string(kid.Result.Data) != "first" {
						t.Errorf("parent %s, child %s", p.State, kid.State)
					}
				case "orphan":
					if kid.State != task.Failed || code != task.CodeOrphaned || kid.Failure.Outcome != task.OutcomeUnknown {
						t.Errorf("child %s %s", kid.State, code)
					}
				}
			})
		})
	}
}

// A cancel reaches the children that are waited for, a thousand in batches, over a
// crash between two of them; those that were detached go on.
func TestCancelCascade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		env.Script("kid.v1", outlivetest.Await("never"))
		const n = 350
		does(env, "parent.v1", func(ctx context.Context, a *work.Attempt) work.Result {
			for i := range n {
				c := work.Child{ID: task.ID(fmt.Sprintf("kid-%03d", i)), Executor: "kid.v1", Detach: i%10 == 0}
				if _, err := a.Spawn(ctx, c); err != nil {
					return work.Fail("spawn", err.Error())
				}
			}
			<-ctx.Done()
			_, err := a.Spawn(context.WithoutCancel(ctx), work.Child{ID: "late", Executor: "kid.v1"})
			if !fault.Is(err, fault.CancelRequested) {
				return work.Fail("late", fmt.Sprint(err))
			}
			return work.Stopped()
		})
		submit(env, "p", "parent.v1")
		rt := env.Runtime()
		// As a process that dies after the first batch would leave it.
		if err := env.Store().Update(t.Context(), nil, func(tx store.Tx) error {
			tx.PutTimer(store.Timer{Kind: store.TimerCascade, Subject: "p", Due: tx.Now().Add(time.Hour), Arg: "kid-099"})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := rt.Cancel(t.Context(), "p", &outlive.CancelOptions{Reason: "enough"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // fake
		wantState(t, env, "p", task.Canceled)
		for i := range n {
			r := env.Get(task.ID(fmt.Sprintf("kid-%03d", i)))
			if detached := i%10 == 0; detached == (r.State == task.Canceled) {
				t.Errorf("child %d is %s", i, r.State)
			} else if !detached && !strings.Contains(r.CancelReason, "its parent p was canceled: enough") {
				t.Errorf("child %d was told %q", i, r.CancelReason)
			}
		}
		var left []store.Timer
		if err := env.Store().View(t.Context(), func(v store.View) (err error) {
			left, err = v.Timers(v.Now().Add(24*time.Hour), 0)
			return err
		}); err != nil || len(left) != 0 {
			t.Errorf("timers %v, %v, want none left", left, err)
		}
	})
}

func TestBudgetsNarrow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		var deepest error
		does(env, "nest.v1", func(ctx context.Context, a *work.Attempt) work.Result {
			_, err := a.Spawn(ctx, work.Child{Executor: "nest.v1", Invocation: "k", MaxAttempts: 9, Timeout: 100 * time.Hour})
			if err != nil {
				deepest = err
			}
			return done(a, "")
		})
		env.Submit(outlive.Spec{ID: "p", Executor: "nest.v1", Timeout: time.Hour, MaxAttempts: 3})
		env.Idle()
		if !fault.Is(deepest, fault.Invalid) || !strings.Contains(deepest.Error(), "the limit is 16") {
			t.Errorf("one level too deep: %v", deepest)
		}
		recs, err := env.Runtime().List(t.Context(), store.Filter{})
		if err != nil || len(recs) != 17 {
			t.Fatalf("%d tasks, %v, want 17 levels", len(recs), err)
		}
		limit := env.Get("p").Deadline
		for _, r := range recs {
			if r.MaxAttempts != 3 || r.Deadline.After(limit) {
				t.Errorf("depth %d: %d attempts until %v", r.Depth, r.MaxAttempts, r.Deadline)
			}
		}
	})
}
