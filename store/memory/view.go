// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"slices"
	"strings"
	"time"

	"github.com/outlive-dev/outlive/internal/batch"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// view reads one state.
type view struct {
	state
	at time.Time
}

func (v *view) Now() time.Time { return v.at }

func (v *view) Task(id task.ID) (task.Record, bool, error) {
	r, ok := v.tasks.get(id)
	if !ok {
		return task.Record{}, false, nil
	}
	return r.Clone(), true, nil
}

// page collects clones until it is full.
type page struct {
	list  []task.Record
	limit int
}

func newPage(limit int) *page { return &page{limit: batch.PageSize(limit)} }

func (p *page) add(r *task.Record) (more bool) {
	p.list = append(p.list, r.Clone())
	return len(p.list) < p.limit
}

func (v *view) Tasks(f store.Filter) ([]task.Record, error) {
	p := newPage(f.Limit)
	v.tasks.before(f.Before, f.Before == "", func(_ task.ID, r *task.Record) bool {
		return !matches(&f, r) || p.add(r)
	})
	return p.list, nil
}

func matches(f *store.Filter, r *task.Record) bool {
	for k, v := range f.Label {
		if have, ok := r.Labels[k]; !ok || have != v {
			return false
		}
	}
	return (len(f.States) == 0 || slices.Contains(f.States, r.State)) &&
		(f.Session == "" || f.Session == r.Session) && (f.Queue == "" || f.Queue == r.Queue)
}

func (v *view) Find(part string, limit int) ([]task.Record, error) {
	p := newPage(limit)
	if part == "" {
		return nil, nil
	}
	v.tasks.before("", true, func(id task.ID, r *task.Record) bool {
		hit := strings.HasPrefix(string(id), part) || strings.HasSuffix(string(id), part) || r.Name == part
		return !hit || p.add(r)
	})
	return p.list, nil
}

func (v *view) Children(parent, after task.ID, limit int) ([]task.Record, error) {
	p := newPage(limit)
	if parent == "" {
		return nil, nil
	}
	prefix := pairOf(string(parent))
	v.children.after(prefix+pairOf(string(after)), after == "", func(k pair, id task.ID) bool {
		if !strings.HasPrefix(string(k), string(prefix)) {
			return k < prefix
		}
		r, _ := v.tasks.get(id)
		return p.add(r)
	})
	return p.list, nil
}

func (v *view) Pending(q store.PendingQuery) ([]task.Record, error) {
	var due []*task.Record
	v.live.after("", true, func(_ task.ID, r *task.Record) bool {
		if r.State == task.Pending && !batch.DueAt(r).After(q.Now) &&
			(len(q.Executors) == 0 || slices.Contains(q.Executors, r.Executor)) && !heldBack(&q, r) {
			due = append(due, r)
		}
		return true
	})
	batch.SortClaims(due, q.Aging)
	p := newPage(q.Limit)
	for _, r := range due {
		if !p.add(r) {
			break
		}
	}
	return p.list, nil
}

func heldBack(q *store.PendingQuery, r *task.Record) bool {
	return !r.StopOnly() && (r.Queue != "" && slices.Contains(q.FullQueues, r.Queue) ||
		r.ConcurrencyKey != "" && slices.Contains(q.BusyKeys, r.ConcurrencyKey))
}

func (v *view) NextDue(now time.Time) (time.Time, bool, error) {
	var next time.Time
	earlier := func(t time.Time) {
		if t.After(now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	v.live.after("", true, func(_ task.ID, r *task.Record) bool {
		if r.State == task.Pending {
			earlier(batch.DueAt(r))
		}
		return true
	})
	v.timers.after("", true, func(_ pair, t *store.Timer) bool {
		earlier(t.Due)
		return true
	})
	return next, !next.IsZero(), nil
}

func (v *view) Held(l task.Lease, after task.ID, limit int) ([]task.Record, error) {
	if l.IsZero() {
		return nil, nil
	}
	return v.running(after, limit, func(r *task.Record) bool { return r.Lease == l })
}

func (v *view) Unattended(after task.ID, limit int) ([]task.Record, error) {
	return v.running(after, limit, (*task.Record).Unattended)
}

func (v *view) Driven(after task.ID, limit int) ([]task.Record, error) {
	return v.running(after, limit, batch.Driven)
}

func (v *view) running(after task.ID, limit int, want func(*task.Record) bool) ([]task.Record, error) {
	p := newPage(limit)
	v.live.after(after, after == "", func(_ task.ID, r *task.Record) bool {
		return r.State != task.Running || !want(r) || p.add(r)
	})
	return p.list, nil
}

func (v *view) Head(s journal.StreamID) (journal.Head, error) { return v.head(s), nil }

func (v *view) Entries(s journal.StreamID, after int64, limit int) ([]journal.Entry, error) {
	all, _ := v.streams.get(s)
	all = all[min(max(after, 0), int64(len(all))):]
	list := slices.Clone(all[:min(len(all), batch.PageSize(limit))])
	for i := range list {
		list[i].Data = slices.Clone(list[i].Data)
	}
	return list, nil
}

func (v *view) Tail(s journal.StreamID, event string) (journal.Tail, error) {
	t, _ := v.tails.get(pairOf(string(s), event))
	return t, nil
}

func (v *view) Inputs(id task.ID, after int64, limit int) ([]mail.Input, error) {
	var list []mail.Input
	limit = batch.PageSize(limit)
	box, _ := v.boxes.get(id)
	box.after(after, false, func(_ int64, in *mail.Input) bool {
		c := *in
		c.Data = slices.Clone(in.Data)
		list = append(list, c)
		return len(list) < limit
	})
	return list, nil
}

func (v *view) Worker(id task.WorkerID) (store.Worker, bool, error) {
	w, ok := v.workers.get(id)
	if !ok {
		return store.Worker{}, false, nil
	}
	return batch.CloneWorker(w), true, nil
}

func (v *view) Workers() ([]store.Worker, error) {
	var list []store.Worker
	v.workers.after("", true, func(_ task.WorkerID, w *store.Worker) bool {
		list = append(list, batch.CloneWorker(w))
		return true
	})
	return list, nil
}

func (v *view) Observers(id task.ID) ([]store.Observer, error) {
	list, _ := v.observers.get(id)
	return slices.Clone(list), nil
}

func (v *view) ObserversOf(l task.Lease, limit int) ([]store.Observer, error) {
	var list []store.Observer
	limit = batch.PageSize(limit)
	v.observers.after("", true, func(_ task.ID, all []store.Observer) bool {
		for _, o := range all {
			if o.Lease == l && len(list) < limit {
				list = append(list, o)
			}
		}
		return len(list) < limit
	})
	return list, nil
}

func (v *view) Timers(due time.Time, limit int) ([]store.Timer, error) {
	var list []store.Timer
	v.timers.after("", true, func(_ pair, t *store.Timer) bool {
		if !t.Due.After(due) {
			list = append(list, *t)
		}
		return true
	})
	batch.SortTimers(list)
	return list[:min(len(list), batch.PageSize(limit))], nil
}

func (v *view) Queues() ([]store.Queue, error) {
	var list []store.Queue
	v.queues.after("", true, func(_ string, q store.Queue) bool {
		list = append(list, q)
		return true
	})
	return list, nil
}

func (v *view) Counts() (map[task.State]int64, error) {
	counts := make(map[task.State]int64)
	v.tasks.after("", true, func(_ task.ID, r *task.Record) bool {
		counts[r.State]++
		return true
	})
	return counts, nil
}
