// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroup

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/shell"
)

func TestParents(t *testing.T) {
	t.Parallel()
	const (
		unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
		hybrid  = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
			"41 31 0:38 / /sys/fs/cgroup/unified rw shared:9 master:1 - cgroup2 cgroup2 rw\n"
		part  = "50 23 0:26 /system.slice/box.service /run/my\\040groups rw - cgroup2 cgroup2 rw\n"
		older = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	)
	for _, tt := range []struct {
		name, mounts, self string
		want               []string
	}{
		{"a session", unified, "0::/user.slice/s.scope\n", []string{"/sys/fs/cgroup/user.slice/s.scope", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"}},
		{"a container", unified, "0::/\n", []string{"/sys/fs/cgroup"}},
		{"both hierarchies", hybrid, "4:memory:/a\n0::/b\n", []string{"/sys/fs/cgroup/unified/b", "/sys/fs/cgroup/unified"}},
		{"a part, at another place", part, "0::/system.slice/box.service/x\n", []string{"/run/my groups/x", "/run/my groups"}},
		{"another part", part, "0::/user.slice\n", nil},
		{"outside of what is seen", unified, "0::/../other\n", nil},
		{"version 1", older, "4:memory:/a\n", nil},
		{"not mounted", older, "0::/\n", nil},
		{"nothing", "", "", nil},
	} {
		if got := Parents(tt.mounts, tt.self); !slices.Equal(got, tt.want) {
			t.Errorf("%s: Parents = %q, want %q", tt.name, got, tt.want)
		}
	}
}

// fake is a directory that looks like a group that can have groups below it, of which
// the kernel would have made the files.
func fake(t *testing.T, child, controllers string) string {
	t.Helper()
	dir := t.TempDir()
	below := filepath.Join(dir, prefix+child)
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"cgroup.controllers": controllers, "memory.max": "", "memory.oom.group": "", "pids.max": "", "cpu.max": "",
	} {
		if err := os.WriteFile(filepath.Join(below, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestMakeSetsLimits(t *testing.T) {
	t.Parallel()
	l := shell.Limits{Memory: 64 << 20, Pids: 10, MilliCPU: 1500}
	poor, rich := fake(t, "run", "cpu\n"), fake(t, "run", "cpu io memory pids\n")
	dir, err := Make([]string{poor, rich}, "run", l)
	if err != nil || filepath.Dir(dir) != rich {
		t.Fatalf("Make = %q, %v, want it in %s", dir, err, rich)
	}
	for name, want := range map[string]string{"memory.max": "67108864", "memory.oom.group": "1", "pids.max": "10", "cpu.max": "150000 100000"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
			t.Errorf("%s = %q, %v, want %q", name, b, err, want)
		}
	}
	if _, err := Make([]string{poor}, "run", l); !errors.Is(err, ErrNone) {
		t.Errorf("Make without controllers = %v, want ErrNone", err)
	}
	if _, err := Make(nil, "run", l); !errors.Is(err, ErrNone) {
		t.Errorf("Make without a parent = %v, want ErrNone", err)
	}
	if err := Remove(rich); err == nil {
		t.Error("a directory that is no run's is removed")
	}
}

// TestRealGroup has processes in a group of the kernel's.
func TestRealGroup(t *testing.T) {
	t.Parallel()
	dir, err := Make(Here(), "test-"+filepath.Base(t.TempDir()), shell.Limits{})
	if err != nil {
		t.Skip("no control groups to be had here: ", err)
	}
	t.Cleanup(func() { _ = Remove(dir) })
	c := exec.Command("sh", "-c", "read x; setsid sleep 300 & sleep 300")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if err := Add(dir, c.Process.Pid); err != nil {
		_ = c.Process.Kill()
		t.Fatal(err)
	}
	in.Close()
	eventually(t, "its children are in the group", func() bool { return len(Procs(dir)) == 3 })
	if err := Remove(dir); err == nil {
		t.Error("a group with processes is removed")
	}
	if err := Kill(dir); err != nil {
		t.Skip("this kernel does not kill groups: ", err)
	}
	_ = c.Wait()
	eventually(t, "the group is empty", func() bool { return len(Procs(dir)) == 0 })
	eventually(t, "the group is removed", func() bool { return Remove(dir) == nil })
	if err := Remove(dir); err != nil {
		t.Errorf("Remove of a group that is not there = %v", err)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}
