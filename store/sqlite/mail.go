// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"fmt"
	"slices"
	"time"

	"github.com/outlive-dev/outlive/internal/batch"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/session"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// loadMail is load of the keys of tickets, sessions and messages.
func (d *driver) loadMail(k store.Key, rows *batch.Rows) (err error) {
	switch k.Kind { //nolint:exhaustive // load has the others
	case store.KindTicket:
		rows.Tickets[k], err = d.c.ticket(k.A, k.B)
	case store.KindSession:
		rows.Sessions[task.SessionID(k.A)], err = d.c.session(k.A)
	case store.KindOutbox:
		if k.B != "" {
			rows.Deliveries[k], err = d.c.delivery(k.A, k.B)
			break
		}
		var list []store.Delivery
		list, err = d.c.outbox(k.A, store.MaxPage+1)
		rows.Outboxes[k.A] = batch.Outbox{Items: list[:min(len(list), store.MaxPage)], More: len(list) > store.MaxPage}
	case store.KindHeld:
		var n int64
		n, err = d.c.int64(heldQuery, k.A)
		rows.Held[task.ID(k.A)] = int(n)
	}
	return err
}

const heldQuery = `SELECT count(*) FROM outlive_task WHERE parent = ? AND r_epoch = -1`

func (c *conn) ticket(id, ticket string) (t *mail.Ticket, err error) {
	err = c.run(`SELECT body FROM outlive_ticket WHERE task = ? AND id = ?`, func(s *stmt) (err error) {
		t, _, err = readBody(s, 0, c.codecs.ticket)
		return err
	}, id, ticket)
	return t, err
}

func (c *conn) session(id string) (row *session.Session, err error) {
	err = c.run(`SELECT body FROM outlive_session WHERE id = ?`, func(s *stmt) (err error) {
		row, _, err = readBody(s, 0, c.codecs.session)
		return err
	}, id)
	return row, err
}

func (c *conn) delivery(target, id string) (d *store.Delivery, err error) {
	err = c.run(`SELECT body FROM outlive_delivery WHERE target = ? AND id = ?`, func(s *stmt) (err error) {
		d, _, err = readBody(s, 0, c.codecs.delivery)
		return err
	}, target, id)
	return d, err
}

func (c *conn) outbox(target string, limit int) ([]store.Delivery, error) {
	return list(c, c.codecs.delivery.Decode, `SELECT body FROM outlive_delivery WHERE target = ? ORDER BY at, seq, id LIMIT ?`, target, limit)
}

// list reads the bodies of a query's rows.
func list[T any](c *conn, decode func([]byte, *T) ([]byte, error), sql string, values ...any) (all []T, err error) {
	err = c.run(sql, func(s *stmt) error {
		var v T
		if _, err := decode(s.colView(0), &v); err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		all = append(all, v)
		return nil
	}, values...)
	return all, err
}

func (d *driver) putMail(st *batch.Staging) error {
	for _, t := range st.Tickets {
		body, err := d.s.codecs.ticket.Append(nil, t, nil)
		if err != nil {
			return err
		}
		if err := d.c.run(`INSERT OR REPLACE INTO outlive_ticket (task, id, body) VALUES (?, ?, ?)`, nil, t.Task, t.ID, body); err != nil {
			return err
		}
	}
	for _, row := range st.Sessions {
		body, err := d.s.codecs.session.Append(nil, row, nil)
		if err != nil {
			return err
		}
		if err := d.c.run(`INSERT OR REPLACE INTO outlive_session (id, body) VALUES (?, ?)`, nil, string(row.ID), body); err != nil {
			return err
		}
	}
	for _, c := range st.Deliveries {
		if err := d.putDelivery(&c); err != nil {
			return err
		}
	}
	for _, f := range st.Forgets {
		if err := d.forgetTask(f.Task, int64(f.Rows)); err != nil {
			return fmt.Errorf("forget task %q: %w", f.Task, err)
		}
	}
	return nil
}

func (d *driver) putDelivery(c *batch.DeliveryChange) error {
	if c.New == nil {
		return d.c.run(`DELETE FROM outlive_delivery WHERE target = ? AND id = ?`, nil, c.Target, c.ID)
	}
	body, err := d.s.codecs.delivery.Append(nil, c.New, nil)
	if err != nil {
		return err
	}
	s, err := d.c.stmt(`INSERT OR REPLACE INTO outlive_delivery (target, id, at, seq, due, body) VALUES (?, ?, ?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	s.text(c.Target)
	s.text(c.ID)
	s.int(micros(c.New.At))
	s.int(c.New.Seq)
	if c.New.Offered() {
		s.int(micros(c.New.Due))
	} else {
		s.null()
	}
	s.blob(body)
	return s.do()
}

// forgetTask removes up to rows rows of a task that has ended, and with none left
// the task's own.
func (d *driver) forgetTask(id task.ID, rows int64) error {
	row, err := d.task(id)
	if err != nil || row == nil || batch.Live(row.rec) {
		return err
	}
	steps := []string{
		`DELETE FROM outlive_input WHERE task = ?1 AND id IN (SELECT id FROM outlive_input WHERE task = ?1 LIMIT ?2)`,
		`DELETE FROM outlive_ticket WHERE task = ?1 AND id IN (SELECT id FROM outlive_ticket WHERE task = ?1 LIMIT ?2)`,
		`DELETE FROM outlive_observer WHERE task = ?1 AND id IN (SELECT id FROM outlive_observer WHERE task = ?1 LIMIT ?2)`,
	}
	if row.rec.Session == "" {
		d.heads.reset()
		d.tails.reset()
		steps = slices.Insert(steps, 0,
			`DELETE FROM outlive_entry WHERE n IN (SELECT n FROM outlive_entry WHERE stream = ?1 ORDER BY seq DESC LIMIT ?2)`,
			`DELETE FROM outlive_event WHERE stream = ?1 AND event IN (SELECT event FROM outlive_event WHERE stream = ?1 LIMIT ?2)`)
	}
	for _, sql := range steps {
		if err := d.c.run(sql, nil, string(id), rows); err != nil {
			return err
		}
		n, err := d.c.int64(`SELECT changes()`)
		if err != nil {
			return err
		}
		if rows -= n; rows <= 0 {
			return nil
		}
	}
	for _, kind := range []task.AlarmKind{task.AlarmDeadline, task.AlarmRetention, store.TimerCascade} {
		if err := d.c.run(`DELETE FROM outlive_timer WHERE kind = ? AND subject = ?`, nil, string(kind), string(id)); err != nil {
			return err
		}
	}
	if err := d.c.run(`DELETE FROM outlive_task WHERE n = ?`, nil, row.n); err != nil {
		return err
	}
	d.tasks.drop(id)
	return d.c.run(`UPDATE outlive_count SET tasks = tasks - 1 WHERE state = ?`, nil, string(row.rec.State))
}

func (v *view) Ticket(id task.ID, ticket task.TicketID) (mail.Ticket, bool, error) {
	t, err := v.c.ticket(string(id), string(ticket))
	if err != nil || t == nil {
		return mail.Ticket{}, false, classify(err)
	}
	return *t, true, nil
}

func (v *view) Tickets(id task.ID, after task.TicketID, limit int) ([]mail.Ticket, error) {
	all, err := list(v.c, v.c.codecs.ticket.Decode, `SELECT body FROM outlive_ticket WHERE task = ? AND id > ? ORDER BY id LIMIT ?`,
		string(id), string(after), batch.PageSize(limit))
	return all, classify(err)
}

func (v *view) Session(id task.SessionID) (session.Session, bool, error) {
	s, err := v.c.session(string(id))
	if err != nil || s == nil {
		return session.Session{}, false, classify(err)
	}
	return *s, true, nil
}

func (v *view) Sessions(after task.SessionID, limit int) ([]session.Session, error) {
	all, err := list(v.c, v.c.codecs.session.Decode, `SELECT body FROM outlive_session WHERE id > ? ORDER BY id LIMIT ?`,
		string(after), batch.PageSize(limit))
	return all, classify(err)
}

func (v *view) Outbox(target string, limit int) ([]store.Delivery, error) {
	all, err := v.c.outbox(target, batch.PageSize(limit))
	return all, classify(err)
}

func (v *view) Due(now time.Time, limit int) ([]store.Delivery, error) {
	all, err := list(v.c, v.c.codecs.delivery.Decode, `SELECT body FROM outlive_delivery WHERE due <= ? AND due IS NOT NULL
		ORDER BY due, target, id LIMIT ?`, micros(now), batch.PageSize(limit))
	return all, classify(err)
}

func (v *view) Invocations(expired time.Time, limit int) (all []store.Invocation, err error) {
	err = v.c.run(`SELECT key, task, digest, expires FROM outlive_invocation WHERE expires < ? ORDER BY expires, key LIMIT ?`, func(s *stmt) error {
		all = append(all, store.Invocation{Key: s.colText(0), Task: task.ID(s.colText(1)), Digest: s.colText(2), Expires: fromMicros(s.colInt(3))})
		return nil
	}, micros(expired), batch.PageSize(limit))
	return all, classify(err)
}
