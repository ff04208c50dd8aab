// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outlive-dev/outlive/internal/batch"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// driver is a committer's side: its connection and what it knows. A
// batch takes two round trips: BEGIN with all locks and reads, and all writes with
// COMMIT and the notification.
//
// Concurrency: the committer's goroutine owns all fields.
type driver struct {
	s *Store
	c *conn // nil until the first update and after a failure

	open  bool // a transaction has begun
	locks bool // it holds locks: to wait for more could be a deadlock
	skip  bool // somebody hangs: the next Load does not wait for locks

	stuck map[string]time.Time // rows that somebody holds for long, and until when that is believed
	now   time.Time            // the server's clock of this transaction
	floor time.Time            // no commit is before it

	extra   map[task.ID][]byte // members of bodies this version does not know, of this transaction
	present map[store.Key]bool // invocations and sessions that have a row

	staged *batch.Staging
	writes []query // of the transaction
	commit int64   // number of the newest commit that was tried
	pruned time.Time
}

func newDriver(s *Store) *driver {
	return &driver{s: s, pruned: firstPrune(), stuck: make(map[string]time.Time), extra: make(map[task.ID][]byte), present: make(map[store.Key]bool)}
}

// stuckFor is how long a row that somebody held for long is not waited for.
const stuckFor = time.Second

// Begin implements [batch.Driver]. The server hears of it with the first Load.
func (d *driver) Begin() (time.Time, error) {
	if !d.c.alive() {
		d.c.close()
		d.c = nil
		c, err := d.s.patiently(d.s.ctx, forWrites)
		if err != nil {
			return time.Time{}, err
		}
		d.c = c
	}
	d.open, d.locks, d.now = false, false, time.Time{}
	d.staged, d.writes = nil, nil
	clear(d.extra)
	clear(d.present)
	return d.s.newest.get(), nil
}

// clock is the time of the transaction: the server's after all locks were granted, and
// not before that of any commit whose rows it has read.
func (d *driver) clock() time.Time {
	now := d.now
	if d.s.opts.Clock != nil {
		now = d.s.opts.Clock()
	}
	for _, floor := range []time.Time{d.floor, d.s.newest.get()} {
		if now.Before(floor) {
			now = floor
		}
	}
	return now
}

// Load implements [batch.Driver].
func (d *driver) Load(keys []store.Key, rows *batch.Rows) error {
	w := d.want(keys, rows)
	how := lockWait
	switch {
	case d.locks:
		how = lockNow
	case d.skip || d.anyStuck(w):
		how = lockSkip
	}
	var list []query
	if !d.open {
		list = d.c.begin("")
	}
	held := make(map[string]bool) // rows that are there but were not locked
	var blocked []store.Key
	list = append(list, d.lock(w, how, rows, held, &blocked)...)
	if !d.open {
		list = append(list, query{sql: `SELECT clock_timestamp(), clock FROM outlive_meta`, scan: func(r row) error {
			d.now = r.time(0)
			d.seen(r.time(1))
			return nil
		}})
	}
	list = append(list, d.reads(w, rows)...)
	d.open = true
	if err := d.c.run(d.s.ctx, list...); err != nil {
		return d.loadError(err, how)
	}
	d.locks, d.skip = true, false
	until := time.Now().Add(stuckFor)
	for r := range held {
		d.stuck[r] = until
		blocked = append(blocked, w.locking[r]...)
	}
	if len(blocked) == 0 {
		return nil
	}
	b := &batch.BlockedError{Keys: make(map[store.Key]struct{}), Err: fmt.Errorf("%w: %s", ErrLocked, blocked[0])}
	for _, k := range blocked {
		b.Keys[k] = struct{}{}
	}
	return b
}

func (d *driver) seen(t time.Time) {
	if t.After(d.floor) {
		d.floor = t
	}
}

// anyStuck reports whether a row is wanted that somebody held for long a moment ago.
func (d *driver) anyStuck(w *wanted) bool {
	if len(d.stuck) == 0 {
		return false
	}
	now := time.Now()
	maps.DeleteFunc(d.stuck, func(_ string, until time.Time) bool { return now.After(until) })
	for r := range d.stuck {
		if len(w.locking[r]) > 0 {
			return true
		}
	}
	return false
}

// loadError decides what becomes of a batch whose rows could not be read.
func (d *driver) loadError(err error, how string) error {
	switch {
	case codeOf(err) == codeLocked && how == lockWait:
		d.skip = true // find out who is blocked, and go on without them
		return &batch.AgainError{Err: classify(err)}
	case codeOf(err) == codeLocked, lostRace(err), gone(err):
		return &batch.AgainError{Err: classify(err)}
	}
	return classify(err)
}

// How a lock that somebody holds is met.
const (
	lockWait = ""
	lockNow  = " NOWAIT"
	lockSkip = " SKIP LOCKED"
)

// lock returns the statements that lock the wanted rows, always in the same order.
func (d *driver) lock(w *wanted, how string, rows *batch.Rows, held map[string]bool, blocked *[]store.Key) (list []query) {
	if len(w.guards) > 0 && guarded {
		guards := intColumn()
		for _, n := range slices.Sorted(maps.Keys(w.guards)) {
			guards.int(n)
		}
		q := query{sql: `SELECT pg_advisory_xact_lock(n) FROM unnest($1::int8[]) AS n`, args: with().column(&guards)}
		if how != lockWait {
			q.sql = `SELECT n, pg_try_advisory_xact_lock(n) FROM unnest($1::int8[]) AS n`
			q.scan = func(r row) error {
				if !r.bool(1) {
					*blocked = append(*blocked, w.guards[r.int(0)]...)
				}
				return nil
			}
		}
		list = append(list, q)
	}
	mode := ` FOR UPDATE`
	add := func(kind byte, ids []string, table, key, columns string, scan func(row) error) {
		if len(ids) == 0 {
			return
		}
		slices.Sort(ids)
		update := mode + how
		if !locking {
			update = ""
		}
		ours := make(map[string]bool)
		list = append(list, query{
			sql:  `SELECT ` + columns + ` FROM ` + table + ` WHERE ` + key + ` = ANY($1::bytea[]) ORDER BY ` + key + update,
			args: with().column(bytesOf(ids)), scan: func(r row) error {
				if how == lockSkip {
					ours[r.text(0)] = true
				}
				return scan(r)
			},
		})
		if how != lockSkip {
			return
		}
		list = append(list, query{
			sql: `SELECT ` + key + ` FROM ` + table + ` WHERE ` + key + ` = ANY($1::bytea[])`, args: with().column(bytesOf(ids)), scan: func(r row) error {
				if !ours[r.text(0)] {
					held[string(kind)+r.text(0)] = true
				}
				return nil
			},
		})
	}
	add(rowTask, w.tasks, "outlive_task", "id", "id, body", func(r row) error {
		id := task.ID(r.text(0))
		if !w.need[store.TaskKey(id)] {
			return nil
		}
		rec, extra, err := read(r[1], d.s.codecs.record)
		if err != nil {
			return err
		}
		if len(extra) > 0 {
			d.extra[id] = slices.Clone(extra)
		}
		d.seen(rec.UpdatedAt)
		rows.Tasks[id] = rec
		return nil
	})
	add(rowSession, w.sessions, "outlive_session", "id", "id, body", func(r row) error {
		k := store.SessionKey(task.SessionID(r.text(0)))
		d.present[k] = true
		if !w.need[k] {
			return nil
		}
		s, _, err := read(r[1], d.s.codecs.session)
		rows.Sessions[task.SessionID(k.A)] = s
		return err
	})
	if !w.changes {
		mode = ` FOR SHARE`
	}
	add(rowWorker, w.workers, "outlive_worker", "id", "id, body", func(r row) error {
		v, _, err := read(r[1], d.s.codecs.worker)
		rows.Workers[task.WorkerID(r.text(0))] = v
		return err
	})
	mode = ` FOR UPDATE`
	add(rowInvocation, w.invocations, "outlive_invocation", "key", "key, task, digest, expires", func(r row) error {
		key := r.text(0)
		d.present[store.InvocationKey(key)] = true
		rows.Invocations[key] = &store.Invocation{Key: key, Task: task.ID(r.text(1)), Digest: r.text(2), Expires: r.time(3)}
		return nil
	})
	return list
}

// guard returns the advisory lock that stands for a name of a kind in this store.
func (d *driver) guard(kind store.KeyKind, name string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	stripe := h.Sum64() % guardRows
	h.Reset()
	fmt.Fprintf(h, "%s %d %d", d.s.info.ID, kind, stripe)
	return int64(h.Sum64())
}

// Commit implements [batch.Driver].
func (d *driver) Commit() error {
	d.s.fail.Hit(batch.FailBeforeWrite)
	d.commit = d.s.numbers.Add(1)
	list := slices.Concat(
		[]query{{sql: insertCommit, args: with().int(d.s.origin).int(d.commit)}},
		d.writes,
	)
	if d.s.fail.Armed() {
		if err := d.c.run(d.s.ctx, list...); err != nil {
			return d.flushError(err)
		}
		list = nil
		d.s.fail.Hit(batch.FailAfterWrite)
	}
	committed := false
	list = append(list, query{sql: "COMMIT", done: func(tag pgconn.CommandTag) { committed = tag.String() == "COMMIT" }})
	if hint := d.s.notification(d.staged); hint != "" {
		// A transaction of its own: one that notifies holds a lock of the whole server
		// while it commits, so it must not be one that waits for a disk.
		list = append(list, query{
			sql:  `SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)`,
			args: with().text(d.s.channel).text(hint),
		})
	}
	err := d.c.run(d.s.ctx, list...)
	if err != nil && !committed {
		if !gone(err) {
			return d.flushError(err)
		}
		if !resolves {
			return &batch.AgainError{Err: classify(err)}
		}
		if err := d.resolve(err); err != nil {
			return err
		}
	}
	d.open = false
	d.s.newest.put(d.staged.Now)
	d.seen(d.staged.Now)
	d.s.fail.Hit(batch.FailAfterCommit)
	d.prune()
	return nil
}

const insertCommit = `INSERT INTO outlive_commit (origin, n) VALUES ($1, $2)`

func (d *driver) flushError(err error) error {
	if codeOf(err) == codeLocked { // a row that somebody else is making
		return &batch.BlockedError{Err: classify(err)}
	}
	if lostRace(err) || gone(err) {
		return &batch.AgainError{Err: classify(err)}
	}
	return classify(err)
}

// resolve finds out what became of a commit whose answer was lost: it writes the
// commit's own row. If that is there already, the commit is. If not, the commit can
// never happen any more, wherever it is stuck, since its row would be there twice.
func (d *driver) resolve(lost error) error {
	d.c.close()
	d.c = nil
	deadline := time.Now().Add(d.s.opts.Wait)
	for {
		c, err := d.s.patiently(d.s.ctx, forWrites)
		if err != nil {
			return fmt.Errorf("%w: %s", errUnknown, said(lost))
		}
		ours := false
		err = c.run(d.s.ctx, query{
			sql:  insertCommit + ` ON CONFLICT DO NOTHING`,
			args: with().int(d.s.origin).int(d.commit), done: func(tag pgconn.CommandTag) { ours = tag.RowsAffected() == 1 },
		})
		if err == nil {
			d.c = c
			if ours {
				return &batch.AgainError{Err: classify(lost)}
			}
			return nil
		}
		c.close()
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: %s", errUnknown, said(err))
		}
	}
}

// pruneEvery is how often rows of old commits are removed and counts added up. The rows
// are asked for within Options.Wait of the commit, and by polls a moment later.
const (
	pruneEvery  = 10 * time.Second
	keptCommits = 2 * time.Minute
)

// firstPrune spreads the first time over many processes, of which most live shorter.
func firstPrune() time.Time { return time.Now().Add(-rand.N(pruneEvery)) }

func (d *driver) prune() {
	if d.c == nil || time.Since(d.pruned) < pruneEvery {
		return
	}
	d.pruned = time.Now()
	_ = d.c.run(d.s.ctx, query{ // or next time
		sql: `DELETE FROM outlive_commit WHERE ctid = ANY(ARRAY(SELECT ctid FROM outlive_commit WHERE at < clock_timestamp() - make_interval(secs => $1)
			ORDER BY xid LIMIT 10000 FOR UPDATE SKIP LOCKED))`,
		args: with().float(keptCommits.Seconds()),
	}, query{
		sql: `WITH old AS (DELETE FROM outlive_count WHERE ctid = ANY(ARRAY(SELECT ctid FROM outlive_count LIMIT 30000 FOR UPDATE SKIP LOCKED))
			RETURNING state, tasks)
			INSERT INTO outlive_count (tasks, state) SELECT sum(tasks), state FROM old GROUP BY state HAVING sum(tasks) <> 0`,
	})
}

// Rollback implements [batch.Driver].
func (d *driver) Rollback() {
	if !d.open || d.c == nil {
		return
	}
	d.open = false
	if d.c.alive() {
		if err := d.c.run(d.s.ctx, query{sql: "ROLLBACK"}); err == nil {
			return
		}
	}
	d.c.close()
	d.c = nil
}

func (d *driver) close() { d.c.close() }

// patiently connects, waiting for a server that is down, starting or full at most
// Options.Wait.
func (s *Store) patiently(ctx context.Context, r role) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Wait)
	defer cancel()
	pause := 10 * time.Millisecond
	for {
		c, err := s.cfg.connect(ctx, r, nil)
		if err == nil && r == forWrites { // the setting may be another one than when the store was opened
			if err = c.run(ctx, durable); err != nil {
				c.close()
				err = classify(err)
			}
		}
		if err == nil {
			return c, nil
		}
		if ctx.Err() != nil || !passing(err) {
			return nil, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
		pause = min(pause*2, 250*time.Millisecond)
	}
}

// passing reports whether it is worth while to try to connect again.
func passing(err error) bool {
	return errors.Is(err, ErrDown)
}

// durable fails when what the connection commits would not be durable.
var durable = query{sql: `SELECT current_setting('synchronous_commit')`, scan: func(r row) error {
	if r.text(0) == "off" {
		return ErrAsync
	}
	return nil
}}
