// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package control is how a model reaches the tasks that it has left in the background:
// tools that list them, read them, send to them, answer them and stop them. Each tool
// can be renamed or switched off, see [tool.Names].
//
// A caller sees the tasks that it owns, see [tool.Caller.Owns], and no others: to it
// they do not exist. A task that nobody was told of is not listed.
package control

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool"
	"github.com/outlive-dev/outlive/tool/command"
	"github.com/outlive-dev/outlive/tool/internal/frame"
	"github.com/outlive-dev/outlive/tool/internal/output"
)

//go:embed text
var texts embed.FS

// Options configure the tools.
type Options struct {
	// Runtime has the tasks. Required.
	Runtime *outlive.Runtime
	// Commands is the home of the command executor: output of commands is read from
	// their spools. Defaults to nil, which reads what the journal has of it.
	Commands *command.Commands
	// Names are what the tools are called. Defaults to the names of tool.Names.
	Names tool.Names
	// Limits bound what a model reads of one call. Defaults to those of package shell.
	Limits shell.RenderOptions
	// StopWait is how long a call that stops a task waits for its end. Defaults to
	// 10 s.
	StopWait time.Duration
	// MayApprove lets the model decide approvals. Defaults to false: a person does.
	MayApprove bool
}

// Control makes the tools. It is safe for concurrent use.
type Control struct {
	o    Options
	read output.Reader
}

// New returns a Control.
func New(o Options) *Control {
	o.Names = o.Names.WithDefaults()
	o.StopWait = cmp.Or(o.StopWait, 10*time.Second)
	return &Control{o: o, read: output.Reader{Runtime: o.Runtime, Commands: o.Commands}}
}

// Tools returns the tools that are not switched off.
func (c *Control) Tools() []tool.Tool {
	var out []tool.Tool
	add := func(name, file string, call func(context.Context, tool.Caller, json.RawMessage) (tool.Result, error)) {
		if name != tool.Off {
			out = append(out, tool.Tool{Name: name, Description: c.description(file), Schema: schema(file), Call: call})
		}
	}
	n := c.o.Names
	add(n.List, "task_list", c.list)
	add(n.Output, "task_output", c.output)
	add(n.Send, "task_send", c.send)
	add(n.Answer, "task_answer", c.answer)
	add(n.Stop, "task_stop", c.stop)
	return out
}

// description returns the embedded text with the names that are in force. A line that
// names a tool which is switched off is left out.
func (c *Control) description(file string) string {
	n := c.o.Names
	var b strings.Builder
	for line := range strings.Lines(text(file + ".md")) {
		drop := strings.Contains(line, "{model}") && !c.o.MayApprove || strings.Contains(line, "{person}") && c.o.MayApprove
		line = strings.NewReplacer("{model}", "", "{person}", "").Replace(line)
		for word, name := range map[string]string{
			"{bash}": n.Bash, "{list}": n.List, "{output}": n.Output, "{send}": n.Send, "{answer}": n.Answer, "{stop}": n.Stop,
		} {
			drop = drop || name == tool.Off && strings.Contains(line, word)
			line = strings.ReplaceAll(line, word, name)
		}
		if !drop {
			b.WriteString(line)
		}
	}
	return b.String()
}

func schema(file string) json.RawMessage { return json.RawMessage(text(file + ".json")) }

func text(name string) string {
	b, err := texts.ReadFile("text/" + name)
	if err != nil {
		panic(err) // it is part of the program
	}
	return string(b)
}

// visible reports whether the caller may know of the task: it is the caller's, and
// somebody was told of it or its result has been handed over.
func visible(c tool.Caller, r *task.Record) bool {
	return c.Owns(r) && (r.Publication != task.Deferred || r.State.Terminal())
}

// find returns the caller's task of an id, or of the beginning or the end of one. When
// there is no such task, or several, the second result says so to the model.
func (c *Control) find(ctx context.Context, who tool.Caller, id string) (task.Record, *tool.Result, error) {
	id = strings.TrimSpace(id)
	r, err := c.o.Runtime.Get(ctx, task.ID(strings.ToLower(id)))
	switch {
	case err == nil && visible(who, &r):
		return r, nil, nil
	case err != nil && !fault.Is(err, fault.NotFound):
		return r, nil, err
	}
	var mine []task.Record
	if len(id) >= frame.MinLen {
		found, err := c.o.Runtime.Find(ctx, id, store.MaxPage)
		if err != nil {
			return r, nil, err
		}
		mine = slices.DeleteFunc(found, func(r task.Record) bool { return !visible(who, &r) })
	}
	switch len(mine) {
	case 0:
		return r, &tool.Result{Text: fmt.Sprintf("There is no task %s.%s", frame.Quoted(id, 80), c.hint(ctx, who))}, nil
	case 1:
		return mine[0], nil, nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d tasks are meant by %s. Give more of the id:\n", len(mine), frame.Quoted(id, 80))
	for i := range mine[:min(len(mine), 10)] {
		fmt.Fprintf(&b, "%s %s\n", mine[i].ID, frame.Quoted(mine[i].Description, 80))
	}
	return r, &tool.Result{Text: b.String()}, nil
}

// hint says which tasks there are instead.
func (c *Control) hint(ctx context.Context, who tool.Caller) string {
	recs, more, err := c.owned(ctx, who, open(), 10)
	switch {
	case err != nil:
		return ""
	case len(recs) == 0:
		return " No task of yours is open."
	}
	var b strings.Builder
	b.WriteString(" Open tasks:")
	for i := range recs {
		fmt.Fprintf(&b, "\n%s %s", recs[i].ID, frame.Quoted(recs[i].Description, 80))
	}
	if more {
		b.WriteString("\nand more")
	}
	return b.String()
}

func open() []task.State {
	return []task.State{task.Pending, task.Running, task.Waiting, task.Suspended}
}

func ended() []task.State { return []task.State{task.Completed, task.Failed, task.Canceled} }

const (
	pageSize = 200
	maxPages = 25 // of tasks that are looked at for a list
)

// owned returns the caller's tasks, newest first, and whether there are more.
func (c *Control) owned(ctx context.Context, who tool.Caller, states []task.State, limit int) (out []task.Record, more bool, err error) {
	f := store.Filter{States: states, Limit: pageSize}
	for range maxPages {
		page, err := c.o.Runtime.List(ctx, f)
		if err != nil {
			return nil, false, err
		}
		for i := range page {
			if !who.Owns(&page[i]) || page[i].Publication == task.Deferred {
				continue
			}
			if len(out) == limit {
				return out, true, nil
			}
			out = append(out, page[i])
		}
		if len(page) < pageSize {
			return out, false, nil
		}
		f.Before = page[len(page)-1].ID
	}
	return out, true, nil
}

// failed is the result of a call that the store or the context made fail.
func failed(err error) (tool.Result, error) {
	return tool.Result{Text: "[error: " + err.Error() + "]", IsError: true}, err
}

// stopArgs are the arguments of task_stop.
type stopArgs struct {
	Task   string `json:"task_id"`
	Reason string `json:"reason,omitempty"`
}

func (c *Control) stop(ctx context.Context, who tool.Caller, raw json.RawMessage) (tool.Result, error) {
	var a stopArgs
	if err := tool.Decode(raw, &a); err != nil {
		return tool.Refused(err), nil
	}
	r, other, err := c.find(ctx, who, a.Task)
	switch {
	case err != nil:
		return failed(err)
	case other != nil:
		return *other, nil
	case r.State.Terminal():
		return c.said(&r, "it had ended already: %s", c.status(&r)), nil
	}
	now, err := c.o.Runtime.Cancel(ctx, r.ID, &outlive.CancelOptions{Reason: task.CutText(cmp.Or(a.Reason, "stopped by the model"))})
	switch {
	case fault.Is(err, fault.Finished):
		if now.ID == "" {
			now = r
		}
		return c.said(&now, "it had ended already: %s", c.status(&now)), nil
	case err != nil:
		return failed(err)
	}
	wait, cancel := context.WithTimeout(ctx, c.o.StopWait)
	defer cancel()
	end, err := c.o.Runtime.Wait(wait, r.ID, outlive.Terminal)
	switch {
	case err == nil && end.State == task.Canceled:
		return c.said(&end, "stopped"), nil
	case err == nil: // it had committed its end before
		return c.said(&end, "it ended by itself: %s", c.status(&end)), nil
	case ctx.Err() != nil:
		return failed(context.Cause(ctx))
	case !errors.Is(err, context.DeadlineExceeded):
		return failed(err)
	}
	return c.said(&now, "stop requested; it has not ended after %s", frame.Lasted(c.o.StopWait)), nil
}

// said is a result that is one note.
func (c *Control) said(r *task.Record, format string, args ...any) tool.Result {
	return tool.Result{Text: frame.Note(r.ID, format, args...), Task: r.ID}
}
