// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outlive-dev/outlive/shell"
)

func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, tt := range []struct {
		name   string
		exit   shell.Exit
		events string
		want   string
	}{
		{"killed by the kernel", shell.Exit{Cause: shell.Exited, Signal: "SIGKILL", Code: ptr(137)}, "max 9\noom 1\noom_kill 3\n", shell.ReasonOutOfMemory},
		{"killed by somebody", shell.Exit{Cause: shell.Exited, Signal: "SIGKILL", Code: ptr(137)}, "max 9\noom 0\noom_kill 0\n", ""},
		{"a child was killed", shell.Exit{Cause: shell.Exited, Code: ptr(1)}, "oom_kill 1\n", ""},
		{"stopped by us", shell.Exit{Cause: shell.TimedOut, Signal: "SIGKILL", Code: ptr(137)}, "oom_kill 1\n", ""},
		{"no controller", shell.Exit{Cause: shell.Exited, Signal: "SIGKILL", Code: ptr(137)}, "", ""},
	} {
		if err := os.WriteFile(filepath.Join(dir, "memory.events"), []byte(tt.events), 0o600); err != nil {
			t.Fatal(err)
		}
		blame(&tt.exit, dir)
		if tt.exit.Reason != tt.want {
			t.Errorf("%s: reason %q, want %q", tt.name, tt.exit.Reason, tt.want)
		}
		text := shell.Render(shell.RenderInput{Output: []byte("x\n"), Exit: tt.exit}, shell.RenderOptions{})
		if got := strings.Contains(text, "out of memory"); got != (tt.want != "") {
			t.Errorf("%s: a model reads %q", tt.name, text)
		}
	}
	e := shell.Exit{Cause: shell.Exited, Signal: "SIGKILL"}
	if blame(&e, ""); e.Reason != "" {
		t.Errorf("without a group: %q", e.Reason)
	}
}

func TestUnknownLimit(t *testing.T) {
	t.Parallel()
	for _, list := range []string{"fsize=1", "nofile", "nofile=x", "nofile=-1"} {
		if err := applyRlimits(list); err == nil {
			t.Errorf("applyRlimits(%q) is accepted", list)
		}
	}
}
