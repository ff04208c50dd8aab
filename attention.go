// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlive

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

const (
	// recentFailure is how long a failure asks for attention.
	recentFailure = 7 * 24 * time.Hour
	// unserved is how long a task may wait to be stopped.
	unserved = time.Minute
)

// Attention is a task that somebody should look at, and what for.
type Attention struct {
	Task task.Record
	// Needs says in a few words what it needs of people, such as "an answer to size" or
	// "a worker for report.v1".
	Needs string
}

// NeedsAttention is List of the tasks that need people: those that wait for an answer
// or a release, that nobody serves or stops, and those that failed for good or with an
// outcome nobody knows, in the last seven days and not retried. Newest first, at most
// Limit; a filter of states is not looked at.
func (rt *Runtime) NeedsAttention(ctx context.Context, f store.Filter) ([]Attention, error) {
	limit := f.Limit
	if limit == 0 {
		limit = store.DefaultPage
	}
	var found []Attention
	retried := map[task.ID]bool{}
	look := func(keep func(*task.Record) bool) (last task.Record, full bool, err error) {
		f.Limit = store.MaxPage
		err = rt.st.View(ctx, func(v store.View) error {
			recs, err := v.Tasks(f)
			if err != nil || len(recs) == 0 {
				return err
			}
			last, full = recs[len(recs)-1], len(recs) == f.Limit
			recs = slices.DeleteFunc(recs, func(r task.Record) bool { return !keep(&r) })
			return attend(v, recs, retried, &found)
		})
		f.Before = last.ID
		return last, full, err
	}
	from := f.Before
	for _, pass := range []struct {
		states []task.State
		keep   func(*task.Record) bool
		since  time.Duration
	}{
		{[]task.State{task.Pending, task.Running, task.Waiting, task.Suspended}, func(*task.Record) bool { return true }, 0},
		{nil, func(r *task.Record) bool { return r.State.Terminal() }, recentFailure},
	} {
		f.Before, f.States = from, pass.states
		for {
			last, full, err := look(pass.keep)
			if err != nil {
				return nil, fmt.Errorf("list tasks that need attention: %w", err)
			}
			if !full || pass.since > 0 && time.Since(last.CreatedAt) > pass.since {
				break
			}
		}
	}
	slices.SortFunc(found, func(x, y Attention) int { return strings.Compare(string(y.Task.ID), string(x.Task.ID)) })
	return found[:min(limit, len(found))], nil
}

// attend judges one page of tasks, newest first: a retry comes before what it retries.
func attend(v store.View, recs []task.Record, retried map[task.ID]bool, found *[]Attention) error {
	workers, err := v.Workers()
	if err != nil {
		return err
	}
	queues, err := v.Queues()
	if err != nil {
		return err
	}
	for i := range recs {
		r := &recs[i]
		if r.RetryOf != "" {
			retried[r.RetryOf] = true
		}
		asks, err := asked(v, r)
		if err != nil {
			return err
		}
		n := needs(r, asks, v.Now(), workers, queues)
		if n != "" && !retried[r.ID] && !(r.State.Terminal() && v.Now().Sub(r.DoneAt) > recentFailure) {
			*found = append(*found, Attention{Task: *r, Needs: n})
		}
	}
	return nil
}

// asked lists the open tickets of a waiting task that children will not decide.
func asked(v store.View, r *task.Record) (ids []string, err error) {
	if r.State != task.Waiting {
		return nil, nil
	}
	for _, id := range r.Tickets {
		t, ok, err := v.Ticket(r.ID, id)
		if err != nil {
			return nil, err
		}
		if !ok || t.Kind != mail.Tasks {
			ids = append(ids, string(id))
		}
	}
	return ids, nil
}

// needs says what a task needs of people, or nothing.
func needs(r *task.Record, asks []string, now time.Time, workers []store.Worker, queues []store.Queue) string {
	served := slices.ContainsFunc(workers, func(w store.Worker) bool { return !r.Lease.IsZero() && w.Lease() == r.Lease })
	able := slices.ContainsFunc(workers, func(w store.Worker) bool {
		return slices.Contains(w.Executors, r.Executor) && w.LeaseUntil.After(now) && !w.Draining
	})
	paused := slices.ContainsFunc(queues, func(q store.Queue) bool { return q.Name == r.Queue && q.Paused })
	switch {
	case r.State == task.Failed && r.Failure.Code == task.CodePoison:
		return "a fix, attempts used up"
	case r.State == task.Failed && r.Failure.Outcome == task.OutcomeUnknown:
		return "a check, outcome unknown"
	case r.State.Terminal():
		return ""
	case r.Canceling() && !served && now.Sub(r.CancelRequestedAt) > unserved:
		return "a forced cancel, nobody stops it"
	case len(asks) == 1:
		return "an answer to " + asks[0]
	case len(asks) > 1 && r.TicketsAll:
		return "answers to all of " + strings.Join(asks, ", ")
	case len(asks) > 1:
		return "an answer to one of " + strings.Join(asks, ", ")
	case r.State == task.Suspended:
		return "a release"
	case r.State == task.Pending && paused:
		return "queue " + r.Queue + " to go on"
	case r.State == task.Pending && !r.Canceling() && now.After(r.DueAt) && !able:
		return "a worker for " + r.Executor
	}
	return ""
}
