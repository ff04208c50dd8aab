// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package foreground_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/foreground"
	"github.com/outlive-dev/outlive/task"
)

var update = flag.Bool("update", false, "rewrite golden files")

var (
	errBusy    = fault.New(fault.Unavailable, "store is busy")
	errRefused = fault.New(fault.Forbidden, "not yours")
)

func record(s task.State, p task.Publication) task.Record {
	return task.Record{ID: "t-1", State: s, Owner: task.OwnerManager, Publication: p}
}

// Every signal in every state of a call, for every state of the task and three
// policies. The golden file is the table to read; lines of equal outcome are one.
func TestDecideGolden(t *testing.T) {
	t.Parallel()
	policies := []struct {
		name string
		p    foreground.Policy
	}{
		{"detach", foreground.Policy{DetachAfter: time.Minute}},
		{"cancel", foreground.Policy{DetachAfter: time.Minute, OnTimeout: foreground.CancelTask, OnGone: foreground.CancelTask}},
		{"patient", foreground.Policy{}},
	}
	refused := fmt.Errorf("publish: %w", errRefused)
	states := []struct {
		name string
		s    foreground.State
	}{
		{"watching", foreground.State{}},
		{"watching, publish refused", foreground.State{Err: refused}},
		{"publishing by boundary", foreground.State{Phase: foreground.Publishing, Cause: foreground.ByBoundary}},
		{"publishing by timer", foreground.State{Phase: foreground.Publishing, Cause: foreground.ByTimer}},
		{"publishing by timer, then gone", foreground.State{Phase: foreground.Publishing, Cause: foreground.ByTimer, Gone: true}},
		{"publishing by caller", foreground.State{Phase: foreground.Publishing, Cause: foreground.ByCaller, Gone: true}},
		{"publishing by request", foreground.State{Phase: foreground.Publishing, Cause: foreground.ByRequest}},
		{"canceling by timer", foreground.State{Phase: foreground.Canceling, Cause: foreground.ByTimer}},
		{"canceling by caller", foreground.State{Phase: foreground.Canceling, Cause: foreground.ByCaller, Gone: true}},
		{"canceling by refusal", foreground.State{Phase: foreground.Canceling, Cause: foreground.ByRefusal, Gone: true, Err: refused}},
		{"over", foreground.State{Phase: foreground.Over}},
	}
	signals := []struct {
		name string
		s    foreground.Signal
	}{
		{"boundary", foreground.Signal{Event: foreground.Boundary}},
		{"timer", foreground.Signal{Event: foreground.Timer}},
		{"caller gone", foreground.Signal{Event: foreground.CallerGone}},
		{"detach asked", foreground.Signal{Event: foreground.DetachAsked}},
		{"published", foreground.Signal{Event: foreground.PublishResult}},
		{"publish busy", foreground.Signal{Event: foreground.PublishResult, Err: errBusy}},
		{"publish busy, last", foreground.Signal{Event: foreground.PublishResult, Err: errBusy, Last: true}},
		{"publish refused", foreground.Signal{Event: foreground.PublishResult, Err: errRefused}},
		{"cancel stored", foreground.Signal{Event: foreground.CancelResult}},
		{"cancel busy", foreground.Signal{Event: foreground.CancelResult, Err: errBusy}},
		{"cancel refused", foreground.Signal{Event: foreground.CancelResult, Err: errRefused}},
	}
	var records []task.Record
	var names []string
	for _, p := range []task.Publication{task.Deferred, task.OnBackground} {
		for _, s := range task.States() {
			records = append(records, record(s, p))
			names = append(names, string(s)+map[task.Publication]string{task.OnBackground: "*"}[p])
		}
	}
	parents := record(task.Running, task.Deferred)
	parents.Owner = task.OwnerParent
	records, names = append(records, parents), append(names, "parent's")

	var b strings.Builder
	b.WriteString("# state of the call / signal: records -> action. A star marks a published task.\n")
	for _, p := range policies {
		for _, st := range states {
			fmt.Fprintf(&b, "\n[%s] %s\n", p.name, st.name)
			for _, s := range signals {
				sig := s.s
				sig.State = st.s
				var order []string
				by := map[string][]string{}
				for i, r := range records {
					out := show(foreground.Decide(p.p, sig, r))
					if _, ok := by[out]; !ok {
						order = append(order, out)
					}
					by[out] = append(by[out], names[i])
				}
				for _, out := range order {
					who := strings.Join(by[out], " ")
					if len(order) == 1 {
						who = "any"
					}
					fmt.Fprintf(&b, "  %s: %s -> %s\n", s.name, who, out)
				}
			}
		}
	}
	golden(t, "decide.golden", b.String())
}

func show(a foreground.Action) string {
	out := a.Do.String()
	if a.State.Phase != foreground.Over && a.Do != foreground.Wait || a.State.Phase == foreground.Publishing {
		out += fmt.Sprintf(" [phase %d cause %d]", a.State.Phase, a.State.Cause)
	}
	if a.State.Gone {
		out += " gone"
	}
	if a.Ended {
		out += " ended-too"
	}
	if a.Reason != "" {
		out += fmt.Sprintf(" %q", a.Reason)
	}
	if a.Err != nil {
		out += " error: " + strings.ReplaceAll(a.Err.Error(), "\n", "; ")
	}
	return out
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run with -update)", err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s is stale, run with -update (-want +got):\n%s", path, diff)
	}
}

// A call plays signals against one policy.
type call struct {
	t *testing.T
	p foreground.Policy
	s foreground.State
}

func (c *call) step(sig foreground.Signal, r task.Record, want foreground.Do) foreground.Action {
	c.t.Helper()
	sig.State = c.s
	a := foreground.Decide(c.p, sig, r)
	c.s = a.State
	if a.Do != want {
		c.t.Fatalf("Decide(event %d, %s) = %v, want %v", sig.Event, r.State, a.Do, want)
	}
	return a
}

// Given a policy that detaches, when the timer fires, then the task is published and
// the call returns while the same attempt goes on.
func TestE55_TimeoutAllowedDetaches(t *testing.T) {
	t.Parallel()
	c := &call{t: t, p: foreground.Policy{DetachAfter: time.Second}}
	c.step(foreground.Signal{Event: foreground.Timer}, record(task.Running, task.Deferred), foreground.PublishThenDetach)
	a := c.step(foreground.Signal{Event: foreground.PublishResult}, record(task.Running, task.OnBackground), foreground.Detach)
	if a.State.Cause != foreground.ByTimer {
		t.Errorf("cause %d, want ByTimer", a.State.Cause)
	}
}

// Given a policy that does not detach and work that obeys, when the timer fires,
// then the call returns a timeout only once the task is stored as canceled, and the
// task was never published.
func TestE56_TimeoutDeniedWaitsForTheEnd(t *testing.T) {
	t.Parallel()
	c := &call{t: t, p: foreground.Policy{DetachAfter: time.Second, OnTimeout: foreground.CancelTask}}
	a := c.step(foreground.Signal{Event: foreground.Timer}, record(task.Running, task.Deferred), foreground.CancelThenWait)
	if want := "timed out after 1s"; a.Reason != want {
		t.Errorf("reason %q, want %q", a.Reason, want)
	}
	c.step(foreground.Signal{Event: foreground.CancelResult}, record(task.Running, task.Deferred), foreground.Wait)
	c.step(foreground.Signal{Event: foreground.Boundary}, record(task.Canceled, task.Deferred), foreground.ReturnTimeout)
}

// Given the same and work that does not obey, when the cleanup time passes, then the
// call returns with the task still running; the intent is stored.
func TestE57_TimeoutDeniedReturnsWithinCleanup(t *testing.T) {
	t.Parallel()
	c := &call{t: t, p: foreground.Policy{DetachAfter: time.Second, OnTimeout: foreground.CancelTask}}
	c.step(foreground.Signal{Event: foreground.Timer}, record(task.Running, task.Deferred), foreground.CancelThenWait)
	c.step(foreground.Signal{Event: foreground.CancelResult}, record(task.Running, task.Deferred), foreground.Wait)
	c.step(foreground.Signal{Event: foreground.Timer}, record(task.Running, task.Deferred), foreground.ReturnTimeout)
	if got := c.p.Cleanup(); got != 5*time.Second {
		t.Errorf("Cleanup = %v, want 5s", got)
	}
	if got := (foreground.Policy{CleanupTimeout: time.Second}).Cleanup(); got != time.Second {
		t.Errorf("Cleanup = %v, want 1s", got)
	}
}

// Given a gone caller, a refused publish and a cancel that fails too, then the error
// matches both and says that the cleanup failed.
func TestE59_BothErrorsAreReported(t *testing.T) {
	t.Parallel()
	c := &call{t: t}
	c.step(foreground.Signal{Event: foreground.CallerGone}, record(task.Running, task.Deferred), foreground.PublishThenDetach)
	c.step(foreground.Signal{Event: foreground.PublishResult, Err: errRefused}, record(task.Running, task.Deferred), foreground.CancelThenWait)
	errHook := fault.New(fault.Unsupported, "no hook")
	a := c.step(foreground.Signal{Event: foreground.CancelResult, Err: errHook}, record(task.Running, task.Deferred), foreground.ReturnError)
	if !errors.Is(a.Err, errRefused) || !errors.Is(a.Err, errHook) || !strings.Contains(a.Err.Error(), "cleanup failed") {
		t.Errorf("error %q, want both causes and that the cleanup failed", a.Err)
	}
}

// Given a gone caller and a refused publish, when the work obeys, then it ends
// canceled for that reason and the refusal is reported.
func TestE60_RefusedPublishCancels(t *testing.T) {
	t.Parallel()
	c := &call{t: t}
	c.step(foreground.Signal{Event: foreground.CallerGone}, record(task.Running, task.Deferred), foreground.PublishThenDetach)
	a := c.step(foreground.Signal{Event: foreground.PublishResult, Err: errRefused}, record(task.Running, task.Deferred), foreground.CancelThenWait)
	if want := "foreground projection publication failed"; a.Reason != want {
		t.Errorf("reason %q, want %q", a.Reason, want)
	}
	c.step(foreground.Signal{Event: foreground.CancelResult}, record(task.Running, task.Deferred), foreground.Wait)
	a = c.step(foreground.Signal{Event: foreground.Boundary}, record(task.Canceled, task.Deferred), foreground.ReturnError)
	if !errors.Is(a.Err, errRefused) {
		t.Errorf("error %v, want the refusal", a.Err)
	}
}

// Given a policy, then the time that armed the timer is the time in reason and
// error: the policy is a value and nothing asks for it again.
func TestE61_OneTimeForTimerAndError(t *testing.T) {
	t.Parallel()
	p := foreground.Policy{DetachAfter: 1500 * time.Millisecond, OnTimeout: foreground.CancelTask}
	a := foreground.Decide(p, foreground.Signal{Event: foreground.Timer}, record(task.Running, task.Deferred))
	err := error(&foreground.TimeoutError{After: p.DetachAfter, Task: record(task.Canceled, task.Deferred)})
	if want := "timed out after 1.5s"; a.Reason != want || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("reason %q, error %q, want both to begin with %q", a.Reason, err, want)
	}
	if !errors.Is(err, foreground.ErrTimeout) || !fault.Is(err, fault.Timeout) {
		t.Errorf("error %v is no ErrTimeout of kind timeout", err)
	}
	running := &foreground.TimeoutError{After: time.Second, Task: record(task.Running, task.Deferred)}
	if want := "timed out after 1s, task t-1: cancel is requested"; running.Error() != want {
		t.Errorf("error %q, want %q", running, want)
	}
}

// Given a caller whose own deadline fires first, then what it gets is never a
// timeout of the foreground call, also when the timer fires later.
func TestE62_CallersOwnDeadlineIsNoTimeout(t *testing.T) {
	t.Parallel()
	c := &call{t: t, p: foreground.Policy{DetachAfter: time.Second, OnTimeout: foreground.CancelTask, OnGone: foreground.CancelTask}}
	c.step(foreground.Signal{Event: foreground.CallerGone}, record(task.Running, task.Deferred), foreground.CancelThenWait)
	c.step(foreground.Signal{Event: foreground.CancelResult}, record(task.Running, task.Deferred), foreground.Wait)
	c.step(foreground.Signal{Event: foreground.Timer}, record(task.Running, task.Deferred), foreground.ReturnGone)
}

func TestCompletionWinsOverTimeout(t *testing.T) {
	t.Parallel()
	for _, event := range []foreground.Signal{
		{Event: foreground.Boundary},
		{Event: foreground.Timer},
		{Event: foreground.CancelResult, Err: fault.New(fault.Finished, "the task has ended")},
	} {
		c := &call{t: t, p: foreground.Policy{DetachAfter: time.Second, OnTimeout: foreground.CancelTask}}
		c.step(foreground.Signal{Event: foreground.Timer}, record(task.Running, task.Deferred), foreground.CancelThenWait)
		c.step(event, record(task.Completed, task.Deferred), foreground.Return)
	}
}

func TestFinishedFirstStaysDeferred(t *testing.T) {
	t.Parallel()
	for _, event := range []foreground.Event{foreground.Boundary, foreground.Timer, foreground.DetachAsked} {
		c := &call{t: t, p: foreground.Policy{DetachAfter: time.Second}}
		c.step(foreground.Signal{Event: event}, record(task.Completed, task.Deferred), foreground.Return)
	}
	// The task ends while it is being published: the publish left it alone.
	c := &call{t: t, p: foreground.Policy{DetachAfter: time.Second}}
	if a := c.step(foreground.Signal{Event: foreground.Timer}, record(task.Running, task.Deferred), foreground.PublishThenDetach); a.Ended {
		t.Error("a publish for a caller who is there touches a task that has ended")
	}
	c.step(foreground.Signal{Event: foreground.PublishResult}, record(task.Completed, task.Deferred), foreground.Return)
}

func TestGoneCallerNeverLosesAnOutcome(t *testing.T) {
	t.Parallel()
	c := &call{t: t}
	if a := c.step(foreground.Signal{Event: foreground.CallerGone}, record(task.Completed, task.Deferred), foreground.PublishThenReturn); !a.Ended {
		t.Error("the outcome of a task that ended under a gone caller is not published")
	}
	// It ends while a publish decided before the caller went leaves it alone.
	c = &call{t: t, p: foreground.Policy{DetachAfter: time.Second}}
	c.step(foreground.Signal{Event: foreground.Timer}, record(task.Running, task.Deferred), foreground.PublishThenDetach)
	c.step(foreground.Signal{Event: foreground.CallerGone}, record(task.Running, task.Deferred), foreground.Wait)
	if a := c.step(foreground.Signal{Event: foreground.PublishResult}, record(task.Completed, task.Deferred), foreground.PublishThenReturn); !a.Ended {
		t.Error("the second publish leaves a task that has ended alone")
	}
	c.step(foreground.Signal{Event: foreground.PublishResult}, record(task.Completed, task.OnBackground), foreground.Return)
}

func TestWaitingPublishesFirst(t *testing.T) {
	t.Parallel()
	c := &call{t: t}
	c.step(foreground.Signal{Event: foreground.Boundary}, record(task.Waiting, task.Deferred), foreground.PublishThenReturn)
	c.step(foreground.Signal{Event: foreground.PublishResult, Err: errBusy}, record(task.Waiting, task.Deferred), foreground.PublishThenReturn)
	c.step(foreground.Signal{Event: foreground.PublishResult}, record(task.Waiting, task.OnBackground), foreground.Return)
}

// A definitive refusal cancels only once nobody is there to watch.
func TestRefusedPublishWithCallerGoesOnWatching(t *testing.T) {
	t.Parallel()
	c := &call{t: t, p: foreground.Policy{DetachAfter: time.Second}}
	running := record(task.Running, task.Deferred)
	c.step(foreground.Signal{Event: foreground.Timer}, running, foreground.PublishThenDetach)
	c.step(foreground.Signal{Event: foreground.PublishResult, Err: errRefused}, running, foreground.Wait)
	c.step(foreground.Signal{Event: foreground.DetachAsked}, running, foreground.Wait)
	c.step(foreground.Signal{Event: foreground.CallerGone}, running, foreground.CancelThenWait)
	a := c.step(foreground.Signal{Event: foreground.Boundary}, record(task.Canceled, task.Deferred), foreground.ReturnError)
	if !errors.Is(a.Err, errRefused) {
		t.Errorf("error %v, want the refusal", a.Err)
	}
}

// Whatever comes in whatever order: the cause is decided once, one final action ends
// the call, a hidden live task is left behind only with a cancel intent or an error
// that keeps the claim, and it always ends.
func TestDecideProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := foreground.Policy{
			DetachAfter: time.Duration(rapid.IntRange(0, 1).Draw(t, "after")) * time.Second,
			OnTimeout:   foreground.Choice(rapid.IntRange(0, 1).Draw(t, "on timeout")),
			OnGone:      foreground.Choice(rapid.IntRange(0, 1).Draw(t, "on gone")),
		}
		r := record(task.Running, rapid.SampledFrom([]task.Publication{task.Deferred, task.OnCreate}).Draw(t, "publication"))
		var st foreground.State
		var pending []foreground.Event // results that are due
		canceled, last := false, false
		for i := range 200 {
			if !r.State.Terminal() && rapid.IntRange(0, 3).Draw(t, "move") == 0 {
				r.State = rapid.SampledFrom([]task.State{task.Running, task.Waiting, task.Completed, task.Failed}).Draw(t, "state")
				if canceled && r.State != task.Running {
					r.State = task.Canceled
				}
			}
			sig := foreground.Signal{State: st}
			switch n := rapid.IntRange(0, 4).Draw(t, "event"); {
			case len(pending) > 0 && n > 1:
				sig.Event, pending = pending[0], pending[1:]
				last = last || i > 100
				sig.Err = rapid.SampledFrom([]error{nil, errBusy, errRefused}).Draw(t, "err")
				sig.Last = last
				if sig.Err == nil && sig.Event == foreground.CancelResult {
					canceled = true
				}
				if sig.Err == nil && sig.Event == foreground.PublishResult && !r.State.Terminal() {
					r.Publication = task.OnBackground
				}
			case n == 0 && r.State.Boundary():
				sig.Event = foreground.Boundary
			case n == 0 || i > 150:
				sig.Event = foreground.Timer
			case n == 1:
				sig.Event = foreground.CallerGone
			default:
				sig.Event = foreground.DetachAsked
			}
			a := foreground.Decide(p, sig, r)
			if st.Cause != foreground.NoCause && a.State.Cause != st.Cause && a.State.Cause != foreground.ByRefusal &&
				a.State.Phase != foreground.Watching {
				t.Fatalf("cause %d became %d", st.Cause, a.State.Cause)
			}
			st = a.State
			switch a.Do {
			case foreground.Wait:
				continue
			case foreground.PublishThenReturn, foreground.PublishThenDetach:
				pending = append(pending, foreground.PublishResult)
				continue
			case foreground.CancelThenWait:
				pending = append(pending, foreground.CancelResult)
				continue
			case foreground.Detach:
				if r.Publication == task.Deferred {
					t.Fatal("a hidden task was left to itself")
				}
			case foreground.Return:
				if !r.State.Boundary() {
					t.Fatalf("returned a task that is %s", r.State)
				}
				if r.Publication == task.Deferred && !r.State.Terminal() {
					t.Fatal("a hidden task was left waiting")
				}
			case foreground.ReturnTimeout, foreground.ReturnGone, foreground.ReturnError:
			}
			if st.Phase != foreground.Over {
				t.Fatalf("%v does not end the call", a.Do)
			}
			for event := range foreground.CancelResult + 1 {
				if a := foreground.Decide(p, foreground.Signal{Event: event, State: st}, r); a.Do != foreground.Wait {
					t.Fatalf("after the end: %v", a.Do)
				}
			}
			return
		}
		if p.DetachAfter > 0 && !slices.Contains([]foreground.Phase{foreground.Watching, foreground.Publishing}, st.Phase) {
			t.Fatalf("the call did not end, phase %d", st.Phase)
		}
	})
}

func ExampleDecide() {
	policy := foreground.Policy{DetachAfter: 30 * time.Second}
	running := task.Record{ID: "sh-1", State: task.Running, Owner: task.OwnerManager, Publication: task.Deferred}

	a := foreground.Decide(policy, foreground.Signal{Event: foreground.Timer}, running)
	fmt.Println(a.Do)

	// The loop published the task and says so, with the state it was given.
	running.Publication = task.OnBackground
	a = foreground.Decide(policy, foreground.Signal{Event: foreground.PublishResult, State: a.State}, running)
	fmt.Println(a.Do)
	// Output:
	// publish_then_detach
	// detach
}
