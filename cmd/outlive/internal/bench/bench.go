// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package bench measures the store and the runtime beside a raw log of the same disk,
// and beside many finished tasks: outlive bench.
package bench

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/cmd/outlive/internal/place"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/apply"
	"github.com/outlive-dev/outlive/internal/lifecycle"
	"github.com/outlive-dev/outlive/internal/rawlog"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// flags are the words of the benches.
type flags struct {
	parallel int
	seconds  float64
	rounds   int
}

// Options are what the command needs of the command line.
type Options struct {
	// Place is where the store is, beside which scratch files are made. Required.
	Place func() (place.Place, error)
	// Out gets the figures. Required.
	Out io.Writer
	// Note prints a line for people. Required.
	Note func(format string, args ...any)
	// Group runs those that work at once. Required.
	Group *lifecycle.Group
}

type bench struct{ o Options }

func (b *bench) print(format string, args ...any) error {
	if _, err := fmt.Fprintf(b.o.Out, format, args...); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}

// Command returns the command.
func Command(o Options) *cobra.Command {
	b := &bench{o}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure this machine's durable speed beside a raw log on the same disk",
		Long: "Each bench runs rounds of the store and of a raw log (one writer that gathers what waits,\n" +
			"one write, one sync) in turn, in scratch files beside the store, and prints medians: trust\n" +
			"the ratio, not the figures. The store itself is untouched. With PostgreSQL the rounds of\n" +
			"the store have a schema of their own, and the raw log is on this host's disk.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	sub := func(use, short, flag string, do func(context.Context, flags) error) {
		f := flags{}
		c := &cobra.Command{
			Use: use, Short: short, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if f.parallel < 1 || f.parallel > 4096 || f.seconds <= 0 || f.rounds < 1 {
					return fault.Newf(fault.Invalid, "--%s wants 1 to 4096, --seconds and --rounds more than 0", flag)
				}
				return do(cmd.Context(), f)
			},
		}
		c.Flags().IntVar(&f.parallel, flag, 64, "how many work at once")
		c.Flags().Float64Var(&f.seconds, "seconds", 3, "how long one round takes")
		c.Flags().IntVar(&f.rounds, "rounds", 3, "rounds of each side")
		cmd.AddCommand(c)
	}
	sub("append", "Append entries of 256 bytes", "writers", b.append)
	sub("lifecycle", "Create, start and complete tasks, each step durable", "inflight", b.lifecycle)
	cmd.AddCommand(b.historyCommand(), b.mailCommand())
	return cmd
}

// side is one of the things measured in turn.
type side struct {
	name  string
	open  func(dir string) (do func(worker, i int) error, stats func() (syncs, ops int64), closed func() error, err error)
	rates []float64
}

// compete runs the sides in turn and prints every round.
func (b *bench) compete(ctx context.Context, f flags, sides []*side) error {
	for round := range f.rounds {
		for _, s := range sides {
			dir, err := b.scratchDir()
			if err != nil {
				return err
			}
			err = b.measure(ctx, s, f, round, dir)
			if rerr := b.remove(ctx, dir); err == nil {
				err = rerr
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) measure(ctx context.Context, s *side, f flags, round int, dir string) error {
	do, stats, closed, err := s.open(dir)
	if err != nil {
		return fmt.Errorf("bench %s: %w", s.name, err)
	}
	var next, done atomic.Int64
	var failed atomic.Pointer[error]
	ctx, cancel := context.WithTimeout(ctx, time.Duration(f.seconds*float64(time.Second)))
	defer cancel()
	ends := make(chan struct{}, f.parallel)
	began := time.Now()
	for w := range f.parallel {
		b.o.Group.Go("bench", func(context.Context) {
			defer func() { ends <- struct{}{} }()
			for ctx.Err() == nil {
				if err := do(w, int(next.Add(1))); err != nil {
					failed.Store(&err)
					return
				}
				done.Add(1)
			}
		})
	}
	for range f.parallel {
		<-ends
	}
	took := time.Since(began).Seconds()
	syncs, ops := stats()
	if err := closed(); err != nil {
		return fmt.Errorf("bench %s: %w", s.name, err)
	}
	if e := failed.Load(); e != nil {
		return fmt.Errorf("bench %s: %w", s.name, *e)
	}
	rate := float64(done.Load()) / took
	s.rates = append(s.rates, rate)
	return b.print("round=%d side=%s ops_per_s=%.0f syncs_per_s=%.0f batch=%.1f seconds=%.1f\n",
		round+1, s.name, rate, float64(syncs)/took, float64(ops)/float64(max(syncs, 1)), took)
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}

func (b *bench) summary(f flags, name, flag string, ours, log *side) error {
	return b.print("%s %s=%d ops_per_s=%.0f log_per_s=%.0f ratio=%.2f seconds=%.0f\n",
		name, flag, f.parallel, median(ours.rates), median(log.rates), median(ours.rates)/median(log.rates), f.seconds*float64(f.rounds))
}

func (b *bench) append(ctx context.Context, f flags) error {
	data := []byte(strings.Repeat("x", 256))
	ours := &side{name: "store", open: func(dir string) (func(int, int) error, func() (int64, int64), func() error, error) {
		st, err := b.scratch(ctx, dir)
		if err != nil {
			return nil, nil, nil, err
		}
		streams := make([]journal.StreamID, f.parallel)
		for i := range streams {
			streams[i] = journal.StreamID(outlive.NewID("sh"))
		}
		return func(w, _ int) error {
			s := streams[w]
			return st.Update(ctx, []store.Key{store.StreamKey(s)}, func(tx store.Tx) error {
				tx.Append(journal.Entry{Stream: s, Task: string(s), Attempt: 1, Kind: journal.KindOutput, Media: "text/plain", Data: data})
				return nil
			})
		}, st.Stats, st.Close, nil
	}}
	log := rawSide(data, 1)
	if err := b.compete(ctx, f, []*side{log, ours}); err != nil {
		return err
	}
	return b.summary(f, "append", "writers", ours, log)
}

// rawSide appends n records of the same bytes, one after another, to a raw log.
func rawSide(data []byte, n int) *side {
	return &side{name: "log", open: func(dir string) (func(int, int) error, func() (int64, int64), func() error, error) {
		l, err := rawlog.Create(filepath.Join(dir, "bench.log"))
		if err != nil {
			return nil, nil, nil, err
		}
		return func(int, int) error {
			for range n {
				if err := l.Append(data); err != nil {
					return err
				}
			}
			return nil
		}, l.Stats, l.Close, nil
	}}
}

// lifecycleBytes is about what one of a lifecycle's three commits stores: the
// record and an entry.
const lifecycleBytes = 700

func (b *bench) lifecycle(ctx context.Context, f flags) error {
	log := rawSide([]byte(strings.Repeat("x", lifecycleBytes)), 3)
	rows := &side{name: "store", open: b.openRows(ctx)}
	whole := &side{name: "runtime", open: b.openWhole(ctx, f.parallel)}
	if err := b.compete(ctx, f, []*side{log, rows, whole}); err != nil {
		return err
	}
	if err := b.summary(f, "store-lifecycle", "inflight", rows, log); err != nil {
		return err
	}
	return b.summary(f, "lifecycle", "inflight", whole, log)
}

// openRows does the three commands of a lifecycle on the store alone.
func (b *bench) openRows(ctx context.Context) func(string) (func(int, int) error, func() (int64, int64), func() error, error) {
	return func(dir string) (func(int, int) error, func() (int64, int64), func() error, error) {
		st, err := b.scratch(ctx, dir)
		if err != nil {
			return nil, nil, nil, err
		}
		lease := task.Lease{Worker: "wk-bench", Epoch: 1}
		payload := task.Payload{Media: "application/json", Data: []byte("{}")}
		return func(int, int) error {
			id := outlive.NewID("tk")
			keys := apply.Keys(id)
			err := st.Update(ctx, keys, func(tx store.Tx) error {
				_, err := apply.Create(tx, task.Create{Record: task.Record{
					ID: id, Executor: "bench.v1", Owner: task.OwnerManager, Publication: task.OnCreate, Spec: payload,
				}})
				return err
			})
			for _, c := range []task.Command{
				task.Start{Lease: lease},
				task.Complete{Fence: task.Fence{Attempt: 1, Lease: lease}, Result: payload},
			} {
				if err != nil {
					return err
				}
				err = st.Update(ctx, keys, func(tx store.Tx) error {
					_, err := apply.Step(tx, id, c)
					return err
				})
			}
			return err
		}, st.Stats, st.Close, nil
	}
}

// openWhole submits to a runtime with an executor that does nothing, and waits.
func (b *bench) openWhole(ctx context.Context, inflight int) func(string) (func(int, int) error, func() (int64, int64), func() error, error) {
	return func(dir string) (func(int, int) error, func() (int64, int64), func() error, error) {
		st, err := b.scratch(ctx, dir)
		if err != nil {
			return nil, nil, nil, err
		}
		rt := outlive.New(st, &outlive.Options{Slots: inflight})
		outlive.Handle(rt, "bench.v1", func(context.Context, *work.Attempt, struct{}) (struct{}, error) { return struct{}{}, nil })
		if err := rt.Start(ctx); err != nil {
			return nil, nil, nil, err
		}
		closed := func() error {
			err := rt.Stop(ctx)
			if cerr := st.Close(); err == nil {
				err = cerr
			}
			return err
		}
		return func(int, int) error {
			ref, err := outlive.Submit(ctx, rt, "bench.v1", struct{}{}, nil)
			if err != nil {
				return err
			}
			_, err = outlive.Await[struct{}](ctx, ref)
			return err
		}, st.Stats, closed, nil
	}
}
