// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/cmd/outlive/internal/console"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool/command"
)

// attachFlags are the words of outlive attach.
type attachFlags struct {
	stdin      bool
	detachKeys string
	onSignal   string
	tail       int
}

func (a *app) attachCommand() *cobra.Command {
	var f attachFlags
	cmd := &cobra.Command{
		Use:   "attach [-i] [--tail N] [--detach-keys KEYS] ID",
		Short: "Come back to a command: its output so far, then live, and its input",
		Long: "Prints a command's output from the start and then as it comes, and exits with its code,\n" +
			"as outlive run does. To leave does not touch it: any number may be attached.\n\n" +
			"A command with a terminal (run --tty) gets every key typed here and this terminal's size;\n" +
			"Ctrl-P Ctrl-Q leaves it. One that was started with -i takes input as long as somebody is\n" +
			"attached. Signals mean what they mean to run: Ctrl-C leaves after 2 s, a second one cancels.",
		Example: "  outlive attach web\n  outlive attach --tail 50 --detach-keys ctrl-] 9fn8",
		Args:    words(1, 1), ValidArgsFunction: a.completeIDs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.ownErrors(a.attach(cmd.Context(), args[0], f))
		},
	}
	fs := cmd.Flags()
	fs.BoolVarP(&f.stdin, "stdin", "i", false, "copy standard input to the command until its end, also when it is no terminal")
	fs.StringVar(&f.detachKeys, "detach-keys", console.DetachKeys, "the `KEYS` that leave a command with a terminal; none for none")
	fs.StringVar(&f.onSignal, "on-signal", "", "`WHAT` to do on SIGINT, SIGTERM and SIGHUP: detach or cancel")
	fs.IntVar(&f.tail, "tail", -1, "only the last `N` lines of what is there")
	return cmd
}

// attach follows a command that somebody else started, as run follows its own.
func (a *app) attach(ctx context.Context, word string, f attachFlags) error {
	keys, err := console.ParseKeys(f.detachKeys)
	switch {
	case err != nil:
		return usagef("--detach-keys: %v", err)
	case f.tail < -1:
		return usagef("--tail wants a number from 0")
	}
	if err := checkOnSignal(f.onSignal); err != nil {
		return err
	}
	r, err := a.named(ctx, word)
	if err != nil {
		return a.missing(err)
	}
	spec, ok := specOf(&r)
	if !ok {
		return fault.Newf(fault.Unsupported, "%s is no command", r.ID).WithHint("outlive events -f " + string(r.ID) + " follows it")
	}
	b, err := a.commands.Backend(&r)
	if err != nil {
		return err
	}
	open := spec.StdinOpen || spec.TTY != nil
	if f.stdin && !open {
		return usagef("-i: %s reads no input", r.ID).withHint("start it with -i or --tty")
	}
	sig := a.listen()
	defer sig.stop()
	caller, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	a.group.Go("signals", func(context.Context) {
		sig.serve(ctx, a, r, f.onSignal, func() { leave(errLeft) })
	})
	// Whoever follows a task that nobody watches records its end.
	ends := make(chan attachEnd, 1)
	a.group.Go("end", func(context.Context) {
		rec, err := a.rt.Wait(ctx, r.ID, outlive.Terminal)
		ends <- attachEnd{rec, err}
	})
	c := &copier{app: a, rec: r, late: true, gone: leave, terminal: a.outIsTerminal()}
	run := &watched{app: a, rec: r, sig: sig, copier: c}
	there, err := a.whenThere(caller, b, &r)
	switch {
	case err != nil && caller.Err() != nil:
		return run.left(r.ID)
	case err != nil:
		return err
	case there == nil: // it has ended, and its files are gone
		if err := a.fromJournal(ctx, r, shell.ErrNoRun, a.sink(false, false)); err != nil {
			return err
		}
		return a.verdict(r, true)
	}
	if f.tail >= 0 {
		if c.next, err = a.tailOffset(ctx, b, command.RunID(r.ID), 0, f.tail); err != nil {
			return err
		}
	}
	if open && there.Exit == nil {
		c.in = a.keyboardOf(f.stdin || console.IsTerminal(a.in) && !a.noInput, spec.TTY != nil, keys)
		c.in.quit = func() { sig.detach(func() { leave(errLeft) }) }
		c.in.from(there.Bytes)
	}
	defer c.in.raw.Restore()
	ready := make(chan struct{})
	close(ready)
	c.start(ctx, &command.Loan{Ready: ready})
	defer c.unhook()
	select {
	case e := <-ends:
		if e.err != nil {
			c.abandon()
			return e.err
		}
		return run.outcome(outlive.Outcome{Task: e.rec})
	case <-caller.Done():
		c.abandon()
		return run.left(r.ID)
	}
}

// attachEnd is how a task that is attached to ended.
type attachEnd struct {
	rec task.Record
	err error
}

// errLeft is the cause when somebody leaves a task.
var errLeft = fault.New(fault.Closed, "left")

// missing makes a task that is not there an error of outlive's own, as run and wait
// have them.
func (a *app) missing(err error) error {
	if fault.Is(err, fault.NotFound) {
		return &coded{code: exitOwn, err: fmt.Errorf("%w", err)}
	}
	return err
}

// whenThere waits until a command has been started, and returns its state then; nil when
// it has ended and nothing is left of it. It rereads the task's record.
func (a *app) whenThere(ctx context.Context, b shell.Recoverable, r *task.Record) (*shell.State, error) {
	for said := false; ; {
		st, err := b.Recover(ctx, command.RunID(r.ID))
		if err != nil {
			return nil, err
		}
		if st.Phase == shell.Live || st.Exit != nil {
			// Its process may be there, and its files not.
			if _, err := b.Read(ctx, command.RunID(r.ID), 0, 1, 0); !fault.Is(err, fault.NotFound) {
				return &st, err
			}
		}
		if r.State.Terminal() {
			return nil, nil
		}
		if !said && r.State == task.Pending {
			said = true
			a.note("%s does not run yet (outlive why %s)", r.ID, r.ID)
		}
		select {
		case <-time.After(notStarted):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		now, err := a.rt.Get(ctx, r.ID)
		if err != nil {
			return nil, err
		}
		*r = now
	}
}
