// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlive_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/outlivetest"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// turn is one attempt of the executor of a session as it began.
type turn struct {
	at   time.Time
	said string
	read []string // kinds, with the child
}

// sessions registers chat.v1: it starts the children that its payload names, one a
// line as "NAME SCRIPT", reads all input there is, and ends.
func sessions(env *outlivetest.Env, reads bool, turns *[]turn) {
	env.Script("kid.v1")
	env.Register(work.Executor{
		Key: "chat.v1", ReadsInput: true, OnLeaseLoss: task.LoseRetry, Drains: true,
		Run: func(ctx context.Context, a *work.Attempt) work.Result {
			r := a.Task()
			now := turn{at: time.Now(), said: string(r.Spec.Data)}
			for line := range strings.Lines(now.said) {
				name, script, _ := strings.Cut(strings.TrimSpace(line), " ")
				c := work.Child{ID: task.ID(name), Executor: "kid.v1", Invocation: name, Input: task.Payload{Data: []byte(script)}, Detach: true}
				if _, err := a.Spawn(ctx, c); err != nil {
					return work.Retry("spawn", err.Error())
				}
			}
			if !reads {
				*turns = append(*turns, now)
				return work.Done(task.Payload{})
			}
			for cursor := r.ConsumedInput; cursor < r.LatestInput; {
				for in, err := range a.Inputs(ctx) {
					if err != nil {
						return work.Yield(nil)
					}
					now.read = append(now.read, in.From+" "+in.Kind)
					if cursor = in.Seq; cursor == r.LatestInput {
						break
					}
				}
			}
			*turns = append(*turns, now)
			done := work.Done(task.Payload{})
			done.Cursor = r.LatestInput
			return done
		},
	})
}

// Given three tasks that end within 200 ms, the idle session is woken once, and the
// turn has all three notices; a later end wakes it again.
func TestNoticesOfASessionAreBatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		var turns []turn
		sessions(env, true, &turns)
		began := time.Now()
		if _, err := say(env, "a sleep 60s; complete\nb sleep 60100ms; complete\nc sleep 60199ms; complete\nd sleep 61s; complete", ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute) // fake
		env.Idle()
		want := []turn{
			{at: began.Add(60200 * time.Millisecond), read: []string{"a child.completed", "b child.completed", "c child.completed"}},
			{at: began.Add(61200 * time.Millisecond), read: []string{"d child.completed"}},
		}
		got := turns[1:]
		if len(got) != len(want) {
			t.Fatalf("%d turns were woken, want %d: %v", len(got), len(want), got)
		}
		for i := range want {
			late := got[i].at.Sub(want[i].at)
			if !slices.Equal(got[i].read, want[i].read) || late < 0 || late > 10*time.Millisecond {
				t.Errorf("turn %d read %q, %v after it was to be woken; want %q", i, got[i].read, late, want[i].read)
			}
		}
	})
}

// A message of a person is not gathered.
func TestMessageToAnIdleSessionWaitsForNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		var turns []turn
		sessions(env, true, &turns)
		began := time.Now()
		if _, err := say(env, "a complete", ""); err != nil {
			t.Fatal(err)
		}
		env.Idle()
		if len(turns) == 0 || !turns[0].at.Equal(began) {
			t.Errorf("turns %v, want one at once", turns)
		}
	})
}

// asker is a child that asks n times, one question after another.
func asker(n int) string {
	var steps []string
	for i := range n {
		steps = append(steps, fmt.Sprintf("ask q%d", i+1))
	}
	return strings.Join(append(steps, "complete "+strings.Repeat("x", 5000)), " | ")
}

func answer(t *testing.T, env *outlivetest.Env, id task.ID, ticket string) {
	t.Helper()
	wantState(t, env, id, task.Waiting)
	if _, err := env.Runtime().Answer(t.Context(), id, task.TicketID(ticket), mail.Decision{Verdict: mail.Answered}); err != nil {
		t.Fatal(err)
	}
	env.Idle()
}

// unread lists what the task has not consumed of its mailbox, without what was
// withdrawn.
func unread(t *testing.T, env *outlivetest.Env, id task.ID) (list []mail.Input) {
	t.Helper()
	list, err := env.Runtime().Inputs(t.Context(), id, env.Get(id).ConsumedInput, store.MaxPage)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list, func(in mail.Input) bool { return in.Kind == mail.KindWithdrawn })
}

// At most two notices of a child wait, of at most 4 KiB, with a reference to the rest
// and the count of those they stand for.
func TestNoticeBudgetOfAMailbox(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		env.Script("kid.v1")
		var read []string
		does(env, "parent.v1", func(ctx context.Context, a *work.Attempt) work.Result {
			if _, err := a.Spawn(ctx, work.Child{ID: "kid", Executor: "kid.v1", Invocation: "kid", Input: task.Payload{Data: []byte(asker(5))}}); err != nil {
				return work.Retry("spawn", err.Error())
			}
			cursor := int64(0)
			for in, err := range a.Inputs(ctx) { // the first one is read, and not committed
				if err != nil {
					return work.Yield(nil)
				}
				read = append(read, in.Kind)
				if in.Kind == "go" {
					break
				}
				if cursor = in.Seq; in.Kind == "commit" {
					if err := a.CommitInput(ctx, cursor, nil); err != nil {
						return work.Retry("commit", err.Error())
					}
				}
			}
			<-ctx.Done()
			return work.Yield(nil)
		})
		submit(env, "p", "parent.v1")
		ctx, rt := t.Context(), env.Runtime()
		for i := range 3 {
			answer(t, env, "kid", fmt.Sprintf("q%d", i+1))
		}
		wantState(t, env, "kid", task.Waiting)
		check := func(kinds string, suppressed int) mail.Notice {
			t.Helper()
			list := unread(t, env, "p")
			var got []string
			for _, in := range list {
				got = append(got, in.Kind)
				if len(in.Data) > mail.MaxNotice {
					t.Errorf("%s has %d bytes", in.Kind, len(in.Data))
				}
			}
			n, ok := mail.NoticeOf(list[0])
			if strings.Join(got, " ") != kinds || !ok || n.Task != "kid" || n.Suppressed != suppressed {
				t.Fatalf("unread %q, the first %+v; want %q and %d suppressed", got, n, kinds, suppressed)
			}
			last, _ := mail.NoticeOf(list[len(list)-1])
			return last
		}
		check("child.waiting", 3)
		// The parent, which runs, has seen each of them: none is taken from who reads.
		if got := strings.Join(read, " "); got != strings.TrimSpace(strings.Repeat("child.waiting ", 4)) {
			t.Errorf("it read %q, want all four", got)
		}
		// What is consumed is not replaced.
		if _, err := rt.Send(ctx, "p", mail.Input{Kind: "commit"}); err != nil {
			t.Fatal(err)
		}
		env.Idle()
		answer(t, env, "kid", "q4")
		wantState(t, env, "kid", task.Waiting)
		check("child.waiting", 0)
		answer(t, env, "kid", "q5")
		wantState(t, env, "kid", task.Completed)
		last := check("child.waiting child.completed", 0)
		if len(last.Summary)+last.Rest != 5000 || last.Rest == 0 || !strings.HasPrefix(last.Summary, "xxx") {
			t.Errorf("the end has %d bytes of the result and says that %d are left, want 5000 together", len(last.Summary), last.Rest)
		}
		ins, err := rt.Inputs(ctx, "p", 0, 0)
		if err != nil || int64(len(ins)) != env.Get("p").LatestInput {
			t.Errorf("%d inputs, %v, want every place kept", len(ins), err)
		}
		if _, err := rt.Cancel(ctx, "p", nil); err != nil {
			t.Fatal(err)
		}
	})
}

// The same of a session that is idle and that notices do not wake.
func TestNoticeBudgetOfAnInbox(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		env.Script("kid.v1")
		env.Register(work.Executor{
			Key: "deaf.v1", OnLeaseLoss: task.LoseRetry,
			Run: func(ctx context.Context, a *work.Attempt) work.Result {
				if _, err := a.Spawn(ctx, work.Child{ID: "kid", Executor: "kid.v1", Invocation: "kid", Input: task.Payload{Data: []byte(asker(4))}, Detach: true}); err != nil {
					return work.Retry("spawn", err.Error())
				}
				return work.Done(task.Payload{})
			},
		})
		env.Submit(outlive.Spec{ID: "p", Executor: "deaf.v1", Session: "s"})
		for i := range 4 {
			answer(t, env, "kid", fmt.Sprintf("q%d", i+1))
		}
		wantState(t, env, "kid", task.Completed)
		list, err := env.Runtime().Outbox(t.Context(), store.InboxTarget("s"), 0)
		if err != nil || len(list) != 2 {
			t.Fatalf("inbox %+v, %v, want two notices", list, err)
		}
		first, _ := mail.NoticeOf(list[0].Message)
		if list[0].Message.Kind != "child.waiting" || first.Suppressed != 3 || list[1].Message.Kind != "child.completed" || len(list[1].Message.Data) > mail.MaxNotice {
			t.Errorf("inbox %s %+v, %s of %d bytes; want the last question, which stands for three, and the end", list[0].Message.Kind, first, list[1].Message.Kind, len(list[1].Message.Data))
		}
	})
}

// Given an executor that never consumes its notices, it is not woken for ever, and the
// notices stay until somebody speaks to the session.
func TestFruitlessTurnsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		var turns []turn
		sessions(env, false, &turns)
		if _, err := say(env, "a sleep 1m; complete", ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // fake
		env.Idle()
		s, err := env.Runtime().Session(t.Context(), "s")
		if err != nil || s.Active != "" || s.Turns > 5 || s.Waiting != 1 {
			t.Fatalf("session %+v, %v, want idle after few turns with the notice in its inbox", s, err)
		}
		before := s.Turns
		if _, err := say(env, "", ""); err != nil {
			t.Fatal(err)
		}
		env.Idle()
		if s, err = env.Runtime().Session(t.Context(), "s"); err != nil || s.Turns != before+1 || s.Waiting != 1 {
			t.Errorf("session %+v, %v, want one turn more, and the notice still there", s, err)
		}
	})
}

// What a parent or a session is told the outbox target of their family is not told, not
// even that a child was created: it would never hear of its end.
func TestOutboxHearsOfWhatNobodyElseDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		env.Script("kid.v1")
		spawns := func(key string, reads bool) {
			env.Register(work.Executor{
				Key: key, ReadsInput: reads, OnLeaseLoss: task.LoseRetry,
				Run: func(ctx context.Context, a *work.Attempt) work.Result {
					kid := work.Child{ID: a.ID() + "-kid", Executor: "kid.v1", Invocation: "kid", Input: task.Payload{Data: []byte("ask q | complete")}, Detach: true}
					if _, err := a.Spawn(ctx, kid); err != nil {
						return work.Retry("spawn", err.Error())
					}
					return done(a, "")
				},
			})
		}
		spawns("reads.v1", true)
		spawns("deaf.v1", false)
		for _, s := range []outlive.Spec{
			{ID: "a", Executor: "reads.v1"}, // ends before its child: that is told to the target
			{ID: "b", Executor: "deaf.v1", Session: "s"},
			{ID: "c", Executor: "deaf.v1"},
		} {
			s.Notify = "hook"
			env.Submit(s)
			answer(t, env, s.ID+"-kid", "q")
			wantState(t, env, s.ID+"-kid", task.Completed)
		}
		list, err := env.Runtime().Outbox(t.Context(), "hook", store.MaxPage)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, d := range list {
			got[d.Message.From] += " " + d.Message.Kind
		}
		for from, want := range map[string]string{
			"a": " task.created task.completed", "a-kid": " child.waiting child.completed", "b-kid": "",
			"c-kid": " child.created child.waiting child.completed",
		} {
			if got[from] != want {
				t.Errorf("of %s the target hears%s, want%s", from, got[from], want)
			}
		}
	})
}
