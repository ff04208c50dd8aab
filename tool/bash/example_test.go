// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bash_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local"
	"github.com/outlive-dev/outlive/store/memory"
	"github.com/outlive-dev/outlive/tool"
	"github.com/outlive-dev/outlive/tool/bash"
	"github.com/outlive-dev/outlive/tool/command"
)

// The tool for a model, in a directory of its own. A program that runs commands calls
// local.Main first thing in main.
func ExampleNew() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	commands := command.New(command.Options{
		Dir:  filepath.Join(dir, "runs"),
		Open: func(dir string) (shell.Recoverable, error) { return local.Open(dir, nil) },
	})
	st := memory.New(nil)
	rt := outlive.New(st, nil)
	rt.Register(commands.Executor())
	if err := rt.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	sh, err := bash.New(bash.Options{Runtime: rt, Commands: commands, Dir: dir, Mode: shell.AlwaysForeground})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, args := range []string{
		`{"command": "echo hello; exit 3"}`,
		`{"command": "echo part; sleep 60", "timeout": 2}`,
		`{"command": "pwd", "timeoutMs": 500}`,
	} {
		r, err := sh.Call(ctx, tool.Caller{}, json.RawMessage(args))
		fmt.Println(strings.TrimSpace(r.Text), err)
	}
	fmt.Println(rt.Stop(ctx), st.Close())
	// Output:
	// hello
	// [exit code: 3] <nil>
	// part
	// [timed out after 2s: the command was stopped; the output above is what it had produced] <nil>
	// [error: arguments: there is no argument "timeoutMs", the nearest is "timeout"]
	// Arguments: command (required), run_in_background, timeout, cwd.
	// Nothing was started. <nil>
	// <nil> <nil>
}
