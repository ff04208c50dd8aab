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
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"syscall"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/store/sqlite"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool"
)

// ticket is what the tool asks under.
const ticket = "run"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "approval:", err)
		os.Exit(1)
	}
}

// program is what the command line says.
type program struct {
	rt      *outlive.Runtime
	out     io.Writer
	db      string
	name    string
	command string
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	p := program{out: out}
	flags := flag.NewFlagSet("approval", flag.ContinueOnError)
	flags.StringVar(&p.db, "db", filepath.Join(os.TempDir(), "outlive-approval.db"), "the store's file")
	flags.StringVar(&p.name, "name", "first", "which task: the same name goes on with the same task")
	flags.StringVar(&p.command, "command", "echo hello", "what to run")
	if err := flags.Parse(args); err != nil {
		return err
	}
	st, err := sqlite.Open(ctx, p.db, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	answers := flags.Arg(0) == "answer"
	p.rt = outlive.New(st, &outlive.Options{Passive: answers})
	p.rt.Register(tool.Resumable{Key: "approved_command.v1", Run: p.call}.Executor())
	if err := p.rt.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.rt.Stop(context.WithoutCancel(ctx))) }()
	switch {
	case answers && flags.NArg() == 2:
		return p.answer(ctx, flags.Arg(1))
	case flags.NArg() == 0:
		return p.work(ctx)
	}
	return errors.New("want no words, or: answer approve, answer deny")
}

// call is the tool. It is run again from its beginning after the answer, in whichever
// process is there then.
func (p *program) call(ctx context.Context, j *tool.Job) (tool.Result, error) {
	// Here a model would say what it wants; asked again it may say something else.
	args, err := json.Marshal(map[string]string{"command": p.command})
	if err != nil {
		return tool.Result{}, err
	}
	var res tool.Result
	err = j.Approved(ctx, ticket, "Run "+p.command+" ?", args, func(ctx context.Context) error {
		said, err := exec.CommandContext(ctx, "sh", "-c", p.command).CombinedOutput()
		res.Text, res.IsError = string(said), err != nil
		if err != nil {
			res.Text += err.Error()
		}
		return nil // it has run: how it ended is the result
	})
	return res, err
}

// work makes the task, or finds the one of an earlier process, and sees it through.
func (p *program) work(ctx context.Context) error {
	r, err := p.rt.Submit(ctx, outlive.Spec{
		Executor: "approved_command.v1", Invocation: "approval/" + p.name, Name: p.name, Description: "a command behind an approval",
	})
	if err != nil {
		return err
	}
	if r, err = p.rt.Wait(ctx, r.ID, outlive.Boundary); err != nil {
		return err
	}
	if r.State == task.Waiting {
		asked, err := p.rt.Tickets(ctx, r.ID)
		if err != nil {
			return err
		}
		for i := range asked {
			if asked[i].Open() {
				fmt.Fprintf(p.out, "%s asks: %s\nanswer with: outlive --store sqlite:%s answer %s approve\n", r.ID, asked[i].Prompt, p.db, r.ID)
			}
		}
	}
	if r, err = p.rt.Wait(ctx, r.ID, outlive.Terminal); err != nil {
		return err
	}
	if r.State != task.Completed {
		return fmt.Errorf("%s: %w", r.ID, &outlive.FailedError{Record: r})
	}
	var said struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(r.Result.Data, &said); err != nil {
		return err
	}
	fmt.Fprintf(p.out, "%s %s: %s\n", r.ID, r.State, said.Text)
	return nil
}

// answer decides what the task of that name asks. The task need not run.
func (p *program) answer(ctx context.Context, word string) error {
	verdicts := map[string]mail.Verdict{"approve": mail.Approved, "deny": mail.Denied}
	found, err := p.rt.Find(ctx, p.name, 1)
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return fmt.Errorf("no task is named %s", p.name)
	case verdicts[word] == "":
		return fmt.Errorf("%q is neither approve nor deny", word)
	}
	who := "somebody"
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	row, err := p.rt.Answer(ctx, found[0].ID, ticket, mail.Decision{Verdict: verdicts[word], By: who})
	if err != nil {
		return err
	}
	fmt.Fprintf(p.out, "%s %s by %s\n", found[0].ID, row.Decision.Verdict, row.Decision.By)
	return nil
}
