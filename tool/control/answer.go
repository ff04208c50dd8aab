// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool"
	"github.com/outlive-dev/outlive/tool/internal/frame"
)

// answerArgs are the arguments of task_answer.
type answerArgs struct {
	Task   string          `json:"task_id"`
	Ticket string          `json:"ticket,omitempty"`
	Value  json.RawMessage `json:"value"`
}

// What answers an approval.
const (
	approve = "approve"
	deny    = "deny"
)

func (c *Control) answer(ctx context.Context, who tool.Caller, raw json.RawMessage) (tool.Result, error) {
	var a answerArgs
	if err := tool.Decode(raw, &a); err != nil {
		return tool.Refused(err), nil
	}
	r, other, err := c.find(ctx, who, a.Task)
	switch {
	case err != nil:
		return failed(err)
	case other != nil:
		return *other, nil
	}
	rows, err := c.o.Runtime.Tickets(ctx, r.ID)
	if err != nil {
		return failed(err)
	}
	t, why := choose(rows, a.Ticket)
	if t == nil {
		if r.State.Terminal() {
			return c.tooLate(ctx, &r), nil
		}
		return c.not(&r, "nothing was answered: %s", why), nil
	}
	d, why := c.decision(t, a.Value)
	if why != "" {
		return c.not(&r, "nothing was answered: %s", why), nil
	}
	d.By = cmp.Or(string(who.Parent), string(who.Session), who.Principal, "model")
	row, err := c.o.Runtime.Answer(ctx, r.ID, task.TicketID(t.ID), d)
	switch {
	case err == nil:
		return c.said(&r, "accepted as the answer to %s", t.ID), nil
	case fault.Is(err, fault.Finished):
		return c.tooLate(ctx, &r), nil
	case fault.Is(err, fault.Conflict) && row.Decision != nil:
		return c.not(&r, "ticket %s was decided before: %s", t.ID, decided(row.Decision)), nil
	case fault.Is(err, fault.Invalid), fault.Is(err, fault.NotFound), fault.Is(err, fault.Conflict), fault.Is(err, fault.CancelRequested):
		return c.not(&r, "not accepted: %s; %s", frame.Quoted(err.Error(), 500), question(t)), nil
	}
	return failed(err)
}

// not is the result of a call that changed nothing.
func (c *Control) not(r *task.Record, format string, args ...any) tool.Result {
	res := c.said(r, format, args...)
	res.IsError = true
	return res
}

// choose returns the ticket of that id, or the only open one.
func choose(rows []mail.Ticket, id string) (t *mail.Ticket, why string) {
	var open []string
	for i := range rows {
		if rows[i].ID == id {
			return &rows[i], ""
		}
		if rows[i].Open() && rows[i].Kind != mail.Tasks {
			open = append(open, question(&rows[i]))
			t = &rows[i]
		}
	}
	switch {
	case len(open) == 0:
		return nil, "it asks nothing"
	case id == "" && len(open) == 1:
		return t, ""
	case id == "":
		return nil, "it asks more than one thing, give the ticket: " + strings.Join(open, "; ")
	}
	return nil, fmt.Sprintf("it has no ticket %s; it asks %s", frame.Quoted(id, 80), strings.Join(open, "; "))
}

// question shows a ticket.
func question(t *mail.Ticket) string {
	text := t.ID + ": " + frame.Quoted(cmp.Or(t.Prompt, string(t.Kind)), 500)
	switch {
	case len(t.Options) > 0:
		quoted := make([]string, 0, len(t.Options))
		for _, o := range t.Options {
			quoted = append(quoted, frame.Quoted(o, 80))
		}
		text += " (one of " + strings.Join(quoted, ", ") + ")"
	case len(t.Schema) > 0:
		text += " (JSON of the schema " + frame.Quoted(string(t.Schema), 500) + ")"
	case t.Kind == mail.Approval:
		text += " (an approval)"
	}
	return text
}

func decided(d *mail.Decision) string {
	text := string(d.Verdict)
	if len(d.Value) > 0 {
		text += " " + frame.Quoted(string(d.Value), 200)
	}
	return text
}

// decision makes a decision of a value, or says why it cannot.
func (c *Control) decision(t *mail.Ticket, raw json.RawMessage) (d mail.Decision, why string) {
	var text string
	isText := json.Unmarshal(raw, &text) == nil
	switch t.Kind {
	case mail.Tasks:
		return d, t.ID + " is decided by the ends of tasks"
	case mail.Approval:
		switch {
		case !c.o.MayApprove:
			return d, t.ID + " is an approval, which a person decides"
		case isText && text == approve:
			return mail.Decision{Verdict: mail.Approved}, ""
		case isText && text == deny:
			return mail.Decision{Verdict: mail.Denied}, ""
		}
		return d, fmt.Sprintf("%s is an approval: the value is %q or %q", t.ID, approve, deny)
	case mail.Question, mail.External:
	}
	d = mail.Decision{Verdict: mail.Answered, Media: "application/json", Value: slices.Clone(raw)}
	if !isText {
		return d, ""
	}
	if len(t.Schema) == 0 {
		d.Media, d.Value = "text/plain", []byte(text)
		return d, ""
	}
	// JSON in a string is what a model gives where the schema wants more than a string.
	if mail.CheckValue(t.Schema, raw) != nil && json.Valid([]byte(text)) {
		d.Value = []byte(text)
	}
	return d, ""
}

// asks says what a task that waits is asking, or "".
func (c *Control) asks(ctx context.Context, r *task.Record) string {
	if r.State != task.Waiting {
		return ""
	}
	rows, err := c.o.Runtime.Tickets(ctx, r.ID)
	if err != nil {
		return ""
	}
	var b strings.Builder
	for i := range rows {
		t := &rows[i]
		switch {
		case !t.Open():
		case t.Kind == mail.Tasks:
			b.WriteString("; it waits for the end of " + strings.Join(t.Left[:min(len(t.Left), 10)], ", "))
		default:
			b.WriteString("; it asks " + question(t))
		}
	}
	return b.String()
}
