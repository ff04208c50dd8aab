// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlive_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/store/sqlite"
	"github.com/outlive-dev/outlive/work"
)

type Report struct{ Week int }

type Summary struct{ Text string }

// The program of the README.
func Example() {
	dir, err := os.MkdirTemp("", "outlive-example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := reports(context.Background(), filepath.Join(dir, "outlive.db")); err != nil {
		fmt.Println(err)
	}
	// Output:
	// week 40: all quiet
	// 1 task.created
	// 2 task.started
	// 3 task.completed
}

func reports(ctx context.Context, path string) error {
	st, err := sqlite.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	defer st.Close()

	rt := outlive.New(st, nil) // starts nothing
	outlive.Handle(rt, "report.v1", func(ctx context.Context, a *work.Attempt, in Report) (Summary, error) {
		return Summary{Text: fmt.Sprintf("week %d: all quiet", in.Week)}, nil
	})
	if err := rt.Start(ctx); err != nil {
		return err
	}
	defer rt.Stop(context.WithoutCancel(ctx)) // waits, and names what is stuck

	ref, err := outlive.Submit(ctx, rt, "report.v1", Report{Week: 40}, nil) // durable when it returns
	if err != nil {
		return err
	}
	sum, err := outlive.Await[Summary](ctx, ref)
	if err != nil {
		return err
	}
	fmt.Println(sum.Text)

	for e, err := range rt.Events(ctx, ref.ID(), nil) { // replay, then live, to the end
		if err != nil {
			return err
		}
		fmt.Println(e.Seq, e.Kind)
	}
	return nil
}
