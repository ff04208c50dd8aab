// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/shell"
)

// TestNoShebang has the supervisor do what a shell does with a script that names no
// interpreter.
func TestNoShebang(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte("echo plain script $1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	e, out := run(t, open(t), shell.Request{Argv: []string{path, "arg"}, Dir: t.TempDir()})
	if !e.Succeeded() || out != "plain script arg\n" {
		t.Errorf("exit = %+v, output %q", e, out)
	}
}

// TestSupervisorSignals: TERM stops the command, HUP does nothing.
func TestSupervisorSignals(t *testing.T) {
	t.Parallel()
	r := open(t)
	req := sh(t, `trap "" TERM; touch ready; while :; do sleep 0.05; done`)
	req.Grace = time.Minute
	id := start(t, r, req)
	eventually(t, "the command is ready", fileExists(filepath.Join(req.Dir, "ready")))
	pid := shimPid(t, r, id)
	if err := syscall.Kill(pid, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	// The first TERM asks, the next kills; two in a row may count as one.
	eventually(t, "the command has ended", func() bool {
		_ = syscall.Kill(pid, syscall.SIGTERM)
		_, err := readExit(r.dir(id))
		return err == nil
	})
	e := waitFor(t, r, id)
	if e.Cause != shell.Canceled || code(e) != 137 || !strings.Contains(e.Reason, "SIGTERM") {
		t.Errorf("exit = %+v, code %d", e, code(e))
	}
}

func ExampleRecoverable() {
	fmt.Println(shard("sh-0abcxy-r12"), shard("x"))
	// Output: xy 0x
}
