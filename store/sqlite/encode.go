// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

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

func micros(t time.Time) int64 { return t.UnixMicro() }

func fromMicros(n int64) time.Time { return time.UnixMicro(n).UTC() }

// taskRow is a task's row, decoded. It never changes.
type taskRow struct {
	n     int64
	rec   *task.Record
	extra []byte // members of body this version does not know: `,"k":v...`
}

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

// readBody reads the JSON of a column.
func readBody[T any](s *stmt, col int32, c *rowjson.Codec[T]) (v *T, extra []byte, err error) {
	v = new(T)
	if extra, err = c.Decode(s.colView(col), v); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return v, extra, nil
}

// columns are the typed columns of a task's row: what queries look inside.
type columns struct {
	state            string
	live             bool
	name, parent     string
	session, queue   string
	pending          bool
	exec             string
	prio, due        int64
	running          bool
	worker           string
	epoch            int64
	inQueue, withKey string
	parked           bool
}

func columnsOf(r *task.Record) columns {
	c := columns{
		state: string(r.State), live: batch.Live(r), name: r.Name, parent: string(r.Parent),
		session: string(r.Session), queue: r.Queue,
	}
	switch r.State {
	case task.Pending:
		c.pending, c.exec, c.prio, c.due = true, r.Executor, int64(r.Priority), micros(batch.DueAt(r))
		if r.StopOnly() {
			c.prio = stopPriority
		}
	case task.Running:
		c.running, c.worker, c.epoch = true, string(r.Lease.Worker), r.Lease.Epoch
		if r.Lease.IsZero() && !r.Unattended() {
			c.epoch = -1
		}
		c.inQueue, c.withKey = r.Queue, r.ConcurrencyKey
	case task.Waiting, task.Suspended:
		c.parked = true
	default: // ended: in no list of what is unfinished
	}
	return c
}
