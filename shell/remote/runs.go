// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
)

const (
	promptly  = time.Second // how long a start waits for its run to be started
	maxFailed = 256         // failed starts that are remembered for those who ask
)

// run is what the server knows of a run beside what the backend does. It is there
// while the run is pending, its start has failed, it has a lease or readers.
type run struct {
	stage    string // stateQueued, stateProvisioning, or "" when the backend has it
	digest   string
	fence    shell.Fence
	accepted time.Time
	failure  *problem           // why it did not start
	cancel   context.CancelFunc // of the pending start
	changed  chan struct{}      // closed and replaced when stage changes
	canceled bool               // the pending start was given up

	lease      bool
	watching   int // requests that observe it
	leaseTimer *time.Timer

	readers map[string]*reader
}

func (r *run) pending() bool { return r.stage != "" }

func (r *run) moveLocked(stage string) {
	r.stage = stage
	close(r.changed)
	r.changed = make(chan struct{})
}

// runLocked returns the run's entry and makes it.
func (s *Server) runLocked(id shell.RunID) *run {
	r := s.runs[id]
	if r == nil {
		r = &run{changed: make(chan struct{}), readers: map[string]*reader{}}
		s.runs[id] = r
	}
	return r
}

// tidyLocked forgets an entry that says nothing.
func (s *Server) tidyLocked(id shell.RunID) {
	if r := s.runs[id]; r != nil && !r.pending() && r.failure == nil && !r.lease && len(r.readers) == 0 {
		delete(s.runs, id)
	}
}

// put starts a run, in this order:
//
//  1. What is wrong with the request is refused.
//  2. A run that the backend knows is adopted by the fence: that is the backend's
//     business.
//  3. Any other becomes pending, and a goroutine of the server brings it to its start,
//     whatever becomes of the request.
//  4. The answer waits a moment for that.
func (s *Server) put(w http.ResponseWriter, r *http.Request, id shell.RunID) error {
	var o order
	if err := body(w, r, s.o.MaxBody, &o); err != nil {
		return err
	}
	req, err := o.request()
	if err != nil {
		return err
	}
	f, err := fenceOf(r)
	if err != nil {
		return err
	}
	if err := s.within(req.Dir); err != nil {
		return err
	}
	if req.TTY != nil && !s.backend.Capabilities().TTY {
		return fault.New(fault.Unsupported, "start: this backend has no terminals")
	}
	if err := s.backend.Capabilities().Honours(req.Limits); err != nil {
		return err
	}
	st, err := s.backend.Recover(r.Context(), id)
	if err != nil {
		return err
	}
	code := http.StatusOK
	if st.Phase == shell.NeverStarted || st.Phase == shell.UnknownRun && st.Reason != shell.ReasonReleased {
		made, err := s.accept(id, f, req, o)
		if err != nil {
			return err
		}
		if made {
			code = http.StatusCreated
		}
	} else if err := s.backend.Start(context.WithoutCancel(r.Context()), id, f, req); err != nil {
		return err
	}
	answer(w, code, s.await(r.Context(), id, promptly, func(st status) bool { return !st.pending() }))
	return nil
}

// accept makes a run pending; made is false when it is already.
func (s *Server) accept(id shell.RunID, f shell.Fence, req shell.Request, o order) (made bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runLocked(id)
	if r.pending() {
		switch {
		case r.digest != req.Digest():
			return false, shell.ErrDigest
		case f.Less(r.fence):
			return false, shell.ErrFenced
		}
		r.fence = f
		return false, nil
	}
	s.dropFailedLocked()
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // a run is nobody's request
	r.digest, r.fence, r.accepted, r.failure, r.canceled, r.cancel = req.Digest(), f, time.Now(), nil, false, cancel
	r.lease = o.Lease
	r.moveLocked(stateQueued)
	started := s.group.Go("start run", func(stop context.Context) {
		defer cancel()
		unhook := context.AfterFunc(stop, cancel)
		defer unhook()
		s.launch(ctx, id, r, req, o)
	})
	if !started {
		cancel()
		r.moveLocked("")
		s.tidyLocked(id)
		return false, fault.New(fault.Unavailable, "start: the server is stopping")
	}
	if r.lease {
		s.noteLease(id, f)
		s.armLocked(id, r)
	}
	s.o.Log.Info("run accepted", "run", string(id), "lease", o.Lease)
	return true, nil
}

// dropFailedLocked keeps the memory of failed starts small.
func (s *Server) dropFailedLocked() {
	n := 0
	var oldest shell.RunID
	for id, r := range s.runs {
		if r.failure == nil || r.pending() {
			continue
		}
		n++
		if oldest == "" || r.accepted.Before(s.runs[oldest].accepted) {
			oldest = id
		}
	}
	if n > maxFailed {
		s.runs[oldest].failure = nil
		s.tidyLocked(oldest)
	}
}

// launch brings a pending run to its start: a slot, then the provisioner, then the
// backend. Until the backend is called a stop can still keep it from starting.
func (s *Server) launch(ctx context.Context, id shell.RunID, r *run, req shell.Request, o order) {
	err := s.prepare(ctx, id, r, req)
	s.mu.Lock()
	f := r.fence
	canceled := r.canceled || ctx.Err() != nil
	s.mu.Unlock()
	slotted := err == nil
	switch {
	case canceled:
		err = nil // a stop or the server's end; who asks sees that it has not started
	case err != nil:
		err = &shell.ExecError{Phase: shell.StepProvision, Started: shell.No, Cause: err}
	default:
		free := context.WithoutCancel(ctx)
		if err = s.backend.Start(free, id, f, req); err == nil && req.Attached {
			if herr := s.hold(free, id, o.Reader, 0); herr != nil { // the run goes on; its reader comes by itself
				s.o.Log.Warn("output not held", "run", string(id), "error", herr)
			}
		}
	}
	if s.slots != nil && slotted {
		if canceled || err != nil {
			<-s.slots
		} else {
			s.group.Go("slot", func(ctx context.Context) { s.freeSlot(ctx, id) })
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		r.failure = problemOf(err)
		s.o.Log.Warn("run not started", "run", string(id), "error", err)
	}
	if err != nil || canceled {
		s.endLeaseLocked(id, r)
	}
	r.moveLocked("")
	s.tidyLocked(id)
}

// prepare returns when the run has a slot and everything it needs.
func (s *Server) prepare(ctx context.Context, id shell.RunID, r *run, req shell.Request) error {
	if s.slots != nil {
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if s.o.Provisioner == nil {
		return nil
	}
	s.mu.Lock()
	r.moveLocked(stateProvisioning)
	s.mu.Unlock()
	if err := s.o.Provisioner.Provision(ctx, id, req); err != nil {
		if s.slots != nil {
			<-s.slots
		}
		return err
	}
	return nil
}

// freeSlot waits for the end of a run and gives its slot to the next.
func (s *Server) freeSlot(ctx context.Context, id shell.RunID) {
	defer func() { <-s.slots }()
	for {
		_, err := s.backend.Wait(ctx, id)
		if err == nil || ctx.Err() != nil || fault.Is(err, fault.NotFound) {
			return
		}
		select { // its records cannot be read now
		case <-time.After(time.Second):
		case <-ctx.Done():
			return
		}
	}
}

// look returns the run's state now, and what is closed when a pending one moves on.
func (s *Server) look(ctx context.Context, id shell.RunID) (st status, changed <-chan struct{}, err error) {
	s.mu.Lock()
	r := s.runs[id]
	if r != nil && r.pending() {
		st = status{Run: id, State: r.stage, AcceptedAt: r.accepted, Digest: r.digest}
		changed = r.changed
		s.mu.Unlock()
		return st, changed, nil
	}
	var failure *problem
	var accepted time.Time
	if r != nil {
		failure, accepted = r.failure, r.accepted
	}
	s.mu.Unlock()
	bs, err := s.backend.Recover(ctx, id)
	if err != nil {
		return st, nil, err
	}
	st = statusOf(id, bs)
	st.AcceptedAt = accepted
	if !bs.Started && bs.Exit == nil {
		st.Error = failure
	}
	if bs.Phase == shell.UnknownRun && failure == nil {
		if bs.Reason == shell.ReasonReleased {
			return st, nil, shell.ErrReleased
		}
		return st, nil, shell.ErrNoRun
	}
	return st, nil, nil
}

// await polls the run's state until ok or the time is over, and returns the last one.
func (s *Server) await(ctx context.Context, id shell.RunID, wait time.Duration, ok func(status) bool) status {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		st, changed, err := s.look(context.WithoutCancel(ctx), id)
		switch {
		case errors.Is(err, shell.ErrNoRun): // what was pending is forgotten
			return status{Run: id, State: stateNeverStarted}
		case err != nil:
			return status{Run: id, State: stateNeverStarted, Error: problemOf(err)}
		case ok(st):
			return st
		case changed != nil:
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return st
			}
		case st.State != stateRunning:
			return st
		}
		if _, err := s.backend.Wait(ctx, id); err != nil && ctx.Err() == nil && !errors.Is(err, shell.ErrNoRun) {
			return st
		}
		if ctx.Err() != nil {
			return st
		}
	}
}

func (s *Server) get(w http.ResponseWriter, r *http.Request, id shell.RunID) error {
	wait, err := duration(r, "wait")
	if err != nil {
		return err
	}
	st, _, err := s.look(r.Context(), id)
	if err != nil {
		return err
	}
	if wait > 0 {
		defer s.watch(id)()
		first := st.State
		if st.pending() || first == stateRunning {
			st = s.await(r.Context(), id, wait, func(now status) bool { return now.State != first })
		}
	}
	answer(w, http.StatusOK, st)
	return nil
}

// stop keeps a pending run from starting, or stops one that runs.
func (s *Server) stop(w http.ResponseWriter, r *http.Request, id shell.RunID) error {
	var o stopOrder
	if err := body(w, r, smallBody, &o); err != nil {
		return err
	}
	f := shell.Fence{Generation: o.Generation, Attempt: o.Attempt}
	if f.Generation < 0 || f.Attempt < 0 {
		return fault.New(fault.Invalid, "stop: negative generation or attempt")
	}
	ctx := context.WithoutCancel(r.Context())
	s.mu.Lock()
	pending := false
	if run := s.runs[id]; run != nil && run.pending() {
		if f.Less(run.fence) {
			s.mu.Unlock()
			return shell.ErrFenced
		}
		pending, run.canceled = true, true
		run.cancel()
	}
	s.mu.Unlock()
	if o.IfPending && !pending {
		st, err := s.backend.Recover(ctx, id)
		if err != nil {
			return err
		}
		pending = st.Phase == shell.NeverStarted || st.Phase == shell.UnknownRun
	}
	if pending || !o.IfPending {
		// Also before the run is there: a start that comes later finds this.
		q := shell.StopRequest{Cause: o.Cause, Reason: o.Reason, Grace: graceOf(o.Grace)}
		if err := s.backend.Stop(ctx, id, f, q); err != nil {
			return err
		}
		s.o.Log.Info("run stopped", "run", string(id), "pending", pending)
	}
	st := s.await(ctx, id, promptly, func(st status) bool { return !st.pending() })
	st.Error = nil
	answer(w, http.StatusOK, st)
	return nil
}

func (s *Server) release(w http.ResponseWriter, r *http.Request, id shell.RunID) error {
	f, err := fenceOf(r)
	if err != nil {
		return err
	}
	s.mu.Lock()
	run := s.runs[id]
	pending := run != nil && run.pending()
	s.mu.Unlock()
	if pending {
		return shell.ErrLive
	}
	if err := s.backend.Release(context.WithoutCancel(r.Context()), id, f); err != nil {
		return err
	}
	s.mu.Lock()
	if run := s.runs[id]; run != nil && !run.pending() {
		run.failure = nil
		s.endLeaseLocked(id, run)
		s.tidyLocked(id)
	}
	s.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
	return nil
}
