// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package task_test

import (
	"fmt"
	"time"

	"github.com/outlive-dev/outlive/task"
)

func ExampleApply() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	apply := func(r task.Record, c task.Command) task.Record {
		next, effects, err := task.Apply(r, c, now)
		if err != nil {
			fmt.Println("refused:", err)
			return r
		}
		fmt.Printf("%s, version %d:", next.State, next.Version)
		for _, e := range effects {
			if j, ok := e.(task.Journal); ok {
				fmt.Print(" ", j.Kind)
			}
		}
		fmt.Println()
		return next
	}
	lease := task.Lease{Worker: "w-1", Epoch: 1}
	r := apply(task.Record{}, task.Create{Record: task.Record{ID: "sh-1", Executor: "report.v1"}})
	r = apply(r, task.Start{Lease: lease})
	r = apply(r, task.Complete{Fence: task.Fence{Attempt: 1, Lease: lease}, Result: task.Payload{Data: []byte("done")}})
	apply(r, task.RequestCancel{Reason: "too late"})
	// Output:
	// pending, version 1: task.created
	// running, version 2: task.started
	// completed, version 3: task.completed
	// refused: request_cancel task sh-1: the task has ended: completed
}

func ExampleNewID() {
	// Real callers fill the 14 bytes from crypto/rand.
	var random [14]byte
	fmt.Println(task.NewID("sh", time.UnixMilli(1767268800000), random))
	// Output: sh-01kdwpvng000000000000000000000000
}

func ExampleLimits_ValidateCreate() {
	r := task.Record{ID: "t-1", Executor: "Report"}
	fmt.Println(task.Limits{}.ValidateCreate(&r))
	r.Executor = "report.v1"
	r.Depth = 17
	fmt.Println(task.Limits{}.ValidateCreate(&r))
	// Output:
	// executor "Report" is not of the form name.vN
	// depth: 17 levels, the limit is 16
}
