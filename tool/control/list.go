// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool"
	"github.com/outlive-dev/outlive/tool/command"
	"github.com/outlive-dev/outlive/tool/internal/frame"
	"github.com/outlive-dev/outlive/tool/internal/output"
)

// listArgs are the arguments of task_list.
type listArgs struct {
	State string `json:"state,omitempty"`
	Limit int    `json:"limit,omitempty"`
}

const (
	defaultList = 20
	maxList     = 100
	verifyFor   = 200 * time.Millisecond // what is shown is verified, for at most so long
)

func statesOf(word string) ([]task.State, bool) {
	switch word {
	case "", "open":
		return open(), true
	case "ended":
		return ended(), true
	case "all":
		return nil, true
	}
	s := task.State(word)
	return []task.State{s}, slices.Contains(open(), s) || slices.Contains(ended(), s)
}

func (c *Control) list(ctx context.Context, who tool.Caller, raw json.RawMessage) (tool.Result, error) {
	var a listArgs
	if err := tool.Decode(raw, &a); err != nil {
		return tool.Refused(err), nil
	}
	states, ok := statesOf(a.State)
	switch {
	case !ok:
		return tool.Refused(fault.Newf(fault.Invalid,
			"arguments: state is %q, want open, ended, all, or one of pending, running, waiting, suspended, completed, failed, canceled", a.State)), nil
	case a.Limit < 0 || a.Limit > maxList:
		return tool.Refused(fault.Newf(fault.Invalid, "arguments: limit is %d, want 1 to %d", a.Limit, maxList)), nil
	}
	recs, more, err := c.owned(ctx, who, states, cmp.Or(a.Limit, defaultList))
	if err != nil {
		return failed(err)
	}
	c.verify(ctx, recs)
	var b strings.Builder
	word := cmp.Or(a.State, "open")
	switch {
	case len(recs) == 0 && word == "all":
		return tool.Result{Text: "You have no tasks."}, nil
	case len(recs) == 0:
		return tool.Result{Text: fmt.Sprintf("You have no %s tasks.", word)}, nil
	case more:
		fmt.Fprintf(&b, "The newest %d (%s), there are more:\n", len(recs), word)
	default:
		fmt.Fprintf(&b, "%d %s, newest first:\n", len(recs), word)
	}
	for i := range recs {
		b.WriteString(c.line(ctx, &recs[i]))
		b.WriteByte('\n')
	}
	return tool.Result{Text: b.String()}, nil
}

// verify lets tasks that nobody follows tell the truth before they are shown, and
// reads again what may have changed.
func (c *Control) verify(ctx context.Context, recs []task.Record) {
	look, cancel := context.WithTimeout(ctx, verifyFor)
	defer cancel()
	c.o.Runtime.Reconcile(look, recs)
	for i := range recs {
		if recs[i].State.Terminal() {
			continue
		}
		if r, err := c.o.Runtime.Get(ctx, recs[i].ID); err == nil {
			recs[i] = r
		}
	}
}

// line shows one task in one line.
func (c *Control) line(ctx context.Context, r *task.Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s; started %s ago", r.ID, r.Kind, c.status(r), frame.Lasted(time.Since(r.CreatedAt)))
	if r.Name != "" {
		fmt.Fprintf(&b, "; name %s", frame.Quoted(r.Name, 40))
	}
	if what := cmp.Or(r.Description, commandOf(r)); what != "" {
		fmt.Fprintf(&b, "; %s", frame.Quoted(what, 100))
	}
	b.WriteString(c.asks(ctx, r))
	if r.State.Terminal() {
		return b.String()
	}
	if out, total := c.read.Tail(ctx, r, 512); total > 0 {
		fmt.Fprintf(&b, "; %s bytes of output, the last line %s", frame.Count(total), frame.Quoted(frame.LastLine(out), 120))
	} else {
		b.WriteString("; no output yet")
	}
	return b.String()
}

func commandOf(r *task.Record) string {
	if !output.IsCommand(r) {
		return ""
	}
	s, err := command.Decode(r.Spec)
	if err != nil {
		return ""
	}
	return s.String()
}

// status says where a task stands and what it waits for. For a command that has ended
// it follows from the exit record alone.
func (c *Control) status(r *task.Record) string {
	switch r.State {
	case task.Completed, task.Failed, task.Canceled:
		return endOf(r)
	case task.Waiting:
		ids := make([]string, len(r.Tickets))
		for i, t := range r.Tickets {
			ids[i] = string(t)
		}
		return "waiting for " + cmp.Or(strings.Join(ids, ", "), "an answer")
	case task.Suspended:
		return "suspended (" + cmp.Or(r.SuspendReason, "parked") + ")"
	case task.Running, task.Pending:
	}
	switch {
	case r.Canceling():
		return "stopping"
	case r.State == task.Running:
		return "running"
	case r.Failures > 0:
		return fmt.Sprintf("pending, tried %d times", r.Failures)
	case time.Until(r.DueAt) > time.Second:
		return "pending, due in " + frame.Lasted(time.Until(r.DueAt))
	}
	return "pending, waiting for a worker"
}

// endOf says how a task ended.
func endOf(r *task.Record) string {
	if x, ok := command.ExitOf(r); ok {
		text := string(x.Status())
		if x.Code != nil {
			text += ", exit code " + strconv.Itoa(*x.Code)
		}
		if !x.StartedAt.IsZero() && !x.EndedAt.IsZero() {
			text += ", ran " + frame.Lasted(x.EndedAt.Sub(x.StartedAt))
		}
		return text
	}
	f := r.Failure
	switch {
	case r.State == task.Completed && output.ResultOf(r).IsError:
		return "completed with an error"
	case r.State == task.Completed:
		return "completed"
	case r.State == task.Canceled:
		return "stopped"
	case f == nil:
		return "failed"
	case f.Outcome == task.OutcomeUnknown:
		return "lost: " + frame.Quoted(cmp.Or(f.Message, f.Code), 200) + "; it may have run partly or fully"
	}
	return "failed: " + frame.Quoted(cmp.Or(f.Message, f.Code), 200)
}
