// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/store/sqlite"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

func (b *bench) mailCommand() *cobra.Command {
	calls, inputs := 0, 0
	c := &cobra.Command{
		Use:   "mail",
		Short: "Measure how soon a task sees what it is sent, and how a long mailbox reads",
		Long: "In a scratch store beside the store: sends to a task that runs in this process; runs outlive\n" +
			"send --steer, answer and tree as processes of their own; and reads a mailbox of many inputs\n" +
			"in pages. A process's time is from before its start to after its end; seen is until the\n" +
			"task's code has it. A ratio of 1.0 says that the last pages cost what the first ones do.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if calls < 1 || inputs < 1 {
				return fault.Newf(fault.Invalid, "--calls and --inputs want more than 0")
			}
			return b.mail(cmd.Context(), calls, inputs)
		},
	}
	c.Flags().IntVar(&calls, "calls", 200, "how often each is done")
	c.Flags().IntVar(&inputs, "inputs", 100_000, "how long the long mailbox is")
	return c
}

func (b *bench) mail(ctx context.Context, calls, inputs int) (err error) {
	p, err := b.o.Place()
	if err != nil {
		return err
	}
	if p.DSN != "" {
		return fault.New(fault.Unsupported, "bench mail runs on SQLite").WithHint("add --store sqlite:PATH")
	}
	dir, err := b.scratchDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.remove(ctx, dir)) }()
	m := mailBench{bench: b, db: filepath.Join(dir, "bench.db"), seen: make(chan time.Time, 1)}
	st, err := sqlite.Open(ctx, m.db, nil)
	if err != nil {
		return fmt.Errorf("bench mail: %w", err)
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	m.rt = outlive.New(st, nil)
	m.rt.Register(work.Executor{Key: "reads.v1", ReadsInput: true, Drains: true, OnLeaseLoss: task.LoseRetry, Run: m.reads})
	m.rt.Register(work.Executor{Key: "asks.v1", Drains: true, OnLeaseLoss: task.LoseRetry, Run: m.asks})
	if err := m.rt.Start(ctx); err != nil {
		return fmt.Errorf("bench mail: %w", err)
	}
	defer func() { err = errors.Join(err, m.rt.Stop(context.WithoutCancel(ctx))) }()
	for _, part := range []func(context.Context, int) error{m.sends, m.steers, m.answers, m.trees} {
		if err := part(ctx, calls); err != nil {
			return fmt.Errorf("bench mail: %w", err)
		}
	}
	if err := m.pages(ctx, calls, inputs); err != nil {
		return fmt.Errorf("bench mail: %w", err)
	}
	return nil
}

// mailBench is a store with a runtime whose tasks say when they saw something.
type mailBench struct {
	*bench
	db   string
	rt   *outlive.Runtime
	seen chan time.Time // cap 1: one thing is under way at a time
}

// reads sees every input.
func (m *mailBench) reads(ctx context.Context, a *work.Attempt) work.Result {
	for _, err := range a.Inputs(ctx) {
		if err != nil {
			break
		}
		if err := m.see(ctx); err != nil {
			break
		}
	}
	return work.Yield(nil)
}

// asks asks one question after another, and sees every answer.
func (m *mailBench) asks(ctx context.Context, a *work.Attempt) work.Result {
	n := 0
	if cp := a.Task().Checkpoint; cp != nil {
		var err error
		if n, err = strconv.Atoi(string(cp.Data)); err != nil {
			return work.Fail("checkpoint", err.Error())
		}
	}
	if row, err := a.Ticket(ctx, task.TicketID(question(n))); err == nil && !row.Open() {
		n++
		if err := m.see(ctx); err != nil {
			return work.Yield(nil)
		}
	}
	cp := task.Checkpoint{Format: "count", Version: 1, Data: []byte(strconv.Itoa(n))}
	return work.Ask(&cp, true, work.Question(question(n), "And now?"))
}

func question(n int) string { return fmt.Sprintf("q%d", n) }

func (m *mailBench) see(ctx context.Context) error {
	select {
	case m.seen <- time.Now():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (m *mailBench) saw(ctx context.Context) (at time.Time, err error) {
	select {
	case at = <-m.seen:
		return at, nil
	case <-ctx.Done():
		return at, context.Cause(ctx)
	}
}

// start starts a task and waits until it is as wanted.
func (m *mailBench) start(ctx context.Context, key string, as task.State) (task.ID, error) {
	r, err := m.rt.Submit(ctx, outlive.Spec{Executor: key})
	for err == nil && r.State != as {
		if r, err = m.rt.Get(ctx, r.ID); err == nil && r.State.Terminal() {
			err = fmt.Errorf("%s is %s", r.ID, r.State)
		}
	}
	return r.ID, err
}

// sends sends in this process.
func (m *mailBench) sends(ctx context.Context, calls int) error {
	id, err := m.start(ctx, "reads.v1", task.Running)
	if err != nil {
		return err
	}
	var sent, seen []time.Duration
	for i := range calls {
		began := time.Now()
		if _, err := m.rt.Send(ctx, id, mail.Input{ID: strconv.Itoa(i), Delivery: mail.Steer}); err != nil {
			return err
		}
		sent = append(sent, time.Since(began))
		at, err := m.saw(ctx)
		if err != nil {
			return err
		}
		seen = append(seen, at.Sub(began))
	}
	return m.figures("send in process", sent, seen)
}

// steers, answers and trees run the command line.
func (m *mailBench) steers(ctx context.Context, calls int) error {
	id, err := m.start(ctx, "reads.v1", task.Running)
	if err != nil {
		return err
	}
	return m.processes(ctx, calls, "send --steer", true, func(int) ([]string, error) { return []string{"send", "--steer", string(id), "now"}, nil })
}

func (m *mailBench) answers(ctx context.Context, calls int) error {
	id, err := m.start(ctx, "asks.v1", task.Waiting)
	if err != nil {
		return err
	}
	return m.processes(ctx, calls, "answer", true, func(n int) ([]string, error) {
		_, err := m.rt.Wait(ctx, id, outlive.Boundary) // it asks again
		return []string{"answer", string(id), question(n), "yes"}, err
	})
}

// treeOf is how many children the tree has.
const treeOf = 20

func (m *mailBench) trees(ctx context.Context, calls int) error {
	id, err := m.start(ctx, "asks.v1", task.Waiting)
	if err != nil {
		return err
	}
	for range treeOf {
		r, err := m.rt.Submit(ctx, outlive.Spec{Executor: "asks.v1", Parent: id})
		if err == nil {
			_, err = m.rt.Wait(ctx, r.ID, outlive.Boundary)
		}
		if err != nil {
			return err
		}
	}
	return m.processes(ctx, calls, "tree", false, func(int) ([]string, error) { return []string{"tree", string(id)}, nil })
}

// processes runs the command line again and again, each to its end.
func (m *mailBench) processes(ctx context.Context, calls int, name string, sees bool, words func(n int) ([]string, error)) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	var took, seen []time.Duration
	for i := range calls {
		args, err := words(i)
		if err != nil {
			return err
		}
		c := exec.CommandContext(ctx, exe, append([]string{"--store", "sqlite:" + m.db}, args...)...)
		c.Args[0] = os.Args[0] // by which a test binary knows what it is
		began := time.Now()
		if said, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", name, err, said)
		}
		took = append(took, time.Since(began))
		if !sees {
			continue
		}
		at, err := m.saw(ctx)
		if err != nil {
			return err
		}
		seen = append(seen, at.Sub(began))
	}
	return m.figures(name, took, seen)
}

// pages fills one mailbox and reads it from its beginning to its end. Nothing is
// consumed of it: its task waits.
func (m *mailBench) pages(ctx context.Context, calls, inputs int) error {
	r, err := m.rt.Submit(ctx, outlive.Spec{Executor: "reads.v1", Delay: 24 * time.Hour})
	if err != nil {
		return err
	}
	var next atomic.Int64
	ends := make(chan error, fillers)
	began := time.Now()
	for range fillers {
		m.o.Group.Go("fill", func(context.Context) {
			var err error
			for n := next.Add(1); err == nil && n <= int64(inputs); n = next.Add(1) {
				_, err = m.rt.Send(ctx, r.ID, mail.Input{ID: strconv.FormatInt(n, 10), Kind: "message", Data: []byte("a few words")})
			}
			ends <- err
		})
	}
	for range fillers {
		err = errors.Join(err, <-ends)
	}
	if err != nil {
		return err
	}
	filled := time.Since(began)
	var pages []time.Duration
	read := 0
	for after := int64(0); ; {
		began := time.Now()
		ins, err := m.rt.Inputs(ctx, r.ID, after, store.MaxPage)
		if err != nil {
			return err
		}
		if len(ins) == 0 {
			break
		}
		pages = append(pages, time.Since(began))
		read += len(ins)
		after = ins[len(ins)-1].Seq
	}
	if read != inputs {
		return fmt.Errorf("read %d inputs of %d", read, inputs)
	}
	some := min(10, len(pages))
	first, last := at(pages[:some], 50), at(pages[len(pages)-some:], 50)
	if err := m.print("mail \"read\" inputs=%d page=%d pages=%d p50_ms=%.2f p99_ms=%.2f first_ms=%.2f last_ms=%.2f ratio=%.1f sends_per_s=%.0f\n",
		inputs, store.MaxPage, len(pages), ms(at(pages, 50)), ms(at(pages, 99)), ms(first), ms(last), float64(last)/float64(first), float64(inputs)/filled.Seconds()); err != nil {
		return err
	}
	var sent []time.Duration
	for i := range calls {
		began := time.Now()
		if _, err := m.rt.Send(ctx, r.ID, mail.Input{ID: "more" + strconv.Itoa(i)}); err != nil {
			return err
		}
		sent = append(sent, time.Since(began))
	}
	return m.figures("send to a long mailbox", sent, nil)
}

// figures prints the middle and the tail of one thing.
func (m *mailBench) figures(name string, took, seen []time.Duration) error {
	line := fmt.Sprintf("mail %q calls=%d p50_ms=%.2f p99_ms=%.2f", name, len(took), ms(at(took, 50)), ms(at(took, 99)))
	if len(seen) > 0 {
		line += fmt.Sprintf(" seen_p50_ms=%.2f seen_p99_ms=%.2f", ms(at(seen, 50)), ms(at(seen, 99)))
	}
	return m.print("%s\n", line)
}

// at returns a percentile.
func at(list []time.Duration, percent int) time.Duration {
	s := slices.Sorted(slices.Values(list))
	return s[min(len(s)*percent/100, len(s)-1)]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
