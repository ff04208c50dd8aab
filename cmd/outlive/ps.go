// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

func (a *app) psCommand() *cobra.Command {
	var all bool
	var states, labels []string
	limit := store.DefaultPage
	cmd := &cobra.Command{
		Use:   "ps [-a] [--state S] [--label K=V] [--limit N]",
		Short: "List tasks, newest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f := store.Filter{Limit: limit}
			if limit < 1 || limit > store.MaxPage {
				return usagef("--limit %d: want 1 to %d", limit, store.MaxPage)
			}
			var err error
			if f.Label, err = pairs("label", labels); err != nil {
				return err
			}
			if !all {
				f.States = []task.State{task.Pending, task.Running, task.Waiting, task.Suspended}
			}
			if len(states) > 0 {
				f.States = nil
				for _, s := range states {
					f.States = append(f.States, task.State(s))
				}
			}
			return a.ps(cmd.Context(), f)
		},
	}
	fs := cmd.Flags()
	fs.BoolVarP(&all, "all", "a", false, "also those that have ended")
	fs.StringArrayVar(&states, "state", nil, "only tasks in this state, may be repeated")
	fs.StringArrayVar(&labels, "label", nil, "only tasks with this K=V, may be repeated")
	fs.IntVar(&limit, "limit", store.DefaultPage, "at most this many")
	return cmd
}

func (a *app) ps(ctx context.Context, f store.Filter) error {
	if err := a.open(ctx); err != nil {
		return err
	}
	recs, err := a.rt.List(ctx, f)
	if err != nil {
		return err
	}
	recs, unverified := a.reconcile(ctx, recs)
	if a.json {
		for i := range recs {
			v := viewTask(&recs[i])
			v.Unverified = unverified[recs[i].ID]
			if err := a.printJSON(v); err != nil {
				return err
			}
		}
		return nil
	}
	width := 0
	if term.IsTerminal(int(a.out.Fd())) {
		width, _, _ = term.GetSize(int(a.out.Fd()))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-8s  %-12s  %4s  %s\n", "ID", "STATE", "AGE", "COMMAND")
	now := time.Now()
	for i := range recs {
		r := &recs[i]
		word := stateWord(r)
		if unverified[r.ID] {
			word += "?"
		}
		line := fmt.Sprintf("%-8s  %-12s  %4s  %s", shortID(r.ID), word, age(now.Sub(r.CreatedAt)), describe(r))
		fmt.Fprintln(&b, cutTo(line, width))
	}
	return a.print(a.out, "%s", b.String())
}

func shortID(id task.ID) string {
	if len(id) <= 8 {
		return string(id)
	}
	return string(id[len(id)-8:])
}

func describe(r *task.Record) string {
	s := r.Description
	if r.Name != "" {
		s = r.Name + ": " + s
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "\n", " "), "\t", " ")
}
