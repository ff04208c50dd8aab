// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/cmd/outlive/internal/bench"
	"github.com/outlive-dev/outlive/cmd/outlive/internal/dev"
	"github.com/outlive-dev/outlive/cmd/outlive/internal/host"
	"github.com/outlive-dev/outlive/session"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool/command"
)

// commandsOf lists the command line's commands.
func (a *app) commandsOf() []*cobra.Command {
	return []*cobra.Command{
		a.runCommand(), a.attachCommand(), a.psCommand(), a.showCommand(), a.whyCommand(), a.treeCommand(), a.logsCommand(), a.eventsCommand(),
		a.waitCommand(), a.cancelCommand(), a.publishCommand(), a.releaseCommand(), a.retryCommand(),
		a.answerCommand(), a.sendCommand(), a.sessionCommand(),
		a.gcCommand(), a.migrateCommand(), a.doctorCommand(), bench.Command(bench.Options{Place: a.where, Out: a.out, Note: a.note, Group: a.group}), a.sandboxdCommand(),
		dev.Command(dev.Options{Out: a.out, Note: a.note, Group: a.group}), a.versionCommand(),
	}
}

func (a *app) publishCommand() *cobra.Command {
	return &cobra.Command{
		Use: "publish ID", Short: "Let others see a task that a foreground caller still watches", Args: words(1, 1), ValidArgsFunction: a.completeIDs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.named(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if r, err = a.rt.Publish(cmd.Context(), r.ID); err != nil {
				return err
			}
			return a.said(r, string(r.Publication))
		},
	}
}

func (a *app) releaseCommand() *cobra.Command {
	return &cobra.Command{
		Use: "release ID", Short: "Let a suspended task go on", Args: words(1, 1), ValidArgsFunction: a.completeIDs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.named(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if r, err = a.rt.Release(cmd.Context(), r.ID); err != nil {
				return err
			}
			return a.said(r, stateWord(&r))
		},
	}
}

func (a *app) retryCommand() *cobra.Command {
	return &cobra.Command{
		Use: "retry ID", Short: "Run a task that has ended again, as a new task",
		Long: "Makes a new task with the same command, directory, labels and limits, starts it in the\n" +
			"background with this process's environment, and prints its id.",
		Args: words(1, 1), ValidArgsFunction: a.completeIDs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			old, err := a.named(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.retry(cmd.Context(), old)
		},
	}
}

func (a *app) retry(ctx context.Context, old task.Record) error {
	id, loan := outlive.NewID("sh"), &command.Loan{}
	spec, ok := specOf(&old)
	if ok {
		if command.IsURL(old.Place.Dir) {
			loan.Backend = old.Place.Dir
		}
		var err error
		if a.far, err = reach(ctx, loan.Backend); err != nil {
			return err
		}
		switch {
		case spec.Environ && a.far != nil:
			loan.Environ = a.far.environ(false, spec.TTY != nil, nil)
		case spec.Environ:
			loan.Environ = host.Overlay(os.Environ(), nil)
		}
		spec.StdinOpen = false // nobody is there to feed it
		a.commands.Lend(id, loan)
	}
	rec, err := a.rt.Retry(ctx, old.ID, "", func(s *outlive.Spec) {
		if ok {
			s.ID, s.Input, s.Here = id, spec.Payload(), true
			s.Busy = session.Reject // a command is no message to the turn that runs
		}
	})
	if err != nil {
		return err
	}
	return a.started(ctx, rec, loan)
}

// said prints what became of a task.
func (a *app) said(r task.Record, word string) error {
	if a.json {
		return a.printTask(r)
	}
	return a.print(a.out, "%s %s\n", r.ID, word)
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: words(0, 0),
		RunE: func(*cobra.Command, []string) error {
			version := "devel"
			if bi, ok := debug.ReadBuildInfo(); ok && bi.Main.Version != "" && bi.Main.Version != "(devel)" {
				version = bi.Main.Version
			}
			if a.json {
				return a.printJSON(map[string]string{"version": version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
			}
			return a.print(a.out, "outlive %s (%s, %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}
