// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/stream"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// CodeDenied is the failure of a tool whose approval was not given.
const CodeDenied = "denied"

// Resumable is a tool that may ask, wait for the answer with nothing running, and go
// on, in whichever process is there then.
type Resumable struct {
	// Key, Kind, Check and Persist are those of [Plain].
	Key     string
	Kind    string
	Check   func(args json.RawMessage) error
	Persist stream.Persister[struct{}, Update]
	// Run does the work. It is run again from its beginning when it was answered, or
	// when its worker was lost: what comes before [Job.Ask] must bear to be repeated,
	// and what must not be belongs into [Job.Approved]. The errors of both are to be
	// returned. Required.
	Run func(ctx context.Context, j *Job) (Result, error)
}

// Executor returns what to register with a Runtime.
func (r Resumable) Executor() work.Executor {
	return work.Executor{
		Key: r.Key, Kind: kind(r.Kind), OnLeaseLoss: task.LoseRetry, Validate: validate(r.Check),
		Run: func(ctx context.Context, a *work.Attempt) work.Result {
			j := jobOf(a, r.Persist)
			j.asks = true
			res, err := r.Run(ctx, j)
			if err == nil {
				err = j.settle(ctx)
			}
			if err != nil {
				return r.over(ctx, err)
			}
			return j.done(ctx, res)
		},
	}
}

func (r Resumable) over(ctx context.Context, err error) work.Result {
	var open *openError
	_, canceled := work.Canceled(ctx)
	switch {
	case canceled:
		return work.Stopped()
	case errors.As(err, &open):
		return work.Ask(nil, false, open.ticket)
	case errors.Is(err, mail.ErrClaimed), errors.Is(err, mail.ErrUsed):
		return work.Lost(CodeInterrupted, err.Error())
	case errors.Is(err, mail.ErrDenied):
		return work.Fail(CodeDenied, err.Error())
	case ctx.Err() != nil:
		return work.Yield(nil)
	}
	return work.Fail(CodeFailed, err.Error())
}

// openError is what ends an attempt that waits for an answer.
type openError struct{ ticket mail.Ticket }

// Error implements error.
func (e *openError) Error() string { return "it waits for the answer to " + e.ticket.ID }

var errAsks = fault.New(fault.Unsupported, "only a resumable tool can ask")

// Ask returns the decision of a ticket, see [work.Question]. While there is none the
// error ends the attempt when Run returns it, and Run is run again when there is one.
// A decision may also be that it was denied or that nobody answered in time.
func (j *Job) Ask(ctx context.Context, t mail.Ticket) (mail.Decision, error) {
	if !j.asks {
		return mail.Decision{}, errAsks
	}
	row, err := j.a.Ticket(ctx, task.TicketID(t.ID))
	switch {
	case fault.Is(err, fault.NotFound), err == nil && row.Open():
		return mail.Decision{}, &openError{ticket: t}
	case err != nil:
		return mail.Decision{}, fmt.Errorf("ask %s: %w", t.ID, err)
	}
	return *row.Decision, nil
}

// Approved makes a call that a person has to approve, for exactly these arguments,
// which are JSON. The call is made at most once: when it was interrupted, and nobody
// knows what became of it, it is not repeated and the outcome is unknown.
func (j *Job) Approved(ctx context.Context, id, prompt string, args json.RawMessage, call func(context.Context) error) error {
	t, err := work.Approval(id, prompt, args)
	if err != nil {
		return err
	}
	if _, err := j.Ask(ctx, t); err != nil {
		return err
	}
	if err := j.a.Claim(ctx, task.TicketID(id), args); err != nil {
		return fmt.Errorf("approval %s: %w", id, err)
	}
	cerr := call(ctx)
	if err := j.a.Settle(context.WithoutCancel(ctx), task.TicketID(id)); err != nil {
		return errors.Join(cerr, fmt.Errorf("settle approval %s: %w", id, err))
	}
	return cerr
}
