// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlive_test

import (
	"context"
	"fmt"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/store/memory"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// A tool asks before it deletes, and deletes only what was approved, once.
func ExampleRuntime_Answer() {
	ctx := context.Background()
	st := memory.New(nil)
	defer st.Close()
	rt := outlive.New(st, nil)
	args := []byte(`{"path":"/tmp/x"}`)
	rt.Register(work.Executor{
		Key: "delete.v1",
		Run: func(ctx context.Context, a *work.Attempt) work.Result {
			if row, err := a.Ticket(ctx, "ok"); err != nil || row.Open() {
				ask, err := work.Approval("ok", "Delete /tmp/x?", args)
				if err != nil {
					return work.Fail("args", err.Error())
				}
				return work.Ask(nil, true, ask)
			}
			if err := a.Claim(ctx, "ok", args); err != nil {
				return work.Fail("denied", err.Error())
			}
			// Delete it here. A crash before Settle leaves an unknown outcome.
			if err := a.Settle(ctx, "ok"); err != nil {
				return work.Lost("unsettled", err.Error())
			}
			return work.Done(task.Payload{Media: "text/plain", Data: []byte("deleted")})
		},
	})
	if err := rt.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = rt.Stop(ctx) }()

	r, err := rt.Submit(ctx, outlive.Spec{Executor: "delete.v1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, _ = rt.Wait(ctx, r.ID, outlive.Boundary)
	fmt.Println(r.State)

	row, err := rt.Answer(ctx, r.ID, "", mail.Decision{Verdict: mail.Approved, By: "ann"})
	fmt.Println(row.Decision.Verdict, err)
	_, err = rt.Answer(ctx, r.ID, "ok", mail.Decision{Verdict: mail.Denied, By: "bob"})
	fmt.Println(err != nil)

	r, _ = rt.Wait(ctx, r.ID, outlive.Terminal)
	fmt.Println(r.State, string(r.Result.Data))
	// Output:
	// waiting
	// approved <nil>
	// true
	// completed deleted
}
