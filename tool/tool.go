// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package tool makes tools for models of tasks: a call that takes long goes on in the
// background, and a call that is interrupted is not lost. It depends on no framework:
// a [Tool] is a name, a description, a JSON schema and a function.
//
// # The ladder
//
// What survives depends on how the tool's work is made:
//
//   - [Plain]: a function. It outlives the call that started it, but not its worker.
//   - [Recoverable]: it starts something outside that lives on without the worker and
//     is found again by the task's id. A crash costs nothing.
//   - [Resumable]: it may ask, wait for the answer with nothing running, and go on.
//
// Each makes a [work.Executor] to register with the runtime; [Managed] makes the Tool
// that runs it.
//
// # Guarantees
//
//  1. A call that returns a receipt has restarted nothing: it is the same task in the
//     same attempt.
//  2. No output of a tool can pass for a receipt, a note or a notice: a line that
//     begins like one gets a backslash.
//  3. What a model reads of one call is bounded; the rest is read by reference.
package tool

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/task"
)

// Tool is something that a model may call. Its fields are read only; Call is safe for
// concurrent use, and calls do not depend on one another.
type Tool struct {
	Name        string
	Description string
	// Schema is the JSON schema of the arguments.
	Schema json.RawMessage
	// Call runs the tool. Arguments that are wrong, a task that is not there and work
	// that failed are results, whose text a model can act on. An error means that the
	// call itself failed: its context ended, or the store did not answer. The Result
	// then still says what is known.
	Call func(ctx context.Context, c Caller, args json.RawMessage) (Result, error)
}

// Result is what a call returned.
type Result struct {
	// Text is what the model reads. It is never empty.
	Text string
	// Media is what is not text, such as an image.
	Media []task.Payload
	// IsError means that the call did not do what was asked, as the text says.
	IsError bool
	// Task is the task behind the call, or empty when none was made.
	Task task.ID
	// Detached means that the task goes on and Text is its receipt.
	Detached bool
}

// Caller is who calls a tool. It decides whose child a new task becomes and which
// tasks may be seen. The zero Caller is nobody in particular: it sees what belongs to
// no principal.
type Caller struct {
	// Parent is the task in which the model runs, such as an agent's turn.
	Parent task.ID
	// Session is the conversation that the call belongs to.
	Session task.SessionID
	// Principal and Tenant are on whose behalf it is.
	Principal string
	Tenant    string
	// Call is the model's id of the call. A call that is repeated with the same id and
	// the same arguments finds its task again.
	Call string
}

// Owns reports whether the caller may see and steer the task: it is the same
// principal's and, if the caller is in a task or a session, a child of that task or a
// part of that session.
func (c Caller) Owns(r *task.Record) bool {
	switch {
	case r.Principal != c.Principal || r.Tenant != c.Tenant:
		return false
	case c.Parent == "" && c.Session == "":
		return true
	case c.Parent != "" && (r.Parent == c.Parent || r.Root == c.Parent && r.ID != c.Parent):
		return true
	default:
		return c.Session != "" && (r.RootSession == c.Session || r.Session == c.Session)
	}
}

// Spec returns the spec of a task that the caller is to own.
func (c Caller) Spec(executor string, input task.Payload) outlive.Spec {
	s := outlive.Spec{
		Executor: executor, Input: input, Parent: c.Parent, Principal: c.Principal, Tenant: c.Tenant, Here: true,
	}
	if c.Call != "" {
		s.Invocation = "call/" + c.Call
	}
	return s
}

// Off is the name of a tool that is switched off: it is not made, and not mentioned.
const Off = shell.NoTool

// Names are what the tools are called. An empty name is the default, [Off] switches a
// tool off.
type Names struct {
	Bash   string // Defaults to "bash".
	List   string // Defaults to "task_list".
	Output string // Defaults to "task_output".
	Send   string // Defaults to "task_send".
	Answer string // Defaults to "task_answer".
	Stop   string // Defaults to "task_stop".
}

// WithDefaults returns n with its empty names replaced.
func (n Names) WithDefaults() Names {
	return Names{
		Bash:   cmp.Or(n.Bash, "bash"),
		List:   cmp.Or(n.List, "task_list"),
		Output: cmp.Or(n.Output, "task_output"),
		Send:   cmp.Or(n.Send, "task_send"),
		Answer: cmp.Or(n.Answer, "task_answer"),
		Stop:   cmp.Or(n.Stop, "task_stop"),
	}
}

// Refused is the result of a call that was refused before anything was done.
func Refused(err error) Result {
	return Result{Text: refusal(err), IsError: true}
}
