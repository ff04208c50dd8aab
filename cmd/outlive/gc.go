// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/outlive-dev/outlive/cmd/outlive/internal/host"
	"github.com/outlive-dev/outlive/cmd/outlive/internal/text"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local"
	"github.com/outlive-dev/outlive/task"
)

const (
	keepFiles = 7 * 24 * time.Hour    // of a finished command, by default
	orphanAge = 24 * time.Hour        // of one whose task is not in the store
	tidyTime  = 20 * time.Millisecond // what each run spends on cleaning up
)

func (a *app) gcCommand() *cobra.Command {
	var keep time.Duration
	var budget string
	var dry bool
	cmd := &cobra.Command{
		Use:   "gc [--keep D] [--budget SIZE] [--dry-run]",
		Short: "Remove the files of commands that ended long ago",
		Long: "Removes the files of commands whose end the store has and that ended longer ago than\n" +
			"--keep, those of commands the store does not know after a day, and markers that are no\n" +
			"longer needed. Tasks and their journal stay: logs then prints what the journal holds, the\n" +
			"first MiB of output. When what is left takes more than --budget, the oldest commands that\n" +
			"ended lose their output behind the first MiB, too. A command that runs is never touched.\n" +
			"It may be killed at any time.",
		Args: words(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if keep < 0 {
				return usagef("--keep %v: want a duration such as 24h", keep)
			}
			most, err := text.ParseSize(budget)
			if err != nil {
				return usagef("--budget: %v", err)
			}
			ctx := a.interruptible(cmd.Context())
			if err := a.open(ctx); err != nil {
				return err
			}
			if dry {
				return a.wouldCollect(ctx, keep, most)
			}
			rep, err := a.collect(ctx, keep, most)
			if err != nil {
				return err
			}
			return a.printGC(rep)
		},
	}
	cmd.Flags().DurationVar(&keep, "keep", keepFiles, "keep the files of a command for `D` after its end")
	cmd.Flags().StringVar(&budget, "budget", "10g", "the `SIZE` that files of commands may take in all")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would go, remove nothing")
	return cmd
}

// collect lets the backend remove what policy gives up.
func (a *app) collect(ctx context.Context, keep time.Duration, budget int64) (local.GCReport, error) {
	b, err := a.commands.Backend(&task.Record{})
	if err != nil {
		return local.GCReport{}, err
	}
	r, ok := b.(*local.Recoverable)
	if !ok {
		return local.GCReport{}, fault.New(fault.Unsupported, "this backend keeps no files here")
	}
	return r.GC(ctx, func(id shell.RunID) local.Verdict { return a.policy(ctx, id, keep) }, budget)
}

// policy is what the store thinks of a run: its end was taken over long enough ago, or
// nobody knows it, or it is needed. In doubt it is needed.
func (a *app) policy(ctx context.Context, id shell.RunID, keep time.Duration) local.Verdict {
	rec, err := a.rt.Get(ctx, taskOf(id))
	switch {
	case fault.Is(err, fault.NotFound):
		return local.Stray
	case err != nil || !rec.State.Terminal():
		return local.Needed
	}
	if rec.Retention > 0 {
		keep = rec.Retention
	}
	if time.Since(rec.DoneAt) < keep {
		return local.Stored
	}
	return local.Taken
}

// tidy is the cleaning up of each run, after its own work.
func (a *app) tidy() {
	if a.rt == nil || a.leaving {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), tidyTime)
	defer cancel()
	_, _ = a.collect(ctx, keepFiles, local.DefaultBudget) // gc says what is wrong
}

type gcView struct {
	Removed    int   `json:"removed"`
	Tombstones int   `json:"tombstones"`
	Trimmed    int   `json:"trimmed"`
	Freed      int64 `json:"freed_bytes"`
	Kept       int   `json:"kept"`
	Live       int   `json:"live"`
	Bytes      int64 `json:"kept_bytes"`
	Partial    bool  `json:"partial,omitempty"`
	DryRun     bool  `json:"dry_run,omitempty"`
}

func (a *app) printGC(rep local.GCReport) error {
	v := gcView{
		Removed: rep.Removed, Tombstones: rep.Tombstones, Trimmed: rep.Trimmed, Freed: rep.Freed, Kept: rep.Runs - rep.Removed,
		Live: rep.Live, Bytes: rep.Bytes, Partial: rep.Partial,
	}
	return a.sayGC(v)
}

func (a *app) sayGC(v gcView) error {
	if a.json {
		return a.printJSON(v)
	}
	did := "freed"
	if v.DryRun {
		did = "would free"
	}
	said := fmt.Sprintf("%s %s: %d commands and %d markers\nkept  %s: %d commands, %d of them running\n",
		did, text.Size(v.Freed), v.Removed, v.Tombstones, text.Size(v.Bytes), v.Kept, v.Live)
	if v.Trimmed > 0 {
		said += fmt.Sprintf("of these %d lost output, to keep to the budget\n", v.Trimmed)
	}
	if v.Partial {
		said += "it was interrupted; run it again for the rest\n"
	}
	return a.print(a.out, "%s", said)
}

// wouldCollect says what collect would remove.
func (a *app) wouldCollect(ctx context.Context, keep time.Duration, budget int64) error {
	b, err := a.commands.Backend(&task.Record{})
	if err != nil {
		return err
	}
	ids, err := b.List(ctx)
	if err != nil {
		return err
	}
	v := gcView{DryRun: true}
	for _, id := range ids {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		st, err := b.Recover(ctx, id)
		if err != nil {
			return err
		}
		dir := a.runDir(id)
		bytes := host.DiskUse(dir)
		verdict := a.policy(ctx, id, keep)
		old := st.Exit == nil || time.Since(st.Exit.EndedAt) > orphanAge
		switch {
		case st.Phase == shell.Live:
			v.Live++
		case verdict == local.Taken || verdict == local.Stray && old:
			v.Removed++
			v.Freed += bytes
			if !a.json {
				if err := a.print(a.out, "%s  %9s  %s\n", shortID(taskOf(id)), text.Size(bytes), dir); err != nil {
					return err
				}
			}
			continue
		}
		v.Kept++
		v.Bytes += bytes
	}
	if v.Bytes > budget {
		a.note("that is more than %s: the oldest would lose output, too", text.Size(budget))
	}
	tombs, _ := filepath.Glob(filepath.Join(a.runsDir(), "*", "*.released"))
	for _, p := range tombs {
		if a.policy(ctx, shell.RunID(trimExt(p)), keep) != local.Needed && olderThan(p, keepFiles) {
			v.Tombstones++
		}
	}
	return a.sayGC(v)
}
