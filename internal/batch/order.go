// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"cmp"
	"slices"
	"time"

	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// DefaultAging is how long a task waits until it is lifted by one priority step.
const DefaultAging = time.Minute

// PageSize returns the number of rows a limit stands for.
func PageSize(limit int) int {
	if limit <= 0 {
		return store.DefaultPage
	}
	return min(limit, store.MaxPage)
}

// DueAt returns when a pending task is due: at creation unless the record says.
func DueAt(r *task.Record) time.Time {
	if r.DueAt.IsZero() {
		return r.CreatedAt
	}
	return r.DueAt
}

// SortClaims orders pending tasks by who is to be claimed first: stop-only starts,
// then by priority less the time waited in steps of aging, due time and id.
func SortClaims(list []*task.Record, aging time.Duration) {
	if aging <= 0 {
		aging = DefaultAging
	}
	// Priorities apart by p are worth p times aging of waiting, so the order does
	// not depend on the present time. Seconds as float64 keep microseconds for
	// three centuries and do not overflow for any priority.
	rank := func(r *task.Record) float64 {
		return float64(DueAt(r).UnixMicro()) + float64(r.Priority)*float64(aging.Microseconds())
	}
	slices.SortFunc(list, func(a, b *task.Record) int {
		if x, y := a.StopOnly(), b.StopOnly(); x != y {
			if x {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(rank(a), rank(b)), DueAt(a).Compare(DueAt(b)), cmp.Compare(a.ID, b.ID))
	})
}

// SortTimers orders timers by due time, kind and subject.
func SortTimers(list []store.Timer) {
	slices.SortFunc(list, func(a, b store.Timer) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Subject, b.Subject))
	})
}
