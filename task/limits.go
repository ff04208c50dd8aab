// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"cmp"
	"time"
	"unicode/utf8"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
)

// Limits are the sizes and times of one runtime. A zero field means its default, so
// the zero Limits are the defaults.
type Limits struct {
	Spec       int // Bytes of a spec. Defaults to 1 MiB.
	Checkpoint int // Bytes of a checkpoint. Defaults to 1 MiB.
	Result     int // Bytes of a result or a failure's detail. Defaults to 1 MiB.
	Input      int // Bytes of an input. Defaults to 1 MiB.
	Part       int // Bytes of an event part. Defaults to 256 KiB, which is also the most.
	ID         int // Bytes of event, part, input, ticket and session ids, names, keys and kinds. Defaults to 1024.
	Text       int // Bytes of a description. Defaults to 4 KiB. Reasons and error texts are cut at [MaxText].

	Labels     int // Number of labels. Defaults to 32.
	LabelKey   int // Bytes of a label's key. Defaults to 64.
	LabelValue int // Bytes of a label's value. Defaults to 256.

	Depth    int // Nesting depth of tasks. Defaults to 16.
	Children int // Children of one task. Defaults to 10 000.
	Tickets  int // Open tickets of one task. Defaults to 64.

	Page    int // Entries of a page when nobody asks. Defaults to 100.
	MaxPage int // Entries of a page at most. Defaults to 1000.

	Lease       time.Duration // Length of a worker's lease. Defaults to 15 s.
	Renewal     time.Duration // Between renewals of a lease. Defaults to 5 s.
	LockProbe   time.Duration // Between looks at a worker's lock. Defaults to 1 s.
	DetachAfter time.Duration // The detach timer of tools. Defaults to 120 s.
}

// MaxText is the size of reasons and error texts in bytes; longer ones are cut.
const MaxText = 4 << 10

// WithDefaults returns l with every zero field set to its default.
func (l Limits) WithDefaults() Limits {
	const mib = 1 << 20
	return Limits{
		Spec:       cmp.Or(l.Spec, mib),
		Checkpoint: cmp.Or(l.Checkpoint, mib),
		Result:     cmp.Or(l.Result, mib),
		Input:      cmp.Or(l.Input, mib),
		Part:       cmp.Or(l.Part, journal.MaxPart),
		ID:         cmp.Or(l.ID, journal.MaxID),
		Text:       cmp.Or(l.Text, MaxText),

		Labels:     cmp.Or(l.Labels, 32),
		LabelKey:   cmp.Or(l.LabelKey, 64),
		LabelValue: cmp.Or(l.LabelValue, 256),

		Depth:    cmp.Or(l.Depth, 16),
		Children: cmp.Or(l.Children, 10_000),
		Tickets:  cmp.Or(l.Tickets, 64),

		Page:    cmp.Or(l.Page, 100),
		MaxPage: cmp.Or(l.MaxPage, 1000),

		Lease:       cmp.Or(l.Lease, 15*time.Second),
		Renewal:     cmp.Or(l.Renewal, 5*time.Second),
		LockProbe:   cmp.Or(l.LockProbe, time.Second),
		DetachAfter: cmp.Or(l.DetachAfter, 120*time.Second),
	}
}

// CutText cuts s to [MaxText] bytes, never inside a rune.
func CutText(s string) string {
	if len(s) <= MaxText {
		return s
	}
	n := MaxText
	for n > MaxText-utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// A size is one measured thing, its limit and the unit of both.
type size struct {
	what   string
	actual int
	limit  int
	unit   string
}

func overf(what string, actual, limit int, unit string) error {
	return fault.Newf(fault.Invalid, "%s: %d %s, the limit is %d", what, actual, unit, limit)
}

func within(sizes ...size) error {
	for _, s := range sizes {
		if s.actual > s.limit {
			return overf(s.what, s.actual, s.limit, s.unit)
		}
	}
	return nil
}

// ValidateCreate checks the record of a Create against the limits.
func (l Limits) ValidateCreate(r *Record) error {
	l = l.WithDefaults()
	if err := ValidateExecutor(r.Executor); err != nil {
		return err
	}
	if err := within(
		size{"id", len(r.ID), l.ID, "bytes"},
		size{"spec", len(r.Spec.Data), l.Spec, "bytes"},
		size{"spec media type", len(r.Spec.Media), l.ID, "bytes"},
		size{"description", len(r.Description), l.Text, "bytes"},
		size{"kind", len(r.Kind), l.ID, "bytes"},
		size{"name", len(r.Name), l.ID, "bytes"},
		size{"invocation", len(r.Invocation), l.ID, "bytes"},
		size{"session", len(r.Session), l.ID, "bytes"},
		size{"queue", len(r.Queue), l.ID, "bytes"},
		size{"concurrency key", len(r.ConcurrencyKey), l.ID, "bytes"},
		size{"labels", len(r.Labels), l.Labels, "labels"},
		size{"depth", r.Depth, l.Depth, "levels"},
	); err != nil {
		return err
	}
	for k, v := range r.Labels {
		if k == "" {
			return invalidf("label: a key is empty")
		}
		if err := within(
			size{"label key " + cut(k), len(k), l.LabelKey, "bytes"},
			size{"value of label " + cut(k), len(v), l.LabelValue, "bytes"},
		); err != nil {
			return err
		}
	}
	if r.MaxAttempts < 0 || r.Retention < 0 || r.Backoff.Initial < 0 || r.Backoff.Max < 0 || r.Liveness.Grace < 0 {
		return invalidf("max attempts, retention, backoff and grace cannot be negative")
	}
	return nil
}

// cut keeps a name short enough for an error text.
func cut(s string) string {
	const most = 32
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}

// ValidateChildren checks that a task which has n children may get another one.
func (l Limits) ValidateChildren(n int) error {
	return within(size{"children", n + 1, l.WithDefaults().Children, "tasks"})
}

// ValidateInput checks one input.
func (l Limits) ValidateInput(in *mail.Input) error {
	l = l.WithDefaults()
	if in.ID == "" {
		return invalidf("input: id is missing")
	}
	return within(
		size{"input id", len(in.ID), l.ID, "bytes"},
		size{"input kind", len(in.Kind), l.ID, "bytes"},
		size{"input media type", len(in.Media), l.ID, "bytes"},
		size{"input ticket", len(in.Ticket), l.ID, "bytes"},
		size{"input", len(in.Data), l.Input, "bytes"},
	)
}

// ValidateEntry checks one entry, with this runtime's limits and the journal's own.
func (l Limits) ValidateEntry(e *journal.Entry) error {
	l = l.WithDefaults()
	if err := e.Validate(); err != nil {
		return err
	}
	return within(
		size{"event id", len(e.Event), l.ID, "bytes"},
		size{"part id", len(e.Part), l.ID, "bytes"},
		size{"part", len(e.Data), l.Part, "bytes"},
	)
}

// Validate checks the sizes that a command carries; Apply itself does not.
func (l Limits) Validate(c Command) error {
	l = l.WithDefaults()
	switch c := c.(type) {
	case Create:
		return l.ValidateCreate(&c.Record)
	case CommitStart:
		return l.checkpoint(c.Checkpoint)
	case Save:
		return l.checkpoint(&c.Checkpoint)
	case CommitInput:
		return l.checkpoint(c.Checkpoint)
	case Complete:
		return cmp.Or(l.checkpoint(c.Checkpoint), l.result(&c.Result))
	case Wait:
		return cmp.Or(l.checkpoint(c.Checkpoint), l.tickets(c.Tickets))
	case Suspend:
		return l.checkpoint(&c.Checkpoint)
	case Yield:
		return l.checkpoint(c.Checkpoint)
	case Fail:
		return cmp.Or(within(size{"failure code", len(c.Failure.Code), l.ID, "bytes"}), l.result(&c.Failure.Detail))
	case AckCancel:
		return l.result(c.Result)
	case HandOff:
		return cmp.Or(l.checkpoint(c.Checkpoint), l.tickets(c.Tickets))
	case Offer:
		return l.result(&c.Result)
	}
	return nil
}

func (l Limits) checkpoint(c *Checkpoint) error {
	if c == nil {
		return nil
	}
	return within(
		size{"checkpoint", len(c.Data), l.Checkpoint, "bytes"},
		size{"checkpoint format", len(c.Format), l.ID, "bytes"},
	)
}

func (l Limits) result(p *Payload) error {
	if p == nil {
		return nil
	}
	return within(
		size{"result", len(p.Data), l.Result, "bytes"},
		size{"result media type", len(p.Media), l.ID, "bytes"},
	)
}

func (l Limits) tickets(ids []TicketID) error {
	if err := within(size{"open tickets", len(ids), l.Tickets, "tickets"}); err != nil {
		return err
	}
	for _, id := range ids {
		if err := within(size{"ticket id", len(id), l.ID, "bytes"}); err != nil {
			return err
		}
	}
	return nil
}

// PageSize returns how many to give when asked for n: the default for 0, and never
// more than the most.
func (l Limits) PageSize(n int) int {
	l = l.WithDefaults()
	if n <= 0 {
		n = l.Page
	}
	return min(n, l.MaxPage)
}
