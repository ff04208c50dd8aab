// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/shelltest"
)

func TestConformance(t *testing.T) {
	shelltest.Run(t, shelltest.Factory{Name: "local", New: func(*testing.T, shelltest.Setup) *shelltest.Backend {
		return &shelltest.Backend{Shell: &Shell{}}
	}})
	shelltest.Run(t, shelltest.Factory{Name: "recoverable", New: func(t *testing.T, s shelltest.Setup) *shelltest.Backend {
		dir := s.Runs
		if dir == "" {
			dir = filepath.Join(t.TempDir(), "runs")
		}
		r := openDir(t, dir)
		return &shelltest.Backend{
			Recoverable:    r,
			Peer:           func(t *testing.T) shell.Recoverable { return openDir(t, r.Dir()) },
			Supervisor:     func(t *testing.T, id shell.RunID) int { return shimPid(t, r, id) },
			StartElsewhere: startElsewhere(r.Dir()),
			StartUnder:     startUnder(r.Dir()),
		}
	}})
}

func TestEveryFailpointIsTested(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(Failpoints(), shelltest.Failpoints()); diff != "" {
		t.Errorf("failpoints (-there are +tested):\n%s", diff)
	}
}

// startUnder starts a run from the helper's process, executed by another program.
func startUnder(runs string) func(*testing.T, []string, shell.RunID, shell.Fence, shell.Request) string {
	return func(t *testing.T, wrap []string, id shell.RunID, _ shell.Fence, req shell.Request) string {
		t.Helper()
		in, err := json.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		argv := append(slices.Clone(wrap), supervisorExe, "start-request", runs, string(id), "", "")
		c := exec.Command(argv[0], argv[1:]...)
		c.Stdin = bytes.NewReader(in)
		out, err := c.CombinedOutput()
		if err != nil {
			return err.Error() + ": " + string(out)
		}
		return ""
	}
}

// startElsewhere starts a run from the helper's process, which is killed when it has.
func startElsewhere(runs string) func(*testing.T, string, shell.RunID, shell.Fence, shell.Request) bool {
	return func(t *testing.T, failpoint string, id shell.RunID, _ shell.Fence, req shell.Request) bool {
		t.Helper()
		in, err := json.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		c := exec.Command(supervisorExe, "start-request", runs, string(id), "", "")
		c.Stdin = bytes.NewReader(in)
		if failpoint != "" {
			c.Env = append(os.Environ(), FailpointEnv+"="+failpoint)
		}
		out, err := c.CombinedOutput()
		if len(out) > 0 {
			t.Logf("helper: %s", out)
		}
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.Exited()) {
			t.Fatalf("helper: %v", err)
		}
		return err != nil
	}
}
