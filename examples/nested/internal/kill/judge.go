// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/outlivetest"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/store/sqlite"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool/command"
)

// world is what is in a store.
type world struct {
	parents int
	parent  task.Record // zero while there is none
	kids    []task.Record
	inputs  []mail.Input
	entries []journal.Entry
}

func look(ctx context.Context, st store.Store) (w world, err error) {
	err = st.View(ctx, func(v store.View) error {
		w = world{}
		recs, err := v.Tasks(store.Filter{Limit: store.MaxPage})
		if err != nil {
			return err
		}
		for i := range recs {
			if recs[i].Parent != "" {
				w.kids = append(w.kids, recs[i])
				continue
			}
			w.parents++
			w.parent = recs[i]
		}
		if w.parents == 0 {
			return nil
		}
		if w.inputs, err = v.Inputs(w.parent.ID, 0, store.MaxPage); err != nil {
			return err
		}
		w.entries, err = v.Entries(journal.StreamID(w.parent.ID), 0, store.MaxPage)
		return err
	})
	return w, err
}

// judge checks a round that has come to its end.
func (r *round) judge(ctx context.Context) {
	st, err := sqlite.Open(ctx, r.db(), nil)
	if err != nil {
		if ctx.Err() == nil {
			r.bad("open the store: %v", err)
		}
		return
	}
	defer st.Close()
	w, err := look(ctx, st)
	if err == nil {
		var problems []string
		problems, err = outlivetest.Audit(ctx, st)
		for _, p := range problems {
			r.bad("%s", p)
		}
	}
	if err != nil {
		if ctx.Err() == nil {
			r.bad("read the store: %v", err)
		}
		return
	}
	if w.parents != 1 || w.parent.State != task.Completed || w.parent.Unread() > 0 {
		r.bad("%d parents, the last %s with %d inputs unread; want one, completed, and all read", w.parents, w.parent.State, w.parent.Unread())
		return
	}
	r.kids(&w)
	r.notices(&w)
	r.wake(&w)
	r.turns(&w)
	r.report.do(func(rep *report) { rep.rounds++ })
}

// kids checks the children and what their commands did.
func (r *round) kids(w *world) {
	if len(w.kids) != children {
		r.bad("%d children, want %d", len(w.kids), children)
	}
	for i := range r.plan.pauses {
		text, err := os.ReadFile(r.marker(i))
		if n := strings.Count(string(text), "ran\n"); n != 1 {
			r.bad("command %d ran %d times, want once (%v)", i, n, err)
		}
	}
	for i := range w.kids {
		k := &w.kids[i]
		code := "none"
		if x, ok := command.ExitOf(k); ok && x.Code != nil {
			code = fmt.Sprint(*x.Code)
		}
		if k.State != task.Completed || code != k.Invocation {
			r.bad("child %s is %s with code %s, want completed with %s", k.ID, k.State, code, k.Invocation)
		}
	}
}

// notices checks that the end of each child is told once.
func (r *round) notices(w *world) {
	told := map[task.ID]int{}
	for i, in := range w.inputs {
		if in.Seq != int64(i+1) {
			r.bad("input %d has seq %d", i+1, in.Seq)
		}
		n, ok := mail.NoticeOf(in)
		if !ok {
			r.bad("an input of kind %q", in.Kind)
			continue
		}
		told[task.ID(n.Task)]++
	}
	var result string
	if w.parent.Result != nil {
		result = string(w.parent.Result.Data)
	}
	for i := range w.kids {
		id := w.kids[i].ID
		n := told[id]
		r.report.do(func(rep *report) {
			rep.notices++
			switch {
			case n == 0:
				rep.lost++
			case n > 1:
				rep.twice++
			}
		})
		if n != 1 {
			r.bad("the end of child %s is stored %d times in the mailbox, want once", id, n)
		}
		if n := strings.Count(result, string(id)); n != 1 {
			r.bad("the result tells of child %s %d times, want once: %q", id, n, result)
		}
	}
}

// wake checks that the parent slept until the last child had ended.
func (r *round) wake(w *world) {
	ends, asleep := 0, false
	for _, e := range w.entries {
		switch e.Kind {
		case journal.KindInput:
			var n task.InputNote
			if err := json.Unmarshal(e.Data, &n); err != nil {
				r.bad("entry %d: %v", e.Seq, err)
			}
			if strings.HasPrefix(n.Kind, mail.KindChild) {
				ends++
			}
		case journal.KindWaiting:
			asleep = true
		case journal.KindStarted:
			switch {
			case !asleep:
			case ends != children:
				r.bad("the parent was woken when %d of %d children had ended", ends, children)
			default:
				r.woken(w, e)
			}
			asleep = false
		}
	}
}

// woken notes how long the last end took to wake the parent, if nobody was killed
// meanwhile.
func (r *round) woken(w *world, start journal.Entry) {
	last := w.inputs[len(w.inputs)-1].At
	if r.lastKill.Before(last) && start.At.After(last) {
		r.report.do(func(rep *report) { rep.wakes = append(rep.wakes, start.At.Sub(last)) })
	}
}

// turns checks what each turn was given: everything behind what was consumed, and
// nothing of what was.
func (r *round) turns(w *world) {
	steps, err := r.steps()
	if err != nil {
		r.bad("%v", err)
		return
	}
	consumed, cut := int64(0), false
	for _, s := range steps {
		switch s.what {
		case "killed":
			consumed = s.seqs[0]
			cut = cut && consumed < w.parent.LatestInput // else the answer alone was lost
		case "turn.committed":
			consumed, cut = w.parent.LatestInput, false
		case "turn.read":
			want := consumed
			for _, seq := range s.seqs {
				if want++; seq != want {
					r.bad("attempt %d was given %v after %d was consumed", s.attempt, s.seqs, consumed)
					break
				}
			}
			if want != w.parent.LatestInput {
				r.bad("attempt %d was given %v after %d was consumed, want all up to %d", s.attempt, s.seqs, consumed, w.parent.LatestInput)
			}
			if cut {
				r.report.do(func(rep *report) { rep.cut++ })
			}
			cut = consumed < w.parent.LatestInput
		}
	}
}
