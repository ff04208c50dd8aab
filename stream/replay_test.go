// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/outlivetest"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/stream"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// executor registers an executor of that name, whose attempts are retried.
func executor(env *outlivetest.Env, run func(ctx context.Context, a *work.Attempt) work.Result) {
	env.Register(work.Executor{Key: "stream.v1", OnLeaseLoss: task.LoseRetry, Drains: true, Run: run})
}

// parts tells a task's parts and abandoned events: attempt, event, part and content.
func parts(t *testing.T, env *outlivetest.Env, id task.ID) string {
	t.Helper()
	var list []string
	for line := range strings.Lines(env.Journal(id)) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(line, "task.") {
			list = append(list, line)
		}
	}
	return strings.Join(list, "\n")
}

func wantParts(t *testing.T, env *outlivetest.Env, id task.ID, want ...string) {
	t.Helper()
	if got := parts(t, env, id); got != strings.Join(want, "\n") {
		t.Errorf("the parts are\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// E22: given parts of attempt 1, the same parts of attempt 2 are accepted and not
// inserted; the same part of attempt 1, which was replaced, is fenced.
func TestE22_ReplayByAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		inserted := map[int64][]bool{}
		resume := make(chan struct{})
		var stale error
		executor(env, func(ctx context.Context, a *work.Attempt) work.Result {
			persister := func(_ context.Context, w *stream.Writer, _ int, chunks iter.Seq2[string, error]) error {
				free := context.WithoutCancel(ctx)
				for c, err := range chunks {
					if err != nil {
						return err
					}
					ok, err := w.Append(free, work.Part{ID: c, Data: []byte(c)})
					if err != nil {
						return err
					}
					inserted[a.Number()] = append(inserted[a.Number()], ok)
				}
				if a.Number() == 1 {
					<-resume
					_, stale = w.Append(free, work.Part{ID: "a", Data: []byte("a")})
				}
				return nil
			}
			source := []string{"a", "b", "c"}
			_, err := stream.Persist(ctx, a, stream.Event[int, string]{ID: "e", Chunks: of(nil, source[:a.Number()+1]...)}, persister).Wait(context.WithoutCancel(ctx))
			if err != nil {
				return work.Retry("journal", err.Error())
			}
			return work.Done(task.Payload{})
		})
		id := env.Submit(outlive.Spec{Executor: "stream.v1"}).ID
		env.Idle()
		env.Instance(outlivetest.Main).Hang()
		other := env.Start("other", nil)
		if r, err := other.Runtime().Wait(t.Context(), id, outlive.Terminal); err != nil || r.State != task.Completed {
			t.Errorf("ended %s, %v", r.State, err)
		}
		env.Instance(outlivetest.Main).Resume()
		close(resume)
		env.Idle()
		if !fault.Is(stale, fault.Fenced) {
			t.Errorf("the part of attempt 1 = %v, want fenced", stale)
		}
		if got := inserted[2]; len(got) != 3 || got[0] || got[1] || !got[2] {
			t.Errorf("attempt 2 inserted %v", got)
		}
		wantParts(t, env, id, `output attempt=1 e/a "a"`, `output attempt=1 e/b "b"`, `output attempt=2 e/c "c"`)
	})
}

// E24: given two different final parts of one event at once, one is inserted and the
// other is told that the event is closed.
func TestE24_TwoFinalParts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		const rounds = 100
		executor(env, func(ctx context.Context, a *work.Attempt) work.Result {
			last := func(event, id string) *stream.Live[int] {
				return stream.Persist(ctx, a, stream.Event[int, int]{ID: event}, func(ctx context.Context, w *stream.Writer, _ int, _ iter.Seq2[int, error]) error {
					_, err := w.Append(ctx, work.Part{ID: id, Final: true})
					return err
				})
			}
			for n := range rounds {
				x, y := last(fmt.Sprint(n), "x"), last(fmt.Sprint(n), "y")
				first, second := wait(ctx, x), wait(ctx, y)
				if (first == nil) == (second == nil) || !fault.Is(errors.Join(first, second), fault.Closed) {
					t.Errorf("event %d: Append() = %v, %v", n, first, second)
				}
			}
			return work.Done(task.Payload{})
		})
		id := env.Submit(outlive.Spec{Executor: "stream.v1"}).ID
		env.Idle()
		if got := parts(t, env, id); strings.Count(got, " final") != rounds {
			t.Errorf("the parts are %s", got)
		}
	})
}

// E25: given an attempt that yields in the middle of a stream, its next part is fenced.
func TestE25_YieldInTheMiddle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		yielded := make(chan struct{})
		var late error
		executor(env, func(ctx context.Context, a *work.Attempt) work.Result {
			if a.Number() > 1 {
				return work.Done(task.Payload{})
			}
			stored := make(chan struct{})
			stream.Persist(ctx, a, stream.Event[int, string]{ID: "e"}, func(ctx context.Context, w *stream.Writer, _ int, _ iter.Seq2[string, error]) error {
				if _, err := w.Append(ctx, work.Part{ID: "1"}); err != nil {
					t.Error(err)
				}
				close(stored)
				<-yielded
				_, late = w.Append(context.WithoutCancel(ctx), work.Part{ID: "2"})
				return late
			})
			<-stored
			return work.Yield(nil)
		})
		id := env.Submit(outlive.Spec{Executor: "stream.v1"}).ID
		env.Idle()
		close(yielded)
		env.Idle()
		if !fault.Is(late, fault.Fenced) {
			t.Errorf("the part after the yield = %v", late)
		}
		wantParts(t, env, id, "output attempt=1 e/1")
	})
}

// E26: given a stream that fails after part 2, parts 0 to 2 stay and none is final; the
// retry finds them there, and goes on.
func TestE26_StreamFailsInTheMiddle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		tails := map[int64]journal.Tail{}
		executor(env, func(ctx context.Context, a *work.Attempt) work.Result {
			chunks := of(nil, "one", "two", "three")
			if a.Number() == 1 {
				chunks = of(errors.New("broken pipe"), "one", "two")
			}
			tail, err := stream.Persist(ctx, a, stream.Event[string, string]{ID: "e", Value: "head", Chunks: chunks}, stream.Messages).Wait(ctx)
			tails[a.Number()] = tail
			if err != nil {
				return work.Retry("stream", err.Error())
			}
			return work.Done(task.Payload{})
		})
		id := env.Submit(outlive.Spec{Executor: "stream.v1", MaxAttempts: 2}).ID
		if r, err := env.Runtime().Wait(t.Context(), id, outlive.Terminal); err != nil || r.State != task.Completed || r.Attempt != 2 {
			t.Errorf("ended %s in attempt %d, %v", r.State, r.Attempt, err)
		}
		if tl := tails[1]; tl.Part != "2" || tl.Final || tl.Parts != 3 {
			t.Errorf("attempt 1 left %+v", tl)
		}
		if tl := tails[2]; tl.Part != "end" || !tl.Final || tl.Parts != 5 {
			t.Errorf("attempt 2 left %+v", tl)
		}
		wantParts(t, env, id,
			`message attempt=1 e/0 "head"`, `message attempt=1 e/1 "one"`, `message attempt=1 e/2 "two"`,
			`message attempt=2 e/3 "three"`, `message attempt=2 e/end final`)
	})
}

// Given a model's answer of an attempt that is lost, the start of the next closes it,
// and its own answer is another event; given bytes with offsets, the next attempt goes
// on where the log ends. However often the process is killed.
func TestPersistOverCrashes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		const output = "abcdefgh"
		executor(env, func(ctx context.Context, a *work.Attempt) work.Result {
			tail, err := a.Tail(ctx, "out")
			if err != nil {
				return work.Retry("journal", err.Error())
			}
			answer := stream.Persist(ctx, a, stream.Event[string, string]{ID: "answer", Value: "assistant", Chunks: of(nil, "Hel", "lo"), Once: true},
				func(ctx context.Context, w *stream.Writer, v string, chunks iter.Seq2[string, error]) error {
					if a.Number() == 3 {
						return stream.Messages(ctx, w, v, chunks)
					}
					_, err := w.Append(ctx, work.Part{ID: "0", Kind: journal.KindMessage, Media: "application/json", Data: []byte(`"half"`)})
					<-ctx.Done() // killed here
					return err
				})
			last := int64(len(output))
			if a.Number() < 3 {
				last = tail.Bytes + 2
			}
			out := stream.Persist(ctx, a, stream.Event[int64, []byte]{ID: "out", Value: tail.Bytes, Chunks: func(yield func([]byte, error) bool) {
				if yield([]byte(output[tail.Bytes:last]), nil) && a.Number() < 3 {
					<-ctx.Done()
				}
			}}, stream.Bytes)
			for _, err := range []error{wait(ctx, answer), wait(ctx, out)} {
				if err != nil {
					return work.Retry("journal", err.Error())
				}
			}
			return work.Done(task.Payload{})
		})
		id := env.Submit(outlive.Spec{Executor: "stream.v1"}).ID
		for range 2 {
			<-time.After(time.Second)
			env.Crash(outlivetest.Main)
			env.Reopen(outlivetest.Main)
			<-time.After(time.Minute)
		}
		rec := env.Get(id)
		if rec.State != task.Completed || rec.Attempt != 3 || len(rec.OpenEvents) != 0 {
			t.Errorf("the task is %s, open %v\n%s", outlivetest.Line(rec), rec.OpenEvents, env.Journal(id))
		}
		got := parts(t, env, id)
		for _, want := range []string{
			`message attempt=1 answer@1/0 "half"`, "event.abandoned attempt=2 answer@1",
			`message attempt=2 answer@2/0 "half"`, "event.abandoned attempt=3 answer@2",
			`message attempt=3 answer@3/0 "assistant"`, `message attempt=3 answer@3/2 "lo"`, `message attempt=3 answer@3/end final`,
			`output attempt=1 out/0 "ab"`, `output attempt=2 out/2 "cd"`, `output attempt=3 out/4 "efgh"`, "output attempt=3 out/end final",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%s is missing in\n%s", want, got)
			}
		}
		if n := strings.Count(got, journal.KindAbandoned); n != 2 {
			t.Errorf("%d events are abandoned\n%s", n, got)
		}
		// The entry is of the very commit that starts the next attempt.
		var list []journal.Entry
		if err := env.Store().View(t.Context(), func(v store.View) (err error) {
			list, err = v.Entries(journal.StreamID(id), 0, store.MaxPage)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for i, e := range list {
			if e.Kind != journal.KindAbandoned {
				continue
			}
			if p := list[i-1]; p.Kind != journal.KindStarted || p.At != e.At || p.Attempt != e.Attempt || !e.Final {
				t.Errorf("%s follows %s", e.Kind, p.Kind)
			}
		}
		env.Check()
	})
}

func wait[C any](ctx context.Context, l *stream.Live[C]) error {
	_, err := l.Wait(ctx)
	return err
}
