// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package mail

import (
	"encoding/json"
	"fmt"
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
	// Withdrawn means that the task ended, or waits for it no longer.
	Withdrawn Verdict = "withdrawn"
)

// Errors of deciding.
var (
	// ErrNoTicket: the task never opened a ticket of that id.
	ErrNoTicket = fault.New(fault.NotFound, "no such ticket")
	// ErrDecided: somebody decided before; the stored decision counts.
	ErrDecided = fault.New(fault.Conflict, "the ticket was decided before")
	// ErrExpired: nobody decided in time.
	ErrExpired = fault.New(fault.Conflict, "the ticket has expired")
	// ErrDenied: the approval is for other arguments, or was not given.
	ErrDenied = fault.New(fault.Forbidden, "the approval does not let these arguments through")
	// ErrClaimed: an earlier attempt has used the approval, and it is not known to
	// what end. It is not to be used again.
	ErrClaimed = fault.New(fault.UnknownOutcome, "the approval was used before, and what became of it is not known")
	// ErrUsed: the approval was used, and what it was for has run.
	ErrUsed = fault.New(fault.Conflict, "the approval was used before")
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
	Left       []string        `json:"left,omitempty"`       // those of IDs that have not ended
	ClaimedAt  time.Time       `json:"claimed_at,omitzero"`  // an approval is used once
	ClaimedBy  int64           `json:"claimed_by,omitempty"` // the attempt that used it
	Settled    bool            `json:"settled,omitempty"`    // what it was used for is known to have run
}

// MaxIDs is how many tasks one ticket may wait for.
const MaxIDs = 1000

// Validate checks a ticket that is about to be opened.
func (t *Ticket) Validate() error {
	bad := func(format string, args ...any) error {
		return fault.Newf(fault.Invalid, "ticket %s: %s", t.ID, fmt.Sprintf(format, args...))
	}
	switch t.Kind {
	case Question, External:
	case Approval:
		if t.ArgsDigest == "" {
			return bad("an approval names the digest of its arguments")
		}
	case Tasks:
		if len(t.IDs) == 0 || len(t.IDs) > MaxIDs {
			return bad("it waits for %d tasks, want 1 to %d", len(t.IDs), MaxIDs)
		}
	default:
		return bad("kind %q is none of question, approval, external, tasks", t.Kind)
	}
	if t.ID == "" {
		return bad("id is missing")
	}
	if len(t.Schema) > 0 {
		if err := CheckSchema(t.Schema); err != nil {
			return fmt.Errorf("ticket %s: %w", t.ID, err)
		}
	}
	return nil
}

// Asks reports whether two tickets ask the same of the same. Asking again goes on
// with the ticket there is.
func (t *Ticket) Asks(o *Ticket) bool {
	return t.ID == o.ID && t.Kind == o.Kind && t.Prompt == o.Prompt && string(t.Schema) == string(o.Schema) &&
		slices.Equal(t.Options, o.Options) && t.ArgsDigest == o.ArgsDigest && slices.Equal(t.IDs, o.IDs) && t.All == o.All
}

// End returns a Tasks ticket with one more of its tasks ended, decided when that is
// enough. Changed is false when the ticket does not wait for that task.
func (t Ticket) End(id string, now time.Time) (_ Ticket, changed bool) {
	i := slices.Index(t.Left, id)
	if t.Kind != Tasks || !t.Open() || i < 0 {
		return t, false
	}
	t.Left = slices.Concat(t.Left[:i], t.Left[i+1:])
	if !t.All || len(t.Left) == 0 {
		t.Decision = &Decision{Verdict: Ended, By: id, At: now}
	}
	return t, true
}

// Expire returns the ticket expired, if its time is over and it is open.
func (t Ticket) Expire(now time.Time) (_ Ticket, changed bool) {
	if !t.Overdue(now) {
		return t, false
	}
	t.Decision = &Decision{Verdict: Expired, At: now}
	return t, true
}

// Withdraw returns the ticket withdrawn, if it is open.
func (t Ticket) Withdraw(now time.Time) (_ Ticket, changed bool) {
	if !t.Open() {
		return t, false
	}
	t.Decision = &Decision{Verdict: Withdrawn, At: now}
	return t, true
}

// Claim uses an approval for the arguments of that digest, once. An approval that
// the same attempt has claimed is claimed again without effect. That it was used comes
// before what it is wanted for now: who wants other arguments after an interrupted
// call does not know what became of that call either.
func (t Ticket) Claim(digest string, attempt int64, now time.Time) (Ticket, error) {
	switch {
	case t.Settled:
		return t, ErrUsed
	case !t.ClaimedAt.IsZero() && t.ClaimedBy != attempt:
		return t, ErrClaimed
	case !t.Approves(digest):
		return t, ErrDenied
	}
	t.ClaimedAt, t.ClaimedBy = now, attempt
	return t, nil
}

// Says reports whether two decisions of one ticket say the same.
func (d *Decision) Says(o Decision) bool {
	return d != nil && d.Verdict == o.Verdict && string(d.Value) == string(o.Value) && d.By == o.By
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
	if d.Verdict == Answered && len(t.Schema) > 0 {
		if err := CheckValue(t.Schema, d.Value); err != nil {
			return fmt.Errorf("ticket %s: %w", t.ID, err)
		}
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
