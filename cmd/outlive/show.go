// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outlive-dev/outlive/cmd/outlive/internal/text"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool/command"
)

func (a *app) showCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show everything known of a task", Args: words(1, 1),
		ValidArgsFunction: a.completeIDs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.resolve(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			recs, unverified := a.reconcile(cmd.Context(), []task.Record{r})
			r = recs[0]
			if a.json {
				v := viewTask(&r)
				v.Unverified = unverified[r.ID]
				return a.printJSON(v)
			}
			return a.print(a.out, "%s", strings.Join(factsOf(&r, unverified[r.ID]), "\n")+"\n")
		},
	}
}

// factsOf lists what is known of a task, for people: what is not there is left out.
func factsOf(r *task.Record, unverified bool) []string {
	var out []string
	add := func(name, format string, args ...any) {
		if s := fmt.Sprintf(format, args...); s != "" {
			out = append(out, fmt.Sprintf("%-12s %s", name, s))
		}
	}
	at := func(name string, t time.Time) {
		if !t.IsZero() {
			add(name, "%s", t.Local().Format("2006-01-02 15:04:05.000 -07:00"))
		}
	}
	add("id", "%s", r.ID)
	add("name", "%s", r.Name)
	add("command", "%s", describe(&task.Record{Description: r.Description}))
	word := stateWord(r)
	if r.Unattended() {
		word += ", unattended"
	}
	if unverified {
		word += ", not verified in time"
	}
	add("state", "%s", word)
	if r.Failure != nil {
		add("failure", "%s, outcome %s", ending(r), r.Failure.Outcome)
	}
	if x, ok := command.ExitOf(r); ok {
		exitFacts(x, add)
	}
	at("cancel", r.CancelRequestedAt)
	add("reason", "%s", r.CancelReason)
	at("created", r.CreatedAt)
	at("due", r.DueAt)
	at("deadline", r.Deadline)
	at("started", r.StartedAt)
	at("done", r.DoneAt)
	if !r.DoneAt.IsZero() && !r.StartedAt.IsZero() {
		add("took", "%s", r.DoneAt.Sub(r.StartedAt).Round(time.Millisecond))
	}
	if s, ok := specOf(r); ok {
		add("directory", "%s", s.Dir)
		if s.Timeout > 0 {
			add("time limit", "%s", s.Timeout)
		}
	}
	add("executor", "%s", r.Executor)
	add("owner", "%s, generation %d", r.Owner, r.Generation)
	if r.Lease.Worker != "" {
		add("worker", "%s, epoch %d", r.Lease.Worker, r.Lease.Epoch)
	}
	add("attempt", "%d, failures %d of %d", r.Attempt, r.Failures, max(1, r.MaxAttempts))
	add("version", "%d, revision %d", r.Version, r.Revision)
	add("publication", "%s", r.Publication)
	add("parent", "%s", r.Parent)
	add("retry of", "%s", r.RetryOf)
	add("session", "%s", r.Session)
	add("queue", "%s", r.Queue)
	add("host", "%s", r.Place.Host)
	add("runs", "%s", r.Place.Dir)
	for _, t := range r.Tickets {
		add("waits for", "%s", t)
	}
	for _, k := range slices.Sorted(maps.Keys(r.Labels)) {
		add("label", "%s=%s", k, r.Labels[k])
	}
	return out
}

func exitFacts(x shell.Exit, add func(name, format string, args ...any)) {
	switch {
	case x.Code != nil && x.Reason == shell.ReasonOutOfMemory:
		add("exit", "%d, by %s, out of memory", *x.Code, x.Signal)
	case x.Code != nil && x.Signal != "":
		add("exit", "%d, by %s", *x.Code, x.Signal)
	case x.Code != nil:
		add("exit", "%d", *x.Code)
	}
	out := text.Size(x.TotalBytes)
	if x.OmittedBytes > 0 {
		out += fmt.Sprintf(", %s of it not kept", text.Size(x.OmittedBytes))
	}
	if x.Incomplete {
		out += ", may be incomplete: a process kept it open"
	}
	add("output", "%s", out)
	add("spool error", "%s", x.SpoolError)
	if x.LeftoversStopped > 0 {
		add("leftovers", "%d processes left behind were stopped", x.LeftoversStopped)
	}
	if x.LeftoversKept > 0 {
		add("leftovers", "%d processes left behind were kept", x.LeftoversKept)
	}
	if x.Rusage.MaxRSS > 0 {
		add("used", "%s user, %s system, %s memory", x.Rusage.User.Round(time.Millisecond), x.Rusage.System.Round(time.Millisecond), text.Size(x.Rusage.MaxRSS))
	}
}

func (a *app) treeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "tree ID", Short: "Show a task and the tasks started inside it", Args: words(1, 1),
		ValidArgsFunction: a.completeIDs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.named(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.tree(cmd.Context(), r, "", "")
		},
	}
}

// tree prints a task and its descendants; first leads its line, rest theirs.
func (a *app) tree(ctx context.Context, r task.Record, first, rest string) error {
	var err error
	if a.json {
		err = a.printTask(r)
	} else {
		width, _ := a.size()
		err = a.print(a.out, "%s\n", cutTo(fmt.Sprintf("%s%s  %s  %s", first, shortID(r.ID), stateWord(&r), describe(&r)), width))
	}
	if err != nil {
		return err
	}
	var kids []task.Record
	for after := task.ID(""); ; {
		page, err := a.rt.Children(ctx, r.ID, after, store.MaxPage)
		if err != nil {
			return err
		}
		kids = append(kids, page...)
		if len(page) < store.MaxPage {
			break
		}
		after = page[len(page)-1].ID
	}
	kids, _ = a.reconcile(ctx, kids)
	for i := range kids {
		branch, trunk := "├─ ", "│  "
		if i == len(kids)-1 {
			branch, trunk = "└─ ", "   "
		}
		if err := a.tree(ctx, kids[i], rest+branch, rest+trunk); err != nil {
			return err
		}
	}
	return nil
}
