// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
)

const leaseSuffix = ".lease"

// watch counts a request that observes a run, until the function it returns is called.
func (s *Server) watch(id shell.RunID) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[id]
	if r == nil || !r.lease {
		return func() {}
	}
	r.watching++
	if r.leaseTimer != nil {
		r.leaseTimer.Stop()
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		r.watching--
		s.armLocked(id, r)
	}
}

// armLocked lets the lease of a run that nobody observes run from now on.
func (s *Server) armLocked(id shell.RunID, r *run) {
	if !r.lease || r.watching > 0 {
		return
	}
	if r.leaseTimer != nil {
		r.leaseTimer.Stop()
	}
	r.leaseTimer = time.AfterFunc(s.o.Lease, func() {
		s.group.Go("end of a lease", func(ctx context.Context) { s.expire(ctx, id, r) })
	})
}

// expire stops a run that nobody has observed for the lease.
func (s *Server) expire(ctx context.Context, id shell.RunID, r *run) {
	s.mu.Lock()
	if !r.lease || r.watching > 0 || s.runs[id] != r {
		s.mu.Unlock()
		return
	}
	f := r.fence
	if r.pending() {
		r.canceled = true
		r.cancel()
	}
	s.mu.Unlock()
	err := s.backend.Stop(ctx, id, f, shell.StopRequest{Reason: "nobody watches it any more"})
	s.o.Log.Info("lease ended", "run", string(id), "error", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && !errors.Is(err, shell.ErrFenced) {
		s.armLocked(id, r) // try again
		return
	}
	s.endLeaseLocked(id, r)
	s.tidyLocked(id)
}

func (s *Server) endLeaseLocked(id shell.RunID, r *run) {
	if !r.lease {
		return
	}
	r.lease = false
	if r.leaseTimer != nil {
		r.leaseTimer.Stop()
	}
	if s.o.StateDir != "" {
		os.Remove(filepath.Join(s.o.StateDir, string(id)+leaseSuffix))
	}
}

// noteLease writes down that a run has a lease. Without the note a run goes on when
// the server's process dies and nobody watches.
func (s *Server) noteLease(id shell.RunID, f shell.Fence) {
	if s.o.StateDir == "" {
		return
	}
	b, err := json.Marshal(f)
	if err == nil {
		err = os.MkdirAll(s.o.StateDir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(s.o.StateDir, string(id)+leaseSuffix), b, 0o600)
	}
	if err != nil {
		s.o.Log.Warn("lease not noted", "run", string(id), "error", err)
	}
}

// resumeLeases arms the leases that an earlier process noted.
func (s *Server) resumeLeases() error {
	if s.o.StateDir == "" {
		return nil
	}
	entries, err := os.ReadDir(s.o.StateDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", fault.New(fault.Unavailable, "read leases"), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), leaseSuffix)
		id := shell.RunID(name)
		if !ok || id.Valid() != nil {
			continue
		}
		var f shell.Fence
		if b, err := os.ReadFile(filepath.Join(s.o.StateDir, e.Name())); err == nil {
			_ = json.Unmarshal(b, &f) // half a note is one of the lowest fence
		}
		r := s.runLocked(id)
		r.lease, r.fence = true, f
		s.armLocked(id, r)
	}
	return nil
}
