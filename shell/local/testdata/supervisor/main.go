// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Command supervisor is the smallest program that can supervise runs, and that a
// test can kill while it starts or watches one:
//
//	supervisor start|start-environ|attach RUNS ID WORKDIR COMMAND
//	supervisor start-request RUNS ID "" "" < REQUEST
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local"
)

func main() {
	local.Main(os.Args)
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(verb string, args []string) error {
	r, err := local.Open(args[0], nil)
	if err != nil {
		return err
	}
	ctx := context.Background()
	id := shell.RunID(args[1])
	req := shell.Request{Command: args[3], Dir: args[2], Attached: verb == "attach"}
	if verb == "start-environ" {
		req.Environ = []string{"PATH=/usr/bin:/bin", "SECRET=value-of-secret"}
	}
	if verb == "start-request" {
		req = shell.Request{}
		if err := json.NewDecoder(os.Stdin).Decode(&req); err != nil {
			return err
		}
	}
	if err := r.Start(ctx, id, shell.Fence{Generation: 1, Attempt: 1}, req); err != nil {
		return err
	}
	if verb != "attach" {
		return nil
	}
	a, err := r.Attach(ctx, id, 0)
	if err != nil {
		return err
	}
	if _, err := a.Read(ctx, 10); err != nil {
		return err
	}
	fmt.Println("attached")
	select {} // until it is killed
}
