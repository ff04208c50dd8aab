// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"fmt"

	"github.com/outlive-dev/outlive/internal/batch"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// Load implements [batch.Driver]. Rows this process wrote or read last come from
// memory as long as no other process wrote.
func (d *driver) Load(keys []store.Key, rows *batch.Rows) error {
	for _, k := range keys {
		if err := d.load(k, rows); err != nil {
			return fmt.Errorf("load %s: %w", k, classify(err))
		}
	}
	return nil
}

func (d *driver) load(k store.Key, rows *batch.Rows) (err error) {
	id := task.ID(k.A)
	switch k.Kind {
	case store.KindTask:
		row, err := d.task(id)
		if err != nil {
			return err
		}
		rows.Tasks[id] = nil
		if row != nil {
			rows.Tasks[id] = row.rec
		}
	case store.KindStream:
		rows.Heads[journal.StreamID(k.A)], err = cached(&d.heads, journal.StreamID(k.A), d.c.head)
	case store.KindEvent:
		rows.Tails[k], err = cached(&d.tails, k, func(k store.Key) (journal.Tail, error) {
			return d.c.tail(journal.StreamID(k.A), k.B)
		})
	case store.KindPart:
		rows.Parts[k], err = d.c.part(k)
	case store.KindInput:
		rows.Inputs[k], err = d.c.input(id, k.B)
	case store.KindInputs:
		rows.Inboxes[id], err = d.inbox(id)
	case store.KindWorker:
		rows.Workers[task.WorkerID(k.A)], err = cached(&d.workers, task.WorkerID(k.A), d.c.worker)
	case store.KindInvocation:
		rows.Invocations[k.A], err = d.c.invocation(k.A)
	case store.KindName:
		rows.Names[k.A], err = d.c.named(k.A)
	case store.KindQueue:
		rows.Queues[k.A], err = cached(&d.queues, k.A, d.c.queue)
	case store.KindConcurrency:
		rows.Concurrency[k.A], err = cached(&d.limited, k.A, func(key string) (int, error) {
			n, err := d.c.int64(`SELECT count(*) FROM outlive_task WHERE r_ckey = ?`, key)
			return int(n), err
		})
	case store.KindObservers:
		rows.Observers[id], err = d.c.observers(id)
	default:
		err = d.loadMail(k, rows)
	}
	return err
}

func cached[K comparable, V any](r *recent[K, V], k K, read func(K) (V, error)) (V, error) {
	if v, ok := r.get(k); ok {
		return v, nil
	}
	v, err := read(k)
	if err == nil {
		r.put(k, v)
	}
	return v, err
}

// task returns a task's row, or nil.
func (d *driver) task(id task.ID) (*taskRow, error) {
	if row, ok := d.tasks.get(id); ok {
		return row, nil
	}
	row, err := d.c.taskRow(id)
	if err == nil && row != nil {
		d.tasks.put(id, row)
	}
	return row, err
}

func (d *driver) inbox(id task.ID) (batch.Inbox, error) {
	row, err := d.task(id)
	if err != nil {
		return batch.Inbox{}, err
	}
	var from int64
	if row != nil {
		from = row.rec.ConsumedInput
	}
	list, err := d.c.inputs(id, from, store.MaxPage+1)
	more := len(list) > store.MaxPage
	return batch.Inbox{Items: list[:min(len(list), store.MaxPage)], More: more}, err
}

func (c *conn) taskRow(id task.ID) (row *taskRow, err error) {
	err = c.run(`SELECT n, body FROM outlive_task WHERE id = ?`, func(s *stmt) error {
		row, err = readTask(s)
		return err
	}, string(id))
	return row, err
}

// readTask reads the columns n, body.
func readTask(s *stmt) (*taskRow, error) {
	rec, extra, err := readBody(s, 1, s.c.codecs.record)
	if err != nil {
		return nil, err
	}
	return &taskRow{n: s.colInt(0), rec: rec, extra: extra}, nil
}

func (c *conn) head(id journal.StreamID) (h journal.Head, err error) {
	err = c.run(`SELECT epoch, seq FROM outlive_entry WHERE stream = ? ORDER BY seq DESC LIMIT 1`, func(s *stmt) error {
		h = journal.Head{Epoch: s.colInt(0), Seq: s.colInt(1)}
		return nil
	}, string(id))
	return h, err
}

func (c *conn) tail(id journal.StreamID, event string) (t journal.Tail, err error) {
	err = c.run(`SELECT part, bytes, final, parts FROM outlive_event WHERE stream = ? AND event = ?`, func(s *stmt) error {
		t = journal.Tail{Part: s.colText(0), Bytes: s.colInt(1), Final: s.colInt(2) != 0, Parts: s.colInt(3)}
		return nil
	}, string(id), event)
	return t, err
}

const entryColumns = `stream, seq, epoch, at, kind, task, attempt, event, part, final, media, data`

// readEntry shares the texts of prev that are the same, as most of a stream's are.
func readEntry(s *stmt, prev *journal.Entry) journal.Entry {
	e := journal.Entry{
		Stream: journal.StreamID(s.colSame(0, string(prev.Stream))), Seq: s.colInt(1), Epoch: s.colInt(2), At: fromMicros(s.colInt(3)),
		Kind: s.colSame(4, prev.Kind), Attempt: s.colInt(6), Event: s.colSame(7, prev.Event), Part: s.colText(8),
		Final: s.colInt(9) != 0, Media: s.colSame(10, prev.Media), Data: s.colBlob(11),
	}
	if s.colNull(5) {
		e.Task = string(e.Stream)
	} else {
		e.Task = s.colSame(5, prev.Task)
	}
	return e
}

func (c *conn) part(k store.Key) (found *journal.Entry, err error) {
	err = c.run(`SELECT `+entryColumns+` FROM outlive_entry WHERE stream = ? AND event = ? AND part = ?
		AND part IS NOT NULL ORDER BY n DESC LIMIT 1`, func(s *stmt) error {
		e := readEntry(s, &journal.Entry{})
		found = &e
		return nil
	}, k.A, k.B, k.C)
	return found, err
}

const inputColumns = `task, seq, id, at, kind, media, data, delivery, ticket, sender`

func readInput(s *stmt) mail.Input {
	return mail.Input{
		Task: s.colText(0), Seq: s.colInt(1), ID: s.colText(2), At: fromMicros(s.colInt(3)), Kind: s.colText(4),
		Media: s.colText(5), Data: s.colBlob(6), Delivery: mail.Delivery(s.colText(7)), Ticket: s.colText(8), From: s.colText(9),
	}
}

func (c *conn) input(id task.ID, input string) (found *mail.Input, err error) {
	err = c.run(`SELECT `+inputColumns+` FROM outlive_input WHERE task = ? AND id = ?`, func(s *stmt) error {
		in := readInput(s)
		found = &in
		return nil
	}, string(id), input)
	return found, err
}

func (c *conn) inputs(id task.ID, after int64, limit int) (list []mail.Input, err error) {
	err = c.run(`SELECT `+inputColumns+` FROM outlive_input WHERE task = ? AND seq > ? ORDER BY seq LIMIT ?`, func(s *stmt) error {
		list = append(list, readInput(s))
		return nil
	}, string(id), after, limit)
	return list, err
}

func (c *conn) worker(id task.WorkerID) (w *store.Worker, err error) {
	err = c.run(`SELECT body FROM outlive_worker WHERE id = ?`, func(s *stmt) (err error) {
		w, _, err = readBody(s, 0, c.codecs.worker)
		return err
	}, string(id))
	return w, err
}

func (c *conn) invocation(key string) (i *store.Invocation, err error) {
	err = c.run(`SELECT task, digest, expires FROM outlive_invocation WHERE key = ?`, func(s *stmt) error {
		i = &store.Invocation{Key: key, Task: task.ID(s.colText(0)), Digest: s.colText(1), Expires: fromMicros(s.colInt(2))}
		return nil
	}, key)
	return i, err
}

func (c *conn) named(name string) (ids []task.ID, err error) {
	err = c.run(`SELECT id FROM outlive_task WHERE name = ? AND live = 1 AND name IS NOT NULL`, func(s *stmt) error {
		ids = append(ids, task.ID(s.colText(0)))
		return nil
	}, name)
	return ids, err
}

func (c *conn) queue(name string) (q batch.Queue, err error) {
	err = c.run(`SELECT body FROM outlive_queue WHERE name = ?`, func(s *stmt) error {
		row, _, err := readBody(s, 0, c.codecs.queue)
		if err == nil {
			q.Row = *row
		}
		return err
	}, name)
	if err != nil {
		return q, err
	}
	n, err := c.int64(`SELECT count(*) FROM outlive_task WHERE r_queue = ?`, name)
	q.Running = int(n)
	return q, err
}

func (c *conn) observers(id task.ID) (list []store.Observer, err error) {
	err = c.run(`SELECT body FROM outlive_observer WHERE task = ? ORDER BY id`, func(s *stmt) error {
		o, _, err := readBody(s, 0, c.codecs.observer)
		if err == nil {
			list = append(list, *o)
		}
		return err
	}, string(id))
	return list, err
}
