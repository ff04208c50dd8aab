// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package proc

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local/internal/cgroup"
)

// TestGroupHasWhatLeftAllElse has processes that left their parent, their session and
// their environment, and one that belongs to another run.
func TestGroupHasWhatLeftAllElse(t *testing.T) {
	t.Parallel()
	dir, err := cgroup.Make(cgroup.Here(), "proc-"+filepath.Base(t.TempDir()), shell.Limits{})
	if err != nil {
		t.Skip("no control groups to be had here: ", err)
	}
	t.Cleanup(func() { _ = cgroup.Remove(dir) })
	begin := func(env string) *exec.Cmd {
		c := exec.Command("sh", "-c", "read x; exec setsid sleep 300")
		c.Env = []string{"PATH=/usr/bin:/bin", env}
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if err := cgroup.Add(dir, c.Process.Pid); err != nil {
			t.Fatal(err)
		}
		in.Close()
		return c
	}
	mine, other := begin("A=1"), begin(shell.Cookie+"=other-r1")
	tree := Tree{Run: "this-r1", ByCookie: true, Cgroup: dir}
	met, left := tree.Kill(func() { <-time.After(time.Millisecond) })
	if met != 1 || left != 0 {
		t.Errorf("met %d, left %d, want 1 and 0", met, left)
	}
	if err := mine.Wait(); err == nil {
		t.Error("it ended by itself")
	}
	if p, ok := Read(other.Process.Pid); !ok || p.Dead() {
		t.Error("the other run's process is gone")
	}
	tree.Run = "other-r1" // now there is nobody to spare
	if met, left = tree.Kill(func() { <-time.After(time.Millisecond) }); met != 1 || left != 0 {
		t.Errorf("met %d, left %d, want 1 and 0", met, left)
	}
	_ = other.Wait()
}
