// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package bash is the tool that runs shell commands as tasks. What a timeout means,
// and what becomes of a command that takes long, is decided by one mode; the texts
// that a model reads say what is true in it.
//
// # Guarantees
//
//  1. The clock of a command's own time limit is the backend's. There is no other.
//  2. A command that goes to the background is not restarted: it is the same run.
//  3. A command sees the allow-list of variables and [Options.Env], never the
//     environment of the process.
//  4. Calls do not depend on one another: each is a shell of its own.
package bash

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/foreground"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/tool"
	"github.com/outlive-dev/outlive/tool/command"
	"github.com/outlive-dev/outlive/tool/internal/frame"
	"github.com/outlive-dev/outlive/tool/internal/output"
)

// MaxTimeout is the longest timeout of a call; longer ones are cut to it.
const MaxTimeout = 3 * 24 * time.Hour

// Options configure the tool.
type Options struct {
	// Runtime runs the commands. Required.
	Runtime *outlive.Runtime
	// Commands is the home of the command executor registered with it. Required.
	Commands *command.Commands
	// Dir is the absolute directory in which commands run. Required.
	Dir string
	// AnyDir lets a call choose a directory outside of Dir. Defaults to false.
	AnyDir bool
	// Mode decides what a timeout means. Defaults to shell.AutoBackground.
	Mode shell.Mode
	// DetachAfter is the timeout of calls that give none, in whole seconds. Defaults
	// to tool.DefaultDetachAfter.
	DetachAfter time.Duration
	// MayDetach says whether a command may go to the background by itself; it is asked
	// once, before the command starts, in mode AutoBackground only. A timeout is then
	// how long that command may run. Defaults to letting every command go.
	MayDetach func(command string) bool
	// OnGone is what becomes of a command when its caller goes. Defaults to letting it
	// go on in the background.
	OnGone foreground.Choice
	// MaxRuntime bounds how long any command may run, also in the background. Defaults
	// to no bound.
	MaxRuntime time.Duration
	// FirstOutput is how long a call that asks for the background waits for output to
	// show. Defaults to 1 s.
	FirstOutput time.Duration
	// Env is added to each command's environment. It is stored: no secrets. Defaults
	// to nothing.
	Env map[string]string
	// Output bounds what is kept of a command's output. Defaults to that of package
	// shell.
	Output shell.Output
	// Leftovers says what happens to processes that a command leaves behind. Defaults
	// to stopping them.
	Leftovers shell.Leftovers
	// Limits bound what a model reads of one call, and say whether ends are told.
	// Defaults to those of package shell.
	Limits shell.RenderOptions
	// Names are what the tools are called. Defaults to the names of tool.Names.
	Names tool.Names
	// Description replaces the tool's description. Defaults to that of the mode.
	Description string
}

// New returns the tool. A configuration that the backend cannot honour is refused with
// kind Unsupported: a time limit for commands wants a backend that holds their clock.
func New(o Options) (tool.Tool, error) {
	b := &bash{o: o}
	if err := b.configure(); err != nil {
		return tool.Tool{}, err
	}
	return tool.Tool{Name: b.o.Names.Bash, Description: b.description(), Schema: shell.Schema(), Call: b.call}, nil
}

type bash struct {
	o      Options
	render shell.RenderOptions
	read   output.Reader
}

func (b *bash) configure() error {
	o := &b.o
	o.Mode = cmp.Or(o.Mode, shell.AutoBackground)
	o.DetachAfter = cmp.Or(o.DetachAfter, tool.DefaultDetachAfter)
	o.FirstOutput = cmp.Or(o.FirstOutput, time.Second)
	o.Names = o.Names.WithDefaults()
	o.Env = maps.Clone(o.Env)
	switch {
	case o.Runtime == nil || o.Commands == nil:
		return fault.New(fault.Invalid, "bash: Runtime and Commands are required")
	case !filepath.IsAbs(o.Dir):
		return fault.Newf(fault.Invalid, "bash: directory %q is not absolute", o.Dir)
	case o.Mode != shell.AutoBackground && o.Mode != shell.AlwaysForeground && o.Mode != shell.ExplicitOnly:
		return fault.Newf(fault.Invalid, "bash: there is no mode %q", o.Mode)
	case o.DetachAfter < 0 || o.MaxRuntime < 0 || o.FirstOutput < 0:
		return fault.New(fault.Invalid, "bash: negative duration")
	}
	probe := command.Spec{Command: "true", Dir: o.Dir, Env: o.Env, Output: o.Output, Leftovers: o.Leftovers}
	if err := probe.Request().Validate(); err != nil {
		return err
	}
	if b.ownsTimeout() {
		caps, err := o.Commands.Capabilities()
		if err != nil {
			return err
		}
		if !caps.OwnsTimeout {
			return fault.Newf(fault.Unsupported, "bash: mode %s needs a backend that holds the command's clock", o.Mode).
				WithHint("Use auto_background without MayDetach and MaxRuntime, or another backend.")
		}
	}
	b.read = output.Reader{Runtime: o.Runtime, Commands: o.Commands}
	b.render = o.Limits
	b.render.Phrases = frame.Phrases(o.Limits.Phrases)
	b.render.OutputTool, b.render.StopTool = o.Names.Output, o.Names.Stop
	b.render.NoBackground = o.Mode == shell.AlwaysForeground
	return nil
}

// ownsTimeout reports whether any call may ask the backend to stop a command after
// its time.
func (b *bash) ownsTimeout() bool {
	return b.o.Mode != shell.AutoBackground || b.o.MayDetach != nil || b.o.MaxRuntime > 0
}

func (b *bash) description() string {
	text := b.o.Mode.Description(b.o.Description, b.render)
	if b.o.Description != "" || b.o.DetachAfter == tool.DefaultDetachAfter {
		return text
	}
	unless := " unless given"
	return strings.Replace(text, "120"+unless, strconv.FormatFloat(b.o.DetachAfter.Seconds(), 'f', -1, 64)+unless, 1)
}

// args are the arguments of a call.
type args struct {
	Command    string   `json:"command"`
	Background bool     `json:"run_in_background,omitempty"`
	Timeout    *float64 `json:"timeout,omitempty"`
	Cwd        string   `json:"cwd,omitempty"`
}

// plan is what a call comes to.
type plan struct {
	command.Spec
	background bool
	wait       time.Duration // the foreground timer; 0 waits as long as it takes
	asked      string        // the timeout as it was asked for
	ignored    bool          // a timeout was given and has no effect
	notes      []string
}

// plan reads the arguments. Nothing is done yet.
func (b *bash) plan(raw json.RawMessage) (plan, error) {
	var a args
	if err := tool.Decode(raw, &a); err != nil {
		return plan{}, err
	}
	p := plan{Spec: command.Spec{
		Command: a.Command, Env: b.o.Env, Timeout: b.o.MaxRuntime, Output: b.o.Output, Leftovers: b.o.Leftovers,
	}}
	if strings.TrimSpace(a.Command) == "" {
		return p, fault.New(fault.Invalid, "arguments: command is empty")
	}
	limit, err := b.limit(a.Timeout, &p)
	if err != nil {
		return p, err
	}
	if err := b.dir(a.Cwd, &p); err != nil {
		return p, err
	}
	p.background = a.Background
	if a.Background && b.o.Mode == shell.AlwaysForeground {
		p.background = false
		p.notes = append(p.notes, "run_in_background was ignored: commands run in the foreground here")
	}
	switch {
	case p.background:
		p.ignored = a.Timeout != nil
	case b.o.Mode == shell.AutoBackground && (b.o.MayDetach == nil || b.o.MayDetach(a.Command)):
		p.wait = limit
	default:
		if p.Timeout == 0 || limit < p.Timeout {
			p.Timeout, p.asked = limit, frame.Seconds(limit)
		}
	}
	return p, p.Request().Validate()
}

// limit returns the timeout of a call.
func (b *bash) limit(given *float64, p *plan) (time.Duration, error) {
	switch {
	case given == nil:
		return b.o.DetachAfter, nil
	case *given <= 0:
		return 0, fault.Newf(fault.Invalid, "arguments: timeout is %v, want seconds above 0", *given).
			WithHint("Leave timeout out for the default.")
	case *given > MaxTimeout.Seconds():
		p.notes = append(p.notes, "timeout was cut to "+frame.Seconds(MaxTimeout)+", the longest there is")
		return MaxTimeout, nil
	}
	return max(time.Duration(*given*float64(time.Second)), time.Millisecond), nil
}

// call runs one command.
func (b *bash) call(ctx context.Context, c tool.Caller, raw json.RawMessage) (tool.Result, error) {
	p, err := b.plan(raw)
	if err != nil {
		return tool.Refused(err), nil
	}
	s := c.Spec(command.Key, p.Payload())
	s.Description = describe(p.Command)
	if p.background {
		return b.start(ctx, p, s)
	}
	return b.watch(ctx, p, s)
}

// describe returns the first line of a command.
func describe(text string) string {
	line, more, _ := strings.Cut(strings.TrimSpace(text), "\n")
	const most = 200
	if len(line) > most {
		line, more = strings.ToValidUTF8(line[:most], ""), "…"
	}
	if more != "" {
		line += " …"
	}
	return line
}
