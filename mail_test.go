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
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/outlivetest"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// asks registers an executor that asks the tickets, and when it runs again completes
// with what they were decided.
func asks(env *outlivetest.Env, key string, reads, all bool, tickets ...mail.Ticket) {
	env.Register(work.Executor{
		Key: key, ReadsInput: reads, OnLeaseLoss: task.LoseRetry, Drains: true,
		Run: func(ctx context.Context, a *work.Attempt) work.Result {
			var said []string
			open := 0
			for _, t := range tickets {
				row, err := a.Ticket(ctx, task.TicketID(t.ID))
				switch {
				case fault.Is(err, fault.NotFound):
					open++
				case err != nil:
					return work.Retry("read", err.Error())
				case row.Open():
					open++
				default:
					said = append(said, fmt.Sprintf("%s=%s %s", row.ID, row.Decision.Verdict, row.Decision.Value))
				}
			}
			if open == len(tickets) || all && open > 0 {
				r := work.Ask(nil, all, tickets...)
				r.Cursor = a.Task().LatestInput
				return r
			}
			r := work.Done(task.Payload{Data: []byte(strings.Join(said, ", "))})
			r.Cursor = a.Task().LatestInput
			return r
		},
	})
}

func submit(env *outlivetest.Env, id task.ID, key string) {
	env.Submit(outlive.Spec{ID: id, Executor: key})
	env.Idle()
}

func wantState(t *testing.T, env *outlivetest.Env, id task.ID, want task.State) task.Record {
	t.Helper()
	env.Idle()
	r := env.Get(id)
	if r.State != want {
		t.Fatalf("task %s is %s, want %s\n%s", id, r.State, want, env.Journal(id))
	}
	return r
}

func TestAnswerOnceAndSurviveRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		q := work.Question("q", "How many?")
		q.Schema = []byte(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)
		asks(env, "ask.v1", true, false, q)
		submit(env, "t", "ask.v1")
		wantState(t, env, "t", task.Waiting)
		env.Crash(outlivetest.Main) // nothing runs while the answer is given
		other := env.Start("other", &outlive.Options{Passive: true}).Runtime()
		ctx := t.Context()
		yes := mail.Decision{Verdict: mail.Answered, Value: []byte(`{"n":3}`), By: "ann"}
		for ticket, c := range map[task.TicketID]struct {
			d    mail.Decision
			kind fault.Kind
			text string
		}{
			"x": {yes, fault.NotFound, "no such ticket"},
			"q": {mail.Decision{Verdict: mail.Answered, Value: []byte(`{"n":"3"}`)}, fault.Invalid, "at /n: is string, want integer"},
		} {
			if _, err := other.Answer(ctx, "t", ticket, c.d); !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("Answer(%s) = %v, want %s", ticket, err, c.text)
			}
		}
		if _, err := other.Answer(ctx, "t", "q", mail.Decision{Verdict: mail.Approved}); !fault.Is(err, fault.Invalid) {
			t.Errorf("approve a question: %v", err)
		}
		if _, err := other.Answer(ctx, "none", "q", yes); !fault.Is(err, fault.NotFound) {
			t.Errorf("answer no task: %v", err)
		}
		for range 2 { // again, as after a lost answer
			row, err := other.Answer(ctx, "t", "", yes)
			if env.Get("t").State == task.Pending && len(env.Get("t").Tickets) == 0 && err != nil {
				row, err = other.Answer(ctx, "t", "q", yes)
			}
			if err != nil || string(row.Decision.Value) != `{"n":3}` {
				t.Fatalf("Answer = %+v, %v", row, err)
			}
		}
		row, err := other.Answer(ctx, "t", "q", mail.Decision{Verdict: mail.Answered, Value: []byte(`{"n":4}`), By: "bob"})
		if !errors.Is(err, mail.ErrDecided) || row.Decision.By != "ann" {
			t.Errorf("a later decider gets %+v, %v", row.Decision, err)
		}
		wantState(t, env, "t", task.Pending)
		env.Reopen(outlivetest.Main)
		r := wantState(t, env, "t", task.Completed)
		if got := string(r.Result.Data); got != `q=answered {"n":3}` {
			t.Errorf("result %q", got)
		}
		ins, err := other.Inputs(ctx, "t", 0, 0)
		if err != nil || len(ins) != 1 || ins[0].Ticket != "q" || ins[0].Kind != "answer.answered" || ins[0].Delivery != mail.Answer {
			t.Errorf("inputs %+v, %v, want the one answer", ins, err)
		}
		if _, err := other.Answer(ctx, "t", "q", yes); err != nil {
			t.Errorf("the same answer after the end: %v", err)
		}
	})
}

func TestTicketExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		a, err := work.Approval("a", "Delete?", []byte(`{"path":"/x"}`))
		if err != nil {
			t.Fatal(err)
		}
		a.ExpiresAt = time.Now().Add(time.Hour)
		asks(env, "ask.v1", false, false, a)
		submit(env, "t", "ask.v1")
		wantState(t, env, "t", task.Waiting)
		time.Sleep(time.Hour + 2*time.Second) // fake
		r := wantState(t, env, "t", task.Completed)
		if got := string(r.Result.Data); got != "a=expired " {
			t.Errorf("result %q", got)
		}
		if row, err := env.Runtime().Answer(t.Context(), "t", "a", mail.Decision{Verdict: mail.Approved}); !errors.Is(err, mail.ErrExpired) || row.Approves(a.ArgsDigest) {
			t.Errorf("Answer after the time = %v", err)
		}
	})
}

func TestTicketsAllOfTwoAndWithdrawnAtEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		asks(env, "all.v1", true, true, work.Question("q1", "One?"), work.External("q2", "Two?"))
		submit(env, "t", "all.v1")
		submit(env, "u", "all.v1")
		ctx, rt := t.Context(), env.Runtime()
		if _, err := rt.Answer(ctx, "t", "", mail.Decision{Verdict: mail.Answered}); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "q1, q2") {
			t.Errorf("Answer without a ticket = %v", err)
		}
		if _, err := rt.Answer(ctx, "t", "q2", mail.Decision{Verdict: mail.Answered, Value: []byte("2")}); err != nil {
			t.Fatal(err)
		}
		wantState(t, env, "t", task.Waiting)
		// One question is left: a message answers it, another queues.
		in, err := rt.Send(ctx, "t", mail.Input{ID: "m", Data: []byte("1"), From: "ann"})
		if err != nil || in.Ticket != "q1" {
			t.Fatalf("Send = %+v, %v", in, err)
		}
		if again, err := rt.Send(ctx, "t", mail.Input{ID: "m", Data: []byte("1"), From: "ann"}); err != nil || again.Seq != in.Seq {
			t.Errorf("Send again = %+v, %v", again, err)
		}
		r := wantState(t, env, "t", task.Completed)
		if got := string(r.Result.Data); got != "q1=answered 1, q2=answered 2" {
			t.Errorf("result %q", got)
		}
		if _, err := rt.Cancel(ctx, "u", nil); err != nil {
			t.Fatal(err)
		}
		rows, err := rt.Tickets(ctx, "u")
		if err != nil || len(rows) != 2 || rows[0].Open() || rows[0].Decision.Verdict != mail.Withdrawn {
			t.Errorf("tickets after the end = %+v, %v", rows, err)
		}
		if _, err := rt.Answer(ctx, "u", "q1", mail.Decision{Verdict: mail.Answered}); !fault.Is(err, fault.Finished) {
			t.Errorf("Answer after the end = %v", err)
		}
		if _, err := rt.Send(ctx, "u", mail.Input{}); !fault.Is(err, fault.Finished) {
			t.Errorf("Send after the end = %v", err)
		}
	})
}

func TestSteerWakesAndQueueDoesNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		ex := env.Script("wait.v1", outlivetest.Ask("q1", "q2"))
		ex.ReadsInput = true
		submit(env, "t", "wait.v1")
		ctx, rt := t.Context(), env.Runtime()
		if _, err := rt.Send(ctx, "t", mail.Input{Data: []byte("later")}); err != nil {
			t.Fatal(err)
		}
		if r := wantState(t, env, "t", task.Waiting); r.Attempt != 1 {
			t.Errorf("a message woke it: attempt %d", r.Attempt)
		}
		if _, err := rt.Send(ctx, "t", mail.Input{Data: []byte("now"), Delivery: mail.Steer}); err != nil {
			t.Fatal(err)
		}
		if r := wantState(t, env, "t", task.Waiting); r.Attempt != 2 || len(r.Tickets) != 2 {
			t.Errorf("after steer: attempt %d, tickets %v", r.Attempt, r.Tickets)
		}
		if _, err := rt.Send(ctx, "t", mail.Input{Data: make([]byte, 1<<20+1)}); !fault.Is(err, fault.Invalid) {
			t.Errorf("an input of 1 MiB and a byte: %v", err)
		}
	})
}

func TestEditAndWithdraw(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		env.Script("read.v1").ReadsInput = true
		script := "await go; input 2; commit two; await end; complete early | input 1; complete done"
		env.Submit(outlive.Spec{ID: "t", Executor: "read.v1", Input: task.Payload{Data: []byte(script)}})
		env.Idle()
		ctx, rt := t.Context(), env.Runtime()
		for _, id := range []string{"a", "b", "c"} {
			if _, err := rt.Send(ctx, "t", mail.Input{ID: id, Data: []byte(id), From: "ann"}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := rt.Edit(ctx, "t", mail.Input{ID: "a", From: "bob"}); !fault.Is(err, fault.NotFound) {
			t.Errorf("edit by another one: %v", err)
		}
		if in, err := rt.Edit(ctx, "t", mail.Input{ID: "a", From: "ann", Data: []byte("A")}); err != nil || in.Seq != 1 {
			t.Errorf("Edit = %+v, %v", in, err)
		}
		env.Signal("go")
		env.Idle()
		if _, err := rt.Withdraw(ctx, "t", "b", "ann"); !errors.Is(err, task.ErrConsumed) {
			t.Errorf("withdraw what is consumed: %v", err)
		}
		for range 2 {
			if _, err := rt.Withdraw(ctx, "t", "c", "ann"); err != nil {
				t.Errorf("Withdraw: %v", err)
			}
		}
		if _, err := rt.Edit(ctx, "t", mail.Input{ID: "c", From: "ann"}); !fault.Is(err, fault.Conflict) {
			t.Errorf("edit what is withdrawn: %v", err)
		}
		ins, err := rt.Inputs(ctx, "t", 0, 0)
		if err != nil || len(ins) != 3 || string(ins[0].Data) != "A" || ins[2].Kind != "withdrawn" || ins[2].Data != nil {
			t.Errorf("inputs %+v, %v", ins, err)
		}
		env.Signal("end")
		wantState(t, env, "t", task.Completed)
		if _, err := rt.Edit(ctx, "t", mail.Input{ID: "a", From: "ann"}); !fault.Is(err, fault.Finished) {
			t.Errorf("edit after the end: %v", err)
		}
	})
}

// An approval runs what was approved, at most once over any crash.
func TestApprovalRunsAtMostOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, &outlivetest.Options{Runtime: outlive.Options{Lease: 5 * time.Second}})
		args := []byte(`{"path":"/x","force":true}`)
		ran := 0
		env.Register(work.Executor{
			Key: "del.v1", ReadsInput: true, OnLeaseLoss: task.LoseRetry,
			Run: func(ctx context.Context, a *work.Attempt) work.Result {
				row, err := a.Ticket(ctx, "ok")
				if err != nil || row.Open() {
					ask, err := work.Approval("ok", "Delete /x?", args)
					if err != nil {
						return work.Fail("args", err.Error())
					}
					return work.Ask(nil, true, ask)
				}
				if err := a.Claim(ctx, "ok", []byte(`{"path":"/y","force":true}`)); row.ClaimedAt.IsZero() && !fault.Is(err, fault.Forbidden) {
					return work.Fail("other", fmt.Sprint("other arguments: ", err))
				}
				switch err := a.Claim(ctx, "ok", []byte(`{"force":true, "path":"\/x"}`)); {
				case fault.Is(err, fault.UnknownOutcome):
					return work.Lost("unknown", err.Error())
				case err != nil:
					return work.Fail("denied", err.Error())
				}
				ran++
				if a.Task().Description == "crash" {
					<-ctx.Done() // the process dies here
					return work.Fail("dead", "")
				}
				if err := a.Settle(ctx, "ok"); err != nil {
					return work.Retry("settle", err.Error())
				}
				r := work.Done(task.Payload{})
				r.Cursor = a.Task().LatestInput
				return r
			},
		})
		yes := mail.Decision{Verdict: mail.Approved, By: "ann"}
		submit(env, "t", "del.v1")
		if _, err := env.Runtime().Answer(t.Context(), "t", "ok", yes); err != nil {
			t.Fatal(err)
		}
		wantState(t, env, "t", task.Completed)
		env.Submit(outlive.Spec{ID: "u", Executor: "del.v1", Description: "crash"})
		env.Idle()
		if _, err := env.Runtime().Answer(t.Context(), "u", "ok", yes); err != nil {
			t.Fatal(err)
		}
		env.Idle()
		env.Crash(outlivetest.Main)
		env.Start("next", nil)
		time.Sleep(time.Minute) // fake: the lease runs out
		if r := wantState(t, env, "u", task.Failed); r.Failure.Outcome != task.OutcomeUnknown || r.Failure.Code != "unknown" {
			t.Errorf("failure %+v", r.Failure)
		}
		next := env.Instance("next").Runtime()
		if _, err := next.Submit(t.Context(), outlive.Spec{ID: "v", Executor: "del.v1"}); err != nil {
			t.Fatal(err)
		}
		env.Idle()
		if _, err := next.Answer(t.Context(), "v", "ok", mail.Decision{Verdict: mail.Denied}); err != nil {
			t.Fatal(err)
		}
		wantState(t, env, "v", task.Failed)
		if ran != 2 {
			t.Errorf("it ran %d times, want once for t and once for u", ran)
		}
	})
}

func TestRetentionForgets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		env.Script("one.v1", outlivetest.Emit("x"), outlivetest.Complete("done"))
		env.Submit(outlive.Spec{ID: "t", Executor: "one.v1", Retention: time.Hour, Invocation: "k"})
		wantState(t, env, "t", task.Completed)
		time.Sleep(time.Hour - time.Minute) // fake
		env.Get("t")
		time.Sleep(2 * time.Minute)
		env.Idle()
		if _, err := env.Runtime().Get(t.Context(), "t"); !fault.Is(err, fault.NotFound) {
			t.Errorf("Get after the retention = %v", err)
		}
		// The key outlives the task, and then goes.
		r, err := env.Runtime().Submit(t.Context(), outlive.Spec{Executor: "one.v1", Retention: time.Hour, Invocation: "k"})
		if err != nil || r.ID != "t" {
			t.Errorf("Submit with the old key = %s, %v", r.ID, err)
		}
	})
}
