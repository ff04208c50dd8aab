// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/store/memory"
	"github.com/outlive-dev/outlive/tool"
	"github.com/outlive-dev/outlive/tool/control"
	"github.com/outlive-dev/outlive/work"
)

// The tools by which a model reaches what it has left in the background; two of them
// switched off.
func ExampleControl_Tools() {
	ctx := context.Background()
	st := memory.New(nil)
	rt := outlive.New(st, nil)
	running := make(chan struct{}, 1)
	outlive.Handle(rt, "wait.v1", func(ctx context.Context, _ *work.Attempt, d time.Duration) (string, error) {
		running <- struct{}{}
		select {
		case <-time.After(d):
			return "it has passed", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
	if err := rt.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	ref, err := outlive.Submit(ctx, rt, "wait.v1", time.Hour, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	<-running
	c := control.New(control.Options{Runtime: rt, Names: tool.Names{Send: tool.Off, Answer: tool.Off}})
	for _, t := range c.Tools() {
		args := map[string]any{}
		if t.Name != "task_list" {
			args["task_id"] = ref.ID()
		}
		if t.Name == "task_output" {
			args["block"] = false
		}
		raw, err := json.Marshal(args)
		if err != nil {
			fmt.Println(err)
			return
		}
		r, err := t.Call(ctx, tool.Caller{}, raw)
		first, _, _ := strings.Cut(strings.ReplaceAll(r.Text, string(ref.ID()), "ID"), " for ")
		fmt.Printf("%s: %q %v\n", t.Name, strings.SplitN(first, ";", 2)[0], err)
	}
	fmt.Println(rt.Stop(ctx), st.Close())
	// Output:
	// task_list: "1 open, newest first:\nID tk running" <nil>
	// task_output: "[task ID: running" <nil>
	// task_stop: "[task ID: stopped]" <nil>
	// <nil> <nil>
}
