// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// options are the words of the command line.
type options struct {
	n       int
	seed    uint64
	round   string
	tags    string
	dir     string
	keep    bool
	verbose bool
	mutants bool
}

func main() {
	var o options
	flag.IntVar(&o.n, "n", 200, "rounds, besides the directed ones")
	flag.Uint64Var(&o.seed, "seed", 0, "what the rounds follow from (default: the time)")
	flag.StringVar(&o.round, "round", "", "only this one: a number, late, hung or stale")
	flag.StringVar(&o.tags, "tags", "", "build tags of the binary under test")
	flag.StringVar(&o.dir, "dir", "", "scratch directory (default: a new one, removed at the end)")
	flag.BoolVar(&o.keep, "keep", false, "keep the scratch directory")
	flag.BoolVar(&o.verbose, "v", false, "name each round as it begins")
	flag.BoolVar(&o.mutants, "mutants", false, "take each safeguard out and expect violations")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	do := o.crash
	if o.mutants {
		do = o.kill
	}
	if err := do(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		stop()
		os.Exit(1)
	}
}

var errViolated = errors.New("claims are violated")

// crash does the rounds and prints what came of it.
func (o options) crash(ctx context.Context, out io.Writer) error {
	began := time.Now()
	fmt.Fprintf(out, "seed %d\n", o.seed)
	r, err := o.rounds(ctx, out)
	if r == nil {
		return err
	}
	if o.round == "" && err == nil {
		r.load(o.n)
	}
	r.print(out)
	fmt.Fprintf(out, "%d rounds, %d kills, %d s\n", o.n, r.killed(), int(time.Since(began).Seconds()))
	bad := r.found()
	for _, v := range bad {
		fmt.Fprintf(out, "violation: round %s: %s\n", v.round, v.text)
		if v.round != "" {
			fmt.Fprintf(out, "  repeat with: make crash SEED=%d ROUND=%s%s\n", o.seed, v.round, tagsWord(o.tags))
		}
	}
	if err != nil && len(bad) == 0 {
		return err // it must not look like a success
	}
	fmt.Fprintf(out, "violations %d\n", len(bad))
	if len(bad) > 0 {
		return errViolated
	}
	return err
}

func tagsWord(tags string) string {
	if tags == "" {
		return ""
	}
	return " TAGS=" + tags
}

// mutants are the build tags that take a safeguard out, and the round that is for it.
func mutants() []struct{ tag, round string } {
	return []struct{ tag, round string }{
		{"mutant_nofence", "stale"},
		{"mutant_norecheck", "late"},
		{"mutant_nosyncstarted", "hung"},
	}
}

// kill takes out each safeguard in turn and wants the harness to notice. A race that
// the machine decides otherwise is run again.
func (o options) kill(ctx context.Context, out io.Writer) error {
	const tries = 3
	var alive []string
	for _, m := range mutants() {
		o.tags, o.round, o.n = m.tag, m.round, 0
		found := 0
		for try := 0; try < tries && found == 0; try++ {
			fmt.Fprintf(out, "%s, seed %d, round %s\n", m.tag, o.seed, m.round)
			r, err := o.rounds(ctx, out)
			if err != nil {
				return err
			}
			bad := r.found()
			for _, v := range bad {
				fmt.Fprintf(out, "  %s\n", v.text)
			}
			found = len(bad)
			fmt.Fprintf(out, "%s: violations %d\n", m.tag, found)
		}
		if found == 0 {
			alive = append(alive, m.tag)
		}
	}
	if len(alive) > 0 {
		return fmt.Errorf("not noticed: %v", alive)
	}
	return nil
}

// rounds builds the binary and does the rounds asked for in a new world.
func (o options) rounds(ctx context.Context, out io.Writer) (*report, error) {
	dir := o.dir
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "outlive-crash-"); err != nil {
			return nil, err
		}
	}
	if o.keep || o.dir != "" {
		fmt.Fprintf(out, "scratch %s\n", dir)
	} else {
		defer os.RemoveAll(dir)
	}
	bin, err := build(ctx, dir, o.tags)
	if err != nil {
		return nil, err
	}
	w, err := newWorld(ctx, dir, bin, o.seed)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	told := 0
	begin := func(round string) {
		if o.verbose {
			found := w.report.found()
			for ; told < len(found); told++ {
				fmt.Fprintf(out, "violation: round %s: %s\n", found[told].round, found[told].text)
			}
			fmt.Fprintf(out, "%.1f s: round %s, violations so far %d\n", time.Since(began).Seconds(), round, told)
		}
	}
	for _, d := range directed() {
		if o.round == "" || o.round == d.round {
			begin(d.round)
			d.do(w, ctx, d.round)
		}
	}
	for n := 1; ctx.Err() == nil && len(w.report.found()) < maxViolations; n++ {
		if o.round == "" && n > o.n {
			break
		}
		if only, err := strconv.Atoi(o.round); o.round != "" {
			if err != nil {
				break
			}
			n = only
		}
		begin(strconv.Itoa(n))
		w.perform(ctx, planOf(o.seed, n))
		if o.round != "" {
			break
		}
	}
	if ctx.Err() != nil {
		return w.report, fmt.Errorf("not finished: %w", context.Cause(ctx))
	}
	w.last(ctx)
	return w.report, nil
}

// maxViolations ends a run early: what follows would say the same.
const maxViolations = 25

// last checks, once everything has come to rest, that nothing was damaged later: every
// task is still there and ended, with one terminal entry, and the file is sound.
func (w *world) last(ctx context.Context) {
	w.report.mu.Lock()
	want := w.report.n["tasks"]
	w.report.mu.Unlock()
	got := 0
	err := w.view(ctx, func(v store.View) error {
		for before := task.ID(""); ; {
			recs, err := v.Tasks(store.Filter{Before: before, Limit: store.MaxPage})
			if err != nil || len(recs) == 0 {
				return err
			}
			for i := range recs {
				if got++; !recs[i].State.Terminal() {
					w.report.violate("", "task %s is %s at the end", recs[i].ID, recs[i].State)
				}
			}
			before = recs[len(recs)-1].ID
		}
	})
	if err != nil {
		w.report.violate("", "read the store at the end: %v", err)
	}
	if got != want {
		w.report.violate("", "%d tasks at the end, %d were there before", got, want)
	}
	if err := w.integrity(ctx); err != nil {
		w.report.violate("", "the store's file: %v", err)
	}
}
