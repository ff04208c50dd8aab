// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Somebody removes the runs directory. A command that still runs ends as it would have,
// one that has ended is lost: its outcome is unknown, and it does not run again.
func TestRunsDirectoryRemoved(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	runs := b.store + ".runs"
	mark, gate := filepath.Join(b.dir, "mark"), filepath.Join(b.dir, "go")
	script := "echo x >>" + mark + "; while ! test -e " + gate + "; do sleep 0.02; done; exit 7"

	live := b.must("run", "-d", "-c", script)
	until(t, "it runs", func() bool { return lines(mark) == 1 })
	if err := os.RemoveAll(runs); err != nil {
		t.Fatal(err)
	}
	if got := b.must("ps"); !strings.Contains(got, "running") {
		t.Errorf("ps:\n%s", got)
	}
	waiting := b.start(b.cmd("wait", live))
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.want(b.wait(waiting), 7, "")

	// Nobody looks between its end and the removal.
	ended := b.must("run", "-d", "-c", script)
	until(t, "it has run", func() bool { return lines(mark) == 2 })
	b.noProcess(ended)
	if err := os.RemoveAll(runs); err != nil {
		t.Fatal(err)
	}
	b.want(b.run("wait", ended), exitFailed, "lost")
	if v := b.task(ended); v.Failure == nil || v.Failure.Code != "lost" || !strings.Contains(v.Failure.Message, "removed its run directory") {
		t.Errorf("failure = %+v", v.Failure)
	}

	// And one that is to be stopped.
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
	stopped := b.must("run", "-d", "-c", script)
	until(t, "it runs", func() bool { return lines(mark) == 3 })
	if err := os.RemoveAll(runs); err != nil {
		t.Fatal(err)
	}
	b.must("cancel", stopped)
	if v := b.task(stopped); v.State != "canceled" {
		t.Errorf("after cancel: %+v", v)
	}
	b.noProcess(stopped)
	if n := lines(mark); n != 3 {
		t.Errorf("three commands ran %d times", n)
	}
}

// lines counts the lines of a file, which may not be there.
func lines(path string) int {
	text, _ := os.ReadFile(path)
	return strings.Count(string(text), "\n")
}
