// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"slices"
	"strings"
)

// A transition is one row of the table: what op may do to a task in one of the
// states from. The table is the contract in short: it draws docs/states.md, answers
// [Legal], and every Apply in the tests is held against it.
type transition struct {
	op         Op
	who        string // which tasks, when not all in that state
	from       []State
	to         []State // all it may lead to
	version    delta
	attempt    delta
	generation delta
	also       string
}

// A delta is how a counter moves.
type delta string

const (
	same    delta = "="
	up      delta = "+1"
	once    delta = "+1 first time" // nothing moves when it is repeated
	moved   delta = "+1 if the state moves"
	sealing delta = "+1 at an end"
)

// holds reports whether a counter moved as the delta allows.
func (d delta) holds(by int64, before, after State, changed bool) bool {
	switch d {
	case same:
		return by == 0
	case up:
		return by == 1
	case once:
		return by == 0 && !changed || by == 1 && changed
	case moved:
		return by == 0 && before == after || by == 1 && before != after
	case sealing:
		return by == 0 && !after.Terminal() || by == 1 && after.Terminal()
	}
	return false
}

// none is the state of a task that does not exist.
const none State = ""

func live() []State { return []State{Pending, Running, Waiting, Suspended} }

func list(s ...State) []State { return s }

// transitions returns the table, in the order of [Ops].
func transitions() []transition {
	const manager, parent = "manager", "parent"
	return []transition{
		{OpCreate, manager, list(none), list(Pending), up, same, up, "notice `created` if on_create"},
		{OpCreate, parent, list(none), list(Running), up, same, up, "needs the hold of the parent's attempt"},
		{OpStart, "due, or to be canceled", list(Pending), list(Running), up, up, same, "entry `task.started`"},
		{OpAdopt, "recoverable, start committed; unattended or its worker dead", list(Running), list(Running), up, up, same, "entry `task.recovered`"},
		{OpCommitStart, "", list(Running), list(Running), up, same, same, "a second one is a conflict"},
		{OpSave, "", list(Running), list(Running), up, same, same, "resets the retry budget"},
		{OpCommitInput, "reads input", list(Running), list(Running), up, same, same, "cursor and checkpoint move together"},
		{OpProgress, "", list(Running), list(Running), same, same, same, "a loss of the worker counts no failure"},
		{OpComplete, manager, list(Running), list(Completed, Pending), up, same, sealing, "pending if unread input is left and the cursor moved since the last time; notice at the end"},
		{OpComplete, parent, list(Running), list(Completed, Running), up, same, sealing, "goes on if unread input is left"},
		{OpWait, manager, list(Running), list(Waiting, Pending), up, same, same, "pending if answered already; notice `waiting`"},
		{OpSuspend, manager, list(Running), list(Suspended, Pending), up, same, same, "`idle` goes to pending on unread input"},
		{OpYield, manager, list(Running), list(Pending), up, same, same, "an empty checkpoint keeps the old"},
		{OpDetachWorker, "recoverable, start committed", list(Running), list(Running), up, same, same, "unattended; entry `task.unattended`"},
		{OpFail, "", list(Running), list(Pending, Failed), up, same, sealing, "pending after a backoff while failures remain; notice at the end"},
		{OpAckCancel, "to be canceled", list(Running), list(Canceled, Failed), up, same, sealing, "failed if a deadline asked; notice"},
		{OpRequestCancel, "", list(Pending), list(Canceled, Pending, Failed), once, same, sealing, "pending if something outside must be stopped first"},
		{OpRequestCancel, "", list(Waiting, Suspended), list(Canceled, Pending), once, same, sealing, "pending if something outside must be stopped first"},
		{OpRequestCancel, "", list(Running), list(Running, Pending, Canceled, Failed), once, same, sealing, "a live owner acknowledges; without one as above"},
		{OpSend, "reads input", list(Pending), list(Pending), moved, same, same, "moves the latest input"},
		{OpSend, "reads input", list(Running), list(Running), moved, same, same, "moves the latest input"},
		{OpSend, "reads input", list(Waiting), list(Waiting, Pending), moved, same, same, "`steer` and `interrupt` wake it, its tickets stay open"},
		{OpSend, "reads input", list(Suspended), list(Suspended), moved, same, same, "input never releases"},
		{OpDecide, "", list(Waiting), list(Waiting, Pending), moved, same, same, "pending if its tickets are satisfied"},
		{OpDecide, "", list(Pending), list(Pending), moved, same, same, "closes the ticket"},
		{OpDecide, "", list(Running), list(Running), moved, same, same, "closes the ticket"},
		{OpDecide, "", list(Suspended), list(Suspended), moved, same, same, "closes the ticket"},
		{OpRelease, "", list(Suspended), list(Pending), up, same, same, ""},
		{OpPublish, "deferred", list(Pending), list(Pending), same, same, same, "entry `task.published`, notice `backgrounded`"},
		{OpPublish, "deferred", list(Running), list(Running), same, same, same, "entry `task.published`, notice `backgrounded`"},
		{OpPublish, "deferred", list(Waiting), list(Waiting), same, same, same, "entry `task.published`, notice `backgrounded`"},
		{OpPublish, "deferred", list(Suspended), list(Suspended), same, same, same, "entry `task.published`, notice `backgrounded`"},
		{OpPublish, "deferred", list(Completed), list(Completed), same, same, same, "the notice of its end"},
		{OpPublish, "deferred", list(Failed), list(Failed), same, same, same, "the notice of its end"},
		{OpPublish, "deferred", list(Canceled), list(Canceled), same, same, same, "the notice of its end"},
		{OpReveal, "deferred", list(Pending), list(Pending, Canceled), once, same, sealing, "publishes, or requests cancel by policy"},
		{OpReveal, "deferred", list(Running), list(Running, Pending, Canceled), once, same, sealing, "publishes, or requests cancel by policy"},
		{OpReveal, "deferred", list(Waiting), list(Waiting, Pending, Canceled), once, same, sealing, "publishes, or requests cancel by policy"},
		{OpReveal, "deferred", list(Suspended), list(Suspended, Pending, Canceled), once, same, sealing, "publishes, or requests cancel by policy"},
		{OpReveal, "deferred", list(Completed), list(Completed), same, same, same, "the notice of its end"},
		{OpReveal, "deferred", list(Failed), list(Failed), same, same, same, "the notice of its end"},
		{OpReveal, "deferred", list(Canceled), list(Canceled), same, same, same, "the notice of its end"},
		{OpExpire, "its worker's lease over", list(Running), list(Pending, Running, Failed, Canceled), up, same, sealing, "unattended if it lives outside; else by on_lease_loss; to be canceled: ends, or is stopped first"},
		{OpOrphan, parent, list(Running), list(Completed, Pending, Failed, Canceled), up, same, up, "its candidate if nothing is unread; pending under the manager if recoverable"},
		{OpRetake, parent, list(Running), list(Running), up, same, up, "the parent's next attempt"},
		{OpHandOff, parent, list(Running), list(Waiting, Suspended, Pending), up, same, up, "publication on_background, notice `backgrounded`"},
		{OpOffer, parent, list(Running), list(Running), up, same, same, "a candidate result"},
		{OpSeal, parent, list(Running), list(Completed, Running), up, same, sealing, "withdraws the candidate if input came in between"},
		{OpDeadline, "its deadline passed", list(Pending, Waiting, Suspended), list(Failed, Pending), once, same, sealing, "as request_cancel; ends failed(`deadline`)"},
		{OpDeadline, "its deadline passed", list(Running), list(Running, Pending, Failed), once, same, sealing, "as request_cancel; ends failed(`deadline`)"},
	}
}

// Legal reports whether op can do anything to a task in state s; the zero State is
// that of a task yet to be created. A legal op may still be refused for its fence,
// its arguments, or what else the record holds.
func Legal(s State, op Op) bool {
	for _, t := range transitions() {
		if t.op == op && slices.Contains(t.from, s) {
			return true
		}
	}
	return false
}

// states draws the table as the page docs/states.md.
func states() string {
	var b strings.Builder
	b.WriteString(`# States of a task

<!-- Generated from the table in task/table.go: go generate ./task. Do not edit. -->

` + "```mermaid\nstateDiagram-v2\n")
	type edge struct{ from, to State }
	var order []edge
	ops := map[edge][]string{}
	for _, t := range transitions() {
		for _, from := range t.from {
			for _, to := range t.to {
				e := edge{from, to}
				if from == to {
					continue
				}
				if _, ok := ops[e]; !ok {
					order = append(order, e)
				}
				if !slices.Contains(ops[e], string(t.op)) {
					ops[e] = append(ops[e], string(t.op))
				}
			}
		}
	}
	for _, e := range order {
		from := string(e.from)
		if e.from == none {
			from = "[*]"
		}
		fmt.Fprintf(&b, "    %s --> %s: %s\n", from, e.to, strings.Join(ops[e], ", "))
	}
	for _, s := range States() {
		if s.Terminal() {
			fmt.Fprintf(&b, "    %s --> [*]\n", s)
		}
	}
	b.WriteString("```\n\n" + `A running task without a worker is unattended: it lives on outside, under its own supervisor. A task with a
cancel intent is pending or running; its next end is canceled, or failed if a deadline asked. A task that has ended answers
every command but publish and reveal with how it ended.

| from | command | of | to | Version | Attempt | Generation | also |
| --- | --- | --- | --- | --- | --- | --- | --- |
`)
	for _, t := range transitions() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n",
			names(t.from), t.op, t.who, names(t.to), t.version, t.attempt, t.generation, t.also)
	}
	b.WriteString("\n## What is true of every record\n\n`task.Check` tells which of these a record breaks.\n\n")
	for _, rule := range rules() {
		id, text, _ := strings.Cut(rule, " ")
		fmt.Fprintf(&b, "- **%s** %s\n", id, text)
	}
	return b.String()
}

func names(s []State) string {
	if len(s) == 1 && s[0] == none {
		return "-"
	}
	out := make([]string, len(s))
	for i := range s {
		out[i] = string(s[i])
	}
	return strings.Join(out, ", ")
}
