// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlivetest_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/apply"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/session"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// mailVerbs are the commands of stories about mail, sessions and handoffs.
func (s *stage) mailVerbs() map[string]func(*line) string {
	return map[string]func(*line) string{
		"continue": s.continues, "session": s.session, "stream": s.stream,
		"answer": s.answer, "tickets": s.tickets, "edit": s.edit, "withdraw": s.withdraw,
		"handoff": s.handoff, "stales": s.stales,
	}
}

// turnID returns the id of a session's nth turn for SESSION#N, and any other word as it
// is: the ids of successors are nobody's choice.
func (s *stage) turnID(word string) string {
	name, n, ok := strings.Cut(word, "#")
	at, err := strconv.Atoi(n)
	if !ok || err != nil {
		return word
	}
	ids := s.turns(name)
	if at < 1 || at > len(ids) {
		s.t.Fatalf("%s: there are %d turns", word, len(ids))
	}
	return string(ids[at-1])
}

func (s *stage) turns(name string) (ids []task.ID) {
	for _, e := range s.entries(name) {
		if e.Kind == journal.KindCreated {
			ids = append(ids, task.ID(e.Task))
		}
	}
	return ids
}

func (s *stage) entries(stream string) (list []journal.Entry) {
	s.view(func(v store.View) (err error) {
		list, err = v.Entries(journal.StreamID(stream), 0, store.MaxPage)
		return err
	})
	return list
}

// name says which turn of the session a task is.
func (s *stage) name(sid string, id task.ID) string {
	for i, turn := range s.turns(sid) {
		if turn == id {
			return fmt.Sprintf("%s#%d", sid, i+1)
		}
	}
	return string(id)
}

// continues submits a turn: continue SESSION [as=ID] [busy=POLICY] [key=KEY].
func (s *stage) continues(l *line) string {
	sid := l.word(0)
	sp := s.spec(&line{opts: map[string]string{"exec": "reads", "invocation": l.opts["key"]}, body: l.body, words: []string{l.opts["as"]}})
	sp.Session, sp.Busy = task.SessionID(sid), session.Policy(l.opts["busy"])
	r, err := s.via(l).Submit(s.t.Context(), sp)
	if err != nil {
		return s.said(r.ID, err)
	}
	return s.name(sid, r.ID) + " " + s.said(r.ID, nil)
}

// session shows a session's row and what waits for it.
func (s *stage) session(l *line) string {
	sid := l.word(0)
	out := "no such session"
	s.view(func(v store.View) error {
		row, ok, err := v.Session(task.SessionID(sid))
		if err != nil || !ok {
			return err
		}
		out = fmt.Sprintf("turns=%d", row.Turns)
		if row.Active != "" {
			out += " active=" + s.name(sid, row.Active)
		}
		list, err := v.Outbox(store.InboxTarget(row.ID), 0)
		for _, d := range list {
			out += fmt.Sprintf(" waits=%q", d.Message.Data)
		}
		return err
	})
	return out
}

// stream tells a session's whole journal.
func (s *stage) stream(l *line) string {
	var b strings.Builder
	for _, e := range s.entries(l.word(0)) {
		fmt.Fprintf(&b, "%d %s", e.Seq, e.Kind)
		if e.Task != "" {
			fmt.Fprintf(&b, " %s", s.name(l.word(0), task.ID(e.Task)))
		}
		if e.Kind == journal.KindTurnWithdrawn {
			fmt.Fprintf(&b, " %s", e.Data)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// answer decides a ticket: answer ID TICKET VALUE [by=WHO].
func (s *stage) answer(l *line) string {
	d := mail.Decision{Verdict: mail.Answered, Media: "text/plain", Value: []byte(l.rest(2)), By: l.opts["by"]}
	row, err := s.via(l).Answer(s.t.Context(), l.id(), task.TicketID(l.word(1)), d)
	out := s.said(l.id(), err)
	if errors.Is(err, mail.ErrDecided) {
		out += fmt.Sprintf(", it is %q", row.Decision.Value)
	}
	return out
}

func (s *stage) tickets(l *line) string {
	rows, err := s.via(l).Tickets(s.t.Context(), l.id())
	if err != nil {
		return s.said(l.id(), err)
	}
	var b strings.Builder
	for _, t := range rows {
		said := "open"
		if t.Decision != nil {
			said = fmt.Sprintf("%s %q", t.Decision.Verdict, t.Decision.Value)
		}
		if len(t.Left) > 0 {
			said += fmt.Sprintf(" left=%v", t.Left)
		}
		fmt.Fprintf(&b, "%s %s %s\n", t.ID, t.Kind, said)
	}
	return b.String()
}

// edit changes an input: edit ID INPUT TEXT [from=WHO].
func (s *stage) edit(l *line) string {
	_, err := s.via(l).Edit(s.t.Context(), l.id(), mail.Input{ID: l.word(1), Data: []byte(l.rest(2)), From: l.opts["from"]})
	return s.said(l.id(), err)
}

func (s *stage) withdraw(l *line) string {
	_, err := s.via(l).Withdraw(s.t.Context(), l.id(), l.word(1), l.opts["from"])
	return s.said(l.id(), err)
}

// handoff hands a parent-owned task over, to go on at once or when children have
// ended: handoff ID gen=N [children=A,B] [suspend].
func (s *stage) handoff(l *line) string {
	c := task.HandOff{Generation: s.number(l, "gen"), All: true, Suspend: l.word(1) == "suspend", Cursor: s.number(l, "cursor")}
	if text := l.opts["checkpoint"]; text != "" {
		c.Checkpoint = &task.Checkpoint{Format: "text", Version: 1, Data: []byte(text)}
	}
	var asked []mail.Ticket
	if kids := l.opts["children"]; kids != "" {
		var ids []task.ID
		for k := range strings.SplitSeq(kids, ",") {
			ids = append(ids, task.ID(k))
		}
		asked = append(asked, work.Children("kids", true, ids...))
	}
	err := s.env.Store().Update(s.t.Context(), apply.Keys(l.id()), func(tx store.Tx) error {
		_, err := apply.HandOff(tx, l.id(), c, asked)
		return err
	})
	return s.said(l.id(), err)
}

// stales tries every kind of write that the owner of a generation could: stales ID
// gen=N. A write that is accepted is told, and the rest in one line.
func (s *stage) stales(l *line) string {
	id, h := l.id(), s.holds[l.id()]
	before := s.said(id, nil)
	kinds := map[string][]string{}
	var order []string
	for _, w := range staleWrites(id, h, s.number(l, "gen")) {
		kind := "accepted"
		if err := s.env.Store().Update(s.t.Context(), w.keys, w.do); err != nil {
			kind = fault.KindOf(err).String()
		}
		if kinds[kind] == nil {
			order = append(order, kind)
		}
		kinds[kind] = append(kinds[kind], w.name)
	}
	var b strings.Builder
	for _, k := range order {
		fmt.Fprintf(&b, "%s: %s\n", k, strings.Join(kinds[k], " "))
	}
	if after := s.said(id, nil); after != before {
		fmt.Fprintf(&b, "changed: %s\n", after)
	}
	return b.String()
}

// staleWrite is one write of an owner.
type staleWrite struct {
	name string
	keys []store.Key
	do   func(store.Tx) error
}

// staleWrites are all writes that the owner of a generation of a task has: its
// commands, parts of events, use of approvals, children in either form.
func staleWrites(id task.ID, h task.Hold, generation int64) (list []staleWrite) {
	f := task.Fence{Attempt: h.Attempt, Lease: h.Lease, Generation: generation}
	cp := task.Checkpoint{Format: "text", Version: 1, Data: []byte("stale")}
	keys := append(apply.Keys(id), store.WorkerKey(h.Lease.Worker))
	for _, c := range []task.Command{
		task.CommitStart{Fence: f},
		task.Save{Fence: f, Checkpoint: cp},
		task.CommitInput{Fence: f},
		task.Progress{Fence: f},
		task.Complete{Fence: f},
		task.Wait{Fence: f, Tickets: []task.TicketID{"q"}, Checkpoint: &cp},
		task.Suspend{Fence: f, Reason: "operator", Checkpoint: cp},
		task.Yield{Fence: f},
		task.DetachWorker{Fence: f},
		task.Fail{Fence: f, Failure: task.Failure{Code: "stale", Outcome: task.OutcomeKnown}},
		task.AckCancel{Fence: f, Outcome: task.OutcomeKnown},
		task.HandOff{Generation: generation},
		task.Offer{Generation: generation},
		task.Seal{Generation: generation},
		task.Orphan{Generation: generation},
	} {
		list = append(list, staleWrite{string(c.Op()), keys, func(tx store.Tx) error {
			_, err := apply.Step(tx, id, c)
			return err
		}})
	}
	e := journal.Entry{Stream: journal.StreamID(id), Event: "out", Part: "stale", Kind: journal.KindOutput, Data: []byte("stale")}
	list = append(list,
		staleWrite{"part", apply.PartKeys(id, e), func(tx store.Tx) error {
			_, _, err := apply.Part(tx, id, f, e, apply.PartOptions{})
			return err
		}},
		staleWrite{"claim", keys, func(tx store.Tx) error { return apply.Claim(tx, id, f, "q", "digest") }},
		staleWrite{"settle", keys, func(tx store.Tx) error { return apply.Settle(tx, id, f, "q") }},
	)
	below := task.Hold{Parent: id, Attempt: h.Attempt, Lease: h.Lease}
	kid := task.Record{ID: id + "-stale", Executor: "script.v1", Parent: id, Publication: task.Deferred, Owner: task.OwnerParent, Hold: below}
	list = append(list, staleWrite{"hold", apply.CreateKeys(&kid), func(tx store.Tx) error {
		_, err := apply.CreateOwned(tx, task.Create{Record: kid}, generation)
		return err
	}})
	free := kid
	free.ID, free.Owner, free.Hold, free.Publication = id+"-free", task.OwnerManager, task.Hold{}, task.OnCreate
	return append(list, staleWrite{"spawn", apply.CreateKeys(&free), func(tx store.Tx) error {
		_, err := apply.CreateUnder(tx, task.Create{Record: free}, below, generation)
		return err
	}})
}
