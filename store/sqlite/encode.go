// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/outlive-dev/outlive/internal/batch"
	"github.com/outlive-dev/outlive/task"
)

func micros(t time.Time) int64 { return t.UnixMicro() }

func fromMicros(n int64) time.Time { return time.UnixMicro(n).UTC() }

// taskRow is a task's row, decoded. It never changes.
type taskRow struct {
	n     int64
	rec   *task.Record
	extra []byte // members of body this version does not know: `,"k":v...`
}

// encodeRecord appends the body of a record: its JSON, with the members a newer
// version put there.
func encodeRecord(dst []byte, r *task.Record, extra []byte) ([]byte, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return dst, fmt.Errorf("encode task %s: %w", r.ID, err)
	}
	dst = append(dst, b[:len(b)-1]...)
	dst = append(dst, extra...)
	return append(dst, '}'), nil
}

func decodeRecord(body []byte) (*task.Record, []byte, error) {
	var r task.Record
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if dec.Decode(&r) == nil {
		return &r, nil, nil
	}
	// Either the body is damaged, or a newer version wrote it.
	r = task.Record{}
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, nil, fmt.Errorf("%w: body of a task: %w", ErrDamaged, err)
	}
	extra, err := unknownMembers(body, &r)
	return &r, extra, err
}

// unknownMembers returns the top-level members of body that r does not have.
func unknownMembers(body []byte, r *task.Record) ([]byte, error) {
	known := make(map[string]json.RawMessage)
	mine, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(mine, &known); err != nil {
		return nil, err
	}
	var extra []byte
	dec := json.NewDecoder(bytes.NewReader(body))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, err
		}
		name, _ := key.(string)
		if _, ok := known[name]; ok || recordHas(name, raw) {
			continue
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		extra = append(append(append(append(extra, ','), quoted...), ':'), raw...)
	}
	return extra, nil
}

// recordHas reports whether a record has a member of that name, even when its
// value is one that encoding leaves out.
func recordHas(name string, raw json.RawMessage) bool {
	doc, err := json.Marshal(map[string]json.RawMessage{name: raw})
	if err != nil {
		return false
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.DisallowUnknownFields()
	return dec.Decode(new(task.Record)) == nil
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
			c.prio = math.MinInt64
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
