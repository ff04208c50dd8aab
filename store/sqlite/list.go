// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outlive-dev/outlive/internal/batch"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// records runs a query of the columns n, body.
func (v *view) records(sql string, values ...any) (list []task.Record, err error) {
	err = v.c.run(sql, func(s *stmt) error {
		row, err := readTask(s)
		if err == nil {
			list = append(list, *row.rec)
		}
		return err
	}, values...)
	return list, classify(err)
}

// above returns a value above every id: to the engine, every blob is above every
// text.
func above() any { return []byte{} }

// behind returns the smallest value above all texts that begin with prefix.
func behind(prefix string) any {
	b := []byte(prefix)
	for len(b) > 0 && b[len(b)-1] == 0xff {
		b = b[:len(b)-1]
	}
	if len(b) == 0 {
		return above()
	}
	b[len(b)-1]++
	return string(b)
}

func (v *view) Tasks(f store.Filter) ([]task.Record, error) {
	limit := batch.PageSize(f.Limit)
	before := above()
	if f.Before != "" {
		before = string(f.Before)
	}
	if len(f.Label) == 0 {
		return v.page(&f, before, limit)
	}
	// Labels are inside the bodies: filter page by page.
	var list []task.Record
	for {
		page, err := v.page(&f, before, store.MaxPage)
		if err != nil || len(page) == 0 {
			return list, err
		}
		for i := range page {
			if labeled(&page[i], f.Label) {
				if list = append(list, page[i]); len(list) == limit {
					return list, nil
				}
			}
		}
		before = string(page[len(page)-1].ID)
	}
}

func labeled(r *task.Record, want map[string]string) bool {
	for k, v := range want {
		if have, ok := r.Labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}

// page lists tasks below an id by what columns tell, newest first.
func (v *view) page(f *store.Filter, before any, limit int) ([]task.Record, error) {
	if len(f.States) > 0 && !slices.ContainsFunc(f.States, task.State.Terminal) {
		return v.unfinished(f, before, limit)
	}
	where := []string{"id < ?"}
	values := []any{before}
	if f.Session != "" {
		where = append(where, "session = ?")
		values = append(values, string(f.Session))
	}
	where, values = filterMore(f, where, values)
	values = append(values, limit)
	return v.records(`SELECT n, body FROM outlive_task WHERE `+strings.Join(where, " AND ")+` ORDER BY id DESC LIMIT ?`, values...)
}

func filterMore(f *store.Filter, where []string, values []any) ([]string, []any) {
	if f.Queue != "" {
		where = append(where, "queue = ?")
		values = append(values, f.Queue)
	}
	if len(f.States) > 0 {
		where = append(where, "state IN (?"+strings.Repeat(", ?", len(f.States)-1)+")")
		for _, s := range f.States {
			values = append(values, string(s))
		}
	}
	return where, values
}

// recentPage is how many of the newest tasks are looked through for unfinished
// ones before the indexes are asked: those that are not finished mostly are new.
const recentPage = 1000

// unfinished lists tasks in unfinished states. However many have finished costs
// nothing.
func (v *view) unfinished(f *store.Filter, before any, limit int) ([]task.Record, error) {
	if limit <= recentPage/2 {
		list, err := v.filtered(f, before, limit, `SELECT * FROM outlive_task WHERE id < ? ORDER BY id DESC LIMIT `+strconv.Itoa(recentPage))
		if err != nil || len(list) == limit {
			return list, err
		}
	}
	var from []string
	for _, part := range []struct {
		index, set string
		states     []task.State
	}{
		{"outlive_task_pending", "p_exec", []task.State{task.Pending}},
		{"outlive_task_running", "r_worker", []task.State{task.Running}},
		{"outlive_task_parked", "parked", []task.State{task.Waiting, task.Suspended}},
	} {
		if slices.ContainsFunc(part.states, func(s task.State) bool { return slices.Contains(f.States, s) }) {
			from = append(from, `SELECT n, id FROM outlive_task INDEXED BY `+part.index+` WHERE `+part.set+` IS NOT NULL AND id < ?1`)
		}
	}
	ids := strings.Join(from, " UNION ALL ")
	return v.filtered(f, before, limit, `SELECT t.* FROM (`+ids+`) AS some CROSS JOIN outlive_task AS t ON t.n = some.n`)
}

// filtered lists what a query, which has the upper bound as its only parameter,
// yields and the filter takes, newest first.
func (v *view) filtered(f *store.Filter, before any, limit int, query string) ([]task.Record, error) {
	where := []string{"true"}
	values := []any{before}
	if f.Session != "" {
		where = append(where, "session = ?")
		values = append(values, string(f.Session))
	}
	where, values = filterMore(f, where, values)
	values = append(values, limit)
	return v.records(`SELECT n, body FROM (`+query+`) WHERE `+strings.Join(where, " AND ")+` ORDER BY id DESC LIMIT ?`, values...)
}

// Find looks through all ids for an ending, but in their index, not in the rows.
func (v *view) Find(part string, limit int) ([]task.Record, error) {
	if part == "" {
		return nil, nil
	}
	limit = batch.PageSize(limit)
	return v.records(`SELECT n, body FROM outlive_task WHERE n IN (
		SELECT n FROM outlive_task WHERE id >= ? AND id < ?
		UNION SELECT n FROM outlive_task INDEXED BY sqlite_autoindex_outlive_task_1 WHERE id >= '' AND substr(CAST(id AS BLOB), -?) = CAST(? AS BLOB)
		UNION SELECT n FROM outlive_task WHERE name = ? AND name IS NOT NULL) ORDER BY id DESC LIMIT ?`,
		part, behind(part), len(part), part, part, limit)
}

func (v *view) Children(parent, after task.ID, limit int) ([]task.Record, error) {
	if parent == "" {
		return nil, nil
	}
	return v.records(`SELECT n, body FROM outlive_task WHERE parent = ? AND id > ? AND parent IS NOT NULL ORDER BY id LIMIT ?`,
		string(parent), string(after), batch.PageSize(limit))
}

// The pending tasks of one executor and priority that are due, and those of them that
// no full queue or busy key holds back.
const (
	pendingSQL = `SELECT n, body FROM outlive_task WHERE p_exec = ? AND p_prio = ? AND p_due <= ? AND p_exec IS NOT NULL
		ORDER BY p_due, id LIMIT ?`
	pendingFreeSQL = `SELECT n, body FROM outlive_task WHERE p_exec = ? AND p_prio = ? AND p_due <= ? AND p_exec IS NOT NULL
		AND (queue IS NULL OR queue NOT IN (SELECT value FROM json_each(?)))
		AND coalesce(json_extract(body, '$.concurrency_key'), '') NOT IN (SELECT value FROM json_each(?))
		ORDER BY p_due, id LIMIT ?`
)

// Pending takes the head of every (executor, priority) group and merges them: the
// index has each group in order of due time, so that neither a long backlog nor
// many scheduled tasks are looked through.
func (v *view) Pending(q store.PendingQuery) ([]task.Record, error) {
	limit := batch.PageSize(q.Limit)
	groups, err := v.groups()
	if err != nil {
		return nil, classify(err)
	}
	held := q.FullQueues != nil || q.BusyKeys != nil
	queues, err := json.Marshal(append([]string{}, q.FullQueues...))
	if err != nil {
		return nil, classify(err)
	}
	keys, err := json.Marshal(append([]string{}, q.BusyKeys...))
	if err != nil {
		return nil, classify(err)
	}
	var due []*task.Record
	for _, g := range groups {
		if len(q.Executors) > 0 && !slices.Contains(q.Executors, g.executor) {
			continue
		}
		sql, values := pendingSQL, []any{g.executor, g.priority, micros(q.Now)}
		if held && g.priority != stopPriority {
			sql, values = pendingFreeSQL, append(values, string(queues), string(keys))
		}
		err := v.c.run(sql, func(s *stmt) error {
			row, err := readTask(s)
			if err == nil {
				due = append(due, row.rec)
			}
			return err
		}, append(values, limit)...)
		if err != nil {
			return nil, classify(err)
		}
	}
	batch.SortClaims(due, q.Aging)
	list := make([]task.Record, min(len(due), limit))
	for i := range list {
		list[i] = *due[i]
	}
	return list, nil
}

type group struct {
	executor string
	priority int64
}

// groups skips through the index of pending tasks from one (executor, priority)
// to the next.
func (v *view) groups() (list []group, err error) {
	next := func(sql string, values ...any) (found bool, err error) {
		err = v.c.run(sql, func(s *stmt) error {
			found = true
			list = append(list, group{s.colText(0), s.colInt(1)})
			return nil
		}, values...)
		return found, err
	}
	found, err := next(`SELECT p_exec, p_prio FROM outlive_task WHERE p_exec IS NOT NULL ORDER BY p_exec, p_prio LIMIT 1`)
	for found && err == nil {
		last := list[len(list)-1]
		found, err = next(`SELECT p_exec, p_prio FROM outlive_task WHERE p_exec = ? AND p_prio > ? AND p_exec IS NOT NULL
			ORDER BY p_prio LIMIT 1`, last.executor, last.priority)
		if err == nil && !found {
			found, err = next(`SELECT p_exec, p_prio FROM outlive_task WHERE p_exec > ? AND p_exec IS NOT NULL
				ORDER BY p_exec, p_prio LIMIT 1`, last.executor)
		}
	}
	return list, err
}

func (v *view) NextDue(now time.Time) (time.Time, bool, error) {
	groups, err := v.groups()
	if err != nil {
		return time.Time{}, false, classify(err)
	}
	var next *int64
	earlier := func(sql string, values ...any) error {
		return v.c.run(sql, func(s *stmt) error {
			if due := s.colInt(0); next == nil || due < *next {
				next = &due
			}
			return nil
		}, values...)
	}
	err = earlier(`SELECT due FROM outlive_timer WHERE due > ? ORDER BY due LIMIT 1`, micros(now))
	for _, g := range groups {
		if err != nil {
			break
		}
		err = earlier(`SELECT p_due FROM outlive_task WHERE p_exec = ? AND p_prio = ? AND p_due > ? AND p_exec IS NOT NULL
			ORDER BY p_due LIMIT 1`, g.executor, g.priority, micros(now))
	}
	if err != nil || next == nil {
		return time.Time{}, false, classify(err)
	}
	return fromMicros(*next), true, nil
}

func (v *view) Held(l task.Lease, after task.ID, limit int) ([]task.Record, error) {
	if l.IsZero() {
		return nil, nil
	}
	return v.running(string(l.Worker), l.Epoch, after, limit)
}

func (v *view) Unattended(after task.ID, limit int) ([]task.Record, error) {
	return v.running("", 0, after, limit)
}

func (v *view) Driven(after task.ID, limit int) ([]task.Record, error) {
	return v.running("", -1, after, limit)
}

func (v *view) running(worker string, epoch int64, after task.ID, limit int) ([]task.Record, error) {
	return v.records(`SELECT n, body FROM outlive_task WHERE r_worker = ? AND r_epoch = ? AND id > ? AND r_worker IS NOT NULL
		ORDER BY id LIMIT ?`, worker, epoch, string(after), batch.PageSize(limit))
}
