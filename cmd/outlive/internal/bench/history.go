// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/apply"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// fillers is how many fill a store at once: what they write shares commits.
const fillers = 512

func (b *bench) historyCommand() *cobra.Command {
	f := flags{}
	tasks := 0
	c := &cobra.Command{
		Use:   "history",
		Short: "Compare lifecycles in an empty store with those above many finished tasks",
		Long: "Fills a scratch store beside the store with finished tasks, about 2 KB each, and then runs\n" +
			"whole lifecycles in it and in an empty one in turn. A ratio of 1.00 says that the cost of a\n" +
			"task does not depend on what is kept.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if tasks < 1 || f.parallel < 1 || f.parallel > 4096 || f.seconds <= 0 || f.rounds < 1 {
				return fault.Newf(fault.Invalid, "--inflight wants 1 to 4096, --tasks, --seconds and --rounds more than 0")
			}
			return b.history(cmd.Context(), f, tasks)
		},
	}
	c.Flags().IntVar(&tasks, "tasks", 100_000, "how many finished tasks")
	c.Flags().IntVar(&f.parallel, "inflight", 64, "how many work at once")
	c.Flags().Float64Var(&f.seconds, "seconds", 3, "how long one round takes")
	c.Flags().IntVar(&f.rounds, "rounds", 5, "rounds of each side")
	return c
}

func (b *bench) history(ctx context.Context, f flags, tasks int) (err error) {
	dir, err := b.scratchDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.remove(ctx, dir)) }()
	if err := b.fill(ctx, dir, tasks); err != nil {
		return fmt.Errorf("bench history: %w", err)
	}
	whole := b.openWhole(ctx, f.parallel)
	full := &side{name: "full", open: func(string) (func(int, int) error, func() (int64, int64), func() error, error) { return whole(dir) }}
	empty := &side{name: "empty", open: whole}
	if err := b.compete(ctx, f, []*side{empty, full}); err != nil {
		return err
	}
	e, h := median(empty.rates), median(full.rates)
	return b.print("history tasks=%d inflight=%d empty_per_s=%.0f full_per_s=%.0f ratio=%.2f seconds=%.0f\n",
		tasks, f.parallel, e, h, h/e, f.seconds*float64(f.rounds))
}

// fill puts finished tasks with their entries into a new store.
func (b *bench) fill(ctx context.Context, dir string, tasks int) error {
	st, err := b.scratch(ctx, dir)
	if err != nil {
		return err
	}
	defer st.Close()
	var next atomic.Int64
	ends := make(chan error, fillers)
	for range fillers {
		b.o.Group.Go("fill", func(context.Context) {
			for {
				n := next.Add(1)
				if n > int64(tasks) {
					ends <- nil
					return
				}
				if err := finishedTask(ctx, st); err != nil {
					ends <- err
					return
				}
				if n%int64(max(tasks/10, 1)) == 0 {
					b.o.Note("%d of %d tasks are there", n, tasks)
				}
			}
		})
	}
	for range fillers {
		if e := <-ends; err == nil {
			err = e
		}
	}
	return err
}

// finishedTask makes a task and all that happens to it, in one commit.
func finishedTask(ctx context.Context, st store.Store) error {
	id := outlive.NewID("tk")
	lease := task.Lease{Worker: "wk-bench", Epoch: 1}
	payload := task.Payload{Media: "application/json", Data: []byte("{}")}
	return st.Update(ctx, apply.Keys(id), func(tx store.Tx) error {
		_, err := apply.Create(tx, task.Create{Record: task.Record{
			ID: id, Executor: "bench.v1", Owner: task.OwnerManager, Publication: task.OnCreate, Spec: payload,
		}})
		for _, c := range []task.Command{
			task.Start{Lease: lease},
			task.Complete{Fence: task.Fence{Attempt: 1, Lease: lease}, Result: payload},
		} {
			if err == nil {
				_, err = apply.Step(tx, id, c)
			}
		}
		return err
	})
}
