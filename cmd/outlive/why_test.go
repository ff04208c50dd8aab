// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/cmd/outlive/internal/text"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool/command"
)

// Every condition a task can be in, and what why says about it.
func TestExplain(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	lease := task.Lease{Worker: "wk-1", Epoch: 2}
	worker := store.Worker{ID: "wk-1", Epoch: 2, PID: 77, Host: "here", Executors: []string{command.Key}, LeaseUntil: now.Add(9 * time.Second)}
	base := func(s task.State, change func(*facts)) facts {
		f := facts{now: now, host: "here", rec: task.Record{
			ID: "sh-1", State: s, Executor: command.Key, Owner: task.OwnerManager, Publication: task.OnCreate,
			StartedAt: now.Add(-time.Minute), DueAt: now.Add(-time.Minute),
			Spec: command.Spec{Argv: []string{"true"}, Dir: "/", Environ: true}.Payload(),
		}}
		if change != nil {
			change(&f)
		}
		return f
	}
	able := func(f *facts) { f.workers = []store.Worker{worker} }
	cancel := func(f *facts, ago time.Duration) {
		f.rec.CancelRequestedAt, f.rec.CancelReason = now.Add(-ago), "enough"
	}
	for name, tt := range map[string]struct {
		facts facts
		want  []string // in summary, waits for, owner, next or advice
	}{
		"pending without a worker": {
			base(task.Pending, nil),
			[]string{"pending, no worker", "a worker for command.v1", "nobody yet", "run it again instead", "outlive cancel sh-1"},
		},
		"pending with a worker": {base(task.Pending, able), []string{"a worker starts it as soon"}},
		"queue full": {
			base(task.Pending, func(f *facts) {
				able(f)
				f.rec.Queue, f.queue, f.ahead = "q", store.Queue{Name: "q", Limit: 2}, 2
			}),
			[]string{"queue full", "a place in queue q: 2 of 2 run"},
		},
		"queue paused": {
			base(task.Pending, func(f *facts) { f.rec.Queue, f.queue = "q", store.Queue{Name: "q", Paused: true} }),
			[]string{"queue paused"},
		},
		"same key": {
			base(task.Pending, func(f *facts) { f.rec.ConcurrencyKey, f.sameKey = "k", []task.ID{"sh-0"} }),
			[]string{"the end of sh-0"},
		},
		"backoff": {
			base(task.Pending, func(f *facts) { f.rec.DueAt, f.rec.Failures, f.rec.MaxAttempts = now.Add(5*time.Second), 2, 4 }),
			[]string{"backing off", "(in 5s)", "failure 2 of 4"},
		},
		"not due": {
			base(task.Pending, func(f *facts) { f.rec.DueAt = now.Add(time.Hour) }),
			[]string{"not due", "(in 60m)"},
		},
		"running under a worker": {
			base(task.Running, func(f *facts) { f.rec.Lease, f.holder, f.rec.Attempt = lease, &worker, 3 }),
			[]string{"the command to end", "worker wk-1 (pid 77 on here), attempt 3", "(in 9s)", "outlive logs -f sh-1"},
		},
		"running, deferred": {
			base(task.Running, func(f *facts) { f.rec.Lease, f.holder, f.rec.Publication = lease, &worker, task.Deferred }),
			[]string{"not public", "outlive publish sh-1"},
		},
		"unattended": {
			base(task.Running, func(f *facts) { f.run = &shell.State{Phase: shell.Live, Pid: 5, Bytes: 12} }),
			[]string{"unattended", "pid 5, 12 bytes", "whoever looks next records its end"},
		},
		"unattended elsewhere": {
			base(task.Running, func(f *facts) { f.rec.Place.Host = "there" }),
			[]string{"a process on host there"},
		},
		"worker dead": {
			base(task.Running, func(f *facts) { f.rec.Lease = lease }),
			[]string{"whose lease is over", "takes over from the dead one"},
		},
		"parent": {
			base(task.Running, func(f *facts) { f.rec.Owner, f.rec.Parent = task.OwnerParent, "ag-1" }),
			[]string{"its parent ag-1"},
		},
		"canceling": {
			base(task.Running, func(f *facts) { f.rec.Lease, f.holder = lease, &worker; cancel(f, time.Second) }),
			[]string{"canceling (enough)", "its worker to stop"},
		},
		"canceling, nobody for a second": {
			base(task.Pending, func(f *facts) { cancel(f, time.Second) }),
			[]string{"ahead of every queue", "outlive cancel sh-1"},
		},
		"canceling, nobody for a minute": {
			base(task.Pending, func(f *facts) { cancel(f, 61*time.Second) }),
			[]string{"none came for 61s", "outlive cancel --force sh-1"},
		},
		"waiting": {
			base(task.Waiting, func(f *facts) { f.rec.Tickets = []task.TicketID{"tk-1"} }),
			[]string{"an answer to tk-1"},
		},
		"suspended": {
			base(task.Suspended, func(f *facts) { f.rec.SuspendReason = task.SuspendParked }),
			[]string{"suspended: parked", "outlive release sh-1"},
		},
		"completed": {base(task.Completed, nil), []string{"is completed", "nothing: it ended"}},
		"lost": {
			base(task.Failed, func(f *facts) { f.rec.Failure = &task.Failure{Code: "lost", Outcome: task.OutcomeUnknown} }),
			[]string{"lost", "never run again by itself", "outlive retry sh-1"},
		},
		"poison": {
			base(task.Failed, func(f *facts) {
				f.rec.Failures = 3
				f.rec.Failure = &task.Failure{Code: task.CodePoison, Outcome: task.OutcomeKnown}
			}),
			[]string{"3 failures used up"},
		},
		"canceled": {
			base(task.Canceled, func(f *facts) { f.rec.CancelReason = "enough" }),
			[]string{"canceled: enough"},
		},
	} {
		w := explain(tt.facts)
		text := w.text(&app{})
		for _, want := range tt.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: explain() =\n%s\nwant %q in it", name, text, want)
			}
		}
		if w.WaitsFor == "" || w.Owner == "" || w.Next == "" || len(w.Do) == 0 {
			t.Errorf("%s: explain() = %+v, want every line", name, w)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"cancel", "completion", "doctor", "logs", "ps", "run", "wait", "why"}
	for word, want := range map[string]string{
		"pss": "ps", "cancle": "cancel", "log": "logs", "doc": "doctor", "rum": "run", "xyzzy": "", "comp": "completion", "wiat": "wait",
	} {
		if got := text.Nearest(word, known); got != want {
			t.Errorf("text.Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}
