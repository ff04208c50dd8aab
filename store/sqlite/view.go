// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"time"

	"github.com/outlive-dev/outlive/internal/batch"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// view reads in one transaction. Every method ends its statement before it
// returns.
type view struct {
	c   *conn
	now time.Time
}

func (v *view) Now() time.Time { return v.now }

func (v *view) Task(id task.ID) (task.Record, bool, error) {
	row, err := v.c.taskRow(id)
	if err != nil || row == nil {
		return task.Record{}, false, classify(err)
	}
	return *row.rec, true, nil
}

func (v *view) Head(s journal.StreamID) (journal.Head, error) {
	h, err := v.c.head(s)
	if err != nil {
		return h, classify(err)
	}
	epoch, err := v.c.int64(`SELECT epoch FROM outlive_meta`)
	h.Epoch = max(h.Epoch, epoch)
	return h, classify(err)
}

func (v *view) Entries(s journal.StreamID, after int64, limit int) (list []journal.Entry, err error) {
	prev := &journal.Entry{}
	err = v.c.run(`SELECT `+entryColumns+` FROM outlive_entry WHERE stream = ? AND seq > ? ORDER BY seq LIMIT ?`, func(st *stmt) error {
		list = append(list, readEntry(st, prev))
		prev = &list[len(list)-1]
		return nil
	}, string(s), after, batch.PageSize(limit))
	return list, classify(err)
}

func (v *view) Tail(s journal.StreamID, event string) (journal.Tail, error) {
	t, err := v.c.tail(s, event)
	return t, classify(err)
}

func (v *view) Inputs(id task.ID, after int64, limit int) ([]mail.Input, error) {
	list, err := v.c.inputs(id, after, batch.PageSize(limit))
	return list, classify(err)
}

func (v *view) Worker(id task.WorkerID) (store.Worker, bool, error) {
	w, err := v.c.worker(id)
	if err != nil || w == nil {
		return store.Worker{}, false, classify(err)
	}
	return *w, true, nil
}

func (v *view) Workers() (list []store.Worker, err error) {
	err = v.c.run(`SELECT body FROM outlive_worker ORDER BY id`, func(s *stmt) error {
		w, _, err := readBody(s, 0, v.c.codecs.worker)
		if err == nil {
			list = append(list, *w)
		}
		return err
	})
	return list, classify(err)
}

func (v *view) Observers(id task.ID) ([]store.Observer, error) {
	list, err := v.c.observers(id)
	return list, classify(err)
}

func (v *view) ObserversOf(l task.Lease, limit int) (list []store.Observer, err error) {
	err = v.c.run(`SELECT body FROM outlive_observer WHERE worker = ? AND epoch = ? AND worker IS NOT NULL
		ORDER BY task, id LIMIT ?`, func(s *stmt) error {
		o, _, err := readBody(s, 0, v.c.codecs.observer)
		if err == nil {
			list = append(list, *o)
		}
		return err
	}, string(l.Worker), l.Epoch, batch.PageSize(limit))
	return list, classify(err)
}

func (v *view) Timers(due time.Time, limit int) (list []store.Timer, err error) {
	err = v.c.run(`SELECT kind, subject, due, arg FROM outlive_timer WHERE due <= ? ORDER BY due, kind, subject LIMIT ?`, func(s *stmt) error {
		list = append(list, store.Timer{Kind: s.colText(0), Subject: s.colText(1), Due: fromMicros(s.colInt(2)), Arg: s.colText(3)})
		return nil
	}, micros(due), batch.PageSize(limit))
	return list, classify(err)
}

func (v *view) Queues() (list []store.Queue, err error) {
	err = v.c.run(`SELECT body FROM outlive_queue ORDER BY name`, func(s *stmt) error {
		q, _, err := readBody(s, 0, v.c.codecs.queue)
		if err == nil {
			list = append(list, *q)
		}
		return err
	})
	return list, classify(err)
}

func (v *view) Counts() (map[task.State]int64, error) {
	counts := make(map[task.State]int64)
	err := v.c.run(`SELECT state, tasks FROM outlive_count WHERE tasks <> 0`, func(s *stmt) error {
		counts[task.State(s.colText(0))] = s.colInt(1)
		return nil
	})
	return counts, classify(err)
}
