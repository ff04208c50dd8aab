// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local"
	"github.com/outlive-dev/outlive/store/sqlite"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool/command"
	"github.com/outlive-dev/outlive/work"
)

func main() {
	if local.Main(os.Args) {
		return // it is the supervisor of a command
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "nested:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("nested", flag.ContinueOnError)
	db := flags.String("db", filepath.Join(os.TempDir(), "outlive-nested.db"), "the store's file")
	name := flags.String("name", "first", "which task: the same name goes on with the same task")
	trace := flags.String("trace", "", "append what each turn does to this file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	commands := flags.Args()
	if len(commands) == 0 {
		commands = []string{"sleep 1; echo one", "sleep 2; echo two", "sleep 3; echo three"}
	}
	input, err := json.Marshal(commands)
	if err != nil {
		return err
	}
	st, err := sqlite.Open(ctx, *db, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	rt := outlive.New(st, nil)
	rt.Register(command.New(command.Options{
		Dir:  *db + ".runs",
		Open: func(dir string) (shell.Recoverable, error) { return local.Open(dir, nil) },
	}).Executor())
	p := parent{trace: *trace}
	rt.Register(work.Executor{Key: "nested.v1", Kind: "ag", ReadsInput: true, Drains: true, OnLeaseLoss: task.LoseRetry, Run: p.turn})
	if err := rt.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Stop(context.WithoutCancel(ctx))) }()

	r, err := rt.Submit(ctx, outlive.Spec{
		Executor: "nested.v1", Invocation: "nested/" + *name, Description: "three commands in the background",
		Input: task.Payload{Media: "application/json", Data: input},
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, r.ID)
	if r, err = rt.Wait(ctx, r.ID, outlive.Terminal); err != nil {
		return err
	}
	if r.State != task.Completed {
		return &outlive.FailedError{Record: r}
	}
	fmt.Fprint(out, string(r.Result.Data))
	return nil
}

// parent is the task that waits for others.
type parent struct{ trace string }

// children is the ticket that the ends of the children decide.
const children = "children"

// turn is one attempt: the first starts the commands, the last tells how they ended.
// Any of them may be cut anywhere.
func (p *parent) turn(ctx context.Context, a *work.Attempt) work.Result {
	p.point(a, "turn.begun")
	row, err := a.Ticket(ctx, children)
	switch {
	case fault.Is(err, fault.NotFound), err == nil && row.Open():
		return p.start(ctx, a)
	case err != nil:
		return work.Retry("store", err.Error())
	}
	return p.tell(ctx, a)
}

// start starts the commands and ends the turn until they have ended.
func (p *parent) start(ctx context.Context, a *work.Attempt) work.Result {
	var commands []string
	if err := json.Unmarshal(a.Task().Spec.Data, &commands); err != nil {
		return work.Fail("input", err.Error())
	}
	dir, err := os.Getwd()
	if err != nil {
		return work.Fail("directory", err.Error())
	}
	var ids []task.ID
	for i, text := range commands {
		child, err := a.Spawn(ctx, work.Child{
			Executor: command.Key, Invocation: fmt.Sprint(i), Description: text,
			Input: command.Spec{Command: text, Dir: dir}.Payload(),
		})
		if err != nil {
			return work.Retry("spawn", err.Error())
		}
		ids = append(ids, child.ID)
		p.point(a, fmt.Sprintf("turn.spawned%d", i+1))
	}
	p.point(a, "turn.asks")
	return work.Ask(nil, true, work.Children(children, true, ids...))
}

// tell reads the notices and makes the result of them, and of what an earlier turn
// committed.
func (p *parent) tell(ctx context.Context, a *work.Attempt) work.Result {
	r := a.Task()
	var text strings.Builder
	if r.Checkpoint != nil {
		text.Write(r.Checkpoint.Data)
	}
	var read []mail.Input
	for cursor := r.ConsumedInput; cursor < r.LatestInput; {
		for in, err := range a.Inputs(ctx) {
			if err != nil {
				return work.Retry("store", err.Error())
			}
			read, cursor = append(read, in), in.Seq
			fmt.Fprintf(&text, "%s %s\n", in.From, in.Kind)
			if cursor == r.LatestInput {
				break
			}
		}
	}
	p.point(a, "turn.read", read...)
	if len(read) > 0 {
		cp := task.Checkpoint{Format: "text", Version: 1, Data: []byte(text.String())}
		if err := a.CommitInput(ctx, r.LatestInput, &cp); err != nil {
			return work.Retry("store", err.Error())
		}
	}
	p.point(a, "turn.committed")
	res := work.Done(task.Payload{Media: "text/plain", Data: []byte(text.String())})
	res.Cursor = r.LatestInput
	return res
}

// point notes in the trace how far a turn is, and what it was given. It is also where
// OUTLIVE_FAILPOINT makes the process kill itself, as at the points of the store and
// of the supervisor of commands.
func (p *parent) point(a *work.Attempt, name string, read ...mail.Input) {
	if p.trace != "" {
		var line strings.Builder
		fmt.Fprintf(&line, "%d %s", a.Number(), name)
		for _, in := range read {
			fmt.Fprintf(&line, " %d", in.Seq)
		}
		f, err := os.OpenFile(p.trace, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = fmt.Fprintln(f, line.String())
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			panic(err) // who asked for a trace relies on it
		}
	}
	if os.Getenv(local.FailpointEnv) == name {
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Kill()
		}
		select {} // the kill is on its way
	}
}
