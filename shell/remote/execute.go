// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"iter"
	"net/url"
	"strconv"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
)

// execution is one command of Execute or Stream: a run with a lease, which this process
// starts, follows and releases.
type execution struct {
	c   *Client
	id  shell.RunID
	req shell.Request
	at  int64
	// sink takes a part; false means that nobody wants the rest.
	sink func(shell.Part) bool
}

func (*execution) fence() shell.Fence { return shell.Fence{Generation: 1, Attempt: 1} }

// Execute implements [shell.Shell]. It reads the output after the end, so that it takes
// no more memory than the request keeps.
func (c *Client) Execute(ctx context.Context, r shell.Request) (*shell.Response, error) {
	e, err := c.begin(ctx, r)
	if err != nil {
		return nil, err
	}
	exit, err := c.Wait(ctx, e.id)
	if err == nil {
		resp, err := e.collect(ctx, exit)
		if err == nil {
			e.release(ctx)
			return resp, nil
		}
		return resp, e.failed(ctx, err, resp)
	}
	resp := &shell.Response{}
	if ctx.Err() != nil {
		resp = e.partial(ctx)
	}
	return resp, e.failed(ctx, err, resp)
}

// partial stops the command after the caller has gone and returns as much of its
// output as there is.
func (e *execution) partial(ctx context.Context) *shell.Response {
	exit, err := e.end(ctx)
	if err != nil {
		return &shell.Response{}
	}
	free, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	resp, _ := e.collect(free, exit)
	e.release(ctx)
	return resp
}

// failed is the error of an execution that was started and did not get to its exit.
func (*execution) failed(ctx context.Context, err error, partial *shell.Response) error {
	if ctx.Err() != nil {
		return &shell.ExecError{Phase: shell.StepRun, Started: shell.Yes, Cause: ctx.Err(), Partial: partial}
	}
	x := &shell.ExecError{Phase: shell.StepRun, Started: shell.Yes, Cause: err, Partial: partial}
	var tx *shell.ExecError
	if errors.As(transport(err, shell.Yes, nil), &tx) { // the lease ends it
		x.Phase, x.Cause = tx.Phase, tx.Cause
	}
	return x
}

// collect reads what was kept of the output of a command that has ended.
func (e *execution) collect(ctx context.Context, exit shell.Exit) (*shell.Response, error) {
	resp := &shell.Response{Exit: exit}
	for from := int64(0); ; {
		ch, err := e.c.readChunk(ctx, e.id, from, 1<<20, longPoll, nil)
		if err != nil {
			return resp, err
		}
		resp.Omitted = append(resp.Omitted, ch.Omitted...)
		for _, f := range ch.Frames {
			resp.Output = append(resp.Output, f.Data...)
			switch f.Stream {
			case shell.Stdout:
				resp.Stdout = append(resp.Stdout, f.Data...)
			case shell.Stderr:
				resp.Stderr = append(resp.Stderr, f.Data...)
			case shell.Merged: // in Output alone
			}
		}
		if ch.End {
			return resp, nil
		}
		from = ch.Next
	}
}

// Stream implements [shell.StreamingShell].
func (c *Client) Stream(ctx context.Context, r shell.Request) iter.Seq2[shell.Part, error] {
	return func(yield func(shell.Part, error) bool) {
		left := false
		exit, err := c.stream(ctx, r, func(p shell.Part) bool {
			left = left || !yield(p, nil)
			return !left
		})
		switch {
		case left:
		case err != nil:
			yield(shell.Part{}, err)
		default:
			yield(shell.Part{Exit: exit}, nil)
		}
	}
}

func (c *Client) stream(ctx context.Context, r shell.Request, sink func(shell.Part) bool) (*shell.Exit, error) {
	e, err := c.begin(ctx, r)
	if err != nil {
		return nil, err
	}
	e.sink = sink
	exit, err := e.follow(ctx)
	switch {
	case err == nil:
		e.release(ctx)
		return exit, nil
	case ctx.Err() != nil || errors.Is(err, errLeft):
		if _, err := e.end(ctx); err == nil {
			e.release(ctx)
		}
	}
	return nil, e.failed(ctx, err, nil)
}

// begin starts the command.
func (c *Client) begin(ctx context.Context, r shell.Request) (*execution, error) {
	if r.StdinOpen || r.Attached {
		return nil, fault.New(fault.Unsupported, "execute: open input is for runs that are started and attached to")
	}
	e := &execution{c: c, id: shell.RunID("ex-" + newName() + "-r1"), req: r.WithDefaults()}
	err := c.start(ctx, e.id, e.fence(), r, true)
	var x *shell.ExecError
	if errors.As(err, &x) && x.Started != shell.No {
		// It may run: the caller went before the answer came.
		c := *x
		c.Partial = e.partial(ctx)
		if c.Partial.Exit.Started {
			c.Started = shell.Yes
		}
		return nil, &c
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

var errLeft = errors.New("nobody wants the rest")

// follow passes output on until the exit, from where it was when the link was cut.
func (e *execution) follow(ctx context.Context) (*shell.Exit, error) {
	r := e.c.retry()
	for {
		exit, err := e.followOnce(ctx, r)
		var l *lost
		if err == nil || !errors.As(err, &l) {
			return exit, err
		}
		if err := r.pause(ctx, l); err != nil {
			return nil, err
		}
	}
}

func (e *execution) followOnce(ctx context.Context, r *retry) (*shell.Exit, error) {
	s, err := e.c.open(ctx, e.id, url.Values{"from": {strconv.FormatInt(e.at, 10)}})
	if err != nil {
		return nil, err
	}
	defer s.close()
	for {
		l, err := s.line()
		if err != nil {
			return nil, err
		}
		if l.Ping || len(l.Data) > 0 {
			r.alive()
		}
		var p shell.Part
		switch {
		case l.Error != nil:
			return nil, l.Error.err()
		case l.Exit != nil:
			return l.Exit, nil
		case l.Omitted != nil:
			p.Omitted, e.at = []shell.Range{*l.Omitted}, max(e.at, l.Omitted.To)
		case len(l.Data) > 0:
			p.Frames = []shell.Frame{{Stream: streamOf(l.Stream), Off: l.Off, Data: l.Data}}
			e.at = max(e.at, l.Off+int64(len(l.Data)))
		case l.Next != nil:
			return nil, &lost{err: errors.New("the stream ended early"), sent: true}
		default:
			continue
		}
		if !e.sink(p) {
			return nil, errLeft
		}
	}
}

// end stops the command after the caller has gone, whose context is of no use any
// more, and waits for the exit as long as a stop may take.
func (e *execution) end(ctx context.Context) (shell.Exit, error) {
	free, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	reason := "nobody wants it any more"
	if cause := context.Cause(ctx); cause != nil {
		reason = cause.Error()
	}
	if err := e.c.Stop(free, e.id, e.fence(), shell.StopRequest{Reason: reason}); err != nil {
		return shell.Exit{}, err
	}
	patience, done := context.WithTimeout(context.WithoutCancel(ctx), max(e.req.Grace, 0)+e.req.DrainCap+farewell)
	defer done()
	return e.c.Wait(patience, e.id)
}

// release gives the run up. When it cannot be told, the server's garbage collection
// finds it.
func (e *execution) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	for {
		err := e.c.Release(ctx, e.id, e.fence())
		if !fault.Is(err, fault.Conflict) || ctx.Err() != nil {
			return
		}
		select { // its supervisor is about to end
		case <-time.After(firstPause):
		case <-ctx.Done():
		}
	}
}
