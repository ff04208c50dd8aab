// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"cmp"
	"slices"

	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/session"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

func (t *txn) Ticket(id task.ID, ticket task.TicketID) (mail.Ticket, bool) {
	k := store.TicketKey(id, ticket)
	t.need(k)
	row, ok := t.tickets.get(k)
	if !ok {
		row = t.rows.Tickets[k]
	}
	if row == nil {
		return mail.Ticket{}, false
	}
	return CloneTicket(row), true
}

func (t *txn) PutTicket(row mail.Ticket) {
	k := store.TicketKey(task.ID(row.Task), task.TicketID(row.ID))
	t.need(k)
	c := CloneTicket(&row)
	t.tickets.put(k, &c)
	t.bytes += 512 + len(c.Prompt) + len(c.Schema)
	if c.Decision != nil {
		t.bytes += len(c.Decision.Value)
	}
}

// CloneTicket returns a deep copy.
func CloneTicket(t *mail.Ticket) mail.Ticket {
	c := *t
	c.Schema, c.Options, c.IDs = slices.Clone(t.Schema), slices.Clone(t.Options), slices.Clone(t.IDs)
	if t.Decision != nil {
		d := *t.Decision
		d.Value = slices.Clone(d.Value)
		c.Decision = &d
	}
	return c
}

func (t *txn) Held(parent task.ID) int {
	t.need(store.HeldKey(parent))
	n, _ := t.holding.get(parent)
	return t.rows.Held[parent] + n
}

func (t *txn) Session(id task.SessionID) (session.Session, bool) {
	t.need(store.SessionKey(id))
	row, ok := t.sessions.get(id)
	if !ok {
		row = t.rows.Sessions[id]
	}
	if row == nil {
		return session.Session{}, false
	}
	return CloneSession(row), true
}

func (t *txn) PutSession(s session.Session) {
	t.need(store.SessionKey(s.ID))
	c := CloneSession(&s)
	t.sessions.put(s.ID, &c)
	t.bytes += 1024
}

// CloneSession returns a deep copy.
func CloneSession(s *session.Session) session.Session {
	c := *s
	if s.Start != nil {
		r := s.Start.Clone()
		c.Start = &r
	}
	return c
}

func (t *txn) delivery(k store.Key) *store.Delivery {
	if d, ok := t.deliveries.get(k); ok {
		return d
	}
	return t.rows.Deliveries[k]
}

func (t *txn) Delivery(target, id string) (store.Delivery, bool) {
	k := store.DeliveryKey(target, id)
	t.need(k)
	d := t.delivery(k)
	if d == nil {
		return store.Delivery{}, false
	}
	return CloneDelivery(d), true
}

func (t *txn) PutDelivery(d store.Delivery) {
	k := store.DeliveryKey(d.Target, d.Message.ID)
	t.need(k)
	c := CloneDelivery(&d)
	c.At, c.Message.At = micros(c.At), micros(c.Message.At)
	if !c.Due.IsZero() {
		c.Due = micros(c.Due)
	}
	t.deliveries.put(k, &c)
	t.sent(k)
	t.bytes += 512 + len(c.Message.Data)
}

func (t *txn) DropDelivery(target, id string) {
	k := store.DeliveryKey(target, id)
	t.need(k)
	t.deliveries.put(k, nil)
	t.sent(k)
}

// sent notes that the target's list is not as it was loaded.
func (t *txn) sent(k store.Key) {
	list, _ := t.outboxes.get(k.A)
	if !slices.Contains(list, k.B) {
		t.outboxes.put(k.A, append(list[:len(list):len(list)], k.B))
	}
}

func (t *txn) Outbox(target string) []store.Delivery {
	t.need(store.OutboxKey(target))
	base := t.rows.Outboxes[target]
	changed, _ := t.outboxes.get(target)
	if base.More && len(changed) > 0 && !t.first {
		panic(errLater{})
	}
	var list []store.Delivery
	for i := range base.Items {
		if !slices.Contains(changed, base.Items[i].Message.ID) {
			list = append(list, CloneDelivery(&base.Items[i]))
		}
	}
	for _, id := range changed {
		if d, _ := t.deliveries.get(store.DeliveryKey(target, id)); d != nil {
			list = append(list, CloneDelivery(d))
		}
	}
	SortDeliveries(list)
	return list[:min(len(list), store.MaxPage)]
}

// SortDeliveries orders the messages of one target.
func SortDeliveries(list []store.Delivery) {
	slices.SortFunc(list, func(a, b store.Delivery) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Message.ID, b.Message.ID))
	})
}

// CloneDelivery returns a deep copy.
func CloneDelivery(d *store.Delivery) store.Delivery {
	c := *d
	c.Message.Data = slices.Clone(d.Message.Data)
	return c
}

func (t *txn) ForgetTask(id task.ID, rows int) {
	t.need(store.TaskKey(id))
	t.forgets.put(id, max(rows, 1))
}
