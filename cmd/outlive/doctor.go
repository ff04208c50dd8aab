// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

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
		Store: a.st, Runtime: a.rt, Place: a.place, Runs: a.runsDir(), Pages: a.pages, Strays: a.countStrays,
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
