// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlive_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/outlivetest"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// Who should look at what: each task that needs people is told with what it needs, the
// others are not, a retry answers for what it retries, and old failures are let go.
func TestNeedsAttention(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		env.Script("script.v1")
		env.Script("reads.v1").ReadsInput = true
		rt := env.Runtime()
		ctx := t.Context()
		submit := func(id task.ID, script string, change func(*outlive.Spec)) {
			s := outlive.Spec{ID: id, Executor: "script.v1", Input: task.Payload{Data: []byte(script)}}
			if change != nil {
				change(&s)
			}
			env.Submit(s)
			env.Idle()
		}
		submit("t01", "lost gone x", nil)
		<-time.After(8 * 24 * time.Hour)
		submit("t02", "complete", nil)
		submit("t03", "fail bad", nil)
		submit("t04", "lost gone x", nil)
		submit("t05", "retry busy", func(s *outlive.Spec) { s.MaxAttempts = 2 })
		submit("t06", "ask one", nil)
		submit("t07", "ask one two", nil)
		submit("t08", "suspend operator x", nil)
		submit("t09", "await never", nil)
		submit("t10", "lost gone x", nil)
		if err := rt.SetQueue(ctx, store.Queue{Name: "q", Paused: true}); err != nil {
			t.Fatal(err)
		}
		submit("t11", "complete", func(s *outlive.Spec) { s.Queue = "q" })
		submit("t12", "complete", func(s *outlive.Spec) { s.Delay = time.Hour })
		submit("t13", "ask one; complete", func(s *outlive.Spec) { s.Labels = map[string]string{"team": "a"} })
		if _, err := rt.Retry(ctx, "t10", "", func(s *outlive.Spec) { s.ID, s.Input = "t14", task.Payload{Data: []byte("complete")} }); err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Second)
		list := func(f store.Filter) map[task.ID]string {
			found, err := rt.NeedsAttention(ctx, f)
			if err != nil {
				t.Fatal(err)
			}
			got := map[task.ID]string{}
			for i, a := range found {
				got[a.Task.ID] = a.Needs
				if i > 0 && a.Task.ID > found[i-1].Task.ID {
					t.Errorf("%s comes after %s", a.Task.ID, found[i-1].Task.ID)
				}
			}
			return got
		}
		want := map[task.ID]string{
			"t04": "a check, outcome unknown", "t05": "a fix, attempts used up", "t06": "an answer to one",
			"t07": "an answer to one of one, two", "t08": "a release", "t11": "queue q to go on", "t13": "an answer to one",
		}
		got := list(store.Filter{})
		for id := range want {
			if got[id] != want[id] {
				t.Errorf("%s needs %q, want %q", id, got[id], want[id])
			}
		}
		if len(got) != len(want) {
			t.Errorf("got %v", got)
		}
		if got := list(store.Filter{Label: map[string]string{"team": "a"}}); len(got) != 1 || got["t13"] == "" {
			t.Errorf("of team a: %v", got)
		}
		if got := list(store.Filter{Limit: 2}); len(got) != 2 || got["t13"] == "" || got["t11"] == "" {
			t.Errorf("the newest two: %v", got)
		}
		// With nobody to run or stop anything.
		if err := env.Instance(outlivetest.Main).Stop(ctx); err != nil {
			t.Fatal(err)
		}
		passive := env.Start("passive", &outlive.Options{Passive: true})
		rt = passive.Runtime()
		submitTo := outlive.Spec{ID: "t15", Executor: "reads.v1"}
		if _, err := rt.Submit(ctx, submitTo); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		if got := list(store.Filter{}); got["t15"] != "a worker for reads.v1" || got["t09"] != "a worker for script.v1" {
			t.Errorf("with nobody to run it: %v", got)
		}
	})
}

// A parent that waits for its children needs nobody.
func TestNeedsNobodyForChildren(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		env.Script("script.v1")
		does(env, "boss.v1", func(ctx context.Context, a *work.Attempt) work.Result {
			kid, err := a.Spawn(ctx, work.Child{Executor: "script.v1", Input: task.Payload{Data: []byte("await never")}})
			if err != nil {
				return work.Retry("spawn", err.Error())
			}
			return work.Ask(nil, true, work.Children("kids", true, kid.ID))
		})
		env.Submit(outlive.Spec{ID: "boss", Executor: "boss.v1"})
		env.Idle()
		if r := env.Get("boss"); r.State != task.Waiting {
			t.Fatalf("it is %s", outlivetest.Line(r))
		}
		if found, err := env.Runtime().NeedsAttention(t.Context(), store.Filter{}); err != nil || len(found) > 0 {
			t.Errorf("NeedsAttention() = %+v, %v", found, err)
		}
	})
}
