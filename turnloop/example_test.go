// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package turnloop_test

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/outlive-dev/outlive/turnloop"
)

// A loop answers what it is told, all that has gathered in one turn.
func Example() {
	loop, err := turnloop.New(turnloop.Config[string]{
		GenInput: func(_ context.Context, items []turnloop.Item[string]) (turnloop.Plan[string], error) {
			return turnloop.Plan[string]{Consume: items}, nil
		},
		PrepareAgent: func(_ context.Context, turn *turnloop.Turn[string]) (turnloop.Agent, error) {
			return func(context.Context, turnloop.SafePoint) iter.Seq2[turnloop.Event, error] {
				return func(yield func(turnloop.Event, error) bool) {
					for _, i := range turn.Items {
						if !yield(strings.ToUpper(i.Value), nil) {
							return
						}
					}
				}
			}, nil
		},
		OnEvents: func(_ context.Context, turn *turnloop.Turn[string], events iter.Seq2[turnloop.Event, error]) error {
			for e, err := range events {
				if err != nil {
					return err
				}
				fmt.Printf("turn %d: %v\n", turn.ID, e)
			}
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, word := range []string{"one", "two"} {
		if _, err := loop.Push(word, nil); err != nil {
			fmt.Println(err)
		}
	}
	ctx := context.Background()
	if err := loop.Run(ctx); err != nil {
		fmt.Println(err)
	}
	loop.Stop(&turnloop.StopOptions{Idle: 1})
	exit, err := loop.Wait(ctx)
	fmt.Println(exit.Reason, err)
	// Output:
	// turn 1: ONE
	// turn 1: TWO
	// stopped <nil>
}
