// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/outlive-dev/outlive/internal/batch"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/session"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// flushMail writes what is not read by claims: tickets, sessions and messages, and
// then removes what is to be forgotten.
func (st *state) flushMail(s *batch.Staging) {
	for _, t := range s.Tickets {
		st.tickets = st.tickets.put(pairOf(t.Task, t.ID), t)
	}
	for _, c := range s.Sessions {
		st.sessions = st.sessions.put(c.ID, c)
	}
	for _, c := range s.Deliveries {
		k := pairOf(c.Target, c.ID)
		if c.New == nil {
			st.deliveries = st.deliveries.drop(k)
		} else {
			st.deliveries = st.deliveries.put(k, c.New)
		}
	}
	for _, f := range s.Forgets {
		st.forget(f.Task, f.Rows)
	}
}

// each calls yield with the rows of t whose key begins with prefix, from after on.
func each[V any](t tree[pair, V], prefix, after pair, yield func(pair, V) bool) {
	t.after(prefix+after, after == "", func(k pair, v V) bool {
		if !strings.HasPrefix(string(k), string(prefix)) {
			return k < prefix
		}
		return yield(k, v)
	})
}

// outbox returns at most limit messages to a target, in order.
func (st *state) outbox(target string, limit int) batch.Outbox {
	var box batch.Outbox
	each(st.deliveries, pairOf(target), "", func(_ pair, d *store.Delivery) bool {
		box.Items = append(box.Items, batch.CloneDelivery(d))
		return true
	})
	batch.SortDeliveries(box.Items)
	if box.More = len(box.Items) > limit; box.More {
		box.Items = box.Items[:limit]
	}
	return box
}

// forget removes up to rows rows of a task that has ended, the newest entries first.
func (st *state) forget(id task.ID, rows int) {
	r, ok := st.tasks.get(id)
	if !ok || batch.Live(r) {
		return
	}
	if s := journal.StreamID(id); r.Session == "" {
		list, _ := st.streams.get(s)
		for ; len(list) > 0 && rows > 0; rows-- {
			e := &list[len(list)-1]
			if e.Event != "" {
				st.tails = st.tails.drop(pairOf(string(s), e.Event))
				st.parts = st.parts.drop(pairOf(string(s), e.Event, e.Part))
			}
			list = list[: len(list)-1 : len(list)-1]
		}
		if len(list) > 0 {
			st.streams = st.streams.put(s, list)
			return
		}
		st.streams = st.streams.drop(s)
	}
	box, _ := st.boxes.get(id)
	var ins []*mail.Input
	box.after(0, true, func(_ int64, in *mail.Input) bool {
		ins = append(ins, in)
		return len(ins) < rows
	})
	for _, in := range ins {
		box = box.drop(in.Seq)
		st.inputs = st.inputs.drop(pairOf(in.Task, in.ID))
		rows--
	}
	if st.boxes = st.boxes.put(id, box); rows == 0 {
		return
	}
	st.boxes = st.boxes.drop(id)
	var tickets []pair
	each(st.tickets, pairOf(string(id)), "", func(k pair, _ *mail.Ticket) bool {
		tickets = append(tickets, k)
		return len(tickets) < rows
	})
	for _, k := range tickets {
		st.tickets = st.tickets.drop(k)
		rows--
	}
	if rows == 0 {
		return
	}
	st.observers = st.observers.drop(id)
	var timers []pair
	st.timers.after("", true, func(k pair, t *store.Timer) bool {
		if t.Subject == string(id) {
			timers = append(timers, k)
		}
		return true
	})
	for _, k := range timers {
		st.timers = st.timers.drop(k)
	}
	st.tasks = st.tasks.drop(id)
	if r.Parent != "" {
		st.children = st.children.drop(pairOf(string(r.Parent), string(id)))
	}
}

func (v *view) Ticket(id task.ID, ticket task.TicketID) (mail.Ticket, bool, error) {
	t, ok := v.tickets.get(pairOf(string(id), string(ticket)))
	if !ok {
		return mail.Ticket{}, false, nil
	}
	return batch.CloneTicket(t), true, nil
}

func (v *view) Tickets(id task.ID, after task.TicketID, limit int) (list []mail.Ticket, _ error) {
	limit = batch.PageSize(limit)
	from := pair("")
	if after != "" {
		from = pairOf(string(after))
	}
	each(v.tickets, pairOf(string(id)), from, func(_ pair, t *mail.Ticket) bool {
		list = append(list, batch.CloneTicket(t))
		return len(list) < limit
	})
	return list, nil
}

func (v *view) Session(id task.SessionID) (session.Session, bool, error) {
	s, ok := v.sessions.get(id)
	if !ok {
		return session.Session{}, false, nil
	}
	return batch.CloneSession(s), true, nil
}

func (v *view) Sessions(after task.SessionID, limit int) (list []session.Session, _ error) {
	limit = batch.PageSize(limit)
	v.sessions.after(after, after == "", func(_ task.SessionID, s *session.Session) bool {
		list = append(list, batch.CloneSession(s))
		return len(list) < limit
	})
	return list, nil
}

func (v *view) Outbox(target string, limit int) ([]store.Delivery, error) {
	return v.outbox(target, batch.PageSize(limit)).Items, nil
}

func (v *view) Due(now time.Time, limit int) (list []store.Delivery, _ error) {
	v.deliveries.after("", true, func(_ pair, d *store.Delivery) bool {
		if d.Offered() && !d.Due.After(now) {
			list = append(list, batch.CloneDelivery(d))
		}
		return true
	})
	slices.SortFunc(list, func(a, b store.Delivery) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Target, b.Target), cmp.Compare(a.Message.ID, b.Message.ID))
	})
	return list[:min(len(list), batch.PageSize(limit))], nil
}

func (v *view) Invocations(expired time.Time, limit int) (list []store.Invocation, _ error) {
	v.invocations.after("", true, func(_ string, i *store.Invocation) bool {
		if i.Expires.Before(expired) {
			list = append(list, *i)
		}
		return true
	})
	slices.SortFunc(list, func(a, b store.Invocation) int {
		return cmp.Or(a.Expires.Compare(b.Expires), cmp.Compare(a.Key, b.Key))
	})
	return list[:min(len(list), batch.PageSize(limit))], nil
}
