// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/outlive-dev/outlive/cmd/outlive/internal/text"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// unfinished are the states that ps lists without -a.
func unfinished() []task.State {
	return []task.State{task.Pending, task.Running, task.Waiting, task.Suspended}
}

func (a *app) psCommand() *cobra.Command {
	var all, watch, needs, orphans bool
	var states, labels []string
	limit := store.DefaultPage
	cmd := &cobra.Command{
		Use:   "ps [-a] [-w] [--state S] [--label K=V] [--limit N] [--needs-attention] [--orphans]",
		Short: "List tasks, newest first",
		Long: "Lists unfinished tasks, newest first. Behind a state, * marks a task that a foreground\n" +
			"run still watches, and ? one whose state could not be verified in time.",
		Example: "  outlive ps -a --limit 20\n  outlive ps -w --label job=nightly\n  outlive ps --needs-attention",
		Args:    words(0, 0),
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
				f.States = unfinished()
			}
			if len(states) > 0 {
				if f.States, err = parseStates(states); err != nil {
					return err
				}
			}
			switch {
			case orphans && (watch || needs):
				return usagef("--orphans goes with neither -w nor --needs-attention")
			case orphans:
				return a.orphans(cmd.Context())
			case watch:
				return a.watch(cmd.Context(), f, needs)
			}
			return a.ps(cmd.Context(), f, needs)
		},
	}
	fs := cmd.Flags()
	fs.BoolVarP(&all, "all", "a", false, "also those that have ended")
	fs.BoolVarP(&watch, "watch", "w", false, "go on: redraw on a terminal, else a line for each change; Ctrl-C ends it")
	fs.StringArrayVar(&states, "state", nil, "only tasks in state `S`, may be repeated")
	fs.StringArrayVar(&labels, "label", nil, "only tasks with label `K=V`, may be repeated")
	fs.IntVar(&limit, "limit", store.DefaultPage, "at most `N`")
	fs.BoolVar(&needs, "needs-attention", false, "only tasks that somebody should look at, and why")
	fs.BoolVar(&orphans, "orphans", false, "commands whose task is not in the store; outlive cancel ends one")
	fixed := make([]string, 0, len(task.States()))
	for _, s := range task.States() {
		fixed = append(fixed, string(s))
	}
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(fixed, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func parseStates(list []string) ([]task.State, error) {
	known := make([]string, 0, len(task.States()))
	for _, s := range task.States() {
		known = append(known, string(s))
	}
	out := make([]task.State, 0, len(list))
	for _, s := range list {
		if !slices.Contains(known, s) {
			err := usagef("--state %q: want one of %s", s, strings.Join(known, ", "))
			if n := text.Nearest(s, known); n != "" {
				return nil, err.withHint("did you mean " + n + "?")
			}
			return nil, err
		}
		out = append(out, task.State(s))
	}
	return out, nil
}

// row is one line of a list.
type row struct {
	rec        task.Record
	unverified bool
	needs      string
}

// rows lists what ps shows, after the tasks told the truth.
func (a *app) rows(ctx context.Context, f store.Filter, needs bool) ([]row, error) {
	if err := a.open(ctx); err != nil {
		return nil, err
	}
	if needs {
		return a.attention(ctx, f)
	}
	recs, err := a.rt.List(ctx, f)
	if err != nil {
		return nil, err
	}
	recs, unverified := a.reconcile(ctx, recs)
	out := make([]row, 0, len(recs))
	for i := range recs {
		if len(f.States) == 0 || slices.Contains(f.States, recs[i].State) {
			out = append(out, row{rec: recs[i], unverified: unverified[recs[i].ID]})
		}
	}
	return out, nil
}

func (a *app) ps(ctx context.Context, f store.Filter, needs bool) error {
	list, err := a.rows(ctx, f, needs)
	if err != nil {
		return err
	}
	if a.json {
		return a.printRows(list)
	}
	width, _ := a.size()
	return a.print(a.out, "%s", strings.Join(a.table(list, width, needs), "\n")+"\n")
}

func (a *app) printRows(list []row) error {
	for i := range list {
		v := viewTask(&list[i].rec)
		v.Unverified, v.Needs = list[i].unverified, list[i].needs
		if err := a.printJSON(v); err != nil {
			return err
		}
	}
	return nil
}

// size is the terminal's, or 0 for anything else.
func (a *app) size() (width, height int) {
	if !a.outIsTerminal() {
		return 0, 0
	}
	width, height, _ = term.GetSize(int(a.out.Fd()))
	return width, height
}

const lineFormat = "%-8s  %-12s  %4s  %s"

// table renders rows with a head, cut to width columns unless it is 0.
func (a *app) table(list []row, width int, needs bool) []string {
	what := "COMMAND"
	if needs {
		what = "NEEDS"
	}
	lines := []string{a.color(bold, fmt.Sprintf(lineFormat, "ID", "STATE", "AGE", what))}
	short := shortIDs(list)
	for i := range list {
		lines = append(lines, a.line(&list[i], short[i], width))
	}
	return lines
}

func (a *app) line(r *row, id string, width int) string {
	word, what := stateWord(&r.rec), describe(&r.rec)
	if r.needs != "" {
		what = r.needs + ": " + what
	}
	mark := ""
	if r.rec.Publication == task.Deferred && !r.rec.State.Terminal() {
		mark = "*"
	}
	if r.unverified {
		mark += "?"
	}
	text := cutTo(fmt.Sprintf(lineFormat, id, word+mark, age(time.Since(r.rec.CreatedAt)), what), width)
	if head := len(id) + 2; len(text) > head+len(word) {
		return text[:head] + a.color(stateColor(&r.rec), text[head:head+len(word)]) + text[head+len(word):]
	}
	return text
}

func stateColor(r *task.Record) string {
	switch r.State {
	case task.Running:
		return green
	case task.Completed:
		if stateWord(r) != string(task.Completed) {
			return red
		}
		return dim
	case task.Failed:
		return red
	default:
		return yellow
	}
}

// shortIDs returns the last eight characters of each id, more where that would be
// ambiguous.
func shortIDs(list []row) []string {
	out := make([]string, len(list))
	for i := range list {
		id := string(list[i].rec.ID)
		n := 8
		for n < len(id) && slices.ContainsFunc(list, func(o row) bool {
			return o.rec.ID != list[i].rec.ID && strings.HasSuffix(string(o.rec.ID), id[len(id)-n:])
		}) {
			n++
		}
		out[i] = id[max(0, len(id)-n):]
	}
	return out
}

func shortID(id task.ID) string { return string(id[max(0, len(id)-8):]) }

// describe is the command as a line, with nothing in it that a terminal would obey.
func describe(r *task.Record) string {
	s := r.Description
	if r.Name != "" {
		s = r.Name + ": " + s
	}
	return strings.Map(func(c rune) rune {
		switch {
		case c == '\n' || c == '\t':
			return ' '
		case unicode.IsControl(c), unicode.Is(unicode.Bidi_Control, c), c == utf8.RuneError:
			return '?'
		}
		return c
	}, s)
}
