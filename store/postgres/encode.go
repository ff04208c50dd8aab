// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"fmt"
	"math"
	"time"

	"github.com/outlive-dev/outlive/internal/batch"
	"github.com/outlive-dev/outlive/internal/rowjson"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/session"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// stopPriority is that of starts that only stop: before all others.
const stopPriority = math.MinInt64

// codecs write and read the bodies of rows.
type codecs struct {
	record   *rowjson.Codec[task.Record]
	worker   *rowjson.Codec[store.Worker]
	queue    *rowjson.Codec[store.Queue]
	observer *rowjson.Codec[store.Observer]
	ticket   *rowjson.Codec[mail.Ticket]
	session  *rowjson.Codec[session.Session]
	delivery *rowjson.Codec[store.Delivery]
}

func newCodecs() *codecs {
	return &codecs{
		rowjson.New[task.Record](), rowjson.New[store.Worker](), rowjson.New[store.Queue](), rowjson.New[store.Observer](),
		rowjson.New[mail.Ticket](), rowjson.New[session.Session](), rowjson.New[store.Delivery](),
	}
}

// read reads the JSON of a column.
func read[T any](body []byte, c *rowjson.Codec[T]) (v *T, extra []byte, err error) {
	v = new(T)
	if extra, err = c.Decode(body, v); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return v, extra, nil
}

// taskRow is the typed columns of a task's row: what queries look inside.
type taskRow struct {
	prio, epoch int64
	due         time.Time
	pending     bool
	running     bool
	parked      bool
	exec        string
	worker      string
	queue, ckey string // of a running task
}

func rowOf(r *task.Record) (c taskRow) {
	switch r.State {
	case task.Pending:
		c.pending, c.exec, c.prio, c.due = true, r.Executor, int64(r.Priority), batch.DueAt(r)
		if r.StopOnly() {
			c.prio = stopPriority
		}
	case task.Running:
		c.running, c.worker, c.epoch = true, string(r.Lease.Worker), r.Lease.Epoch
		if r.Lease.IsZero() && !r.Unattended() {
			c.epoch = -1
		}
		c.queue, c.ckey = r.Queue, r.ConcurrencyKey
	case task.Waiting, task.Suspended:
		c.parked = true
	default: // ended: in no list of what is unfinished
	}
	return c
}

// taskColumns are the rows of many tasks, column by column, in the order of taskNames.
type taskColumns struct {
	prio, epoch, consumed                                                           column
	due                                                                             column
	live, parked                                                                    column
	id, state, name, parent, session, queue, ckey, exec, worker, rQueue, rKey, body column
}

const (
	taskNames = `p_prio, r_epoch, consumed, p_due, live, parked, id, state, name, parent, session, queue, ckey, p_exec, r_worker, r_queue, r_ckey, body`
	taskNew   = `unnest($1::int8[], $2::int8[], $3::int8[], $4::timestamptz[], $5::bool[], $6::bool[], $7::bytea[], $8::bytea[], $9::bytea[],
		$10::bytea[], $11::bytea[], $12::bytea[], $13::bytea[], $14::bytea[], $15::bytea[], $16::bytea[], $17::bytea[], $18::bytea[])
		AS u(` + taskNames + `)`

	insertTasks = `INSERT INTO outlive_task (` + taskNames + `) SELECT * FROM ` + taskNew
	updateTasks = `UPDATE outlive_task AS t SET p_prio = u.p_prio, r_epoch = u.r_epoch, consumed = u.consumed, p_due = u.p_due, live = u.live,
		parked = u.parked, state = u.state, name = u.name, parent = u.parent, session = u.session, queue = u.queue, ckey = u.ckey, p_exec = u.p_exec,
		r_worker = u.r_worker, r_queue = u.r_queue, r_ckey = u.r_ckey, body = u.body FROM ` + taskNew + ` WHERE t.id = u.id`
)

func newTaskColumns() *taskColumns {
	c := &taskColumns{prio: intColumn(), epoch: intColumn(), consumed: intColumn(), due: timeColumn(), live: boolColumn(), parked: boolColumn()}
	for _, b := range []*column{&c.id, &c.state, &c.name, &c.parent, &c.session, &c.queue, &c.ckey, &c.exec, &c.worker, &c.rQueue, &c.rKey, &c.body} {
		*b = bytesColumn()
	}
	return c
}

func (c *taskColumns) add(r *task.Record, body []byte) {
	row := rowOf(r)
	if row.pending {
		c.exec.string(row.exec)
		c.prio.int(row.prio)
		c.due.time(row.due)
	} else {
		c.exec.null()
		c.prio.null()
		c.due.null()
	}
	if row.running {
		c.worker.string(row.worker)
		c.epoch.int(row.epoch)
	} else {
		c.worker.null()
		c.epoch.null()
	}
	if row.parked {
		c.parked.bool(true)
	} else {
		c.parked.null()
	}
	c.consumed.int(r.ConsumedInput)
	c.live.bool(batch.Live(r))
	c.id.string(string(r.ID))
	c.state.string(string(r.State))
	c.name.some(r.Name)
	c.parent.some(string(r.Parent))
	c.session.some(string(r.Session))
	c.queue.some(r.Queue)
	c.ckey.some(r.ConcurrencyKey)
	c.rQueue.some(row.queue)
	c.rKey.some(row.ckey)
	c.body.bytes(body)
}

func (c *taskColumns) args() *args {
	a := with()
	for _, x := range []*column{
		&c.prio, &c.epoch, &c.consumed, &c.due, &c.live, &c.parked, &c.id, &c.state, &c.name, &c.parent, &c.session,
		&c.queue, &c.ckey, &c.exec, &c.worker, &c.rQueue, &c.rKey, &c.body,
	} {
		a.column(x)
	}
	return a
}
