// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool"
	"github.com/outlive-dev/outlive/tool/command"
	"github.com/outlive-dev/outlive/tool/internal/frame"
	"github.com/outlive-dev/outlive/tool/internal/output"
)

// outputArgs are the arguments of task_output.
type outputArgs struct {
	Task    string   `json:"task_id"`
	After   cursor   `json:"after,omitempty"`
	Block   *bool    `json:"block,omitempty"`
	Timeout *float64 `json:"timeout,omitempty"`
}

// cursor is a text; a number that is one is accepted, too.
type cursor string

// UnmarshalJSON implements [json.Unmarshaler].
func (c *cursor) UnmarshalJSON(b []byte) error {
	if _, err := strconv.ParseUint(string(b), 10, 63); err == nil {
		*c = cursor(b)
		return nil
	}
	var s string
	err := json.Unmarshal(b, &s)
	*c = cursor(strings.TrimSpace(s))
	return err
}

const (
	defaultBlock = 30 * time.Second
	maxBlock     = 600 * time.Second
	lookEvery    = 2 * time.Second // whether a page is full
)

// wait returns how long the call may wait.
func (a *outputArgs) wait() (time.Duration, error) {
	switch {
	case a.Timeout != nil && *a.Timeout < 0:
		return 0, fault.Newf(fault.Invalid, "arguments: timeout is %v, want seconds from 0 to 600", *a.Timeout)
	case a.Block != nil && !*a.Block:
		return 0, nil
	case a.Timeout == nil:
		return defaultBlock, nil
	case *a.Timeout > maxBlock.Seconds():
		return maxBlock, nil
	}
	return time.Duration(*a.Timeout * float64(time.Second)), nil
}

// output shows what a task has put out after the cursor. With block it waits for the
// end, or until the task waits for somebody or a whole page is there, so that a model
// need not ask again and again.
func (c *Control) output(ctx context.Context, who tool.Caller, raw json.RawMessage) (tool.Result, error) {
	var a outputArgs
	if err := tool.Decode(raw, &a); err != nil {
		return tool.Refused(err), nil
	}
	wait, err := a.wait()
	if err != nil {
		return tool.Refused(err), nil
	}
	r, other, err := c.find(ctx, who, a.Task)
	switch {
	case err != nil:
		return failed(err)
	case other != nil:
		return *other, nil
	}
	until := time.Now().Add(wait)
	p, err := c.page(ctx, &r, string(a.After))
	for err == nil && !p.more && !r.State.Boundary() && time.Now().Before(until) {
		if err := c.pause(ctx, r.ID, min(time.Until(until), lookEvery)); err != nil {
			return failed(err)
		}
		if r, err = c.o.Runtime.Get(ctx, r.ID); err != nil {
			return failed(err)
		}
		p, err = c.page(ctx, &r, string(a.After))
	}
	switch {
	case fault.Is(err, fault.Invalid):
		return tool.Result{Text: "[error: " + err.Error() + "]\nPass after as it was given, or leave it out to read from the start.", IsError: true, Task: r.ID}, nil
	case err != nil:
		return failed(err)
	}
	return tool.Result{Text: c.head(ctx, &r, p) + "\n" + p.text, Task: r.ID}, nil
}

// pause waits until the task ends or waits for somebody, at most so long.
func (c *Control) pause(ctx context.Context, id task.ID, most time.Duration) error {
	limit, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	_, err := c.o.Runtime.Wait(limit, id, outlive.Boundary)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		return nil
	}
	return err
}

// head is the first line of what task_output returns.
func (c *Control) head(ctx context.Context, r *task.Record, p page) string {
	what := c.status(r)
	if r.State == task.Running && !r.StartedAt.IsZero() {
		what += " for " + frame.Lasted(time.Since(r.StartedAt))
	}
	what += c.asks(ctx, r)
	if p.total > 0 {
		what += "; " + frame.Count(p.total) + " bytes of output"
	}
	switch {
	case p.more:
		what += "; there is more: read on with after=" + p.next
	case p.end:
		what += "; nothing follows"
	case p.empty:
		what += "; no new output; next after=" + p.next
	default:
		what += "; next after=" + p.next
	}
	return frame.Note(r.ID, "%s", what)
}

// page is what one call shows of a task's output.
type page struct {
	part  shell.Part // offsets count from the beginning of the page
	data  []byte
	next  string
	total int64 // bytes of output in all, when known
	end   bool  // the task has ended and this is the rest
	more  bool  // there is more already
	empty bool
	text  string
}

// source reads at most so many bytes of output from a fixed place.
type source func(most int) (page, error)

// page reads the page after the cursor. It is filled up to the limits, and ends with a
// line where it can: what is shown is never shown again, and nothing is left out.
func (c *Control) page(ctx context.Context, r *task.Record, after string) (page, error) {
	src, err := c.source(ctx, r, after)
	if err != nil {
		return page{}, err
	}
	o := c.o.Limits
	if o.MaxBytes == 0 {
		o.MaxBytes = shell.DefaultModelBytes
	}
	if o.MaxLines == 0 {
		o.MaxLines = shell.DefaultModelLines
	}
	most := max(o.MaxBytes, 4<<10) - 1<<10
	for {
		p, err := src(most)
		if err != nil {
			return p, err
		}
		if k := fit(p.data, max(o.MaxLines, 40)-20, len(p.data) < most, p.end); k < len(p.data) {
			more := p.data[k:]
			whole := len(p.data) < most
			if p, err = src(k); err != nil {
				return p, err
			}
			// A rune that is not whole yet is not output to be read.
			p.more = !whole || utf8.FullRune(more)
		}
		var cut bool
		if p.text, cut = c.show(r, p); !cut || most <= 256 {
			return p, nil
		}
		most /= 2
	}
}

// fit returns how much of data makes a page.
func fit(data []byte, lines int, all, end bool) int {
	n := len(data)
	for i, seen := 0, 0; i < len(data); i++ {
		if data[i] == '\n' {
			if seen++; seen == lines {
				n, all = i+1, i+1 == len(data)
				break
			}
		}
	}
	if !all {
		if i := bytes.LastIndexByte(data[:n], '\n'); i >= n/2 {
			return i + 1
		}
	}
	if all && end {
		return n
	}
	for i := 1; i < utf8.UTFMax && i <= n; i++ { // not inside of a rune
		if utf8.RuneStart(data[n-i]) {
			if !utf8.FullRune(data[n-i : n]) {
				n -= i
			}
			break
		}
	}
	return n
}

// source returns where the output of a task comes from.
func (c *Control) source(ctx context.Context, r *task.Record, after string) (source, error) {
	if output.IsCommand(r) {
		return c.spool(ctx, r, after)
	}
	at, err := output.ParsePosition(after)
	if err != nil {
		return nil, err
	}
	return func(most int) (page, error) {
		if most == 0 {
			return page{next: at.String(), empty: true}, nil
		}
		text, next, end, err := c.read.Text(ctx, r, at, most)
		p := page{data: text, next: next.String(), end: end, more: !end && len(text) >= most, empty: len(text) == 0}
		if len(text) > 0 {
			p.part.Frames = []shell.Frame{{Data: text}}
		}
		return p, err
	}, nil
}

func (c *Control) spool(ctx context.Context, r *task.Record, after string) (source, error) {
	from := int64(0)
	if after != "" {
		n, err := strconv.ParseInt(after, 10, 64)
		if err != nil || n < 0 {
			return nil, fault.Newf(fault.Invalid, "after is %s, want a number as it was given", frame.Quoted(after, 40))
		}
		from = n
	}
	x, known := command.ExitOf(r)
	total := x.TotalBytes
	if !r.State.Terminal() && c.o.Commands != nil {
		if n, err := c.o.Commands.Size(ctx, r); err == nil {
			total = n
		}
	}
	if known && from > total {
		return nil, fault.Newf(fault.Invalid, "after is %d, but there are %d bytes of output", from, total)
	}
	return func(most int) (page, error) {
		p := page{next: strconv.FormatInt(from, 10), total: total, empty: true}
		if most == 0 {
			return p, nil
		}
		if !known && r.State.Terminal() { // it never ran
			p.end = true
			return p, nil
		}
		ch, err := c.read.Chunk(ctx, r, from, most)
		if fault.Is(err, fault.NotFound) {
			return p, nil // not started yet
		}
		for _, f := range ch.Frames {
			p.part.Frames = append(p.part.Frames, shell.Frame{Stream: f.Stream, Off: f.Off - from, Data: f.Data})
			p.data = append(p.data, f.Data...)
		}
		for _, g := range ch.Omitted {
			p.part.Omitted = append(p.part.Omitted, shell.Range{From: g.From - from, To: g.To - from})
		}
		p.next, p.empty = strconv.FormatInt(ch.Next, 10), ch.Next == from
		p.total = max(total, ch.Next)
		p.end = r.State.Terminal() && (ch.End || known && ch.Next >= total)
		p.more = !p.end && ch.Next < p.total
		if p.end && known {
			own := x
			own.TotalBytes = ch.Next - from // as offsets of the page count
			p.part.Exit = &own
		}
		return p, err
	}, nil
}

// cutMark begins the text of a page that did not fit. Output has no NUL bytes once it
// is normalized.
const cutMark = "[output truncated\x00"

// show renders a page. cut means that it did not fit.
func (c *Control) show(r *task.Record, p page) (text string, cut bool) {
	if p.empty && (p.part.Exit == nil || p.part.Exit.Succeeded()) {
		return "", false
	}
	o := c.o.Limits
	o.Phrases = frame.Phrases(o.Phrases)
	o.Phrases.Truncated, o.OutputTool, o.StopTool = cutMark, shell.NoTool, c.o.Names.Stop
	call := shell.Call{}
	if c.o.Commands != nil && output.IsCommand(r) {
		call.Script = c.o.Commands.Script(r)
	}
	if s, err := command.Decode(r.Spec); err == nil {
		call.Timeout, call.OutputLimit = s.Timeout, s.Output.Limit
	}
	if p.part.Exit == nil {
		p.part.Exit = &shell.Exit{Cause: shell.Exited, Code: new(int)}
	}
	rr := shell.NewRenderer(call, o)
	text = rr.Add(p.part)
	text += rr.End()
	return frame.Escape(text), strings.HasPrefix(text, cutMark)
}
