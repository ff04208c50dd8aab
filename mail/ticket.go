// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package mail

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/outlive-dev/outlive/fault"
)

// TicketKind says who or what can decide a ticket.
type TicketKind string

const (
	// Question is decided by a person's or a model's answer.
	Question TicketKind = "question"
	// Approval is decided by a person for exactly the arguments it names.
	Approval TicketKind = "approval"
	// External is decided by a system.
	External TicketKind = "external"
	// Tasks is decided by the ends of tasks, in the transactions of their ends.
	Tasks TicketKind = "tasks"
)

// Verdict is how a ticket was decided.
type Verdict string

const (
	// Answered carries a value.
	Answered Verdict = "answered"
	// Approved lets the named arguments through, once.
	Approved Verdict = "approved"
	// Denied refuses them.
	Denied Verdict = "denied"
	// Expired means that nobody decided in time. It counts as denied.
	Expired Verdict = "expired"
	// Ended means that enough of the tasks have ended.
	Ended Verdict = "ended"
)

// Decision is the one answer to a ticket.
type Decision struct {
	Verdict Verdict   `json:"verdict"`
	Media   string    `json:"media,omitempty"`
	Value   []byte    `json:"value,omitempty"`
	By      string    `json:"by,omitempty"`
	At      time.Time `json:"at"`
}

// Ticket is what a waiting task waits for: a row of its own, kept as long as the
// task. A decided ticket never reopens; an executor that rejects an answer opens
// another one that Replaces it.
type Ticket struct {
	Task       string          `json:"task"`
	ID         string          `json:"id"`
	Kind       TicketKind      `json:"kind"`
	Prompt     string          `json:"prompt,omitempty"`
	Schema     json.RawMessage `json:"schema,omitempty"`  // of the value; checked before Decide
	Options    []string        `json:"options,omitempty"` // the values there are to choose from
	ArgsDigest string          `json:"args_digest,omitempty"`
	IDs        []string        `json:"ids,omitempty"` // the tasks of a Tasks ticket
	All        bool            `json:"all,omitempty"` // all of IDs must end, not any
	Replaces   string          `json:"replaces,omitempty"`
	OpenedAt   time.Time       `json:"opened_at"`
	ExpiresAt  time.Time       `json:"expires_at,omitzero"`
	Decision   *Decision       `json:"decision,omitempty"`
}

// Open reports whether the ticket is not decided.
func (t *Ticket) Open() bool { return t.Decision == nil }

// Overdue reports whether the ticket is open and its time is over.
func (t *Ticket) Overdue(now time.Time) bool {
	return t.Open() && !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt)
}

// Decide returns the ticket with its decision. The first valid decision counts:
// first is false when it was decided before, and the decision to go by is the one
// stored. A decision that comes too late finds the ticket expired, which is a
// decision too.
func (t Ticket) Decide(d Decision, now time.Time) (_ Ticket, first bool, err error) {
	if !t.Open() {
		return t, false, nil
	}
	if t.Overdue(now) {
		t.Decision = &Decision{Verdict: Expired, At: now}
		return t, true, nil
	}
	if err := t.fits(d); err != nil {
		return t, false, err
	}
	d.At = now
	t.Decision = &d
	return t, true, nil
}

func (t *Ticket) fits(d Decision) error {
	may := map[TicketKind][]Verdict{
		Question: {Answered, Denied},
		Approval: {Approved, Denied},
		External: {Answered, Denied},
		Tasks:    {Ended},
	}[t.Kind]
	if !slices.Contains(may, d.Verdict) {
		return fault.Newf(fault.Invalid, "ticket %s: a %s cannot be %s", t.ID, t.Kind, d.Verdict)
	}
	if d.Verdict == Answered && len(t.Options) > 0 && !slices.Contains(t.Options, string(d.Value)) {
		return fault.Newf(fault.Invalid, "ticket %s: %q is none of the options %q", t.ID, d.Value, t.Options)
	}
	return nil
}

// Approves reports whether the ticket lets a call with these arguments through.
// Other arguments than those asked for are denied, and the decision stays unused.
func (t *Ticket) Approves(argsDigest string) bool {
	return t.Kind == Approval && !t.Open() && t.Decision.Verdict == Approved && t.ArgsDigest == argsDigest
}

// EndedEnough reports whether a Tasks ticket is satisfied when these tasks have
// ended.
func (t *Ticket) EndedEnough(ended func(id string) bool) bool {
	if t.Kind != Tasks || len(t.IDs) == 0 {
		return false
	}
	if t.All {
		return !slices.ContainsFunc(t.IDs, func(id string) bool { return !ended(id) })
	}
	return slices.ContainsFunc(t.IDs, ended)
}

// Enough reports whether a task that waits for these tickets can go on: all or any
// of them are decided.
func Enough(tickets []Ticket, all bool) bool {
	open := slices.ContainsFunc(tickets, func(t Ticket) bool { return t.Open() })
	decided := slices.ContainsFunc(tickets, func(t Ticket) bool { return !t.Open() })
	return decided && (!all || !open)
}

// Addressee returns the ticket that a message without one answers: the one open
// question, if there is exactly one. Otherwise the message is queued, and the reply
// lists the open tickets.
func Addressee(tickets []Ticket) (Ticket, bool) {
	var found []Ticket
	for _, t := range tickets {
		if t.Open() && t.Kind == Question {
			found = append(found, t)
		}
	}
	if len(found) != 1 {
		return Ticket{}, false
	}
	return found[0], true
}
