// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/outlive-dev/outlive/internal/batch"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// records runs a query whose only column is a task's body.
func (v *view) records(sql string, a *args) ([]task.Record, error) {
	return bodies(v, v.s.codecs.record, sql, a)
}

// behind returns the smallest value above all texts that begin with prefix; ok is
// false when there is none.
func behind(prefix string) (string, bool) {
	b := []byte(prefix)
	for len(b) > 0 && b[len(b)-1] == 0xff {
		b = b[:len(b)-1]
	}
	if len(b) == 0 {
		return "", false
	}
	b[len(b)-1]++
	return string(b), true
}

func (v *view) Tasks(f store.Filter) ([]task.Record, error) {
	limit := batch.PageSize(f.Limit)
	if len(f.Label) == 0 {
		return v.page(&f, string(f.Before), limit)
	}
	// Labels are inside the bodies: filter page by page.
	var list []task.Record
	for before := string(f.Before); ; {
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

// where is the conditions of a query and their values.
type where struct {
	terms []string
	args  *args
}

// and adds a condition with one value, which the text has as %d.
func (w *where) and(term string, value func(*args)) {
	value(w.args)
	w.terms = append(w.terms, fmt.Sprintf(term, len(w.args.values)))
}

// limit ends a query with a number of rows.
func (w *where) limit(n int) string {
	w.args.int(int64(n))
	return fmt.Sprintf(" ORDER BY id DESC LIMIT $%d", len(w.args.values))
}

func (w *where) String() string { return strings.Join(w.terms, " AND ") }

// filter adds what columns tell.
func (w *where) filter(f *store.Filter) {
	if f.Session != "" {
		w.and("session = $%d", func(a *args) { a.bytes(string(f.Session)) })
	}
	if f.Queue != "" {
		w.and("queue = $%d", func(a *args) { a.bytes(f.Queue) })
	}
	if len(f.States) > 0 {
		w.and("state = ANY($%d::bytea[])", func(a *args) { a.column(bytesOf(f.States)) })
	}
}

// below begins the conditions with an upper bound of the ids.
func below(before string) *where {
	w := &where{args: with(), terms: []string{"true"}}
	if before != "" {
		w.and("id < $%d", func(a *args) { a.bytes(before) })
	}
	return w
}

// page lists tasks below an id by what columns tell, newest first.
func (v *view) page(f *store.Filter, before string, limit int) ([]task.Record, error) {
	if len(f.States) > 0 && !slices.ContainsFunc(f.States, task.State.Terminal) {
		return v.unfinished(f, before, limit)
	}
	w := below(before)
	w.filter(f)
	return v.records(`SELECT body FROM outlive_task WHERE `+w.String()+w.limit(limit), w.args)
}

// recentPage is how many of the newest tasks are looked through for unfinished
// ones before the indexes are asked: those that are not finished mostly are new.
const recentPage = 1000

// unfinished lists tasks in unfinished states. However many have finished costs
// nothing.
func (v *view) unfinished(f *store.Filter, before string, limit int) ([]task.Record, error) {
	if limit <= recentPage/2 {
		w := below(before)
		from := `SELECT * FROM outlive_task WHERE ` + w.String() + w.limit(recentPage)
		list, err := v.filtered(f, w, from, limit)
		if err != nil || len(list) == limit {
			return list, err
		}
	}
	w := below(before)
	var from []string
	for _, part := range []struct {
		set    string
		states []task.State
	}{
		{"p_exec IS NOT NULL", []task.State{task.Pending}},
		{"r_worker IS NOT NULL", []task.State{task.Running}},
		{"parked IS NOT NULL", []task.State{task.Waiting, task.Suspended}},
	} {
		if slices.ContainsFunc(part.states, func(s task.State) bool { return slices.Contains(f.States, s) }) {
			from = append(from, `SELECT * FROM outlive_task WHERE `+part.set+` AND `+w.String())
		}
	}
	return v.filtered(f, w, strings.Join(from, " UNION ALL "), limit)
}

// filtered lists what a query yields and the filter takes, newest first.
func (v *view) filtered(f *store.Filter, w *where, from string, limit int) ([]task.Record, error) {
	inner := len(w.terms)
	w.filter(f)
	outer := where{terms: append([]string{"true"}, w.terms[inner:]...)}
	return v.records(`SELECT body FROM (`+from+`) AS t WHERE `+outer.String()+w.limit(limit), w.args)
}

// Find looks through all ids for an ending, but in their index, not in the rows.
func (v *view) Find(part string, limit int) ([]task.Record, error) {
	if part == "" {
		return nil, nil
	}
	w := &where{args: with()}
	w.and("id >= $%d", func(a *args) { a.bytes(part) })
	if end, ok := behind(part); ok {
		w.and("id < $%d", func(a *args) { a.bytes(end) })
	}
	return v.records(`SELECT body FROM outlive_task WHERE id IN (
		SELECT id FROM outlive_task WHERE `+w.String()+`
		UNION SELECT id FROM outlive_task WHERE substring(id FROM greatest(length(id) - length($1) + 1, 1)) = $1
		UNION SELECT id FROM outlive_task WHERE name = $1 AND name IS NOT NULL)`+w.limit(batch.PageSize(limit)), w.args)
}

func (v *view) Children(parent, after task.ID, limit int) ([]task.Record, error) {
	if parent == "" {
		return nil, nil
	}
	return v.records(`SELECT body FROM outlive_task WHERE parent = $1 AND id > $2 AND parent IS NOT NULL ORDER BY id LIMIT $3`,
		with().bytes(string(parent)).bytes(string(after)).int(page(limit)))
}

// pendingSQL lists the pending tasks of every (executor, priority) group that are due,
// from the head of each, without those that a full queue or a busy key holds back. A
// group's first row says its due time whether or not it is held back.
const (
	pendingSQL = `SELECT t.body FROM unnest($1::bytea[], $2::int8[], $3::timestamptz[]) AS g(exec, prio, low) CROSS JOIN LATERAL (
		SELECT body FROM outlive_task WHERE p_exec = g.exec AND p_prio = g.prio AND p_due >= g.low AND p_due <= $4 AND p_exec IS NOT NULL
			AND (g.prio = $5 OR queue IS NULL OR queue <> ALL($6::bytea[])) AND (g.prio = $5 OR ckey IS NULL OR ckey <> ALL($7::bytea[]))
		ORDER BY p_due, id LIMIT $8) AS t`
	firstSQL = `SELECT p_due FROM outlive_task WHERE p_exec = $1 AND p_prio = $2 AND p_due <= $3 AND p_exec IS NOT NULL ORDER BY p_due LIMIT 1`
)

// Pending takes the head of every (executor, priority) group and merges them: the
// index has each group in order of due time, so that neither a long backlog nor
// many scheduled tasks are looked through.
func (v *view) Pending(q store.PendingQuery) ([]task.Record, error) {
	limit := batch.PageSize(q.Limit)
	groups, err := v.groups()
	if err != nil {
		return nil, err
	}
	exec, prio, low := bytesColumn(), intColumn(), timeColumn()
	for _, g := range groups {
		if len(q.Executors) > 0 && !slices.Contains(q.Executors, g.executor) {
			continue
		}
		from, err := v.floor(g, q.Now)
		if err != nil {
			return nil, err
		}
		exec.string(g.executor)
		prio.int(g.priority)
		low.time(from)
	}
	if exec.n == 0 {
		return nil, nil
	}
	found, err := v.records(pendingSQL, with().column(&exec).column(&prio).column(&low).time(q.Now).int(stopPriority).
		column(bytesOf(q.FullQueues)).column(bytesOf(q.BusyKeys)).int(int64(limit)))
	if err != nil {
		return nil, err
	}
	due := make([]*task.Record, len(found))
	for i := range found {
		due[i] = &found[i]
	}
	batch.SortClaims(due, q.Aging)
	list := make([]task.Record, min(len(due), limit))
	for i := range list {
		list[i] = *due[i]
	}
	return list, nil
}

// floor returns the due time that a group's claims begin at.
func (v *view) floor(g group, now time.Time) (time.Time, error) {
	from, all := v.s.floors.from(g)
	if !all {
		return from, nil
	}
	first, began := now, time.Now()
	err := v.read(query{sql: firstSQL, args: with().bytes(g.executor).int(g.priority).time(now), scan: func(r row) error {
		first = r.time(0)
		return nil
	}})
	if err == nil {
		v.s.floors.looked(g, first, time.Since(began))
	}
	return dawnOfDue, err
}

type group struct {
	executor string
	priority int64
}

// groups returns every (executor, priority) that has pending tasks, and maybe some that
// had: those that are remembered, and what is in the index between them.
func (v *view) groups() ([]group, error) {
	known, ok := v.s.floors.groups()
	if !ok {
		began := time.Now()
		known, err := v.readGroups(query{sql: groupsSQL})
		if err == nil {
			v.s.floors.learn(known, time.Since(began))
		}
		return known, err
	}
	for {
		found, err := v.readGroups(between(known))
		if err != nil || len(found) == 0 {
			return known, err
		}
		known = v.s.floors.meet(append(found, known...))
	}
}

func (v *view) readGroups(q query) (list []group, err error) {
	q.scan = func(r row) error {
		list = append(list, group{r.text(0), r.int(1)})
		return nil
	}
	err = v.read(q)
	return list, err
}

// groupsSQL skips through the index of pending tasks from one group to the next.
const groupsSQL = `WITH RECURSIVE g AS (
	(SELECT p_exec, p_prio FROM outlive_task WHERE p_exec IS NOT NULL ORDER BY p_exec, p_prio LIMIT 1)
	UNION ALL
	SELECT n.p_exec, n.p_prio FROM g CROSS JOIN LATERAL (
		SELECT p_exec, p_prio FROM outlive_task WHERE p_exec IS NOT NULL AND (p_exec, p_prio) > (g.p_exec, g.p_prio) ORDER BY p_exec, p_prio LIMIT 1) AS n)
	SELECT p_exec, p_prio FROM g`

// between asks for the first group in every gap between sorted ones.
func between(known []group) query {
	lowExec, highExec, lowPrio, highPrio := bytesColumn(), bytesColumn(), intColumn(), intColumn()
	low := group{"", math.MinInt64} // no executor has an empty key
	for _, high := range append(slices.Clone(known), group{strings.Repeat("\xff", 16), math.MaxInt64}) {
		lowExec.string(low.executor)
		lowPrio.int(low.priority)
		highExec.string(high.executor)
		highPrio.int(high.priority)
		low = high
	}
	return query{
		sql: `SELECT n.p_exec, n.p_prio FROM unnest($1::bytea[], $2::int8[], $3::bytea[], $4::int8[]) AS k(low_exec, low_prio, high_exec, high_prio)
			CROSS JOIN LATERAL (SELECT p_exec, p_prio FROM outlive_task WHERE p_exec IS NOT NULL AND (p_exec, p_prio) > (k.low_exec, k.low_prio)
			AND (p_exec, p_prio) < (k.high_exec, k.high_prio) ORDER BY p_exec, p_prio LIMIT 1) AS n`,
		args: with().column(&lowExec).column(&lowPrio).column(&highExec).column(&highPrio),
	}
}

func (v *view) NextDue(now time.Time) (time.Time, bool, error) {
	groups, err := v.groups()
	if err != nil {
		return time.Time{}, false, err
	}
	exec, prio := bytesColumn(), intColumn()
	for _, g := range groups {
		exec.string(g.executor)
		prio.int(g.priority)
	}
	var next time.Time
	err = v.read(query{
		sql: `SELECT least(
		(SELECT due FROM outlive_timer WHERE due > $3 ORDER BY due LIMIT 1),
		(SELECT min(t.p_due) FROM unnest($1::bytea[], $2::int8[]) AS g(exec, prio) CROSS JOIN LATERAL (
			SELECT p_due FROM outlive_task WHERE p_exec = g.exec AND p_prio = g.prio AND p_due > $3 AND p_exec IS NOT NULL ORDER BY p_due LIMIT 1) AS t))`,
		args: with().column(&exec).column(&prio).time(now), scan: func(r row) error {
			if !r.null(0) {
				next = r.time(0)
			}
			return nil
		},
	})
	return next, !next.IsZero(), err
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
	return v.records(`SELECT body FROM outlive_task WHERE r_worker = $1 AND r_epoch = $2 AND id > $3 AND r_worker IS NOT NULL ORDER BY id LIMIT $4`,
		with().bytes(worker).int(epoch).bytes(string(after)).int(page(limit)))
}
