// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool"
	"github.com/outlive-dev/outlive/tool/internal/frame"
	"github.com/outlive-dev/outlive/tool/internal/output"
)

// noteLimit bounds OpenTasksNote, in tasks.
const noteLimit = 10

// OpenTasksNote returns a short note of the caller's open tasks, for a conversation
// whose context was shortened, or "" when there are none.
func (c *Control) OpenTasksNote(ctx context.Context, who tool.Caller) (string, error) {
	recs, more, err := c.owned(ctx, who, open(), noteLimit)
	if err != nil || len(recs) == 0 {
		return "", err
	}
	var b strings.Builder
	b.WriteString("[tasks still open, started earlier in this conversation:\n")
	for i := range recs {
		r := &recs[i]
		fmt.Fprintf(&b, "%s %s %s, started %s ago; %s\n", r.ID, r.Kind, c.status(r), frame.Lasted(time.Since(r.CreatedAt)),
			frame.Quoted(cmp.Or(r.Description, commandOf(r)), 80))
	}
	if more {
		b.WriteString("and more\n")
	}
	n := c.o.Names
	var do []string
	for _, way := range []struct{ what, name string }{{"list", n.List}, {"read", n.Output}, {"stop", n.Stop}} {
		if way.name != tool.Off {
			do = append(do, way.what+": "+way.name)
		}
	}
	b.WriteString(strings.Join(do, "; ") + "]")
	return b.String(), nil
}

// StopOpen ends a conversation: it waits for the caller's open tasks, at most for the
// grace, then stops what is left and returns it as it was left.
func (c *Control) StopOpen(ctx context.Context, who tool.Caller, grace time.Duration) ([]task.Record, error) {
	recs, _, err := c.owned(ctx, who, open(), pageSize)
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	var left []task.Record
	for i := range recs {
		if _, err := c.o.Runtime.Wait(wait, recs[i].ID, outlive.Terminal); err == nil {
			continue
		}
		r, err := c.o.Runtime.Cancel(ctx, recs[i].ID, &outlive.CancelOptions{Reason: "the conversation has ended"})
		if err != nil && !fault.Is(err, fault.Finished) {
			return left, err
		}
		left = append(left, r)
	}
	stop, done := context.WithTimeout(ctx, c.o.StopWait)
	defer done()
	for i := range left {
		if r, err := c.o.Runtime.Wait(stop, left[i].ID, outlive.Terminal); err == nil {
			left[i] = r
		}
	}
	return left, ctx.Err()
}

// StillRunning returns a notice for each of the caller's commands that have been
// running for at least so long, oldest last: a command that never ends is not
// forgotten. The caller decides when to show them.
func (c *Control) StillRunning(ctx context.Context, who tool.Caller, ran time.Duration) ([]string, error) {
	recs, _, err := c.owned(ctx, who, []task.State{task.Running}, noteLimit)
	if err != nil {
		return nil, err
	}
	o := c.o.Limits
	o.Phrases = frame.Phrases(o.Phrases)
	o.OutputTool, o.StopTool = c.o.Names.Output, c.o.Names.Stop
	var out []string
	for i := range recs {
		r := &recs[i]
		d := time.Since(r.StartedAt)
		if !output.IsCommand(r) || d < ran {
			continue
		}
		n := shell.StillRunning{ID: string(r.ID), StartedAt: r.StartedAt, Ran: d}
		if c.o.Commands != nil {
			n.Script = c.o.Commands.Script(r)
		}
		n.Output, n.Bytes = c.read.Tail(ctx, r, 2<<10)
		own := o
		own.NoNotices = o.NoNotices || !c.read.Told(ctx, r)
		out = append(out, frame.Escape(n.Render(own)))
	}
	return out, nil
}
