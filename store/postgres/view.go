// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"time"

	"github.com/outlive-dev/outlive/internal/batch"
	"github.com/outlive-dev/outlive/internal/rowjson"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/session"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// page returns the number of rows a limit stands for.
func page(limit int) int64 { return int64(batch.PageSize(limit)) }

// bodies reads the rows of a query whose only column is a body.
func bodies[T any](v *view, c *rowjson.Codec[T], sql string, a *args) (list []T, err error) {
	err = v.read(query{sql: sql, args: a, scan: func(r row) error {
		one, _, err := read(r[0], c)
		if err == nil {
			list = append(list, *one)
		}
		return err
	}})
	return list, err
}

// one reads the only row of such a query.
func one[T any](v *view, c *rowjson.Codec[T], sql string, a *args) (T, bool, error) {
	list, err := bodies(v, c, sql, a)
	if err != nil || len(list) == 0 {
		var none T
		return none, false, err
	}
	return list[0], true, nil
}

func (v *view) Task(id task.ID) (task.Record, bool, error) {
	return one(v, v.s.codecs.record, `SELECT body FROM outlive_task WHERE id = $1`, with().bytes(string(id)))
}

func (v *view) Head(s journal.StreamID) (h journal.Head, err error) {
	err = v.read(query{
		sql: `SELECT epoch, seq FROM outlive_entry WHERE stream = $1 ORDER BY seq DESC LIMIT 1`, args: with().bytes(string(s)), scan: func(r row) error {
			h = journal.Head{Epoch: r.int(0), Seq: r.int(1)}
			return nil
		},
	})
	h.Epoch = max(h.Epoch, v.s.info.Epoch)
	return h, err
}

func (v *view) Entries(s journal.StreamID, after int64, limit int) (list []journal.Entry, err error) {
	prev := &journal.Entry{}
	err = v.read(query{
		sql:  `SELECT ` + entryColumns + ` FROM outlive_entry WHERE stream = $1 AND seq > $2 ORDER BY seq LIMIT $3`,
		args: with().bytes(string(s)).int(after).int(page(limit)), scan: func(r row) error {
			list = append(list, entryOf(r, prev))
			prev = &list[len(list)-1]
			return nil
		},
	})
	return list, err
}

func (v *view) Tail(s journal.StreamID, event string) (t journal.Tail, err error) {
	err = v.read(query{
		sql:  `SELECT part, bytes, final, parts FROM outlive_event WHERE stream = $1 AND event = $2`,
		args: with().bytes(string(s)).bytes(event), scan: func(r row) error {
			t = tailOf(r, 0)
			return nil
		},
	})
	return t, err
}

func (v *view) Inputs(id task.ID, after int64, limit int) (list []mail.Input, err error) {
	err = v.read(query{
		sql:  `SELECT ` + inputColumns + ` FROM outlive_input WHERE task = $1 AND seq > $2 ORDER BY seq LIMIT $3`,
		args: with().bytes(string(id)).int(after).int(page(limit)), scan: func(r row) error {
			list = append(list, inputOf(r))
			return nil
		},
	})
	return list, err
}

func (v *view) Worker(id task.WorkerID) (store.Worker, bool, error) {
	return one(v, v.s.codecs.worker, `SELECT body FROM outlive_worker WHERE id = $1`, with().bytes(string(id)))
}

func (v *view) Workers() ([]store.Worker, error) {
	return bodies(v, v.s.codecs.worker, `SELECT body FROM outlive_worker ORDER BY id`, nil)
}

func (v *view) Observers(id task.ID) ([]store.Observer, error) {
	return bodies(v, v.s.codecs.observer, `SELECT body FROM outlive_observer WHERE task = $1 ORDER BY id`, with().bytes(string(id)))
}

func (v *view) ObserversOf(l task.Lease, limit int) ([]store.Observer, error) {
	return bodies(v, v.s.codecs.observer, `SELECT body FROM outlive_observer WHERE worker = $1 AND epoch = $2 AND worker IS NOT NULL
		ORDER BY task, id LIMIT $3`, with().bytes(string(l.Worker)).int(l.Epoch).int(page(limit)))
}

func (v *view) Timers(due time.Time, limit int) (list []store.Timer, err error) {
	err = v.read(query{
		sql:  `SELECT kind, subject, due, arg FROM outlive_timer WHERE due <= $1 ORDER BY due, kind, subject LIMIT $2`,
		args: with().time(due).int(page(limit)), scan: func(r row) error {
			list = append(list, store.Timer{Kind: r.text(0), Subject: r.text(1), Due: r.time(2), Arg: r.text(3)})
			return nil
		},
	})
	return list, err
}

func (v *view) Queues() ([]store.Queue, error) {
	return bodies(v, v.s.codecs.queue, `SELECT body FROM outlive_queue ORDER BY name`, nil)
}

func (v *view) Ticket(id task.ID, ticket task.TicketID) (mail.Ticket, bool, error) {
	return one(v, v.s.codecs.ticket, `SELECT body FROM outlive_ticket WHERE task = $1 AND id = $2`, with().bytes(string(id)).bytes(string(ticket)))
}

func (v *view) Tickets(id task.ID, after task.TicketID, limit int) ([]mail.Ticket, error) {
	return bodies(v, v.s.codecs.ticket, `SELECT body FROM outlive_ticket WHERE task = $1 AND id > $2 ORDER BY id LIMIT $3`,
		with().bytes(string(id)).bytes(string(after)).int(page(limit)))
}

func (v *view) Session(id task.SessionID) (session.Session, bool, error) {
	return one(v, v.s.codecs.session, `SELECT body FROM outlive_session WHERE id = $1`, with().bytes(string(id)))
}

func (v *view) Sessions(after task.SessionID, limit int) ([]session.Session, error) {
	return bodies(v, v.s.codecs.session, `SELECT body FROM outlive_session WHERE id > $1 ORDER BY id LIMIT $2`,
		with().bytes(string(after)).int(page(limit)))
}

func (v *view) Outbox(target string, limit int) ([]store.Delivery, error) {
	return bodies(v, v.s.codecs.delivery, `SELECT body FROM outlive_delivery WHERE target = $1 ORDER BY at, seq, id LIMIT $2`,
		with().bytes(target).int(page(limit)))
}

func (v *view) Due(now time.Time, limit int) ([]store.Delivery, error) {
	return bodies(v, v.s.codecs.delivery, `SELECT body FROM outlive_delivery WHERE due <= $1 AND due IS NOT NULL ORDER BY due, target, id LIMIT $2`,
		with().time(now).int(page(limit)))
}

func (v *view) Invocations(expired time.Time, limit int) (list []store.Invocation, err error) {
	err = v.read(query{
		sql:  `SELECT key, task, digest, expires FROM outlive_invocation WHERE expires < $1 ORDER BY expires, key LIMIT $2`,
		args: with().time(expired).int(page(limit)), scan: func(r row) error {
			list = append(list, store.Invocation{Key: r.text(0), Task: task.ID(r.text(1)), Digest: r.text(2), Expires: r.time(3)})
			return nil
		},
	})
	return list, err
}

func (v *view) Counts() (map[task.State]int64, error) {
	counts := make(map[task.State]int64)
	err := v.read(query{sql: `SELECT state, sum(tasks)::int8 FROM outlive_count GROUP BY state HAVING sum(tasks) <> 0`, scan: func(r row) error {
		counts[task.State(r.text(0))] = r.int(1)
		return nil
	}})
	return counts, err
}
