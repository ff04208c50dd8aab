// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlivetest_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/outlivetest"
	"github.com/outlive-dev/outlive/store/memory"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// A worker dies in the middle; another instance goes on, and the journal tells it.
func TestCrashAndReopen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		env.Script("report.v1", outlivetest.Emit("half"), outlivetest.Await("go"), outlivetest.Complete("done"))
		id := env.Submit(outlive.Spec{Executor: "report.v1"}).ID
		env.Idle()

		env.Crash(outlivetest.Main)
		env.Reopen(outlivetest.Main)
		time.Sleep(20 * time.Second) // its lease runs out
		env.Signal("go")
		env.Idle()

		want := `1 task.created kind=tk
2 task.started attempt=1
3 output attempt=1 out/1 "half"
4 task.retrying attempt=1 failures=0 code=worker_lost message="the worker was lost"
5 task.started attempt=2
6 task.completed attempt=2 generation=2
`
		if got := env.Journal(id); got != want {
			t.Errorf("Journal() =\n%s\nwant\n%s", got, want)
		}
	})
}

// The steps of a script can be text, so that a test reads as a table.
func TestParseRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, script := range []string{"dance", "sleep long", "input x", "emit a ! dance"} {
		if _, err := outlivetest.Parse(script); err == nil {
			t.Errorf("Parse(%q) accepts it", script)
		}
	}
}

// Audit judges any store, also that of a program which is running.
func ExampleAudit() {
	ctx := context.Background()
	st := memory.New(nil)
	rt := outlive.New(st, nil)
	outlive.Handle(rt, "double.v1", func(_ context.Context, _ *work.Attempt, n int) (int, error) { return 2 * n, nil })
	if err := rt.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	ref, err := outlive.Submit(ctx, rt, "double.v1", 21, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	rec, err := ref.Wait(ctx)
	fmt.Println(outlivetest.Line(rec), err)
	problems, err := outlivetest.Audit(ctx, st)
	fmt.Println(len(problems), err)
	fmt.Println(rt.Stop(ctx), st.Close())
	// Output:
	// completed attempt=1 "42" <nil>
	// 0 <nil>
	// <nil> <nil>
}

// Line shows a record in one line, without ids and times.
func ExampleLine() {
	fmt.Println(outlivetest.Line(task.Record{
		State: task.Failed, Attempt: 2, Publication: task.OnCreate, Owner: task.OwnerManager,
		Failure: &task.Failure{Code: "worker_lost", Message: "the worker was lost", Outcome: task.OutcomeUnknown},
	}))
	// Output: failed attempt=2 worker_lost "the worker was lost" outcome-unknown
}
