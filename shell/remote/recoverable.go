// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
)

// Start implements [shell.Recoverable]. It returns when the run has left the server's
// queue and is provisioned. When ctx ends before that, the run is given up and will
// never start.
func (c *Client) Start(ctx context.Context, id shell.RunID, f shell.Fence, r shell.Request) error {
	return c.start(ctx, id, f, r, false)
}

func (c *Client) start(ctx context.Context, id shell.RunID, f shell.Fence, r shell.Request, lease bool) error {
	if err := id.Valid(); err != nil {
		return err
	}
	if err := r.Validate(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return &shell.ExecError{Phase: shell.StepProvision, Started: shell.No, Cause: err}
	}
	o, err := orderOf(r)
	if err != nil {
		return err
	}
	o.Lease = lease
	if r.Attached || r.StdinOpen {
		o.Attached, o.Reader = true, c.readerOf(id)
	}
	var sent atomic.Bool
	st, err := c.place(ctx, id, f, o, &sent)
	var l *lost
	switch {
	case err == nil && st.Error != nil:
		return st.Error.err()
	case err == nil:
		return nil
	case ctx.Err() != nil && !sent.Load():
		return &shell.ExecError{Phase: shell.StepProvision, Started: shell.No, Cause: ctx.Err()}
	case ctx.Err() != nil:
		return c.giveUp(ctx, id, f)
	case errors.As(err, &l) && !l.sent && l.final:
		return &shell.ExecError{Phase: shell.StepProvision, Started: shell.No, Cause: l.err}
	case errors.As(err, &l) && !l.sent:
		return transport(err, shell.No, nil)
	}
	return transport(err, shell.Maybe, nil)
}

// place sends the start, and asks until it is more than accepted. A server that does
// not know the run any more has lost what was only in its memory: it is sent again.
func (c *Client) place(ctx context.Context, id shell.RunID, f shell.Fence, o order, sent *atomic.Bool) (st status, err error) {
	for {
		st = status{}
		if _, err = c.do(ctx, call{method: http.MethodPut, path: runPath(id, ""), fence: &f, body: o, sent: sent}, &st); err != nil {
			return st, err
		}
		for st.pending() {
			st, err = c.status(ctx, id, longPoll)
			if fault.Is(err, fault.NotFound) {
				break
			}
			if err != nil {
				return st, err
			}
		}
		if err == nil && (st.State != stateNeverStarted || st.Error != nil) {
			return st, nil
		}
		t := time.NewTimer(firstPause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return st, ctx.Err()
		}
	}
}

// giveUp keeps a run from starting after the caller's context has ended, and says
// whether it has.
func (c *Client) giveUp(ctx context.Context, id shell.RunID, f shell.Fence) error {
	cause := ctx.Err()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	o := stopOrder{Reason: cause.Error(), Generation: f.Generation, Attempt: f.Attempt, IfPending: true}
	var st status
	_, err := c.do(ctx, call{method: http.MethodPost, path: runPath(id, "/stop"), body: o}, &st)
	x := &shell.ExecError{Phase: shell.StepProvision, Started: shell.No, Cause: cause}
	switch {
	case err != nil:
		x.Started, x.Phase = shell.Maybe, shell.StepTransport
	case st.Started:
		x.Started, x.Phase = shell.Yes, shell.StepRun
	}
	return x
}

// status asks for a run's state, with wait for the next one.
func (c *Client) status(ctx context.Context, id shell.RunID, wait time.Duration) (st status, err error) {
	q := call{method: http.MethodGet, path: runPath(id, ""), wait: wait}
	if wait > 0 {
		q.query = url.Values{"wait": {wait.String()}}
	}
	_, err = c.do(ctx, q, &st)
	return st, err
}

// Recover implements [shell.Recoverable].
func (c *Client) Recover(ctx context.Context, id shell.RunID) (shell.State, error) {
	if err := id.Valid(); err != nil {
		return shell.State{}, err
	}
	st, err := c.status(ctx, id, 0)
	switch {
	case errors.Is(err, shell.ErrReleased):
		return shell.State{Phase: shell.UnknownRun, Reason: shell.ReasonReleased}, nil
	case errors.Is(err, shell.ErrNoRun):
		return shell.State{Phase: shell.UnknownRun, Reason: shell.ReasonStateMissing}, nil
	case err != nil:
		return shell.State{}, transport(err, shell.Maybe, nil)
	}
	return st.state()
}

// Read implements [shell.Recoverable].
func (c *Client) Read(ctx context.Context, id shell.RunID, from int64, maxBytes int, wait time.Duration) (shell.Chunk, error) {
	if err := id.Valid(); err != nil {
		return shell.Chunk{}, err
	}
	if from < 0 || maxBytes < 0 || wait < 0 {
		return shell.Chunk{}, fault.New(fault.Invalid, "read output: negative offset, size or wait")
	}
	return c.readChunk(ctx, id, from, maxBytes, wait, nil)
}

// readChunk reads once, whatever happens to the link meanwhile.
func (c *Client) readChunk(ctx context.Context, id shell.RunID, from int64, maxBytes int, wait time.Duration, more url.Values) (shell.Chunk, error) {
	if maxBytes == 0 {
		maxBytes = chunkSize
	}
	deadline := time.Now().Add(wait)
	r := c.retry()
	for {
		v := url.Values{"from": {strconv.FormatInt(from, 10)}, "max": {strconv.Itoa(maxBytes)}}
		if left := time.Until(deadline); left > 0 {
			v.Set("wait", min(left, longPoll).String())
		}
		maps.Copy(v, more)
		ch, err := c.readOnce(ctx, id, from, v, r)
		var l *lost
		switch {
		case errors.As(err, &l):
			if ch.Next > from {
				return ch, nil // what came is good
			}
			if err := r.pause(ctx, l); err != nil {
				return ch, transport(err, shell.Maybe, nil)
			}
			continue
		case errors.Is(err, shell.ErrReleased):
			return ch, shell.ErrNoRun
		case err != nil:
			return ch, err
		case ch.Next > from || ch.End || !time.Now().Before(deadline):
			return ch, nil
		}
	}
}

func (c *Client) readOnce(ctx context.Context, id shell.RunID, from int64, v url.Values, r *retry) (ch shell.Chunk, err error) {
	ch.Next = from
	s, err := c.open(ctx, id, v)
	if err != nil {
		return ch, err
	}
	defer s.close()
	for {
		l, err := s.line()
		if err != nil {
			return ch, err
		}
		if l.Ping || l.Next != nil || len(l.Data) > 0 {
			r.alive()
		}
		switch {
		case l.Error != nil:
			return ch, l.Error.err()
		case l.Omitted != nil:
			ch.Omitted = append(ch.Omitted, *l.Omitted)
			ch.Next = max(ch.Next, l.Omitted.To)
		case len(l.Data) > 0:
			ch.Frames = append(ch.Frames, shell.Frame{Stream: streamOf(l.Stream), Off: l.Off, Data: l.Data})
			ch.Next = max(ch.Next, l.Off+int64(len(l.Data)))
		case l.Next != nil:
			ch.Next, ch.End = *l.Next, l.End
			return ch, nil
		}
	}
}

// Wait implements [shell.Recoverable].
func (c *Client) Wait(ctx context.Context, id shell.RunID) (shell.Exit, error) {
	if err := id.Valid(); err != nil {
		return shell.Exit{}, err
	}
	for {
		st, err := c.status(ctx, id, longPoll)
		switch {
		case errors.Is(err, shell.ErrReleased):
			return shell.Exit{}, shell.ErrNoRun
		case err != nil:
			return shell.Exit{}, transport(err, shell.Maybe, nil)
		case st.Exit != nil:
			return *st.Exit, nil
		case st.State == stateNeverStarted:
			return shell.Exit{}, shell.ErrNoRun
		}
		if _, err := st.state(); err != nil {
			return shell.Exit{}, err
		}
	}
}

// Stop implements [shell.Recoverable].
func (c *Client) Stop(ctx context.Context, id shell.RunID, f shell.Fence, s shell.StopRequest) error {
	if err := id.Valid(); err != nil {
		return err
	}
	if s.Grace < 0 && s.Grace != shell.AtOnce {
		return fault.Newf(fault.Invalid, "stop: negative grace %v", s.Grace)
	}
	o := stopOrder{Cause: s.Cause, Reason: s.Reason, Grace: wireGrace(s.Grace), Generation: f.Generation, Attempt: f.Attempt}
	_, err := c.do(ctx, call{method: http.MethodPost, path: runPath(id, "/stop"), body: o}, nil)
	return transport(err, shell.Maybe, nil)
}

// Release implements [shell.Recoverable].
func (c *Client) Release(ctx context.Context, id shell.RunID, f shell.Fence) error {
	if err := id.Valid(); err != nil {
		return err
	}
	_, err := c.do(ctx, call{method: http.MethodDelete, path: runPath(id, ""), fence: &f}, nil)
	return transport(err, shell.Maybe, nil)
}

// List implements [shell.Recoverable].
func (c *Client) List(ctx context.Context) ([]shell.RunID, error) {
	var l listing
	if _, err := c.do(ctx, call{method: http.MethodGet, path: "/v1/runs"}, &l); err != nil {
		return nil, transport(err, shell.Maybe, nil)
	}
	return l.Runs, nil
}
