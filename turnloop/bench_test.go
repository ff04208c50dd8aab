// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package turnloop_test

import (
	"context"
	"iter"
	"testing"

	"github.com/outlive-dev/outlive/turnloop"
)

// BenchmarkTurn is a whole turn of an agent that does nothing.
func BenchmarkTurn(b *testing.B) {
	turns := make(chan struct{}, 1)
	l, err := turnloop.New(turnloop.Config[int]{
		GenInput: func(_ context.Context, items []turnloop.Item[int]) (turnloop.Plan[int], error) {
			return turnloop.Plan[int]{Consume: items}, nil
		},
		PrepareAgent: func(context.Context, *turnloop.Turn[int]) (turnloop.Agent, error) {
			return func(context.Context, turnloop.SafePoint) iter.Seq2[turnloop.Event, error] {
				return func(func(turnloop.Event, error) bool) { turns <- struct{}{} }
			}, nil
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := l.Run(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := l.Push(i, nil); err != nil {
			b.Fatal(err)
		}
		<-turns
	}
}

// BenchmarkIdleItem is a push into a loop that is busy: the item waits.
func BenchmarkIdleItem(b *testing.B) {
	l, err := turnloop.New(turnloop.Config[int]{
		Limit: 1 << 40,
		GenInput: func(context.Context, []turnloop.Item[int]) (p turnloop.Plan[int], err error) {
			return p, nil
		},
		PrepareAgent: func(context.Context, *turnloop.Turn[int]) (turnloop.Agent, error) { return nil, nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := l.Push(i, nil); err != nil {
			b.Fatal(err)
		}
	}
}
