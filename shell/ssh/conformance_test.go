// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ssh_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/shelltest"
	"github.com/outlive-dev/outlive/shell/ssh"
)

func TestConformance(t *testing.T) {
	shelltest.Run(t, shelltest.Factory{Name: "ssh", New: newBackend})
	shelltest.Run(t, shelltest.Factory{Name: "ssh-plain", New: func(t *testing.T, s shelltest.Setup) *shelltest.Backend {
		h := newHost(t, "").serve(t)
		return &shelltest.Backend{Shell: newShell(t, h.login(t, shelltest.NewLink(t, h.addr, s.Latency).Addr()))}
	}})
}

func newShell(t *testing.T, rawURL string) *ssh.Shell {
	t.Helper()
	s, err := ssh.NewShell(rawURL, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newBackend returns a client of a host of its own. Provisioning is the placing of the
// program: where the test wants it to take time or to fail, it is not there yet.
func newBackend(t *testing.T, s shelltest.Setup) *shelltest.Backend {
	t.Helper()
	h := newHost(t, s.Runs)
	if s.Delay > 0 || s.Broken {
		if err := os.Remove(h.program()); err != nil {
			t.Fatal(err)
		}
	}
	h.sftpDelay, h.noSFTP = s.Delay, s.Broken
	h.serve(t)
	l := shelltest.NewLink(t, h.addr, s.Latency)
	c := h.dial(t, l.Addr(), ssh.Options{Retry: 5 * time.Second})
	var others []*host // with processes of their own that serve the same runs
	next := 0
	return &shelltest.Backend{
		Shell: c, Recoverable: c, Provisions: true,
		Peer: func(t *testing.T) shell.Recoverable {
			if len(others) < 4 { // as many as race
				others = append(others, newHost(t, h.runs).serve(t))
				next = len(others) - 1
			} else {
				next = (next + 1) % len(others)
			}
			other := others[next]
			return other.dial(t, other.addr, ssh.Options{})
		},
		StartElsewhere: func(t *testing.T, failpoint string, id shell.RunID, f shell.Fence, q shell.Request) bool {
			other := newHost(t, h.runs)
			other.env, other.sessions = []string{"OUTLIVE_FAILPOINT=" + failpoint}, 1
			other.serve(t)
			err := other.dial(t, other.addr, ssh.Options{Retry: 300 * time.Millisecond}).Start(t.Context(), id, f, q)
			var x *shell.ExecError
			if err != nil && (!errors.As(err, &x) || x.Phase != shell.StepTransport || x.Started != shell.Maybe) {
				t.Errorf("Start on a host whose server dies = %v, want an ExecError of the transport", err)
			}
			other.killServers(t)
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
	if err != nil {
		t.Fatalf("no supervisor of %s: %v", id, err)
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(out)))
	if err != nil {
		t.Fatalf("supervisors of %s: %q", id, out)
	}
	return pid
}
