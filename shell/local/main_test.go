// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local/internal/files"
	"github.com/outlive-dev/outlive/shell/local/internal/proc"
)

func TestMain(m *testing.M) {
	Main(os.Args)
	dir, err := os.MkdirTemp("", "outlive-shell-local-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	supervisorExe = filepath.Join(dir, "supervisor")
	if out, err := exec.Command("go", "build", "-tags", mutants(), "-o", supervisorExe, "./testdata/supervisor").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s\nbuild the supervisor: %v\n", out, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// mutants returns the build tags of the safeguards that this test binary lacks.
func mutants() string {
	var tags []string
	if !recheckUnderLock {
		tags = append(tags, "mutant_norecheck")
	}
	if !startedBeforeGate {
		tags = append(tags, "mutant_nosyncstarted")
	}
	return strings.Join(tags, ",")
}

// supervisorExe is a supervisor that starts faster than the test binary, which under
// the race detector takes half a second. TestSelf uses the test binary all the same,
// so that the supervisor runs under the detector, too.
var supervisorExe string

const testTimeout = 30 * time.Second

// eventually polls until ok returns true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(testTimeout)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", testTimeout, what)
		}
		<-tick.C
	}
}

func open(t *testing.T) *Recoverable {
	t.Helper()
	return openDir(t, filepath.Join(t.TempDir(), "runs"))
}

func openDir(t *testing.T, dir string) *Recoverable {
	t.Helper()
	r, err := Open(dir, &Options{Exe: supervisorExe})
	if err != nil {
		t.Fatalf("Open(%s) = %v", dir, err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return r
}

// newID returns a run id that no other test uses.
func newID(t *testing.T) shell.RunID {
	t.Helper()
	var b strings.Builder
	for _, c := range strings.ToLower(t.Name()) {
		if ('a' <= c && c <= 'z' || '0' <= c && c <= '9') && b.Len() < 30 {
			b.WriteRune(c)
		}
	}
	return shell.RunID(fmt.Sprintf("%s-%s-r1", b.String(), strconv.FormatInt(time.Now().UnixNano(), 36)))
}

var fence1 = shell.Fence{Generation: 1, Attempt: 1}

func sh(t *testing.T, text string) shell.Request {
	t.Helper()
	return shell.Request{Command: text, Dir: t.TempDir()}
}

func start(t *testing.T, r *Recoverable, req shell.Request) shell.RunID {
	t.Helper()
	id := newID(t)
	if err := r.Start(t.Context(), id, fence1, req); err != nil {
		t.Fatalf("Start(%s) = %v", id, err)
	}
	t.Cleanup(func() { noneLeft(t, id) })
	return id
}

func waitFor(t *testing.T, r *Recoverable, id shell.RunID) shell.Exit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	e, err := r.Wait(ctx, id)
	if err != nil {
		st, rerr := r.Recover(t.Context(), id)
		log, _ := os.ReadFile(filepath.Join(r.dir(id), nameLog))
		t.Fatalf("Wait(%s) = %v; state %+v (%v); log %q", id, err, st, rerr, log)
	}
	return e
}

func run(t *testing.T, r *Recoverable, req shell.Request) (shell.Exit, string) {
	t.Helper()
	id := start(t, r, req)
	e := waitFor(t, r, id)
	b, _ := readAll(t, r, id)
	return e, string(b)
}

// readAll reads a run to its end.
func readAll(t *testing.T, r *Recoverable, id shell.RunID) (data []byte, omitted []shell.Range) {
	t.Helper()
	for from := int64(0); ; {
		c, err := r.Read(t.Context(), id, from, 1<<20, testTimeout)
		if err != nil {
			t.Fatalf("Read(%s, %d) = %v", id, from, err)
		}
		data = append(data, c.Bytes()...)
		omitted = append(omitted, c.Omitted...)
		if c.End {
			return data, omitted
		}
		if c.Next == from {
			t.Fatalf("Read(%s, %d) gave nothing in %v", id, from, testTimeout)
		}
		from = c.Next
	}
}

// noneLeft checks that no process carries the run's cookie, except supervisors about
// to end.
func noneLeft(t *testing.T, id shell.RunID) {
	t.Helper()
	empty := 0 // in the middle of an exec a process has no environment for a moment
	eventually(t, fmt.Sprintf("no process of run %s left", id), func() bool {
		if len(proc.Tree{Run: string(id), ByCookie: true}.Members()) > 0 {
			empty = -1
		}
		empty++
		return empty > 1
	})
}

func code(e shell.Exit) int {
	if e.Code == nil {
		return -1
	}
	return *e.Code
}

// shimPid returns the supervisor's pid from the started record.
func shimPid(t *testing.T, r *Recoverable, id shell.RunID) int {
	t.Helper()
	var s started
	eventually(t, "started record", func() bool {
		return files.Read(filepath.Join(r.dir(id), nameStarted), &s) == nil
	})
	return s.Shim.Pid
}

func fileExists(path string) func() bool {
	return func() bool { return files.Exists(path) }
}
