// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/store/memory"
	"github.com/outlive-dev/outlive/tool"
)

// A function becomes a tool whose calls are tasks.
func ExampleManaged() {
	type args struct {
		Text string `json:"text"`
	}
	shout := tool.Plain{
		Key:   "shout.v1",
		Check: func(raw json.RawMessage) error { return tool.Decode(raw, &args{}) },
		Run: func(_ context.Context, j *tool.Job) (tool.Result, error) {
			var a args
			if err := tool.Decode(j.Args, &a); err != nil {
				return tool.Result{}, err
			}
			return tool.Result{Text: strings.ToUpper(a.Text)}, nil
		},
	}
	ctx := context.Background()
	st := memory.New(nil)
	rt := outlive.New(st, nil)
	rt.Register(shout.Executor())
	if err := rt.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	t := tool.Managed(tool.ManagedOptions{
		Runtime: rt, Executor: "shout.v1", Name: "shout", Description: "Say it louder.",
		Schema: json.RawMessage(`{"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}`),
	})
	for _, raw := range []string{`{"text": "hello"}`, `{"txt": "hello"}`} {
		r, err := t.Call(ctx, tool.Caller{}, json.RawMessage(raw))
		fmt.Println(r.Text, err)
	}
	fmt.Println(rt.Stop(ctx), st.Close())
	// Output:
	// HELLO <nil>
	// [error: submit shout.v1: arguments: there is no argument "txt", the nearest is "text"; text is missing]
	// Arguments: text (required).
	// Nothing was started. <nil>
	// <nil> <nil>
}

// Arguments are read strictly: what is wrong is named.
func ExampleDecode() {
	var args struct {
		URL   string `json:"url"`
		Depth int    `json:"depth,omitempty"`
	}
	err := tool.Decode(json.RawMessage(`{"url": "https://example.com", "dept": 2}`), &args)
	fmt.Println(err)
	fmt.Println(tool.Decode(json.RawMessage(`{"url": "https://example.com", "depth": 2}`), &args), args.URL, args.Depth)
	// Output:
	// arguments: there is no argument "dept", the nearest is "depth"
	// <nil> https://example.com 2
}
