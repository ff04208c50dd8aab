// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/store/sqlite"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// agents runs fn with a runtime over the store whose executor asks three things.
func agents(t *testing.T, path string, fn func(ctx context.Context, rt *outlive.Runtime)) {
	t.Helper()
	ctx := t.Context()
	st, err := sqlite.Open(ctx, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	rt := outlive.New(st, nil)
	args := []byte(`{"path":"/x"}`)
	rt.Register(work.Executor{
		Key: "agent.v1", Kind: "ag", ReadsInput: true, OnLeaseLoss: task.LoseRetry,
		Run: func(ctx context.Context, a *work.Attempt) work.Result {
			if ok, err := a.Ticket(ctx, "ok"); err == nil && !ok.Open() {
				if a.Claim(ctx, "ok", args) != nil {
					return work.Fail("denied", "not approved")
				}
				r := work.Done(task.Payload{Data: []byte("deleted")})
				r.Cursor = a.Task().LatestInput
				return r
			}
			approval, err := work.Approval("ok", "Delete /x?", args)
			if err != nil {
				return work.Fail("args", err.Error())
			}
			n := work.Question("n", "How many?")
			n.Schema = []byte(`{"type":"integer"}`)
			return work.Ask(nil, true, approval, n, work.Question("why", "Why?", "because"))
		},
	})
	if err := rt.Start(ctx); err != nil {
		t.Fatal(err)
	}
	fn(ctx, rt)
	if err := rt.Stop(context.WithoutCancel(ctx)); err != nil {
		t.Error(err)
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}

// Answers are given by the command line while nothing runs; a new process goes on.
func TestAnswerByCommandLine(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	path := filepath.Join(b.dir, "agents.db")
	b.env = append(b.env, "OUTLIVE_STORE=sqlite:"+path)
	agents(t, path, func(ctx context.Context, rt *outlive.Runtime) {
		for _, s := range []outlive.Spec{{ID: "ag-one", Executor: "agent.v1", Session: "talk"}, {ID: "ag-two", Executor: "agent.v1"}} {
			r, err := rt.Submit(ctx, s)
			if err != nil {
				t.Fatal(err)
			}
			if r, err = rt.Wait(ctx, r.ID, outlive.Boundary); err != nil || r.State != task.Waiting {
				t.Fatalf("%s is %s, %v", r.ID, r.State, err)
			}
		}
	})
	if r := b.run("ps", "--needs-attention"); r.code != 0 || !strings.Contains(r.out, "ok") {
		t.Errorf("ps --needs-attention: %d %q %q", r.code, r.out, r.err)
	}
	b.want(b.run("answer", "ag-one", "yes"), 2, "more than one")
	b.want(b.run("answer", "ag-one", "none", "yes"), 3, "no such ticket")
	b.want(b.run("answer", "ag-one", "n", "many"), 2, "is string, want integer")
	b.want(b.run("answer", "ag-one", "why", "so"), 2, "none of the options")
	b.must("answer", "ag-one", "n", "3")
	b.must("answer", "ag-one", "n", "3") // again
	b.want(b.run("answer", "ag-one", "n", "4"), 4, "answered \"3\"")
	if out := b.must("send", "ag-one", "hm"); !strings.Contains(out, "ag-one 2") {
		t.Errorf("send said %q, want the message queued behind the answer", out)
	}
	if out := b.must("send", "ag-one", "because"); !strings.Contains(out, "answered why") {
		t.Errorf("send said %q, want the answer of the one question", out)
	}
	b.must("answer", "ag-one", "approve")
	b.must("cancel", "ag-two")
	b.want(b.run("answer", "ag-two", "ok", "approve"), 4, "ended")
	b.want(b.run("send", "ag-two", "x"), 4, "ended")
	agents(t, path, func(ctx context.Context, rt *outlive.Runtime) {
		if r, err := rt.Wait(ctx, "ag-one", outlive.Terminal); err != nil || r.State != task.Completed {
			t.Errorf("ag-one is %s, %v", r.State, err)
		}
	})
	if out := b.must("session", "ls"); !strings.Contains(out, "talk\t1 turns\t0 waiting\tidle") {
		t.Errorf("session ls said %q", out)
	}
	if out := b.must("session", "show", "talk"); !strings.Contains(out, "ag-one") {
		t.Errorf("session show said %q", out)
	}
	if out := b.must("session", "events", "talk"); !strings.Contains(out, "task.completed") {
		t.Errorf("session events said %q", out)
	}
	b.want(b.run("session", "show", "none"), 3, "no such session")
	b.want(b.run("session"), 2, "a word is missing")
}
