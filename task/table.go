// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package task

import "slices"

//go:generate go test -run ^TestStatesPage$ -update .

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

// none is the state of a task that does not exist.
const none State = ""

func list(s ...State) []State { return s }

// transitions returns the table.
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

// Ops lists every op in the order of the table.
func Ops() []Op {
	var ops []Op
	for _, t := range transitions() {
		if !slices.Contains(ops, t.op) {
			ops = append(ops, t.op)
		}
	}
	return ops
}
