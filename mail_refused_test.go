// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlive_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/apply"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/outlivetest"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// refusal is one bad request: what it is told, word for word. The text is what a person
// or a model has to act on.
type refusal struct {
	name string
	do   func(ctx context.Context, rt *outlive.Runtime) error
	kind fault.Kind
	text string
}

// What mail refuses, and with which words. Nothing of it leaves a trace.
func TestMailRefuses(t *testing.T) {
	t.Parallel()
	answer := func(id task.ID, ticket task.TicketID, d mail.Decision) func(context.Context, *outlive.Runtime) error {
		return func(ctx context.Context, rt *outlive.Runtime) error {
			_, err := rt.Answer(ctx, id, ticket, d)
			return err
		}
	}
	value := func(text string) mail.Decision {
		return mail.Decision{Verdict: mail.Answered, Media: "application/json", Value: []byte(text), By: "bob"}
	}
	send := func(id task.ID, in mail.Input) func(context.Context, *outlive.Runtime) error {
		return func(ctx context.Context, rt *outlive.Runtime) error {
			_, err := rt.Send(ctx, id, in)
			return err
		}
	}
	for _, tt := range []refusal{
		{"unknown ticket", answer("asks", "nosuch", value("1")), fault.NotFound, "answer ticket nosuch of task asks: no such ticket: nosuch"},
		{"unknown ticket, by message", send("asks", mail.Input{Delivery: mail.Answer, Ticket: "nosuch"}), fault.NotFound, "send to task asks: no such ticket: nosuch"},
		{"no ticket of many", answer("asks", "", value("1")), fault.Invalid, "answer task asks: it asks more than one thing: size, order"},
		{"answered ticket", answer("asks", "soon", value(`"other"`)), fault.Conflict, "answer ticket soon of task asks: the ticket was decided before"},
		{"expired ticket", answer("late", "q", value("1")), fault.Conflict, "answer ticket q of task late: the ticket has expired"},
		{"wrong shape", answer("asks", "size", value(`"big"`)), fault.Invalid, "answer ticket size of task asks: ticket size: answer at the top: is string, want integer"},
		{"wrong shape, deep", answer("asks", "order", value(`{"items": [{"n": 1}, {"n": 0}]}`)), fault.Invalid, "answer ticket order of task asks: ticket order: answer at /items/1/n: is below the minimum 1"},
		{"missing member", answer("asks", "order", value(`{}`)), fault.Invalid, "answer ticket order of task asks: ticket order: answer at /items: is missing"},
		{"no option", answer("choice", "", value("green")), fault.Invalid, `answer ticket colour of task choice: ticket colour: "green" is none of the options ["red" "blue"]`},
		{"id used for other content", send("asks", mail.Input{ID: "m", Data: []byte("other")}), fault.Conflict, `send to task asks: send to asks: input id "m" was used with other content`},
		{"sealed, completed", send("ended", mail.Input{ID: "x"}), fault.Finished, "send to task ended: send task ended: the task has ended: completed"},
		{"sealed, failed", send("failed", mail.Input{ID: "x"}), fault.Finished, "send to task failed: send task failed: the task has ended: failed (bad: it broke)"},
		{"sealed, canceled", send("canceled", mail.Input{ID: "x"}), fault.Finished, "send to task canceled: send task canceled: the task has ended: canceled (enough)"},
		{"answer to what has ended", answer("canceled", "q", value("1")), fault.Finished, "answer ticket q of task canceled: the task has ended: canceled (enough)"},
		{"oversize", send("asks", mail.Input{ID: "x", Data: make([]byte, 1<<20+1)}), fault.Invalid, "send to task asks: input: 1048577 bytes, the limit is 1048576"},
		{"oversize id", send("asks", mail.Input{ID: string(make([]byte, 1025))}), fault.Invalid, "send to task asks: input id: 1025 bytes, the limit is 1024"},
		{"no mailbox", send("deaf", mail.Input{ID: "x"}), fault.NoInput, "send to task deaf: send task deaf: the executor does not read input"},
		{"no task", send("nosuch", mail.Input{ID: "x"}), fault.NotFound, "send to task nosuch: no such task"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				env := refusing(t)
				rt := env.Runtime()
				err := tt.do(t.Context(), rt)
				if got := fmt.Sprint(err); fault.KindOf(err) != tt.kind || got != tt.text {
					t.Errorf("kind %v, %q\nwant %v, %q", fault.KindOf(err), got, tt.kind, tt.text)
				}
				var f *task.FinishedError
				if (tt.kind == fault.Finished) != errors.As(err, &f) || f != nil && !f.Record.State.Terminal() {
					t.Errorf("how it ended: %+v", f)
				}
				if r := env.Get("asks"); r.LatestInput != 2 || len(r.Tickets) != 2 {
					t.Errorf("asks is %s", outlivetest.Line(r))
				}
				env.Check()
			})
		})
	}
}

// refusing has tasks that wait, have ended, and read nothing.
func refusing(t *testing.T) *outlivetest.Env {
	t.Helper()
	env := outlivetest.New(t, nil)
	env.Script("script.v1").ReadsInput = true
	env.Script("deaf.v1")
	ask := func(key string, tickets ...mail.Ticket) {
		does(env, key, func(_ context.Context, a *work.Attempt) work.Result {
			r := work.Ask(nil, true, tickets...)
			r.Cursor = a.Task().LatestInput
			return r
		})
	}
	size, order := work.Question("size", "How big?"), work.Question("order", "What?")
	size.Schema = []byte(`{"type": "integer"}`)
	order.Schema = []byte(`{"type": "object", "required": ["items"], "properties": {"items": {"type": "array",
		"items": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}}}}`)
	ask("asks.v1", size, order, work.Question("soon", "Now?"))
	ask("choice.v1", work.Question("colour", "Which?", "red", "blue"))
	q := work.Question("q", "Well?")
	q.ExpiresAt = time.Now().Add(time.Minute)
	ask("late.v1", q, work.Question("other", "And?"))
	for id, script := range map[task.ID]string{"ended": "complete done", "failed": "fail bad it broke", "canceled": "ask q"} {
		env.Submit(outlive.Spec{ID: id, Executor: "script.v1", Input: task.Payload{Data: []byte(script)}})
	}
	env.Submit(outlive.Spec{ID: "deaf", Executor: "deaf.v1", Input: task.Payload{Data: []byte("await never")}})
	for _, id := range []task.ID{"asks", "choice", "late"} {
		env.Submit(outlive.Spec{ID: id, Executor: string(id) + ".v1"})
	}
	<-time.After(2 * time.Minute)
	env.Idle()
	rt := env.Runtime()
	if _, err := rt.Cancel(t.Context(), "canceled", &outlive.CancelOptions{Reason: "enough"}); err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Answer(t.Context(), "asks", "soon", mail.Decision{Verdict: mail.Answered, Value: []byte("yes"), By: "ann"}); err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Send(t.Context(), "asks", mail.Input{ID: "m", Data: []byte("first")}); err != nil {
		t.Fatal(err)
	}
	env.Idle()
	return env
}

// A proof of another parent's attempt makes no child, and takes none over.
func TestProofOfAnotherParent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		env.Script("script.v1")
		for _, id := range []task.ID{"mine", "other"} {
			env.Submit(outlive.Spec{ID: id, Executor: "script.v1", Input: task.Payload{Data: []byte("await never")}})
		}
		env.Submit(outlive.Spec{ID: "again", Executor: "script.v1", MaxAttempts: 2, Input: task.Payload{Data: []byte("retry busy | await never")}})
		<-time.After(time.Minute)
		hold := func(parent, of task.ID) task.Hold {
			r := env.Get(of)
			return task.Hold{Parent: parent, Attempt: r.Attempt, Lease: r.Lease, Generation: 1}
		}
		create := func(id, parent task.ID, h task.Hold, generation int64) error {
			c := task.Create{Record: task.Record{ID: id, Executor: "script.v1", Parent: parent, Owner: task.OwnerParent, Hold: h, Publication: task.Deferred}}
			return env.Store().Update(t.Context(), apply.CreateKeys(&c.Record), func(tx store.Tx) error {
				_, err := apply.CreateOwned(tx, c, generation)
				return err
			})
		}
		if err := create("kid", "mine", hold("mine", "mine"), 1); err != nil {
			t.Fatal(err)
		}
		for name, tt := range map[string]struct {
			err  error
			text string
		}{
			"the attempt of another parent": {create("bad1", "mine", hold("mine", "again"), 1), "create task under mine: attempt was replaced"},
			"another generation":            {create("bad2", "mine", hold("mine", "mine"), 2), "create task under mine: attempt was replaced"},
			"a parent that is not there":    {create("bad3", "nosuch", hold("nosuch", "mine"), 1), "create task under nosuch: attempt was replaced"},
		} {
			if !fault.Is(tt.err, fault.Fenced) || tt.err.Error() != tt.text {
				t.Errorf("%s: %v, want %q", name, tt.err, tt.text)
			}
		}
		err := env.Store().Update(t.Context(), apply.Keys("kid"), func(tx store.Tx) error {
			_, err := apply.Step(tx, "kid", task.Retake{Hold: hold("other", "again")})
			return err
		})
		if want := "retake task kid: the attempt does not hold the task any more: not the next attempt of its parent"; !fault.Is(err, fault.Fenced) || err.Error() != want {
			t.Errorf("another parent takes it: %v, want %q", err, want)
		}
		if kids, err := env.Runtime().Children(t.Context(), "mine", "", 0); err != nil || len(kids) != 1 {
			t.Errorf("%d children, %v", len(kids), err)
		}
	})
}
