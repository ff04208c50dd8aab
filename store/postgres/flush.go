// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/outlive-dev/outlive/internal/batch"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// Flush implements [batch.Driver]. Nothing is sent before Commit. Rows of a table are
// written in the order of their keys, and tables always in the same order, so that two
// instances which write the same new rows wait for each other and are no deadlock.
func (d *driver) Flush(s *batch.Staging) error {
	d.staged = s
	for _, step := range []func(*batch.Staging) error{
		d.putTasks, d.putEntries, d.putTails, d.putInputs, d.putWorkers, d.putInvocations, d.putQueues, d.putObservers,
		d.putTickets, d.putSessions, d.putDeliveries, d.putTimers, d.forget,
	} {
		if err := step(s); err != nil {
			return err
		}
	}
	d.putClock(s)
	return nil
}

func (d *driver) write(sql string, a *args) {
	d.writes = append(d.writes, query{sql: sql, args: a})
}

// sorted returns a copy of list in the order of less.
func sorted[T any](list []T, compare func(a, b *T) int) []T {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b T) int { return compare(&a, &b) })
	return list
}

func (d *driver) putTasks(s *batch.Staging) error {
	if len(s.Tasks) == 0 {
		return nil
	}
	counts := make(map[task.State]int64)
	added, changed := newTaskColumns(), newTaskColumns()
	for _, c := range sorted(s.Tasks, func(a, b *batch.TaskChange) int { return cmp.Compare(a.New.ID, b.New.ID) }) {
		body, err := d.s.codecs.record.Append(nil, c.New, d.extra[c.New.ID])
		if err != nil {
			return fmt.Errorf("put task %q: %w", c.New.ID, err)
		}
		if c.Old == nil {
			added.add(c.New, body)
		} else {
			counts[c.Old.State]--
			changed.add(c.New, body)
		}
		counts[c.New.State]++
	}
	if added.id.n > 0 {
		d.write(insertTasks, added.args())
	}
	if changed.id.n > 0 {
		d.write(updateTasks, changed.args())
	}
	d.count(counts)
	return nil
}

func (d *driver) count(by map[task.State]int64) {
	states, numbers := bytesColumn(), intColumn()
	for _, state := range task.States() {
		if n := by[state]; n != 0 {
			states.string(string(state))
			numbers.int(n)
		}
	}
	if states.n > 0 {
		d.write(`INSERT INTO outlive_count (tasks, state) SELECT * FROM unnest($1::int8[], $2::bytea[])`, with().column(&numbers).column(&states))
	}
}

func (d *driver) putEntries(s *batch.Staging) error {
	if len(s.Entries) == 0 {
		return nil
	}
	seq, epoch, attempt := intColumn(), intColumn(), intColumn()
	at, final := timeColumn(), boolColumn()
	stream, kind, own, event, part, media, data := bytesColumn(), bytesColumn(), bytesColumn(), bytesColumn(), bytesColumn(), bytesColumn(), bytesColumn()
	list := s.Entries
	if !slices.IsSortedFunc(list, compareEntries) {
		list = slices.Clone(list)
		slices.SortFunc(list, compareEntries)
	}
	for i := range list {
		e := &list[i]
		seq.int(e.Seq)
		epoch.int(e.Epoch)
		at.time(e.At)
		attempt.int(e.Attempt)
		final.bool(e.Final)
		stream.string(string(e.Stream))
		kind.string(e.Kind)
		if e.Task == string(e.Stream) {
			own.null()
		} else {
			own.string(e.Task)
		}
		event.some(e.Event)
		part.some(e.Part)
		media.some(e.Media)
		data.bytes(e.Data)
	}
	a := with()
	for _, c := range []*column{&seq, &epoch, &at, &attempt, &final, &stream, &kind, &own, &event, &part, &media, &data} {
		a.column(c)
	}
	d.write(`INSERT INTO outlive_entry (seq, epoch, at, attempt, final, stream, kind, task, event, part, media, data)
		SELECT * FROM unnest($1::int8[], $2::int8[], $3::timestamptz[], $4::int8[], $5::bool[], $6::bytea[], $7::bytea[], $8::bytea[], $9::bytea[],
		$10::bytea[], $11::bytea[], $12::bytea[])`, a)
	return nil
}

func compareEntries(a, b journal.Entry) int {
	return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Seq, b.Seq))
}

func (d *driver) putTails(s *batch.Staging) error {
	if len(s.Tails) == 0 {
		return nil
	}
	bytes, parts, final := intColumn(), intColumn(), boolColumn()
	stream, event, part := bytesColumn(), bytesColumn(), bytesColumn()
	for _, c := range sorted(s.Tails, func(a, b *batch.TailChange) int {
		return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Event, b.Event))
	}) {
		bytes.int(c.Add.Bytes)
		parts.int(c.Add.Parts)
		final.bool(c.Add.Final)
		stream.string(string(c.Stream))
		event.string(c.Event)
		part.string(c.Add.Part)
	}
	d.write(`INSERT INTO outlive_event AS e (bytes, parts, final, stream, event, part)
		SELECT * FROM unnest($1::int8[], $2::int8[], $3::bool[], $4::bytea[], $5::bytea[], $6::bytea[])
		ON CONFLICT (stream, event) DO UPDATE SET bytes = e.bytes + excluded.bytes, parts = e.parts + excluded.parts, final = e.final OR excluded.final,
		part = CASE WHEN excluded.part = '' THEN e.part ELSE excluded.part END`,
		with().column(&bytes).column(&parts).column(&final).column(&stream).column(&event).column(&part))
	return nil
}

func (d *driver) putInputs(s *batch.Staging) error {
	if len(s.Inputs) == 0 {
		return nil
	}
	seq, at := intColumn(), timeColumn()
	own, id, kind, media, data, delivery, ticket, sender := bytesColumn(), bytesColumn(), bytesColumn(), bytesColumn(), bytesColumn(), bytesColumn(),
		bytesColumn(), bytesColumn()
	for _, in := range sorted(s.Inputs, func(a, b **mail.Input) int {
		return cmp.Or(cmp.Compare((*a).Task, (*b).Task), cmp.Compare((*a).ID, (*b).ID))
	}) {
		seq.int(in.Seq)
		at.time(in.At)
		own.string(in.Task)
		id.string(in.ID)
		kind.string(in.Kind)
		media.string(in.Media)
		data.bytes(in.Data)
		delivery.string(string(in.Delivery))
		ticket.string(in.Ticket)
		sender.string(in.From)
	}
	a := with()
	for _, c := range []*column{&seq, &at, &own, &id, &kind, &media, &data, &delivery, &ticket, &sender} {
		a.column(c)
	}
	d.write(`INSERT INTO outlive_input (seq, at, task, id, kind, media, data, delivery, ticket, sender)
		SELECT * FROM unnest($1::int8[], $2::timestamptz[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bytea[], $7::bytea[], $8::bytea[], $9::bytea[],
		$10::bytea[]) ON CONFLICT (task, id) DO UPDATE SET seq = excluded.seq, at = excluded.at, kind = excluded.kind, media = excluded.media,
		data = excluded.data, delivery = excluded.delivery, ticket = excluded.ticket, sender = excluded.sender`, a)
	return nil
}

func (d *driver) putWorkers(s *batch.Staging) error {
	var gone []string
	added, body, changed, next := bytesColumn(), bytesColumn(), bytesColumn(), bytesColumn()
	for _, c := range sorted(s.Workers, func(a, b *batch.WorkerChange) int { return cmp.Compare(a.ID, b.ID) }) {
		if c.New == nil {
			gone = append(gone, string(c.ID))
			continue
		}
		row, err := d.s.codecs.worker.Append(nil, c.New, nil)
		if err != nil {
			return err
		}
		ids, bodies := &added, &body
		if c.Old != nil {
			ids, bodies = &changed, &next
		}
		ids.string(string(c.ID))
		bodies.bytes(row)
	}
	if added.n > 0 {
		d.write(`INSERT INTO outlive_worker (id, body) SELECT * FROM unnest($1::bytea[], $2::bytea[])`, with().column(&added).column(&body))
	}
	if changed.n > 0 {
		d.write(`UPDATE outlive_worker AS w SET body = u.body FROM unnest($1::bytea[], $2::bytea[]) AS u(id, body) WHERE w.id = u.id`,
			with().column(&changed).column(&next))
	}
	if len(gone) > 0 {
		d.write(`DELETE FROM outlive_worker WHERE id = ANY($1::bytea[])`, with().column(bytesOf(gone)))
	}
	return nil
}

// invocationColumns are rows of outlive_invocation.
type invocationColumns struct{ expires, key, task, digest column }

func (d *driver) putInvocations(s *batch.Staging) error {
	var gone []string
	groups := map[bool]*invocationColumns{}
	for _, c := range sorted(s.Invocations, func(a, b *batch.InvocationChange) int { return cmp.Compare(a.Key, b.Key) }) {
		if c.New == nil {
			gone = append(gone, c.Key)
			continue
		}
		there := d.present[store.InvocationKey(c.Key)]
		g := groups[there]
		if g == nil {
			g = &invocationColumns{timeColumn(), bytesColumn(), bytesColumn(), bytesColumn()}
			groups[there] = g
		}
		g.expires.time(c.New.Expires)
		g.key.string(c.Key)
		g.task.string(string(c.New.Task))
		g.digest.string(c.New.Digest)
	}
	for there, g := range groups {
		sql := `INSERT INTO outlive_invocation (expires, key, task, digest) SELECT * FROM unnest($1::timestamptz[], $2::bytea[], $3::bytea[], $4::bytea[])`
		if there {
			sql += ` ON CONFLICT (key) DO UPDATE SET expires = excluded.expires, task = excluded.task, digest = excluded.digest`
		}
		d.write(sql, with().column(&g.expires).column(&g.key).column(&g.task).column(&g.digest))
	}
	if len(gone) > 0 {
		d.write(`DELETE FROM outlive_invocation WHERE key = ANY($1::bytea[])`, with().column(bytesOf(gone)))
	}
	return nil
}

func (d *driver) putQueues(s *batch.Staging) error {
	if len(s.Queues) == 0 {
		return nil
	}
	name, body := bytesColumn(), bytesColumn()
	for _, q := range sorted(s.Queues, func(a, b *store.Queue) int { return cmp.Compare(a.Name, b.Name) }) {
		row, err := d.s.codecs.queue.Append(nil, &q, nil)
		if err != nil {
			return err
		}
		name.string(q.Name)
		body.bytes(row)
	}
	d.write(`INSERT INTO outlive_queue (name, body) SELECT * FROM unnest($1::bytea[], $2::bytea[]) ON CONFLICT (name) DO UPDATE SET body = excluded.body`,
		with().column(&name).column(&body))
	return nil
}

func (d *driver) putObservers(s *batch.Staging) error {
	epoch, own, id, worker, body := intColumn(), bytesColumn(), bytesColumn(), bytesColumn(), bytesColumn()
	goneTask, goneID := bytesColumn(), bytesColumn()
	for _, c := range sorted(s.Observers, func(a, b *batch.ObserverChange) int {
		return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.ID, b.ID))
	}) {
		if c.New == nil {
			goneTask.string(string(c.Task))
			goneID.string(c.ID)
			continue
		}
		row, err := d.s.codecs.observer.Append(nil, c.New, nil)
		if err != nil {
			return err
		}
		if c.New.Lease.IsZero() {
			worker.null()
			epoch.null()
		} else {
			worker.string(string(c.New.Lease.Worker))
			epoch.int(c.New.Lease.Epoch)
		}
		own.string(string(c.Task))
		id.string(c.ID)
		body.bytes(row)
	}
	if own.n > 0 {
		d.write(`INSERT INTO outlive_observer (epoch, task, id, worker, body) SELECT * FROM unnest($1::int8[], $2::bytea[], $3::bytea[], $4::bytea[],
			$5::bytea[]) ON CONFLICT (task, id) DO UPDATE SET epoch = excluded.epoch, worker = excluded.worker, body = excluded.body`,
			with().column(&epoch).column(&own).column(&id).column(&worker).column(&body))
	}
	if goneTask.n > 0 {
		d.write(`DELETE FROM outlive_observer AS o USING unnest($1::bytea[], $2::bytea[]) AS u(task, id) WHERE o.task = u.task AND o.id = u.id`,
			with().column(&goneTask).column(&goneID))
	}
	return nil
}

func (d *driver) putTickets(s *batch.Staging) error {
	if len(s.Tickets) == 0 {
		return nil
	}
	own, id, body := bytesColumn(), bytesColumn(), bytesColumn()
	for _, t := range sorted(s.Tickets, func(a, b **mail.Ticket) int {
		return cmp.Or(cmp.Compare((*a).Task, (*b).Task), cmp.Compare((*a).ID, (*b).ID))
	}) {
		row, err := d.s.codecs.ticket.Append(nil, t, nil)
		if err != nil {
			return err
		}
		own.string(t.Task)
		id.string(t.ID)
		body.bytes(row)
	}
	d.write(`INSERT INTO outlive_ticket (task, id, body) SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bytea[])
		ON CONFLICT (task, id) DO UPDATE SET body = excluded.body`, with().column(&own).column(&id).column(&body))
	return nil
}

func (d *driver) putSessions(s *batch.Staging) error {
	groups := map[bool]*[2]column{}
	for _, row := range s.Sessions {
		body, err := d.s.codecs.session.Append(nil, row, nil)
		if err != nil {
			return err
		}
		there := d.present[store.SessionKey(row.ID)]
		g := groups[there]
		if g == nil {
			g = &[2]column{bytesColumn(), bytesColumn()}
			groups[there] = g
		}
		g[0].string(string(row.ID))
		g[1].bytes(body)
	}
	for there, g := range groups {
		sql := `INSERT INTO outlive_session (id, body) SELECT * FROM unnest($1::bytea[], $2::bytea[]) AS u(id, body) ORDER BY u.id`
		if there {
			sql += ` ON CONFLICT (id) DO UPDATE SET body = excluded.body`
		}
		d.write(sql, with().column(&g[0]).column(&g[1]))
	}
	return nil
}

func (d *driver) putDeliveries(s *batch.Staging) error {
	at, due, seq := timeColumn(), timeColumn(), intColumn()
	target, id, body, goneTarget, goneID := bytesColumn(), bytesColumn(), bytesColumn(), bytesColumn(), bytesColumn()
	for _, c := range sorted(s.Deliveries, func(a, b *batch.DeliveryChange) int {
		return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.ID, b.ID))
	}) {
		if c.New == nil {
			goneTarget.string(c.Target)
			goneID.string(c.ID)
			continue
		}
		row, err := d.s.codecs.delivery.Append(nil, c.New, nil)
		if err != nil {
			return err
		}
		at.time(c.New.At)
		seq.int(c.New.Seq)
		if c.New.Offered() {
			due.time(c.New.Due)
		} else {
			due.null()
		}
		target.string(c.Target)
		id.string(c.ID)
		body.bytes(row)
	}
	if target.n > 0 {
		d.write(`INSERT INTO outlive_delivery (at, seq, due, target, id, body)
			SELECT * FROM unnest($1::timestamptz[], $2::int8[], $3::timestamptz[], $4::bytea[], $5::bytea[], $6::bytea[])
			ON CONFLICT (target, id) DO UPDATE SET at = excluded.at, seq = excluded.seq, due = excluded.due, body = excluded.body`,
			with().column(&at).column(&seq).column(&due).column(&target).column(&id).column(&body))
	}
	if goneTarget.n > 0 {
		d.write(`DELETE FROM outlive_delivery AS o USING unnest($1::bytea[], $2::bytea[]) AS u(target, id) WHERE o.target = u.target AND o.id = u.id`,
			with().column(&goneTarget).column(&goneID))
	}
	return nil
}

func (d *driver) putTimers(s *batch.Staging) error {
	due, kind, subject, arg := timeColumn(), bytesColumn(), bytesColumn(), bytesColumn()
	goneKind, goneSubject := bytesColumn(), bytesColumn()
	for _, c := range sorted(s.Timers, func(a, b *batch.TimerChange) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Subject, b.Subject))
	}) {
		if c.New == nil {
			goneKind.string(c.Kind)
			goneSubject.string(c.Subject)
			continue
		}
		due.time(c.New.Due)
		kind.string(c.Kind)
		subject.string(c.Subject)
		arg.string(c.New.Arg)
	}
	if kind.n > 0 {
		d.write(`INSERT INTO outlive_timer (due, kind, subject, arg) SELECT * FROM unnest($1::timestamptz[], $2::bytea[], $3::bytea[], $4::bytea[])
			ON CONFLICT (kind, subject) DO UPDATE SET due = excluded.due, arg = excluded.arg`,
			with().column(&due).column(&kind).column(&subject).column(&arg))
	}
	if goneKind.n > 0 {
		d.write(`DELETE FROM outlive_timer AS t USING unnest($1::bytea[], $2::bytea[]) AS u(kind, subject) WHERE t.kind = u.kind AND t.subject = u.subject`,
			with().column(&goneKind).column(&goneSubject))
	}
	return nil
}

// clockLag is how far the stored clock may be behind the newest commit.
const clockLag = time.Second

// putClock keeps the stored clock near the newest commit's, without waiting for anybody
// who does the same.
func (d *driver) putClock(s *batch.Staging) {
	if s.Now.Sub(d.floor) < clockLag {
		return
	}
	d.write(`UPDATE outlive_meta SET clock = $1 WHERE clock < $1 AND one IN (SELECT one FROM outlive_meta FOR UPDATE SKIP LOCKED)`, with().time(s.Now))
}

// forget removes up to a number of rows of a task that has ended, and with none left
// the task's own. How many a step removed decides whether the next one has a turn, so
// all of it is one statement, run by the server.
func (d *driver) forget(s *batch.Staging) error {
	for _, f := range s.Forgets {
		d.write(forgetTask, with().bytes(string(f.Task)).int(int64(f.Rows)).
			column(bytesOf([]task.AlarmKind{task.AlarmDeadline, task.AlarmRetention, store.TimerCascade})))
	}
	return nil
}

// Each step takes what the ones before left of the limit ($2). A statement's parts see
// the same rows, and each row is taken by one part.
const forgetTask = `WITH
	t AS (SELECT id, state, session FROM outlive_task WHERE id = $1 AND NOT live),
	e AS (SELECT ctid FROM outlive_entry WHERE stream = $1 AND EXISTS (SELECT FROM t WHERE session IS NULL) ORDER BY seq DESC LIMIT $2),
	v AS (SELECT ctid FROM outlive_event WHERE stream = $1 AND EXISTS (SELECT FROM t WHERE session IS NULL) LIMIT $2 - (SELECT count(*) FROM e)),
	i AS (SELECT ctid FROM outlive_input WHERE task = $1 AND EXISTS (SELECT FROM t) LIMIT $2 - (SELECT count(*) FROM e) - (SELECT count(*) FROM v)),
	k AS (SELECT ctid FROM outlive_ticket WHERE task = $1 AND EXISTS (SELECT FROM t)
		LIMIT $2 - (SELECT count(*) FROM e) - (SELECT count(*) FROM v) - (SELECT count(*) FROM i)),
	o AS (SELECT ctid FROM outlive_observer WHERE task = $1 AND EXISTS (SELECT FROM t)
		LIMIT $2 - (SELECT count(*) FROM e) - (SELECT count(*) FROM v) - (SELECT count(*) FROM i) - (SELECT count(*) FROM k)),
	last AS (SELECT id, state FROM t WHERE (SELECT count(*) FROM e) + (SELECT count(*) FROM v) + (SELECT count(*) FROM i) + (SELECT count(*) FROM k)
		+ (SELECT count(*) FROM o) < $2),
	de AS (DELETE FROM outlive_entry WHERE ctid = ANY(ARRAY(SELECT ctid FROM e))),
	dv AS (DELETE FROM outlive_event WHERE ctid = ANY(ARRAY(SELECT ctid FROM v))),
	di AS (DELETE FROM outlive_input WHERE ctid = ANY(ARRAY(SELECT ctid FROM i))),
	dk AS (DELETE FROM outlive_ticket WHERE ctid = ANY(ARRAY(SELECT ctid FROM k))),
	dob AS (DELETE FROM outlive_observer WHERE ctid = ANY(ARRAY(SELECT ctid FROM o))),
	dt AS (DELETE FROM outlive_timer WHERE subject = $1 AND kind = ANY($3::bytea[]) AND EXISTS (SELECT FROM last)),
	gone AS (DELETE FROM outlive_task WHERE id IN (SELECT id FROM last) RETURNING state)
	INSERT INTO outlive_count (tasks, state) SELECT -1, state FROM gone`
