// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

const (
	lookAgain = time.Second            // ends that nobody recorded show up by then
	gather    = 100 * time.Millisecond // changes within it are one redraw
)

// watch shows the list until it is interrupted: drawn over itself on a terminal, else
// a line for each task that is new or has changed.
func (a *app) watch(ctx context.Context, f store.Filter, needs bool) error {
	ctx = a.interruptible(ctx)
	if err := a.open(ctx); err != nil {
		return err
	}
	ring := make(chan struct{}, 1)
	a.group.Go("changes", func(context.Context) {
		for range a.st.Changes(ctx) {
			select {
			case ring <- struct{}{}:
			default:
			}
		}
	})
	show := a.append
	if a.outIsTerminal() && !a.json {
		show = a.redraw
	}
	seen := &seenRows{last: map[task.ID]string{}}
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		list, err := a.rows(ctx, f, needs)
		if err == nil {
			err = show(ctx, seen, list, needs)
		}
		if ctx.Err() != nil {
			a.interrupted.Store(0) // it is how a watch ends
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-ring:
			select {
			case <-ctx.Done():
			case <-time.After(gather):
			}
		}
	}
}

// seenRows is what a watch has shown so far.
type seenRows struct {
	last  map[task.ID]string
	lines int
	head  bool
}

// redraw draws the list over the one before.
func (a *app) redraw(_ context.Context, s *seenRows, list []row, needs bool) error {
	width, height := a.size()
	lines := a.table(list, width, needs)
	if height > 1 && len(lines) > height-1 {
		more := len(lines) - height + 2
		lines = append(lines[:height-2], fmt.Sprintf("and %d more", more))
	}
	var b strings.Builder
	if s.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.lines)
	}
	b.WriteString("\r")
	for _, l := range lines {
		b.WriteString(l + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	s.lines = len(lines)
	return a.print(a.out, "%s", b.String())
}

// append prints what has changed, also how a task ended that the list shows no more.
func (a *app) append(ctx context.Context, s *seenRows, list []row, needs bool) error {
	listed := map[task.ID]bool{}
	for i := range list {
		listed[list[i].rec.ID] = true
	}
	for id := range s.last {
		if listed[id] {
			continue
		}
		delete(s.last, id)
		if r, err := a.rt.Get(ctx, id); err == nil && r.State.Terminal() && !needs {
			list = append(list, row{rec: r})
		}
	}
	if !s.head && !a.json {
		s.head = true
		if err := a.print(a.out, "%s\n", a.table(nil, 0, needs)[0]); err != nil {
			return err
		}
	}
	for i := len(list) - 1; i >= 0; i-- { // the newest last: lines only grow
		r := &list[i]
		word := stateWord(&r.rec) + string(r.rec.Publication) + r.needs
		if s.last[r.rec.ID] == word {
			continue
		}
		if !r.rec.State.Terminal() || listed[r.rec.ID] {
			s.last[r.rec.ID] = word
		}
		var err error
		if a.json {
			err = a.printRows(list[i : i+1])
		} else {
			err = a.print(a.out, "%s\n", a.line(r, shortID(r.rec.ID), 0))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
