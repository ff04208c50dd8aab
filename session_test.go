// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlive_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/outlivetest"
	"github.com/outlive-dev/outlive/session"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// chat registers an executor whose turns wait for the signal "end" and answer with
// all they were told.
func chat(env *outlivetest.Env, heard *[]string, end <-chan struct{}) {
	env.Register(work.Executor{
		Key: "chat.v1", ReadsInput: true, OnLeaseLoss: task.LoseRetry, Drains: true,
		Run: func(ctx context.Context, a *work.Attempt) work.Result {
			r := a.Task()
			said := []string{string(r.Spec.Data)}
			if r.LatestInput == 0 || r.LatestInput == r.ConsumedInput {
				select {
				case <-end:
				case <-ctx.Done():
					return work.Stopped()
				}
			} else {
				for in, err := range a.Inputs(ctx) {
					if err != nil {
						return work.Stopped()
					}
					said = append(said, in.Kind+":"+string(in.Data))
					r.ConsumedInput = in.Seq
					if in.Seq >= r.LatestInput {
						break
					}
				}
			}
			*heard = append(*heard, strings.Join(said, "|"))
			done := work.Done(task.Payload{Data: []byte("ok")})
			done.Cursor = r.ConsumedInput
			return done
		},
	})
}

func say(env *outlivetest.Env, text string, busy session.Policy) (task.Record, error) {
	defer env.Idle()
	return env.Runtime().Submit(context.Background(), outlive.Spec{
		Executor: "chat.v1", Session: "s", Principal: "ann", Busy: busy, Input: task.Payload{Media: "text/plain", Data: []byte(text)},
	})
}

func TestSessionPolicies(t *testing.T) {
	t.Parallel()
	for policy, want := range map[session.Policy][]string{
		"":                {"one", "one|message:two"},
		session.Enqueue:   {"one", "one|message:two"},
		session.Steer:     {"one", "one|message:two"},
		session.Interrupt: {"two"},
		session.Rollback:  {"two"},
		session.Reject:    {"one"},
	} {
		t.Run(fmt.Sprintf("%q", policy), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				env := outlivetest.New(t, nil)
				var heard []string
				end := make(chan struct{})
				chat(env, &heard, end)
				first, err := say(env, "one", policy)
				if err != nil {
					t.Fatal(err)
				}
				second, err := say(env, "two", policy)
				if policy == session.Reject {
					if !errors.Is(err, session.ErrBusy) {
						t.Errorf("a second message = %v, want refused", err)
					}
				} else if err != nil || second.ID != first.ID {
					t.Errorf("a second message = %s, %v, want the unfinished task's %s", second.ID, err, first.ID)
				}
				close(end)
				env.Idle()
				if got := fmt.Sprint(heard); got != fmt.Sprint(want) {
					t.Errorf("heard %v, want %v", got, want)
				}
				s, err := env.Runtime().Session(t.Context(), "s")
				if err != nil || s.Active != "" || s.Waiting != 0 {
					t.Errorf("session %+v, %v, want idle", s, err)
				}
				var last int64
				withdrawn := 0
				for e, err := range env.Runtime().SessionEvents(t.Context(), "s", &outlive.EventsOptions{NoFollow: true}) {
					if err != nil || e.Seq != last+1 {
						t.Fatalf("entry %d after %d, %v", e.Seq, last, err)
					}
					last = e.Seq
					if e.Kind == journal.KindTurnWithdrawn {
						withdrawn++
					}
				}
				if (withdrawn == 1) != (policy == session.Rollback) {
					t.Errorf("%d turns withdrawn", withdrawn)
				}
			})
		})
	}
}

func TestSessionBelongsToItsPrincipal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		var heard []string
		end := make(chan struct{})
		close(end)
		chat(env, &heard, end)
		if _, err := say(env, "mine", ""); err != nil {
			t.Fatal(err)
		}
		_, err := env.Runtime().Submit(t.Context(), outlive.Spec{Executor: "chat.v1", Session: "s", Principal: "bob"})
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("another one's session: %v", err)
		}
		if _, err := env.Runtime().Session(t.Context(), "x"); !fault.Is(err, fault.NotFound) {
			t.Errorf("no session: %v", err)
		}
		if _, err := say(env, "x", "loud"); !fault.Is(err, fault.Invalid) {
			t.Errorf("no policy: %v", err)
		}
		// The same request again is the same turn.
		spec := outlive.Spec{Executor: "chat.v1", Session: "s", Principal: "ann", Invocation: "k", Input: task.Payload{Data: []byte("once")}}
		a, err1 := env.Runtime().Submit(t.Context(), spec)
		b, err2 := env.Runtime().Submit(t.Context(), spec)
		if err1 != nil || err2 != nil || a.ID != b.ID {
			t.Errorf("the same request: %s, %s, %v, %v", a.ID, b.ID, err1, err2)
		}
	})
}

// A child that outlives its turn wakes the idle session when it ends.
func TestChildWakesIdleSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		env.Script("slow.v1", outlivetest.Sleep(time.Hour), outlivetest.Complete("done"))
		var turns []string
		env.Register(work.Executor{
			Key: "chat.v1", ReadsInput: true, OnLeaseLoss: task.LoseRetry,
			Run: func(ctx context.Context, a *work.Attempt) work.Result {
				r := a.Task()
				if string(r.Spec.Data) == "start" {
					if _, err := a.Spawn(ctx, work.Child{ID: "kid", Executor: "slow.v1", Invocation: "kid"}); err != nil {
						return work.Retry("spawn", err.Error())
					}
				}
				said := string(r.Spec.Data)
				if r.LatestInput > 0 {
					for in, err := range a.Inputs(ctx) {
						if err != nil {
							return work.Stopped()
						}
						said += in.Kind
						r.ConsumedInput = in.Seq
						break
					}
				}
				if string(r.Spec.Data) != "start" || r.LatestInput > 0 {
					turns = append(turns, said)
				}
				done := work.Done(task.Payload{})
				done.Cursor = r.LatestInput
				return done
			},
		})
		if _, err := say(env, "start", ""); err != nil {
			t.Fatal(err)
		}
		s, err := env.Runtime().Session(t.Context(), "s")
		if err != nil || s.Active != "" {
			t.Fatalf("session %+v, %v, want idle while the child runs", s, err)
		}
		time.Sleep(time.Hour + time.Minute) // fake
		env.Idle()
		s, err = env.Runtime().Session(t.Context(), "s")
		if err != nil || s.Turns < 2 || !strings.Contains(strings.Join(turns, " "), "child.completed") {
			t.Errorf("session %+v, %v; turns %q, want one woken by the child's end", s, err, turns)
		}
	})
}

func TestOutbox(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		env.Script("one.v1", outlivetest.Complete("done"))
		rt := outlive.New(env.Store(), nil)
		got := map[string]int{}
		down := true
		rt.Subscribe("hook", func(_ context.Context, d store.Delivery) error {
			got[d.Message.ID]++
			if down {
				return errors.New("down")
			}
			return nil
		})
		if err := rt.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := rt.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		env.Submit(outlive.Spec{ID: "t", Executor: "one.v1", Notify: "hook"})
		time.Sleep(24 * time.Hour) // fake: it is given up
		list, err := rt.Outbox(t.Context(), "hook", 0)
		if err != nil || len(list) != 2 || list[0].Dead == "" || !strings.Contains(list[0].Dead, "after 12 tries: down") {
			t.Fatalf("outbox %+v, %v, want two given up", list, err)
		}
		if n := got[list[0].Message.ID]; n != 12 {
			t.Errorf("offered %d times, want 12", n)
		}
		down = false
		for _, d := range list {
			if err := rt.Replay(t.Context(), "hook", d.Message.ID); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Minute)
		if list, err := rt.Outbox(t.Context(), "hook", 0); err != nil || len(list) != 0 {
			t.Errorf("outbox after the replay %+v, %v", list, err)
		}
		if err := rt.Replay(t.Context(), "hook", "x"); !fault.Is(err, fault.NotFound) {
			t.Errorf("replay nothing: %v", err)
		}
	})
}
