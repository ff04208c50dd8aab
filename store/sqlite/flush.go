// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"fmt"
	"strings"

	"github.com/outlive-dev/outlive/internal/batch"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// Flush implements [batch.Driver].
func (d *driver) Flush(s *batch.Staging) error {
	d.s.fail.Hit(batch.FailBeforeWrite)
	d.flushed = true
	for _, step := range []func(*batch.Staging) error{
		d.putTasks, d.putEntries, d.putTails, d.putInputs, d.putWorkers, d.putRest, d.putMail, d.putMeta,
	} {
		if err := step(s); err != nil {
			return classify(err)
		}
	}
	return nil
}

// What an update of a task's row sets beside the body.
const (
	setState   uint8 = 1 << iota // state
	setLive                      // live
	setPending                   // p_*
	setRunning                   // r_worker, r_epoch
	setQueue                     // r_queue
	setKey                       // r_ckey
	setParked                    // parked
	setRest                      // name, parent, session, queue
)

func changed(a, b *columns) (set uint8) {
	mark := func(differs bool, bit uint8) {
		if differs {
			set |= bit
		}
	}
	mark(a.state != b.state, setState)
	mark(a.live != b.live, setLive)
	mark(a.pending != b.pending || a.exec != b.exec || a.prio != b.prio || a.due != b.due, setPending)
	mark(a.running != b.running || a.worker != b.worker || a.epoch != b.epoch, setRunning)
	mark(a.inQueue != b.inQueue, setQueue)
	mark(a.withKey != b.withKey, setKey)
	mark(a.parked != b.parked, setParked)
	mark(a.name != b.name || a.parent != b.parent || a.session != b.session || a.queue != b.queue, setRest)
	return set
}

var setColumns = [...]string{
	"state = ?", "live = ?", "p_exec = ?, p_prio = ?, p_due = ?", "r_worker = ?, r_epoch = ?",
	"r_queue = ?", "r_ckey = ?", "parked = ?", "name = ?, parent = ?, session = ?, queue = ?",
}

// bind binds the columns of set, in the order of the bits.
func (c *columns) bind(s *stmt, set uint8) {
	if set&setState != 0 {
		s.text(c.state)
	}
	if set&setLive != 0 {
		s.bool(c.live)
	}
	if set&setPending != 0 {
		if c.pending {
			s.text(c.exec)
			s.int(c.prio)
			s.int(c.due)
		} else {
			s.null()
			s.null()
			s.null()
		}
	}
	if set&setRunning != 0 {
		if c.running {
			s.text(c.worker)
			s.int(c.epoch)
		} else {
			s.null()
			s.null()
		}
	}
	if set&setQueue != 0 {
		s.textOrNull(c.inQueue)
	}
	if set&setKey != 0 {
		s.textOrNull(c.withKey)
	}
	if set&setParked != 0 {
		if c.parked {
			s.int(1)
		} else {
			s.null()
		}
	}
	if set&setRest != 0 {
		s.textOrNull(c.name)
		s.textOrNull(c.parent)
		s.textOrNull(c.session)
		s.textOrNull(c.queue)
	}
}

const insertTask = `INSERT INTO outlive_task (state, live, p_exec, p_prio, p_due, r_worker, r_epoch, r_queue, r_ckey,
	parked, name, parent, session, queue, body, id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

func (d *driver) putTasks(st *batch.Staging) error {
	clear(d.counts)
	for _, c := range st.Tasks {
		if err := d.putTask(c.Old, c.New); err != nil {
			return fmt.Errorf("put task %q: %w", c.New.ID, err)
		}
	}
	for state, n := range d.counts {
		if n == 0 {
			continue
		}
		err := d.c.run(`INSERT INTO outlive_count (state, tasks) VALUES (?, ?)
			ON CONFLICT DO UPDATE SET tasks = tasks + excluded.tasks`, nil, string(state), n)
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *driver) putTask(old, r *task.Record) (err error) {
	next := columnsOf(r)
	row := &taskRow{rec: r}
	set := ^uint8(0)
	sql := insertTask
	if old != nil {
		have, err := d.task(r.ID)
		if err != nil {
			return err
		}
		if have == nil {
			return fmt.Errorf("%w: its row is gone", ErrDamaged)
		}
		row.n, row.extra = have.n, have.extra
		prev := columnsOf(old)
		set = changed(&prev, &next)
		sql = d.updateTask(set)
	}
	if d.body, err = d.s.codecs.record.Append(d.body[:0], r, row.extra); err != nil {
		return err
	}
	s, err := d.c.stmt(sql)
	if err != nil {
		return err
	}
	next.bind(s, set)
	s.blob(d.body)
	if old == nil {
		s.text(string(r.ID))
	} else {
		s.int(row.n)
	}
	if err := s.do(); err != nil {
		return err
	}
	if old == nil {
		row.n = d.c.lastRow()
	} else {
		d.counts[old.State]--
	}
	d.counts[r.State]++
	d.tasks.put(r.ID, row)
	d.recount(old, -1)
	d.recount(r, +1)
	return nil
}

func (d *driver) updateTask(set uint8) string {
	if sql, ok := d.put[set]; ok {
		return sql
	}
	var b strings.Builder
	b.WriteString("UPDATE outlive_task SET ")
	for i, columns := range setColumns {
		if set&(1<<i) != 0 {
			b.WriteString(columns + ", ")
		}
	}
	b.WriteString("body = ? WHERE n = ?")
	d.put[set] = b.String()
	return d.put[set]
}

// recount keeps the cached numbers of running tasks right.
func (d *driver) recount(r *task.Record, by int) {
	if r == nil || r.State != task.Running {
		return
	}
	if q, ok := d.queues.get(r.Queue); ok {
		q.Running += by
		d.queues.put(r.Queue, q)
	}
	if n, ok := d.limited.get(r.ConcurrencyKey); ok {
		d.limited.put(r.ConcurrencyKey, n+by)
	}
}

const insertEntry = `INSERT INTO outlive_entry (` + entryColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

func (d *driver) putEntries(st *batch.Staging) error {
	if len(st.Entries) == 0 {
		return nil
	}
	s, err := d.c.stmt(insertEntry)
	if err != nil {
		return err
	}
	for i := range st.Entries {
		e := &st.Entries[i]
		s.text(string(e.Stream))
		s.int(e.Seq)
		s.int(e.Epoch)
		s.int(micros(e.At))
		s.text(e.Kind)
		if e.Task == string(e.Stream) {
			s.null()
		} else {
			s.text(e.Task)
		}
		s.int(e.Attempt)
		s.textOrNull(e.Event)
		s.textOrNull(e.Part)
		s.bool(e.Final)
		s.textOrNull(e.Media)
		s.blob(e.Data)
		if err := s.do(); err != nil {
			return fmt.Errorf("append to stream %q: %w", e.Stream, err)
		}
	}
	for _, c := range st.Heads {
		d.heads.put(c.Stream, c.Head)
	}
	return nil
}

func (d *driver) putTails(st *batch.Staging) error {
	for _, c := range st.Tails {
		k := store.EventKey(c.Stream, c.Event)
		if t, ok := d.tails.get(k); ok {
			d.tails.put(k, batch.AddTail(t, c.Add))
		}
		s, err := d.c.stmt(`INSERT INTO outlive_event (stream, event, part, bytes, final, parts) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET part = iif(excluded.part = '', part, excluded.part), bytes = bytes + excluded.bytes,
			final = max(final, excluded.final), parts = parts + excluded.parts`)
		if err != nil {
			return err
		}
		s.text(string(c.Stream))
		s.text(c.Event)
		s.text(c.Add.Part)
		s.int(c.Add.Bytes)
		s.bool(c.Add.Final)
		s.int(c.Add.Parts)
		if err := s.do(); err != nil {
			return fmt.Errorf("put event %q of stream %q: %w", c.Event, c.Stream, err)
		}
	}
	return nil
}

func (d *driver) putInputs(st *batch.Staging) error {
	for _, in := range st.Inputs {
		if err := d.putInput(in); err != nil {
			return fmt.Errorf("put input %q of task %q: %w", in.ID, in.Task, err)
		}
	}
	return nil
}

func (d *driver) putInput(in *mail.Input) error {
	s, err := d.c.stmt(`INSERT OR REPLACE INTO outlive_input (` + inputColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	s.text(in.Task)
	s.int(in.Seq)
	s.text(in.ID)
	s.int(micros(in.At))
	s.text(in.Kind)
	s.text(in.Media)
	s.blob(in.Data)
	s.text(string(in.Delivery))
	s.text(in.Ticket)
	s.text(in.From)
	return s.do()
}

func (d *driver) putWorkers(st *batch.Staging) error {
	for _, c := range st.Workers {
		d.workers.put(c.ID, c.New)
		if c.New == nil {
			if err := d.c.run(`DELETE FROM outlive_worker WHERE id = ?`, nil, string(c.ID)); err != nil {
				return err
			}
			continue
		}
		body, err := d.s.codecs.worker.Append(nil, c.New, nil)
		if err != nil {
			return err
		}
		if err := d.c.run(`INSERT OR REPLACE INTO outlive_worker (id, body) VALUES (?, ?)`, nil, string(c.ID), body); err != nil {
			return err
		}
	}
	return nil
}

func (d *driver) putRest(st *batch.Staging) error {
	for _, c := range st.Invocations {
		i := c.New
		if i == nil {
			if err := d.c.run(`DELETE FROM outlive_invocation WHERE key = ?`, nil, c.Key); err != nil {
				return err
			}
			continue
		}
		err := d.c.run(`INSERT OR REPLACE INTO outlive_invocation (key, task, digest, expires) VALUES (?, ?, ?, ?)`, nil,
			i.Key, string(i.Task), i.Digest, micros(i.Expires))
		if err != nil {
			return err
		}
	}
	for i := range st.Queues {
		q := &st.Queues[i]
		body, err := d.s.codecs.queue.Append(nil, q, nil)
		if err != nil {
			return err
		}
		if err := d.c.run(`INSERT OR REPLACE INTO outlive_queue (name, body) VALUES (?, ?)`, nil, q.Name, body); err != nil {
			return err
		}
		if have, ok := d.queues.get(q.Name); ok {
			have.Row = *q
			d.queues.put(q.Name, have)
		}
	}
	for _, c := range st.Observers {
		if err := d.putObserver(&c); err != nil {
			return err
		}
	}
	for _, c := range st.Timers {
		var err error
		if c.New == nil {
			err = d.c.run(`DELETE FROM outlive_timer WHERE kind = ? AND subject = ?`, nil, c.Kind, c.Subject)
		} else {
			err = d.c.run(`INSERT OR REPLACE INTO outlive_timer (kind, subject, due, arg) VALUES (?, ?, ?, ?)`, nil,
				c.Kind, c.Subject, micros(c.New.Due), c.New.Arg)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *driver) putObserver(c *batch.ObserverChange) error {
	if c.New == nil {
		return d.c.run(`DELETE FROM outlive_observer WHERE task = ? AND id = ?`, nil, string(c.Task), c.ID)
	}
	body, err := d.s.codecs.observer.Append(nil, c.New, nil)
	if err != nil {
		return err
	}
	s, err := d.c.stmt(`INSERT OR REPLACE INTO outlive_observer (task, id, worker, epoch, body) VALUES (?, ?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	s.text(string(c.Task))
	s.text(c.ID)
	if c.New.Lease.IsZero() {
		s.null()
		s.null()
	} else {
		s.text(string(c.New.Lease.Worker))
		s.int(c.New.Lease.Epoch)
	}
	s.blob(body)
	return s.do()
}

func (d *driver) putMeta(st *batch.Staging) error {
	return d.c.run(`UPDATE outlive_meta SET clock = ?, writes = writes + 1 WHERE one = 1`, nil, micros(st.Now))
}
