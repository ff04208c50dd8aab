// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"github.com/outlive-dev/outlive/internal/batch"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// wanted is what a set of keys asks for, by statement.
type wanted struct {
	tasks, sessions, workers, invocations                    []string // rows to lock, and to read where need says so
	need                                                     map[store.Key]bool
	streams, inboxes, names, queues, ckeys, watched, targets []string
	held                                                     []string
	changes                                                  bool // workers' rows are to change
	events, parts, inputs, tickets, deliveries               []store.Key
	guards                                                   map[int64][]store.Key  // advisory locks
	locking                                                  map[string][]store.Key // keys by the row that guards them: kind and id
}

// guardRows is how many advisory locks stand for the names of one kind. Those locks
// are few because the server's table of them is small.
const guardRows = 512

// want sorts keys into statements. A row of the batch's keys is guarded by
//
//   - the task of that id, or the session of that id: what belongs to a task, and
//     streams, which are named after a task or a session
//   - its own row: sessions, workers, invocations
//   - an advisory lock: names, queues, concurrency keys, outboxes
//
// and by unique indexes where there is no row yet: then the later one runs again.
func (d *driver) want(keys []store.Key, rows *batch.Rows) *wanted {
	w := &wanted{need: make(map[store.Key]bool), guards: make(map[int64][]store.Key), locking: make(map[string][]store.Key)}
	seen := make(map[string]bool)
	once := func(list *[]string, kind byte, id string, k store.Key) {
		row := string(kind) + id
		w.locking[row] = append(w.locking[row], k)
		if !seen[row] {
			seen[row] = true
			*list = append(*list, id)
		}
	}
	guard := func(k store.Key) {
		n := d.guard(k.Kind, k.A)
		w.guards[n] = append(w.guards[n], k)
	}
	var streams []store.Key
	for _, k := range keys {
		id := task.ID(k.A)
		switch k.Kind {
		case store.KindTask:
			once(&w.tasks, rowTask, k.A, k)
			w.need[store.TaskKey(id)] = true
			rows.Tasks[id] = nil
		case store.KindStream:
			streams = append(streams, k)
			w.streams = append(w.streams, k.A)
			rows.Heads[journal.StreamID(k.A)] = journal.Head{}
		case store.KindEvent:
			streams = append(streams, k)
			w.events = append(w.events, k)
			rows.Tails[k] = journal.Tail{}
		case store.KindPart:
			streams = append(streams, k)
			w.parts = append(w.parts, k)
			rows.Parts[k] = nil
		case store.KindInput:
			once(&w.tasks, rowTask, k.A, k)
			w.inputs = append(w.inputs, k)
			rows.Inputs[k] = nil
		case store.KindInputs:
			once(&w.tasks, rowTask, k.A, k)
			w.inboxes = append(w.inboxes, k.A)
			rows.Inboxes[id] = batch.Inbox{}
		case store.KindWorker:
			once(&w.workers, rowWorker, k.A, k)
			w.changes = w.changes || k.B != ""
			rows.Workers[task.WorkerID(k.A)] = nil
		case store.KindInvocation:
			once(&w.invocations, rowInvocation, k.A, k)
			rows.Invocations[k.A] = nil
		case store.KindName:
			guard(k)
			w.names = append(w.names, k.A)
			rows.Names[k.A] = nil
		case store.KindQueue:
			guard(k)
			w.queues = append(w.queues, k.A)
			rows.Queues[k.A] = batch.Queue{}
		case store.KindConcurrency:
			guard(k)
			w.ckeys = append(w.ckeys, k.A)
			rows.Concurrency[k.A] = 0
		case store.KindObservers:
			once(&w.tasks, rowTask, k.A, k)
			w.watched = append(w.watched, k.A)
			rows.Observers[id] = nil
		case store.KindTicket:
			once(&w.tasks, rowTask, k.A, k)
			w.tickets = append(w.tickets, k)
			rows.Tickets[k] = nil
		case store.KindSession:
			once(&w.sessions, rowSession, k.A, k)
			w.need[store.SessionKey(task.SessionID(k.A))] = true
			rows.Sessions[task.SessionID(k.A)] = nil
		case store.KindOutbox:
			guard(k)
			if k.B != "" {
				w.deliveries = append(w.deliveries, k)
				rows.Deliveries[k] = nil
				break
			}
			w.targets = append(w.targets, k.A)
			rows.Outboxes[k.A] = batch.Outbox{}
		case store.KindHeld:
			once(&w.tasks, rowTask, k.A, k)
			w.held = append(w.held, k.A)
			rows.Held[id] = 0
		}
	}
	for _, k := range streams {
		if !seen[string(rowSession)+k.A] {
			once(&w.tasks, rowTask, k.A, k)
		}
		if !seen[string(rowTask)+k.A] || !w.need[store.TaskKey(task.ID(k.A))] {
			once(&w.sessions, rowSession, k.A, k)
		}
	}
	return w
}

// The kinds of rows that guard keys.
const (
	rowTask       = 't'
	rowSession    = 's'
	rowWorker     = 'w'
	rowInvocation = 'i'
)

// reads returns the statements that read what is locked by then.
func (d *driver) reads(w *wanted, rows *batch.Rows) (list []query) {
	add := func(n int, sql string, a *args, scan func(row) error) {
		if n > 0 {
			list = append(list, query{sql: sql, args: a, scan: scan})
		}
	}
	add(len(w.streams), selectHeads, with().column(bytesOf(w.streams)), func(r row) error {
		rows.Heads[journal.StreamID(r.text(0))] = journal.Head{Epoch: r.int(1), Seq: r.int(2)}
		return nil
	})
	add(len(w.events), selectTails, pairs(w.events), func(r row) error {
		rows.Tails[store.EventKey(journal.StreamID(r.text(0)), r.text(1))] = tailOf(r, 2)
		return nil
	})
	add(len(w.parts), selectParts, triples(w.parts), func(r row) error {
		e := entryOf(r, &journal.Entry{})
		rows.Parts[store.PartKey(e.Stream, e.Event, e.Part)] = &e
		return nil
	})
	add(len(w.inputs), selectInputs, pairs(w.inputs), func(r row) error {
		in := inputOf(r)
		rows.Inputs[store.InputKey(task.ID(in.Task), in.ID)] = &in
		return nil
	})
	add(len(w.inboxes), selectInboxes, with().column(bytesOf(w.inboxes)).int(store.MaxPage+1), func(r row) error {
		in := inputOf(r)
		box := rows.Inboxes[task.ID(in.Task)]
		if len(box.Items) == store.MaxPage {
			box.More = true
		} else {
			box.Items = append(box.Items, in)
		}
		rows.Inboxes[task.ID(in.Task)] = box
		return nil
	})
	add(len(w.names), selectNames, with().column(bytesOf(w.names)), func(r row) error {
		name := r.text(0)
		rows.Names[name] = append(rows.Names[name], task.ID(r.text(1)))
		return nil
	})
	add(len(w.queues), selectQueues, with().column(bytesOf(w.queues)), func(r row) error {
		q, _, err := read(r[1], d.s.codecs.queue)
		if err == nil {
			rows.Queues[r.text(0)] = batch.Queue{Row: *q}
		}
		return err
	})
	add(len(w.queues), countQueues, with().column(bytesOf(w.queues)), func(r row) error {
		q := rows.Queues[r.text(0)]
		q.Running = int(r.int(1))
		rows.Queues[r.text(0)] = q
		return nil
	})
	add(len(w.ckeys), countKeys, with().column(bytesOf(w.ckeys)), func(r row) error {
		rows.Concurrency[r.text(0)] = int(r.int(1))
		return nil
	})
	add(len(w.watched), selectObservers, with().column(bytesOf(w.watched)), func(r row) error {
		o, _, err := read(r[0], d.s.codecs.observer)
		if err == nil {
			rows.Observers[o.Task] = append(rows.Observers[o.Task], *o)
		}
		return err
	})
	add(len(w.tickets), selectTickets, pairs(w.tickets), func(r row) error {
		t, _, err := read(r[0], d.s.codecs.ticket)
		if err == nil {
			rows.Tickets[store.TicketKey(task.ID(t.Task), task.TicketID(t.ID))] = t
		}
		return err
	})
	add(len(w.deliveries), selectDeliveries, pairs(w.deliveries), func(r row) error {
		v, _, err := read(r[0], d.s.codecs.delivery)
		if err == nil {
			rows.Deliveries[store.DeliveryKey(v.Target, v.Message.ID)] = v
		}
		return err
	})
	add(len(w.targets), selectOutboxes, with().column(bytesOf(w.targets)).int(store.MaxPage+1), func(r row) error {
		v, _, err := read(r[0], d.s.codecs.delivery)
		if err != nil {
			return err
		}
		box := rows.Outboxes[v.Target]
		if len(box.Items) == store.MaxPage {
			box.More = true
		} else {
			box.Items = append(box.Items, *v)
		}
		rows.Outboxes[v.Target] = box
		return nil
	})
	add(len(w.held), countHeld, with().column(bytesOf(w.held)), func(r row) error {
		rows.Held[task.ID(r.text(0))] = int(r.int(1))
		return nil
	})
	return list
}

// pairs are the two parts of many keys as two arrays.
func pairs(keys []store.Key) *args {
	a, b := bytesColumn(), bytesColumn()
	for _, k := range keys {
		a.string(k.A)
		b.string(k.B)
	}
	return with().column(&a).column(&b)
}

func triples(keys []store.Key) *args {
	a, b, c := bytesColumn(), bytesColumn(), bytesColumn()
	for _, k := range keys {
		a.string(k.A)
		b.string(k.B)
		c.string(k.C)
	}
	return with().column(&a).column(&b).column(&c)
}

const (
	selectHeads = `SELECT s.id, e.epoch, e.seq FROM unnest($1::bytea[]) AS s(id)
		CROSS JOIN LATERAL (SELECT epoch, seq FROM outlive_entry WHERE stream = s.id ORDER BY seq DESC LIMIT 1) AS e`
	selectTails = `SELECT stream, event, part, bytes, final, parts FROM unnest($1::bytea[], $2::bytea[]) AS k(stream, event)
		JOIN outlive_event USING (stream, event)`
	entryColumns = `stream, seq, epoch, at, kind, task, attempt, event, part, final, media, data`
	selectParts  = `SELECT e.* FROM unnest($1::bytea[], $2::bytea[], $3::bytea[]) AS k(stream, event, part)
		CROSS JOIN LATERAL (SELECT ` + entryColumns + ` FROM outlive_entry AS o WHERE o.stream = k.stream AND o.event = k.event AND o.part = k.part
			AND o.part IS NOT NULL ORDER BY seq DESC LIMIT 1) AS e`
	inputColumns  = `task, seq, id, at, kind, media, data, delivery, ticket, sender`
	selectInputs  = `SELECT ` + inputColumns + ` FROM unnest($1::bytea[], $2::bytea[]) AS k(task, id) JOIN outlive_input USING (task, id)`
	selectInboxes = `SELECT i.* FROM unnest($1::bytea[]) AS k(id) CROSS JOIN LATERAL (
		SELECT ` + inputColumns + ` FROM outlive_input WHERE task = k.id AND seq > coalesce((SELECT consumed FROM outlive_task WHERE id = k.id), 0)
		ORDER BY seq LIMIT $2) AS i`
	selectNames     = `SELECT name, id FROM outlive_task WHERE name = ANY($1::bytea[]) AND live AND name IS NOT NULL`
	selectQueues    = `SELECT name, body FROM outlive_queue WHERE name = ANY($1::bytea[])`
	countQueues     = `SELECT r_queue, count(*) FROM outlive_task WHERE r_queue = ANY($1::bytea[]) AND r_queue IS NOT NULL GROUP BY r_queue`
	countKeys       = `SELECT r_ckey, count(*) FROM outlive_task WHERE r_ckey = ANY($1::bytea[]) AND r_ckey IS NOT NULL GROUP BY r_ckey`
	selectObservers = `SELECT body FROM outlive_observer WHERE task = ANY($1::bytea[]) ORDER BY task, id`
	selectTickets   = `SELECT body FROM unnest($1::bytea[], $2::bytea[]) AS k(task, id) JOIN outlive_ticket USING (task, id)`

	selectDeliveries = `SELECT body FROM unnest($1::bytea[], $2::bytea[]) AS k(target, id) JOIN outlive_delivery USING (target, id)`
	selectOutboxes   = `SELECT o.body FROM unnest($1::bytea[]) AS k(target)
		CROSS JOIN LATERAL (SELECT body FROM outlive_delivery WHERE target = k.target ORDER BY at, seq, id LIMIT $2) AS o`
	countHeld = `SELECT parent, count(*) FROM outlive_task WHERE parent = ANY($1::bytea[]) AND r_epoch = -1 GROUP BY parent`
)

// entryOf reads entryColumns and shares the texts of prev that are the same, as most of
// a stream's are.
func entryOf(r row, prev *journal.Entry) journal.Entry {
	e := journal.Entry{
		Stream: journal.StreamID(r.same(0, string(prev.Stream))), Seq: r.int(1), Epoch: r.int(2), At: r.time(3), Kind: r.same(4, prev.Kind),
		Attempt: r.int(6), Event: r.same(7, prev.Event), Part: r.text(8), Final: r.bool(9), Media: r.same(10, prev.Media), Data: r.blob(11),
	}
	if r.null(5) {
		e.Task = string(e.Stream)
	} else {
		e.Task = r.same(5, prev.Task)
	}
	return e
}

func tailOf(r row, i int) journal.Tail {
	return journal.Tail{Part: r.text(i), Bytes: r.int(i + 1), Final: r.bool(i + 2), Parts: r.int(i + 3)}
}

// inputOf reads inputColumns.
func inputOf(r row) mail.Input {
	return mail.Input{
		Task: r.text(0), Seq: r.int(1), ID: r.text(2), At: r.time(3), Kind: r.text(4), Media: r.text(5), Data: r.blob(6),
		Delivery: mail.Delivery(r.text(7)), Ticket: r.text(8), From: r.text(9),
	}
}
