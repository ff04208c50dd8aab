// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outlive-dev/outlive/cmd/outlive/internal/doctor"
	"github.com/outlive-dev/outlive/shell"
)

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Check the store, its tasks and this machine; exit 1 when something is wrong",
		Args: words(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.doctor(a.interruptible(cmd.Context()))
		},
	}
}

func (a *app) doctor(ctx context.Context) error {
	bad := 0
	say := func(list ...doctor.Check) error {
		for _, c := range list {
			if c.Status == doctor.Fail {
				bad++
			}
			if err := a.sayCheck(c); err != nil {
				return err
			}
		}
		return nil
	}
	if err := a.open(ctx); err != nil {
		if err := say(doctor.Failed("store", err), doctor.Service()); err != nil {
			return err
		}
		return &coded{code: exitError}
	}
	subject := &doctor.Subject{
		Store: a.st, Runtime: a.rt, Path: a.path, Runs: a.runsDir(), Pages: a.pages, Strays: a.countStrays,
	}
	for _, step := range subject.Checks() {
		if err := say(step(ctx)...); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if bad > 0 {
		return &coded{code: exitError}
	}
	return nil
}

func (a *app) sayCheck(c doctor.Check) error {
	if a.json {
		return a.printJSON(c)
	}
	code := map[string]string{doctor.OK: green, doctor.Warn: yellow, doctor.Fail: red}[c.Status]
	text := fmt.Sprintf("%s  %-8s  %s\n", a.color(code, fmt.Sprintf("%-4s", c.Status)), c.Name, c.Text)
	if c.Hint != "" {
		text += fmt.Sprintf("%16shint: %s\n", "", c.Hint)
	}
	return a.print(a.out, "%s", text)
}

// countStrays counts the commands that no task of this store knows.
func (a *app) countStrays(ctx context.Context) (all, live int, err error) {
	list, _, err := a.strays(ctx)
	for _, s := range list {
		if s.Phase == shell.Live {
			live++
		}
	}
	return len(list), live, err
}

func (a *app) migrateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "migrate", Short: "Bring the store to this version's schema, and say which it has",
		Long: "A SQLite store is brought to the present schema by whatever opens it first, after a copy\n" +
			"of an older one was made beside it. This does so and says what was done.",
		Args: words(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := a.storePath()
			if err != nil {
				return err
			}
			_, serr := os.Stat(path)
			before, _ := filepath.Glob(path + ".v*.bak")
			if err := a.open(cmd.Context()); err != nil {
				return err
			}
			after, _ := filepath.Glob(path + ".v*.bak")
			did := "current"
			switch {
			case os.IsNotExist(serr):
				did = "made"
			case len(after) > len(before):
				did = "migrated"
			}
			if a.json {
				return a.printJSON(map[string]any{"store": path, "schema": a.st.Info().Schema, "status": did, "copies": after})
			}
			text := map[string]string{
				"current": "is current", "made": "was made new", "migrated": "was migrated; the old one is kept as " + strings.Join(after, ", "),
			}[did]
			return a.print(a.out, "%s: schema %d %s\n", path, a.st.Info().Schema, text)
		},
	}
}
