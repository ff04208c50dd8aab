// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outlive-dev/outlive/internal/batch"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// How often commits of other processes are looked for: where notifications come only
// for those that were lost, otherwise soonest right after one, then ever slower.
const (
	pollLost = 500 * time.Millisecond
	pollSoon = 5 * time.Millisecond
	pollLate = 250 * time.Millisecond
)

// maxHint is how long a notification may be, in bytes; the server takes 7999.
const maxHint = 7900

// bell is what a notification says. Ids may have any bytes, so they travel as base64.
type bell struct {
	Origin  int64    `json:"o"`
	Any     bool     `json:"a,omitempty"`
	Pending bool     `json:"p,omitempty"`
	Workers bool     `json:"w,omitempty"`
	Streams [][]byte `json:"s,omitempty"`
	Tasks   [][]byte `json:"t,omitempty"`
}

// channelOf is the channel of a store's notifications.
func channelOf(id string) string { return "outlive_" + strings.ToLower(id) }

// notification returns what a commit tells the other instances, "" for nothing.
func (s *Store) notification(st *batch.Staging) string {
	if s.opts.Doorbell == DoorbellPoll {
		return ""
	}
	h := st.Hint()
	if !h.Any && !h.Pending && !h.Workers && len(h.Streams) == 0 && len(h.Tasks) == 0 {
		return ""
	}
	b := bell{Origin: s.origin, Any: h.Any, Pending: h.Pending, Workers: h.Workers}
	size := 100
	for _, id := range h.Streams {
		b.Streams = append(b.Streams, []byte(id))
		size += len(id)*4/3 + 8
	}
	for _, id := range h.Tasks {
		b.Tasks = append(b.Tasks, []byte(id))
		size += len(id)*4/3 + 8
	}
	if size > maxHint {
		b = bell{Origin: s.origin, Any: true}
	}
	text, err := json.Marshal(b)
	if err != nil {
		return ""
	}
	return string(text)
}

// heard hands a notification to who listens here, unless it is this store's own.
func (s *Store) heard(_ *pgconn.PgConn, n *pgconn.Notification) {
	var b bell
	if n.Channel != s.channel || json.Unmarshal([]byte(n.Payload), &b) != nil || b.Origin == s.origin {
		return
	}
	h := store.Hint{Any: b.Any, Pending: b.Pending, Workers: b.Workers}
	for _, id := range b.Streams {
		h.Streams = append(h.Streams, journal.StreamID(id))
	}
	for _, id := range b.Tasks {
		h.Tasks = append(h.Tasks, task.ID(id))
	}
	s.hub.Ring(h)
}

// doorbell rings the hub when another process committed. It has a goroutine and a
// connection only while somebody listens.
//
// Concurrency: mu guards the fields; the goroutine owns its connection.
type doorbell struct {
	s *Store

	mu        sync.Mutex
	listeners int
	stop      context.CancelFunc
}

// listen starts the goroutine. Ready is closed when commits from then on are noticed,
// or when that cannot be waited for.
func (b *doorbell) listen() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.listeners++; b.listeners > 1 {
		return
	}
	ctx, stop := context.WithCancel(b.s.ctx)
	b.stop = stop
	b.s.group.Go("store doorbell", func(context.Context) { b.loop(ctx) })
}

func (b *doorbell) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.listeners--; b.listeners == 0 {
		b.stop()
	}
}

// loop keeps a connection that listens, or polls, until ctx ends.
func (b *doorbell) loop(ctx context.Context) {
	pause := pollSoon
	for snapshot := ""; ctx.Err() == nil; {
		c, err := b.s.cfg.connect(ctx, forHints, b.s.heard)
		if err == nil {
			pause = pollSoon
			snapshot = b.attend(ctx, c, snapshot)
			c.close()
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		pause = min(pause*2, pollLate)
	}
}

// attend rings for what was committed after a snapshot ("" for none), until the
// connection is lost or ctx ends. It returns the newest snapshot.
func (b *doorbell) attend(ctx context.Context, c *conn, snapshot string) string {
	listening := b.s.opts.Doorbell == DoorbellNotify && !c.pooled
	if listening {
		if c.run(ctx, query{sql: `LISTEN "` + b.s.channel + `"`}) != nil {
			return snapshot
		}
	}
	pause := pollSoon
	for {
		next, changed, err := b.look(ctx, c, snapshot)
		if err != nil {
			return snapshot
		}
		snapshot = next
		switch {
		case changed:
			b.s.hub.Ring(store.Hint{Any: true})
			pause = pollSoon
		default:
			pause = min(pause*3/2, pollLate)
		}
		if listening {
			pause = pollLost
		}
		if !b.wait(ctx, c, listening, pause) {
			return snapshot
		}
	}
}

// look asks whether another process committed something that the snapshot does not see.
func (b *doorbell) look(ctx context.Context, c *conn, snapshot string) (next string, changed bool, err error) {
	q := query{sql: `SELECT pg_current_snapshot()::text, true`} // at first, anything may have happened before
	if snapshot != "" {
		q = query{
			sql: `SELECT pg_current_snapshot()::text, EXISTS (SELECT FROM outlive_commit WHERE origin <> $2
				AND xid >= pg_snapshot_xmin($1::text::pg_snapshot) AND NOT pg_visible_in_snapshot(xid, $1::text::pg_snapshot))`,
			args: with().text(snapshot).int(b.s.origin),
		}
	}
	q.scan = func(r row) error {
		next, changed = r.text(0), r.bool(1)
		return nil
	}
	err = c.run(ctx, q)
	return next, changed, err
}

// wait hears notifications for a while. It reports whether the connection is still there.
func (b *doorbell) wait(ctx context.Context, c *conn, listening bool, pause time.Duration) bool {
	if !listening {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		}
	}
	until, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	for {
		if err := c.pg.WaitForNotification(until); err != nil {
			return ctx.Err() == nil && until.Err() != nil && c.alive()
		}
	}
}
