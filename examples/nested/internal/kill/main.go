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
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/outlive-dev/outlive/internal/lifecycle"
)

const program = "github.com/outlive-dev/outlive/examples/nested"

// atOnce is how many rounds are under way: most of a round is waiting.
const atOnce = 8

// maxViolations ends a run early: what follows would say the same.
const maxViolations = 25

// options are the words of the command line.
type options struct {
	n       int
	seed    uint64
	round   int
	tags    string
	mutants bool
}

func main() {
	var o options
	flag.IntVar(&o.n, "n", 200, "kill at least so often: as many rounds, with one to three kills each")
	flag.Uint64Var(&o.seed, "seed", 0, "what the rounds follow from (default: the time)")
	flag.IntVar(&o.round, "round", 0, "only this one")
	flag.StringVar(&o.tags, "tags", "", "build tags of the program under test")
	flag.BoolVar(&o.mutants, "mutants", false, "take each safeguard out and expect violations")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	do := o.kill
	if o.mutants {
		do = o.mutate
	}
	if err := do(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kill:", err)
		stop()
		os.Exit(1)
	}
}

var errViolated = errors.New("claims are violated")

// kill does the rounds and prints what came of it.
func (o options) kill(ctx context.Context, out io.Writer) error {
	began := time.Now()
	fmt.Fprintf(out, "seed %d\n", o.seed)
	r, err := o.rounds(ctx, maxViolations)
	if err != nil {
		return err // it must not look like a success
	}
	if o.round == 0 && len(r.found()) == 0 {
		r.load(o.n)
	}
	r.print(out)
	fmt.Fprintf(out, "%d s\n", int(time.Since(began).Seconds()))
	bad := r.found()
	for _, v := range bad {
		fmt.Fprintf(out, "violation: round %d: %s\n", v.round, v.text)
		if v.round > 0 {
			fmt.Fprintf(out, "  repeat with: make nested SEED=%d ROUND=%d TAGS=%s\n", o.seed, v.round, o.tags)
		}
	}
	fmt.Fprintf(out, "violations %d\n", len(bad))
	if len(bad) > 0 {
		return errViolated
	}
	return nil
}

// mutants are the build tags that take a safeguard out.
func mutants() []string {
	return []string{
		"mutant_nodedup",   // the same invocation makes another child
		"mutant_memnotice", // only the attempt that started the child tells of its end
		"mutant_unbound",   // the cursor moves without the checkpoint
	}
}

// mutate takes out each safeguard in turn and wants the harness to notice.
func (o options) mutate(ctx context.Context, out io.Writer) error {
	const rounds = 42 // three by every point
	var alive []string
	for _, tag := range mutants() {
		m := options{n: rounds, seed: o.seed, tags: tag}
		r, err := m.rounds(ctx, 1)
		if err != nil {
			return err
		}
		bad := r.found()
		for _, v := range bad {
			fmt.Fprintf(out, "  round %d: %s\n", v.round, v.text)
		}
		fmt.Fprintf(out, "%s, seed %d: violations %d\n", tag, o.seed, len(bad))
		if len(bad) == 0 {
			alive = append(alive, tag)
		}
	}
	if len(alive) > 0 {
		return fmt.Errorf("not noticed: %v", alive)
	}
	return nil
}

// rounds builds the program and does the rounds, until there are enough violations.
func (o options) rounds(ctx context.Context, enough int) (*report, error) {
	dir, err := os.MkdirTemp("", "outlive-nested-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "nested")
	if said, err := exec.CommandContext(ctx, "go", "build", "-tags", o.tags, "-o", bin, program).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build: %w\n%s", err, said)
	}
	rep := newReport()
	if o.round > 0 {
		(&round{n: o.round, plan: planOf(o.seed, o.round), bin: bin, dir: dir, report: rep}).perform(ctx)
		return rep, cause(ctx)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	group := lifecycle.New(ctx)
	for range atOnce {
		wg.Add(1)
		group.Go("rounds", func(ctx context.Context) {
			defer wg.Done()
			for ctx.Err() == nil && len(rep.found()) < enough {
				n := int(next.Add(1))
				if n > o.n {
					return
				}
				(&round{n: n, plan: planOf(o.seed, n), bin: bin, dir: dir, report: rep}).perform(ctx)
			}
		})
	}
	wg.Wait()
	return rep, cause(ctx)
}

func cause(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("not finished: %w", context.Cause(ctx))
	}
	return nil
}
