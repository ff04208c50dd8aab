// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package tooltest_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/outlivetest"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool"
	"github.com/outlive-dev/outlive/tool/control"
	"github.com/outlive-dev/outlive/tool/tooltest"
	"github.com/outlive-dev/outlive/work"
)

func TestResumable(t *testing.T) {
	t.Parallel()
	tooltest.Run(t, func() tooltest.Subject {
		s := subject()
		s.Survives = true
		s.Executor = tool.Resumable{Key: "sample.v1", Check: check, Run: func(ctx context.Context, j *tool.Job) (tool.Result, error) {
			var a sampleArgs
			if err := tool.Decode(j.Args, &a); err != nil {
				return tool.Result{}, err
			}
			switch {
			case a.Panic:
				panic("sample")
			case a.Slow:
				select {
				case <-time.After(time.Minute):
				case <-ctx.Done():
					return tool.Result{}, context.Cause(ctx)
				}
				a.Text = "slow done"
			}
			return tool.Result{Text: a.Text}, nil
		}}.Executor()
		return s
	})
}

// world is one test of a tool that asks.
type world struct {
	*testing.T
	env  *outlivetest.Env
	call tool.Result
}

func (w *world) control(o control.Options, name, args string) tool.Result {
	w.Helper()
	o.Runtime = w.env.Runtime()
	for _, tl := range control.New(o).Tools() {
		if tl.Name != name {
			continue
		}
		r, err := tl.Call(w.Context(), tool.Caller{}, json.RawMessage(strings.ReplaceAll(args, "ID", string(w.call.Task))))
		if err != nil {
			w.Fatalf("%s(%s) = %v", name, args, err)
		}
		return r
	}
	w.Fatalf("there is no tool %s", name)
	return tool.Result{}
}

func (w *world) want(r tool.Result, parts ...string) {
	w.Helper()
	for _, p := range parts {
		if !strings.Contains(r.Text, p) {
			w.Errorf("text is %q, want %q", r.Text, p)
		}
	}
}

// asking runs a test of a resumable tool, called once.
func asking(t *testing.T, run func(ctx context.Context, j *tool.Job) (tool.Result, error), test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, env: outlivetest.New(t, nil)}
		w.env.Register(tool.Resumable{Key: "asks.v1", Run: run}.Executor())
		var err error
		tl := tool.Managed(tool.ManagedOptions{Runtime: w.env.Runtime(), Executor: "asks.v1", Name: "asks"})
		if w.call, err = tl.Call(t.Context(), tool.Caller{}, json.RawMessage(`{}`)); err != nil {
			t.Fatal(err)
		}
		test(w)
	})
}

// Given a tool that asks a question, its call returns, the question is shown, the
// answer is checked, counts once and is given to the tool, also after a crash.
func TestAskAndAnswer(t *testing.T) {
	t.Parallel()
	run := func(ctx context.Context, j *tool.Job) (tool.Result, error) {
		d, err := j.Ask(ctx, work.Question("colour", "Which colour?", "red", "blue"))
		if err != nil {
			return tool.Result{}, err
		}
		size := work.Question("size", "How big?")
		size.Schema = json.RawMessage(`{"type": "integer", "minimum": 1}`)
		e, err := j.Ask(ctx, size)
		if err != nil {
			return tool.Result{}, err
		}
		return tool.Result{Text: string(d.Value) + " " + string(e.Value)}, nil
	}
	asking(t, run, func(w *world) {
		if !w.call.Detached || w.env.Get(w.call.Task).State != task.Waiting {
			w.Errorf("Call() = %+v of %s", w.call, outlivetest.Line(w.env.Get(w.call.Task)))
		}
		w.want(w.call, "it waits for an answer")
		var none control.Options
		w.want(w.control(none, "task_list", `{}`), `it asks colour: "Which colour?" (one of "red", "blue")`)
		w.want(w.control(none, "task_output", `{"task_id": "ID"}`), "waiting for colour", `it asks colour: "Which colour?"`)
		w.want(w.control(none, "task_answer", `{"task_id": "ID", "value": "green"}`), "not accepted", "none of the options")
		w.want(w.control(none, "task_answer", `{"task_id": "ID", "ticket": "x", "value": "red"}`), `it has no ticket "x"; it asks colour`)
		w.want(w.control(none, "task_answer", `{"task_id": "nosuch", "value": "red"}`), "There is no task")
		w.env.Crash(outlivetest.Main)
		w.env.Reopen(outlivetest.Main)
		w.want(w.control(none, "task_answer", `{"task_id": "ID", "value": "red"}`), "accepted as the answer to colour")
		w.env.Idle()
		w.want(w.control(none, "task_answer", `{"task_id": "ID", "ticket": "colour", "value": "blue"}`), `decided before: answered "red"`)
		w.want(w.control(none, "task_answer", `{"task_id": "ID", "value": "0"}`), "not accepted", "size")
		w.want(w.control(none, "task_answer", `{"task_id": "ID", "value": "3"}`), "accepted as the answer to size")
		w.env.Idle()
		w.want(w.control(none, "task_output", `{"task_id": "ID"}`), ": completed", "red 3")
		w.want(w.control(none, "task_answer", `{"task_id": "ID", "value": "3"}`), "it takes nothing any more: completed")
	})
}

// Given a call that a person must approve, the model cannot; once approved it runs
// once, also when its worker dies before; killed inside the call the outcome is
// unknown, and the call is not repeated.
func TestApproval(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, want string
		verdict    mail.Verdict
		crash      bool
	}{
		{"approved", "deleted", mail.Approved, false},
		{"denied", "does not let these arguments through", mail.Denied, false},
		{"killed inside", "lost", mail.Approved, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			run := func(ctx context.Context, j *tool.Job) (tool.Result, error) {
				err := j.Approved(ctx, "delete", "Delete all?", json.RawMessage(`{"path": "all"}`), func(context.Context) error {
					calls.Add(1)
					<-time.After(time.Second)
					return nil
				})
				return tool.Result{Text: "deleted"}, err
			}
			asking(t, run, func(w *world) {
				var none control.Options
				w.want(w.control(none, "task_answer", `{"task_id": "ID", "value": "approve"}`), "an approval, which a person decides")
				w.want(w.control(control.Options{MayApprove: true}, "task_answer", `{"task_id": "ID", "value": "yes"}`), `the value is "approve" or "deny"`)
				if calls.Load() != 0 {
					w.Error("it ran before it was approved")
				}
				if _, err := w.env.Runtime().Answer(w.Context(), w.call.Task, "delete", mail.Decision{Verdict: tt.verdict, By: "ann"}); err != nil {
					w.Fatal(err)
				}
				w.env.Idle()
				if tt.crash {
					w.env.Crash(outlivetest.Main)
					w.env.Reopen(outlivetest.Main)
				}
				if _, err := w.env.Runtime().Wait(w.Context(), w.call.Task, outlive.Terminal); err != nil {
					w.Fatal(err)
				}
				w.want(w.control(none, "task_output", `{"task_id": "ID"}`), tt.want)
				if n := calls.Load(); n > 1 || (n == 1) != (tt.verdict == mail.Approved) {
					w.Errorf("it ran %d times", n)
				}
			})
		})
	}
}

// Given a tool that is not resumable, it cannot ask.
func TestOnlyResumableAsks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		var got error
		env.Register(tool.Plain{Key: "plain.v1", Run: func(ctx context.Context, j *tool.Job) (tool.Result, error) {
			_, got = j.Ask(ctx, work.Question("q", "?"))
			return tool.Result{}, got
		}}.Executor())
		env.Submit(outlive.Spec{Executor: "plain.v1"})
		env.Idle()
		if !fault.Is(got, fault.Unsupported) {
			t.Errorf("Ask() = %v, want Unsupported", got)
		}
	})
}
