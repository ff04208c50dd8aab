// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlivetest

import (
	"fmt"
	"slices"

	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// tickets wants every open ticket to be one that its task waits for.
func (a *audit) tickets(r *task.Record) error {
	for after := task.TicketID(""); ; {
		rows, err := a.v.Tickets(r.ID, after, store.MaxPage)
		if err != nil {
			return err
		}
		for i := range rows {
			after = task.TicketID(rows[i].ID)
			if rows[i].Open() && !slices.Contains(r.Tickets, after) {
				a.bad(r, "ticket %s is open, and nobody waits for it", after)
			}
		}
		if len(rows) < store.MaxPage {
			return nil
		}
	}
}

// turn counts the unfinished tasks of each session.
func (a *audit) turn(r *task.Record) error {
	if r.Session == "" || r.State.Terminal() {
		return nil
	}
	if other, busy := a.turns[r.Session]; busy {
		a.bad(r, "session %s has another unfinished task: %s", r.Session, other)
	}
	a.turns[r.Session] = r.ID
	return nil
}

// sessions wants each session to name its unfinished task, and its inbox to hold what
// it says.
func (a *audit) sessions() error {
	for after := task.SessionID(""); ; {
		list, err := a.v.Sessions(after, store.MaxPage)
		if err != nil {
			return err
		}
		for i := range list {
			s := &list[i]
			after = s.ID
			if s.Active != a.turns[s.ID] {
				a.out = append(a.out, fmt.Sprintf("session %s: its task is %q, the unfinished one is %q", s.ID, s.Active, a.turns[s.ID]))
			}
			inbox, err := a.v.Outbox(store.InboxTarget(s.ID), store.MaxPage)
			if err != nil {
				return err
			}
			if len(inbox) < store.MaxPage && int64(len(inbox)) != s.Waiting {
				a.out = append(a.out, fmt.Sprintf("session %s: %d messages wait, it counts %d", s.ID, len(inbox), s.Waiting))
			}
		}
		if len(list) < store.MaxPage {
			return nil
		}
	}
}
