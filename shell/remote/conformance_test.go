// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package remote_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/remote"
	"github.com/outlive-dev/outlive/shell/shelltest"
)

// delay is a provisioner that takes its time, and may have nothing to give.
type delay struct {
	d      time.Duration
	broken bool
}

func (p delay) Provision(ctx context.Context, _ shell.RunID, _ shell.Request) error {
	t := time.NewTimer(p.d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	if p.broken {
		return errors.New("no machine to be had")
	}
	return nil
}

func TestConformance(t *testing.T) {
	shelltest.Run(t, shelltest.Factory{Name: "http", New: newBackend})
}

func newBackend(t *testing.T, s shelltest.Setup) *shelltest.Backend {
	t.Helper()
	runs := s.Runs
	if runs == "" {
		runs = filepath.Join(t.TempDir(), "runs")
	}
	r := openRuns(t, runs)
	addr := serve(t, r, remote.ServerOptions{
		Slots: s.Slots, Provisioner: delay{s.Delay, s.Broken}, Lease: 3 * time.Second,
	})
	l := shelltest.NewLink(t, addr, s.Latency)
	c := dial(t, l.Addr(), remote.Options{Retry: 5 * time.Second})
	return &shelltest.Backend{
		Shell: c, Recoverable: c, Provisions: true,
		Peer: func(t *testing.T) shell.Recoverable {
			return dial(t, serve(t, openRuns(t, runs), remote.ServerOptions{}), remote.Options{})
		},
		StartElsewhere: func(t *testing.T, failpoint string, id shell.RunID, f shell.Fence, q shell.Request) bool {
			p := serveElsewhere(t, runs, "", "", "1m", "OUTLIVE_FAILPOINT="+failpoint)
			err := dial(t, p.addr, remote.Options{Retry: 300 * time.Millisecond}).Start(t.Context(), id, f, q)
			var x *shell.ExecError
			if err != nil && (!errors.As(err, &x) || x.Phase != shell.StepTransport || x.Started != shell.Maybe) {
				t.Errorf("Start at a server that dies = %v, want an ExecError of the transport", err)
			}
			p.kill()
			return err != nil
		},
		Supervisor: func(t *testing.T, id shell.RunID) int { return supervisorOf(t, id) },
		Cut:        l.Cut, Down: l.Down,
	}
}

// supervisorOf finds the supervisor of a run by its argument list.
func supervisorOf(t *testing.T, id shell.RunID) int {
	t.Helper()
	out, err := exec.Command("pgrep", "-f", "__shim .*/"+string(id)+"$").Output()
	var pid int
	if err == nil {
		err = json.Unmarshal(bytes.TrimSpace(out), &pid)
	}
	if err != nil {
		t.Fatalf("no supervisor of %s: %q, %v", id, out, err)
	}
	return pid
}

func slurp(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}

func count(dir string) int { return strings.Count(slurp(filepath.Join(dir, "marker")), "x") }
