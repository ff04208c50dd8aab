// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package turnloop

import (
	"cmp"
	"slices"

	"github.com/outlive-dev/outlive/fault"
)

// Why a push was refused. What was refused with ErrClosed is among the late items.
var (
	ErrClosed = fault.New(fault.Closed, "push: the loop has ended")
	ErrTaken  = fault.New(fault.Closed, "push: the loop has ended and its late items were taken")
	ErrFull   = fault.New(fault.Unavailable, "push: too many items are buffered")
)

// admitLocked puts a value where it belongs.
func (l *Loop[T]) admitLocked(v T) error {
	if l.stopped || l.closed {
		if l.taken {
			return ErrTaken
		}
		l.seq++
		l.late = append(l.late, Item[T]{Seq: l.seq, Value: v})
		return ErrClosed
	}
	if len(l.buffer) >= l.cfg.Limit {
		return ErrFull
	}
	l.seq++
	l.buffer = append(l.buffer, Item[T]{Seq: l.seq, Value: v})
	l.changed = true
	l.ring()
	return nil
}

// returnLocked puts items back into the buffer, in their order.
func (l *Loop[T]) returnLocked(items []Item[T]) {
	l.buffer = append(slices.Clone(items), l.buffer...)
	slices.SortStableFunc(l.buffer, func(a, b Item[T]) int { return cmp.Compare(a.Seq, b.Seq) })
	l.changed = true
}

// removeLocked takes what a plan names out of the buffer.
func (l *Loop[T]) removeLocked(p Plan[T]) {
	gone := seqs(p.Consume)
	for s := range seqs(p.Drop) {
		gone[s] = true
	}
	l.buffer = slices.DeleteFunc(l.buffer, func(i Item[T]) bool { return gone[i.Seq] })
}

func seqs[T any](items []Item[T]) map[int64]bool {
	m := make(map[int64]bool, len(items))
	for _, i := range items {
		m[i.Seq] = true
	}
	return m
}

// check wants each item that a plan names to be one of those it was given, once. It
// returns what the loop knows of them, since values could have been exchanged.
func (p Plan[T]) check(given []Item[T]) (Plan[T], error) {
	known := make(map[int64]Item[T], len(given))
	for _, i := range given {
		known[i.Seq] = i
	}
	own := func(items []Item[T]) ([]Item[T], error) {
		list := make([]Item[T], len(items))
		for n, i := range items {
			k, ok := known[i.Seq]
			if !ok {
				return nil, fault.Newf(fault.Invalid, "plan: item %d is not one of those given, or is named twice", i.Seq)
			}
			delete(known, i.Seq)
			list[n] = k
		}
		return list, nil
	}
	consume, err := own(p.Consume)
	if err != nil {
		return p, err
	}
	drop, err := own(p.Drop)
	return Plan[T]{Consume: consume, Drop: drop}, err
}
