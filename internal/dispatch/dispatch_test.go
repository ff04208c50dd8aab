// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/apply"
	"github.com/outlive-dev/outlive/internal/dispatch"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/outlivetest"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// bubble runs a test on fake time.
func bubble(t *testing.T, fn func(t *testing.T, env *outlivetest.Env)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { fn(t, outlivetest.New(t, nil)) })
}

func step(t *testing.T, env *outlivetest.Env, id task.ID, c task.Command) task.Record {
	t.Helper()
	var out apply.Outcome
	if err := env.Store().Update(t.Context(), apply.Keys(id), func(tx store.Tx) (err error) {
		out, err = apply.Step(tx, id, c)
		return err
	}); err != nil {
		t.Fatalf("%s = %v", c.Op(), err)
	}
	return out.Record
}

func worker(t *testing.T, env *outlivetest.Env) (w store.Worker) {
	t.Helper()
	if err := env.Store().View(t.Context(), func(v store.View) error {
		ws, err := v.Workers()
		if len(ws) != 1 {
			t.Fatalf("%d workers, want 1", len(ws))
		}
		w = ws[0]
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return w
}

// pass lets time pass on a bubble's clock.
func pass(env *outlivetest.Env, d time.Duration) {
	<-time.After(d)
	env.Idle()
}

func TestLeaseIsRenewed(t *testing.T) {
	bubble(t, func(t *testing.T, env *outlivetest.Env) {
		env.Runtime()
		pass(env, 10*time.Minute)
		w := worker(t, env)
		if left := time.Until(w.LeaseUntil); w.Epoch != 1 || left < 10*time.Second || left > 15*time.Second {
			t.Errorf("epoch %d, lease for another %v, want epoch 1 and 10 to 15 s", w.Epoch, left)
		}
	})
}

// A row that names our lease and an attempt that does not run here: what a start
// leaves whose answer never came.
func TestAuditExpiresARowWithoutAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, env *outlivetest.Env) {
		env.Script("job.v1", outlivetest.Complete("done"))
		env.Runtime()
		pass(env, time.Second)
		l := worker(t, env)
		c := task.Create{Record: task.Record{ID: "t", Executor: "job.v1", OnLeaseLoss: task.LoseRetry, DueAt: time.Now().Add(time.Hour)}}
		if err := env.Store().Update(t.Context(), apply.CreateKeys(&c.Record), func(tx store.Tx) error {
			if _, err := apply.Create(tx, c); err != nil {
				return err
			}
			r, _ := tx.Task("t")
			r.DueAt = tx.Now()
			tx.PutTask(r)
			_, err := apply.Step(tx, "t", task.Start{Lease: l.Lease()})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		pass(env, 6*time.Second) // one renewal: it may have begun a moment ago
		if r := env.Get("t"); r.State != task.Running || r.Attempt != 1 {
			t.Errorf("after one renewal: %s", outlivetest.Line(r))
		}
		pass(env, 6*time.Second) // the second
		if r := env.Get("t"); r.State != task.Completed || r.Attempt != 2 {
			t.Errorf("after two renewals: %s", outlivetest.Line(r))
		}
	})
}

// causes registers an executor that tells why its context ended, and when.
func causes(env *outlivetest.Env, key string) (told func() (time.Time, error)) {
	var mu sync.Mutex
	var cause error
	var at time.Time
	env.Register(work.Executor{Key: key, OnLeaseLoss: task.LoseFail, Run: func(ctx context.Context, _ *work.Attempt) work.Result {
		<-ctx.Done()
		mu.Lock()
		defer mu.Unlock()
		cause, at = context.Cause(ctx), time.Now()
		return work.Fail("ended", "")
	}})
	return func() (time.Time, error) {
		mu.Lock()
		defer mu.Unlock()
		return at, cause
	}
}

func TestAuditStopsAnAttemptWithoutRow(t *testing.T) {
	bubble(t, func(t *testing.T, env *outlivetest.Env) {
		told := causes(env, "job.v1")
		id := env.Submit(outlive.Spec{Executor: "job.v1"}).ID
		env.Idle()
		env.Instance(outlivetest.Main).Deafen(true)
		began := time.Now()
		step(t, env, id, task.RequestCancel{Force: true})
		pass(env, 10*time.Second)
		if at, cause := told(); !errors.Is(cause, work.ErrFenced) || at.Sub(began) > 6*time.Second {
			t.Errorf("the attempt was told %v after %v, want fenced within a renewal", cause, at.Sub(began))
		}
	})
}

func TestSelfFencingWhileRenewalsHang(t *testing.T) {
	bubble(t, func(t *testing.T, env *outlivetest.Env) {
		told := causes(env, "job.v1")
		id := env.Submit(outlive.Spec{Executor: "job.v1"}).ID
		env.Idle()
		until := worker(t, env).LeaseUntil
		env.Instance(outlivetest.Main).Hang()
		pass(env, time.Minute)
		at, cause := told()
		if !errors.Is(cause, work.ErrFenced) || !at.Before(until) || until.Sub(at) > 5*time.Second {
			t.Errorf("the attempt was told %v, %v before the lease ended, want fenced shortly before", cause, until.Sub(at))
		}
		env.Instance(outlivetest.Main).Resume()
		pass(env, 20*time.Second)
		if w, r := worker(t, env), env.Get(id); w.Epoch != 2 || r.State != task.Failed || r.Failure.Code != task.CodeWorkerLost {
			t.Errorf("epoch %d, task %s, want epoch 2 and worker_lost", w.Epoch, outlivetest.Line(r))
		}
	})
}

// The same worker may get a task again whose former attempt still winds up here.
func TestAnAttemptWaitsForTheOneBefore(t *testing.T) {
	bubble(t, func(t *testing.T, env *outlivetest.Env) {
		var running, most, runs atomic.Int32
		env.Register(work.Executor{Key: "job.v1", OnLeaseLoss: task.LoseRetry, Run: func(ctx context.Context, a *work.Attempt) work.Result {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			if runs.Add(1) > 1 {
				return work.Done(task.Payload{Media: "text/plain"})
			}
			<-ctx.Done()
			<-time.After(5 * time.Second) // winding up
			return work.Fail("ended", "")
		}})
		id := env.Submit(outlive.Spec{Executor: "job.v1"}).ID
		env.Idle()
		env.Instance(outlivetest.Main).Hang()
		pass(env, 13*time.Second)
		env.Instance(outlivetest.Main).Resume()
		pass(env, time.Minute)
		if r := env.Get(id); r.State != task.Completed || r.Attempt != 2 || most.Load() != 1 {
			t.Errorf("%s, %d at once, want completed in attempt 2, one at a time", outlivetest.Line(r), most.Load())
		}
	})
}

func TestFinishingGivesUpWhenTheLeaseIsOver(t *testing.T) {
	bubble(t, func(t *testing.T, env *outlivetest.Env) {
		env.Script("job.v1", outlivetest.Await("never")).OnLeaseLoss = task.LoseFail
		id := env.Submit(outlive.Spec{Executor: "job.v1"}).ID
		env.Idle()
		i := env.Instance(outlivetest.Main)
		step(t, env, id, task.RequestCancel{Reason: "enough"}) // ends the context before the fence does
		i.Refuse(1<<30, errors.New("disk on fire"))
		pass(env, time.Minute)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := i.Stop(ctx); err != nil || time.Since(began) > time.Second {
			t.Errorf("Stop() = %v after %v, want nil at once: the attempt is over", err, time.Since(began))
		}
		i.Refuse(0, nil)
	})
}

func TestPriorityThenAge(t *testing.T) {
	bubble(t, func(t *testing.T, env *outlivetest.Env) {
		var order []string
		env.Register(work.Executor{Key: "job.v1", Run: func(_ context.Context, a *work.Attempt) work.Result {
			order = append(order, string(a.ID()))
			<-time.After(time.Second)
			return work.Done(task.Payload{Media: "text/plain"})
		}})
		env.Start(outlivetest.Main, &outlive.Options{Slots: 1})
		for i, p := range []int{0, 5, 0, -3, 5, 1} {
			env.Submit(outlive.Spec{ID: task.ID(fmt.Sprintf("%d/%d", i, p)), Executor: "job.v1", Priority: p})
			env.Idle()
		}
		pass(env, 10*time.Second)
		want := []string{"0/0", "3/-3", "2/0", "5/1", "1/5", "4/5"}
		if diff := cmp.Diff(want, order); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

// What finds a free slot starts in the transaction that creates it, unless something
// waits: nothing overtakes.
func TestStartsInItsOwnCreation(t *testing.T) {
	bubble(t, func(t *testing.T, env *outlivetest.Env) {
		var order []string
		env.Register(work.Executor{Key: "job.v1", Run: func(_ context.Context, a *work.Attempt) work.Result {
			order = append(order, string(a.ID()))
			<-time.After(time.Second)
			return work.Done(task.Payload{Media: "text/plain"})
		}})
		rt := env.Start(outlivetest.Main, &outlive.Options{Slots: 1}).Runtime()
		env.Idle() // it has looked: nothing waits
		submit := func(id task.ID, state task.State, priority int) {
			t.Helper()
			r, err := rt.Submit(t.Context(), outlive.Spec{ID: id, Executor: "job.v1", Priority: priority})
			if err != nil || r.State != state {
				t.Errorf("Submit(%s) = %s, %v, want it %s", id, outlivetest.Line(r), err, state)
			}
		}
		submit("a", task.Running, 0)
		submit("b", task.Pending, 0)
		submit("c", task.Pending, -1)
		pass(env, time.Second) // a has ended, c runs
		submit("d", task.Pending, 0)
		pass(env, 5*time.Second) // all have ended
		submit("e", task.Running, 0)
		pass(env, 5*time.Second)
		if diff := cmp.Diff([]string{"a", "c", "b", "d", "e"}, order); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

// Real goroutines: a worker stops while tasks are being created that may start in it.
// Each is done, or waits for the next worker: none was taken along.
func TestStopBetweenSubmits(t *testing.T) {
	t.Parallel()
	env := outlivetest.New(t, &outlivetest.Options{Runtime: outlive.Options{Poll: 10 * time.Millisecond}})
	env.Register(work.Executor{Key: "job.v1", Run: func(context.Context, *work.Attempt) work.Result {
		runtime.Gosched()
		return work.Done(task.Payload{Media: "text/plain"})
	}})
	for round := range 30 {
		i := env.Instance(fmt.Sprint("w", round))
		rt := i.Runtime()
		var wg sync.WaitGroup
		ids := make([]task.ID, 16)
		for n := range ids {
			wg.Go(func() {
				ids[n] = task.ID(fmt.Sprintf("%d-%d", round, n))
				_, err := rt.Submit(t.Context(), outlive.Spec{ID: ids[n], Executor: "job.v1"})
				if err != nil && !fault.Is(err, fault.Closed) {
					t.Errorf("Submit() = %v", err)
				}
			})
			if n == len(ids)/2 {
				wg.Go(func() {
					if err := rt.Stop(t.Context()); err != nil {
						t.Errorf("Stop() = %v", err)
					}
				})
			}
		}
		wg.Wait()
		for _, id := range ids {
			if r := env.Get(id); r.State != task.Completed && r.State != task.Pending {
				t.Errorf("after Stop: %s", outlivetest.Line(r))
			}
		}
	}
}

func TestNothingStarves(t *testing.T) {
	bubble(t, func(t *testing.T, env *outlivetest.Env) {
		env.Register(work.Executor{Key: "job.v1", Run: func(context.Context, *work.Attempt) work.Result {
			<-time.After(time.Second)
			return work.Done(task.Payload{Media: "text/plain"})
		}})
		env.Start(outlivetest.Main, &outlive.Options{Slots: 1})
		low := env.Submit(outlive.Spec{Executor: "job.v1", Priority: 10}).ID
		for range 5 { // from now on more urgent work than can be done
			env.Submit(outlive.Spec{Executor: "job.v1"})
		}
		for range 20 * 60 {
			env.Submit(outlive.Spec{Executor: "job.v1"})
			pass(env, time.Second)
			if env.Get(low).State == task.Completed {
				return
			}
		}
		t.Errorf("not started in 20 minutes: %s", outlivetest.Line(env.Get(low)))
	})
}

func TestAFullQueueHoldsBackNobodyElse(t *testing.T) {
	bubble(t, func(t *testing.T, env *outlivetest.Env) {
		env.Script("job.v1", outlivetest.Await("go"), outlivetest.Complete("done"))
		env.Script("free.v1", outlivetest.Complete("done"))
		rt := env.Runtime()
		if err := rt.SetQueue(t.Context(), store.Queue{Name: "q", Limit: 1}); err != nil {
			t.Fatal(err)
		}
		for range 1500 { // more than any page
			env.Submit(outlive.Spec{Executor: "job.v1", Queue: "q", Priority: -1})
			env.Submit(outlive.Spec{Executor: "job.v1", ConcurrencyKey: "k", Priority: -1})
		}
		other := env.Submit(outlive.Spec{Executor: "free.v1", Queue: "other", ConcurrencyKey: "another"}).ID
		none := env.Submit(outlive.Spec{Executor: "free.v1"}).ID
		env.Idle()
		for _, id := range []task.ID{other, none} {
			if r := env.Get(id); r.State != task.Completed {
				t.Errorf("behind 3000 tasks that wait for their limits: %s", outlivetest.Line(r))
			}
		}
	})
}

// Deadlines of one instant are not a matter of one page a sweep.
func TestManyDeadlinesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, env *outlivetest.Env) {
		env.Script("job.v1", outlivetest.Complete("done"))
		const n = 2500
		for range n {
			env.Submit(outlive.Spec{Executor: "job.v1", Delay: time.Hour, Timeout: 10 * time.Second})
		}
		pass(env, 13*time.Second)
		ended := 0
		for after := task.ID(""); ; {
			recs, err := env.Runtime().List(t.Context(), store.Filter{States: []task.State{task.Failed}, Limit: store.MaxPage, Before: after})
			if err != nil {
				t.Fatal(err)
			}
			if ended += len(recs); len(recs) < store.MaxPage {
				break
			}
			after = recs[len(recs)-1].ID
		}
		if ended != n {
			t.Errorf("%d of %d tasks have ended 3 s after their deadline", ended, n)
		}
	})
}

// Real goroutines: three instances claim at once.
func TestLimitsAreNeverExceeded(t *testing.T) {
	t.Parallel()
	env := outlivetest.New(t, &outlivetest.Options{Runtime: outlive.Options{Poll: 10 * time.Millisecond}})
	var inQueue, inKey, mostQueue, mostKey atomic.Int32
	count := func(n, most *atomic.Int32) func() {
		now := n.Add(1)
		for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
		}
		return func() { n.Add(-1) }
	}
	env.Register(work.Executor{Key: "job.v1", Run: func(_ context.Context, a *work.Attempt) work.Result {
		if a.Task().Queue != "" {
			defer count(&inQueue, &mostQueue)()
		} else {
			defer count(&inKey, &mostKey)()
		}
		runtime.Gosched()
		return work.Done(task.Payload{Media: "text/plain"})
	}})
	rts := []*outlive.Runtime{env.Runtime(), env.Instance("b").Runtime(), env.Instance("c").Runtime()}
	if err := rts[0].SetQueue(t.Context(), store.Queue{Name: "q", Limit: 3}); err != nil {
		t.Fatal(err)
	}
	ids := make([]task.ID, 200)
	var wg sync.WaitGroup
	for n := range ids {
		wg.Go(func() {
			s := outlive.Spec{Executor: "job.v1", Queue: "q"}
			if n%2 == 0 {
				s.Queue, s.ConcurrencyKey = "", "k"
			}
			r, err := rts[n%3].Submit(t.Context(), s)
			if err != nil {
				t.Errorf("Submit() = %v", err)
			}
			ids[n] = r.ID
		})
	}
	wg.Wait()
	for _, id := range ids {
		if r, err := rts[1].Wait(t.Context(), id, outlive.Terminal); err != nil || r.State != task.Completed || r.Attempt != 1 {
			t.Fatalf("Wait() = %s, %v", outlivetest.Line(r), err)
		}
	}
	if mostQueue.Load() > 3 || mostKey.Load() > 1 {
		t.Errorf("at once: %d of the queue, %d with the key, want at most 3 and 1", mostQueue.Load(), mostKey.Load())
	}
}

func TestRetriesBackOffAndEndAsPoison(t *testing.T) {
	bubble(t, func(t *testing.T, env *outlivetest.Env) {
		var at []time.Duration
		began := time.Now()
		env.Register(work.Executor{Key: "job.v1", Run: func(context.Context, *work.Attempt) work.Result {
			at = append(at, time.Since(began))
			return work.Retry("busy", "not now")
		}})
		id := env.Submit(outlive.Spec{Executor: "job.v1", MaxAttempts: 4, Backoff: task.Backoff{Initial: time.Second, Max: 3 * time.Second}}).ID
		pass(env, time.Minute)
		if diff := cmp.Diff([]time.Duration{0, time.Second, 3 * time.Second, 6 * time.Second}, at); diff != "" {
			t.Errorf("attempts began (-want +got):\n%s", diff)
		}
		if r := env.Get(id); r.State != task.Failed || r.Failure.Code != task.CodePoison {
			t.Errorf("ended %s, want poison", outlivetest.Line(r))
		}
	})
}

func TestDeadlineEndsTheAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, env *outlivetest.Env) {
		told := causes(env, "job.v1")
		id := env.Submit(outlive.Spec{Executor: "job.v1", Timeout: 30 * time.Second}).ID
		began := time.Now()
		pass(env, time.Minute)
		at, cause := told()
		if !errors.Is(cause, work.ErrDeadline) || at.Sub(began) > 32*time.Second {
			t.Errorf("the attempt was told %v after %v, want the deadline after 30 s", cause, at.Sub(began))
		}
		if r := env.Get(id); r.State != task.Failed || r.Failure.Code != task.CodeDeadline {
			t.Errorf("ended %s, want deadline", outlivetest.Line(r))
		}
	})
}

func TestUnknownExecutorStaysPending(t *testing.T) {
	bubble(t, func(t *testing.T, env *outlivetest.Env) {
		bare := env.Start("bare", nil) // knows no executor at all
		env.Script("job.v1", outlivetest.Complete("done"))
		id := env.Submit(outlive.Spec{Executor: "job.v1", Delay: time.Minute}).ID
		env.Crash(outlivetest.Main)
		pass(env, time.Hour)
		if r := env.Get(id); r.State != task.Pending || r.Attempt != 0 {
			t.Errorf("%s, want pending", outlivetest.Line(r))
		}
		if _, err := bare.Runtime().Submit(t.Context(), outlive.Spec{Executor: "job.v1"}); err == nil || !strings.Contains(err.Error(), "job.v1") {
			t.Errorf("Submit() = %v, want an error that names the executor", err)
		}
		env.Reopen(outlivetest.Main)
		pass(env, time.Second)
		if r := env.Get(id); r.State != task.Completed {
			t.Errorf("%s, want completed once somebody knows the executor", outlivetest.Line(r))
		}
	})
}

func TestPanicIsInTheJournal(t *testing.T) {
	bubble(t, func(t *testing.T, env *outlivetest.Env) {
		env.Script("job.v1", outlivetest.Panic("kaboom"))
		id := env.Submit(outlive.Spec{Executor: "job.v1"}).ID
		env.Idle()
		r := env.Get(id)
		if r.State != task.Failed || r.Failure.Code != task.CodePanic || strings.Contains(r.Failure.Message, "kaboom") {
			t.Errorf("ended %s, want panic and no value in the message", outlivetest.Line(r))
		}
		var stack string
		if err := env.Store().View(t.Context(), func(v store.View) error {
			list, err := v.Entries(journal.StreamID(id), 0, 0)
			for _, e := range list {
				if e.Kind == journal.KindPanic {
					stack = string(e.Data)
				}
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(stack, "kaboom") || !strings.Contains(stack, "script.go") {
			t.Errorf("the stack in the journal is %q", stack)
		}
	})
}

func TestDrainNamesWhatIsStuck(t *testing.T) {
	bubble(t, func(t *testing.T, env *outlivetest.Env) {
		env.Script("stuck.v1", outlivetest.Ignore(), outlivetest.Await("never"))
		id := env.Submit(outlive.Spec{Executor: "stuck.v1"}).ID
		env.Idle()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := env.Instance(outlivetest.Main).Stop(ctx)
		if err == nil || !strings.Contains(err.Error(), string(id)) {
			t.Errorf("Stop() = %v, want the name of %s", err, id)
		}
		if r := env.Get(id); r.State != task.Pending {
			t.Errorf("%s, want it given back", outlivetest.Line(r))
		}
	})
}

// A pending task is a row and nothing else.
func TestPendingTasksCostNoGoroutine(t *testing.T) {
	if testing.Short() {
		t.Skip("makes many tasks")
	}
	env := outlivetest.New(t, &outlivetest.Options{NoCheck: true})
	env.Script("job.v1", outlivetest.Complete(""))
	rt := env.Runtime()
	before := runtime.NumGoroutine()
	const n = 10_000
	var wg sync.WaitGroup
	for w := range 50 {
		wg.Go(func() {
			for range n / 50 {
				if _, err := rt.Submit(t.Context(), outlive.Spec{Executor: "job.v1", Delay: time.Hour, Priority: w}); err != nil {
					t.Errorf("Submit() = %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	runtime.GC()
	if after := runtime.NumGoroutine(); after > before+5 {
		t.Errorf("%d goroutines with %d pending tasks, %d before", after, n, before)
	}
}

func TestLidClosed(t *testing.T) {
	t.Parallel()
	const renew = 5 * time.Second
	if dispatch.LidClosed(time.Second, time.Second, renew) || dispatch.LidClosed(8*time.Second, 4*time.Second, renew) {
		t.Error("a slow second is no closed lid")
	}
	if !dispatch.LidClosed(time.Hour, time.Second, renew) {
		t.Error("an hour that did not run is a closed lid")
	}
}

func TestThinKeepsWhatMayStart(t *testing.T) {
	t.Parallel()
	var due []task.Record
	for i := range 10 {
		due = append(due, task.Record{ID: task.ID(fmt.Sprint("q", i)), Queue: "q"}, task.Record{ID: task.ID(fmt.Sprint("k", i)), ConcurrencyKey: "k"}, task.Record{ID: task.ID(fmt.Sprint("f", i))})
	}
	got := map[byte]int{}
	for _, r := range dispatch.Thin(due, 4) {
		got[r.ID[0]]++
	}
	if diff := cmp.Diff(map[byte]int{'q': 4, 'k': 1, 'f': 10}, got); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}
