// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/outlive-dev/outlive/task"
)

// commandsOf lists the command line's commands.
func (a *app) commandsOf() []*cobra.Command {
	return []*cobra.Command{
		a.runCommand(), a.psCommand(), a.logsCommand(), a.eventsCommand(), a.waitCommand(), a.cancelCommand(),
		a.publishCommand(), a.releaseCommand(), a.versionCommand(),
	}
}

func (a *app) publishCommand() *cobra.Command {
	return &cobra.Command{
		Use: "publish ID", Short: "Let others see a task that a foreground caller still watches", Args: cobra.ExactArgs(1),
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
		Use: "release ID", Short: "Let a suspended task go on", Args: cobra.ExactArgs(1),
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

// said prints what became of a task.
func (a *app) said(r task.Record, word string) error {
	if a.json {
		return a.printTask(r)
	}
	return a.print(a.out, "%s %s\n", r.ID, word)
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
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
