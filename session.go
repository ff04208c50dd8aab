// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlive

import (
	"context"
	"fmt"
	"iter"

	"github.com/outlive-dev/outlive/internal/record"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/session"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// Session returns a session's row, or kind NotFound. A session is made by the first
// Submit that names it.
func (rt *Runtime) Session(ctx context.Context, id task.SessionID) (s session.Session, err error) {
	found := false
	err = rt.st.View(ctx, func(v store.View) (err error) {
		s, found, err = v.Session(id)
		return err
	})
	if err == nil && !found {
		err = session.ErrForeign
	}
	if err != nil {
		return session.Session{}, fmt.Errorf("session %s: %w", id, err)
	}
	return s, nil
}

// Sessions lists sessions by id, after the given one, in pages.
func (rt *Runtime) Sessions(ctx context.Context, after task.SessionID, limit int) (list []session.Session, err error) {
	err = rt.st.View(ctx, func(v store.View) (err error) {
		list, err = v.Sessions(after, limit)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	return list, nil
}

// SessionEvents is Events of a whole session: the turns one after another. It follows
// until ctx ends, unless NoFollow.
func (rt *Runtime) SessionEvents(ctx context.Context, id task.SessionID, o *EventsOptions) iter.Seq2[journal.Entry, error] {
	if o == nil {
		o = &EventsOptions{}
	}
	return func(yield func(journal.Entry, error) bool) {
		if _, err := rt.Session(ctx, id); err != nil {
			yield(journal.Entry{}, err)
			return
		}
		for e, err := range rt.hub.Read(ctx, journal.StreamID(id), record.Query{After: o.After, Follow: !o.NoFollow}) {
			if !yield(e, err) {
				return
			}
		}
	}
}

// Subscribe makes fn the receiver of an outbox target in this process: notices of
// tasks whose Spec.Notify names it, each at least once, with the same id every time.
// An error of fn offers the message again later, and after some tries gives it up.
// Call it before Start; it panics when the target has a receiver here.
func (rt *Runtime) Subscribe(target string, fn func(ctx context.Context, d store.Delivery) error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.started || rt.stopped || target == "" || fn == nil || !rt.out.Register(target, fn) {
		panic("outlive: Subscribe after Start, without a target or receiver, or twice: " + target)
	}
}

// Outbox lists the messages that wait for a target, the given-up ones too (Dead);
// a session's inbox is the target store.InboxTarget.
func (rt *Runtime) Outbox(ctx context.Context, target string, limit int) (list []store.Delivery, err error) {
	err = rt.st.View(ctx, func(v store.View) (err error) {
		list, err = v.Outbox(target, limit)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list messages to %s: %w", target, err)
	}
	return list, nil
}

// Replay offers a message to its target again from the beginning, also one that was
// given up.
func (rt *Runtime) Replay(ctx context.Context, target, id string) error {
	return rt.out.Replay(ctx, target, id)
}
