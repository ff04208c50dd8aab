// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlive_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/outlivetest"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// cascaded returns the children that a task's journal says were canceled with it, and
// whether it says so before its end.
func cascaded(t *testing.T, env *outlivetest.Env, id task.ID) (kids []task.ID) {
	t.Helper()
	ended := false
	for e, err := range env.Runtime().Events(t.Context(), id, &outlive.EventsOptions{NoFollow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		ended = ended || journal.Terminal(e.Kind)
		if e.Kind != journal.KindCascaded {
			continue
		}
		var c task.Cascaded
		if err := json.Unmarshal(e.Data, &c); err != nil || ended || len(c.Children) == 0 {
			t.Errorf("%s %s, after the end %v, %v", e.Kind, e.Data, ended, err)
		}
		kids = append(kids, c.Children...)
	}
	return kids
}

// The journal of a canceled parent says which children were canceled with it: those it
// waited for, and not those that have ended or go on.
func TestCancelSaysWhichChildren(t *testing.T) {
	t.Parallel()
	for _, parked := range []bool{true, false} {
		t.Run(fmt.Sprint("parked ", parked), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				env := outlivetest.New(t, nil)
				env.Script("kid.v1")
				does(env, "parent.v1", func(ctx context.Context, a *work.Attempt) work.Result {
					var wait []task.ID
					for _, kid := range []work.Child{
						{ID: "kid-bound"},
						{ID: "kid-done", Input: task.Payload{Data: []byte("complete")}},
						{ID: "kid-detached", Detach: true},
						{ID: "kid-waited", Detach: true},
					} {
						kid.Executor, kid.Invocation = "kid.v1", string(kid.ID)
						if kid.Input.IsZero() {
							kid.Input = task.Payload{Data: []byte("await never")}
						}
						if _, err := a.Spawn(ctx, kid); err != nil {
							return work.Retry("spawn", err.Error())
						}
						wait = append(wait, kid.ID)
					}
					if parked {
						return work.Ask(nil, true, work.Children("kids", true, wait[0], wait[1], wait[3]))
					}
					<-ctx.Done()
					return work.Stopped()
				})
				env.Submit(outlive.Spec{ID: "boss", Executor: "parent.v1"})
				env.Idle()
				if _, err := env.Runtime().Cancel(t.Context(), "boss", &outlive.CancelOptions{Reason: "enough"}); err != nil {
					t.Fatal(err)
				}
				env.Idle()
				want := []task.ID{"kid-bound"}
				if parked {
					want = append(want, "kid-waited")
				}
				if got := cascaded(t, env, "boss"); !slices.Equal(got, want) {
					t.Errorf("the journal says %v, want %v\n%s", got, want, env.Journal("boss"))
				}
				for _, id := range want {
					if r := env.Get(id); r.State != task.Canceled || r.CancelReason != "its parent boss was canceled: enough" {
						t.Errorf("%s is %s", id, outlivetest.Line(r))
					}
				}
				if r := env.Get("kid-detached"); r.State != task.Running {
					t.Errorf("kid-detached is %s", outlivetest.Line(r))
				}
				env.Check()
			})
		})
	}
}

// More children than one transaction takes: each is named once while the parent lives.
func TestCancelSaysWhichOfMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, &outlivetest.Options{Runtime: outlive.Options{Slots: 400}})
		env.Script("kid.v1")
		const many = 250
		does(env, "parent.v1", func(ctx context.Context, a *work.Attempt) work.Result {
			for i := range many {
				c := work.Child{Executor: "kid.v1", Invocation: fmt.Sprint(i), Input: task.Payload{Data: []byte("await never")}}
				if _, err := a.Spawn(ctx, c); err != nil {
					return work.Retry("spawn", err.Error())
				}
			}
			<-ctx.Done()
			<-time.After(time.Minute) // the parent takes its time
			return work.Stopped()
		})
		env.Submit(outlive.Spec{ID: "boss", Executor: "parent.v1"})
		env.Idle()
		if _, err := env.Runtime().Cancel(t.Context(), "boss", nil); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Minute)
		got := cascaded(t, env, "boss")
		slices.Sort(got)
		if n := len(slices.Compact(got)); n != many || len(got) != many {
			t.Errorf("%d children are named, %d of them once, of %d", len(got), n, many)
		}
	})
}

// A budget of tokens only narrows downwards.
func TestTokensNarrow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		env.Script("kid.v1")
		var negative error
		does(env, "parent.v1", func(ctx context.Context, a *work.Attempt) work.Result {
			for id, tokens := range map[task.ID]int64{"kid-same": 0, "kid-less": 10, "kid-more": 5000} {
				if _, err := a.Spawn(ctx, work.Child{ID: id, Executor: "kid.v1", Tokens: tokens}); err != nil {
					return work.Retry("spawn", err.Error())
				}
			}
			_, negative = a.Spawn(ctx, work.Child{Executor: "kid.v1", Tokens: -1})
			return done(a, "")
		})
		env.Submit(outlive.Spec{ID: "boss", Executor: "parent.v1", Tokens: 1000})
		env.Idle()
		for id, want := range map[task.ID]int64{"boss": 1000, "kid-same": 1000, "kid-less": 10, "kid-more": 1000} {
			if r := env.Get(id); r.Tokens != want {
				t.Errorf("%s may use %d tokens, want %d", id, r.Tokens, want)
			}
		}
		_, err := env.Runtime().Submit(t.Context(), outlive.Spec{Executor: "kid.v1", Tokens: -1})
		if !fault.Is(err, fault.Invalid) || !fault.Is(negative, fault.Invalid) {
			t.Errorf("negative budgets: %v, %v", err, negative)
		}
	})
}
