// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local/internal/files"
	"github.com/outlive-dev/outlive/shell/local/internal/proc"
)

// TestNestedRunIsSpared starts a run inside a run and ends the outer one in every way.
func TestNestedRunIsSpared(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"exit", "stop", "kill supervisor"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := open(t)
			outer, inner := newID(t), shell.RunID("in-"+string(newID(t)))
			dir := t.TempDir()
			innerText := fmt.Sprintf("touch %s/inner; setsid sleep 50 & while ! test -e %s/go; do sleep 0.02; done; echo inner done", dir, dir)
			text := fmt.Sprintf("'%s' start '%s' %s %s '%s' && touch outer && sleep 0.3; test %q = exit || sleep 100",
				supervisorExe, r.Dir(), inner, dir, innerText, how)
			req := shell.Request{Command: text, Dir: dir, Drain: 100 * time.Millisecond}
			if err := r.Start(t.Context(), outer, fence1, req); err != nil {
				t.Fatal(err)
			}
			eventually(t, "both run", func() bool {
				return files.Exists(filepath.Join(dir, "inner")) && files.Exists(filepath.Join(dir, "outer"))
			})
			switch how {
			case "stop":
				if err := r.Stop(t.Context(), outer, fence1, shell.StopRequest{}); err != nil {
					t.Fatal(err)
				}
			case "kill supervisor":
				if err := unix.Kill(shimPid(t, r, outer), unix.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			e := waitFor(t, r, outer)
			if e.LeftoversStopped > 1 { // a sleep of the outer's own, at most
				t.Errorf("outer exit = %+v", e)
			}
			noneLeft(t, outer)
			st, err := r.Recover(t.Context(), inner)
			if err != nil || st.Phase != shell.Live {
				t.Fatalf("inner = %+v, %v, want live", st, err)
			}
			if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if e := waitFor(t, r, inner); !e.Succeeded() || e.LeftoversStopped != 1 {
				t.Errorf("inner exit = %+v, want success with one leftover stopped", e)
			}
			noneLeft(t, inner)
		})
	}
}

func TestIgnoredSignalsAreReset(t *testing.T) {
	t.Parallel()
	r := open(t)
	dir := t.TempDir()
	inner := shell.RunID("in-" + string(newID(t)))
	// A starter that ignores HUP and TERM, as nohup does, and blocks nothing.
	text := fmt.Sprintf("trap '' HUP TERM INT; '%s' start '%s' %s %s 'grep SigIgn: /proc/self/status; umask'",
		supervisorExe, r.Dir(), inner, dir)
	e, out := run(t, r, shell.Request{Command: text, Dir: dir, Umask: shell.UmaskOf(0o037)})
	if !e.Succeeded() {
		t.Fatalf("exit = %+v, %s", e, out)
	}
	waitFor(t, r, inner)
	noneLeft(t, inner)
	got, _ := readAll(t, r, inner)
	var ignored uint64
	var mask string
	if _, err := fmt.Sscanf(string(got), "SigIgn:\t%x\n%s", &ignored, &mask); err != nil {
		t.Fatalf("command saw %q: %v", got, err)
	}
	// Signals 32 and 33 are the C library's own: programs started by its posix_spawn,
	// make's among them, have them ignored, and nobody sends them.
	if ignored &^= 3 << 31; ignored != 0 || mask != "0037" {
		t.Errorf("command saw %q, want no ignored signal and the starter's umask", got)
	}
}

// TestInheritedDescriptors checks that neither supervisor nor command keeps open what
// the starter's parent had open.
func TestInheritedDescriptors(t *testing.T) {
	t.Parallel()
	r := open(t)
	id := newID(t)
	dir := t.TempDir()
	pr, pw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pr.Close()
	c := exec.Command(supervisorExe, "start", r.Dir(), string(id), dir, "while ! test -e go; do sleep 0.02; done")
	c.ExtraFiles = slices.Repeat([]*os.File{pw}, 20) // descriptors 3 to 22
	if err := errors.Join(c.Run(), pw.Close()); err != nil {
		t.Fatal(err)
	}
	shimPid(t, r, id)
	if err := pr.SetReadDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	if n, err := pr.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("Read = %d, %v, want the end of the pipe while the run is live", n, err)
	}
	if st, err := r.Recover(t.Context(), id); err != nil || st.Phase != shell.Live {
		t.Errorf("Recover = %+v, %v", st, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	waitFor(t, r, id)
	noneLeft(t, id)
}

func TestGC(t *testing.T) {
	t.Parallel()
	now := time.Now()
	dir := filepath.Join(t.TempDir(), "runs")
	r, err := Open(dir, &Options{Exe: supervisorExe, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	verdicts := map[shell.RunID]Verdict{}
	end := func(v Verdict) shell.RunID {
		req := sh(t, "seq 1 100000")
		id := start(t, r, req)
		waitFor(t, r, id)
		verdicts[id] = v
		return id
	}
	needed, taken, stray := end(Needed), end(Taken), end(Stray)
	liveReq := sh(t, "while ! test -e go; do sleep 0.02; done")
	live := start(t, r, liveReq)
	shimPid(t, r, live)
	verdicts[live] = Stray
	gone := func(id shell.RunID) bool { return !files.Exists(r.dir(id)) }
	collect := func(budget int64) GCReport {
		t.Helper()
		rep, err := r.GC(t.Context(), func(id shell.RunID) Verdict { return verdicts[id] }, budget)
		if err != nil {
			t.Fatalf("GC = %v", err)
		}
		return rep
	}
	// A starter makes the directory before it has the lock.
	starting := shell.RunID("about-to-start-r1")
	verdicts[starting] = Stray
	if err := os.MkdirAll(r.dir(starting), 0o700); err != nil {
		t.Fatal(err)
	}
	rep := collect(0)
	if gone(starting) || files.Exists(r.tomb(starting)) {
		t.Error("a run that is about to start was given up")
	}
	if rep.Removed != 1 || rep.Live != 1 || !gone(taken) || gone(needed) || gone(stray) || gone(live) {
		t.Errorf("GC = %+v", rep)
	}
	now = now.Add(25 * time.Hour)
	if err := os.Chtimes(r.dir(starting), now, now.Add(-48*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if rep = collect(0); rep.Removed != 2 || !gone(stray) || !gone(starting) || gone(needed) || gone(live) {
		t.Errorf("GC a day later = %+v", rep)
	}
	if !files.Exists(r.tomb(stray)) || !files.Exists(r.tomb(taken)) {
		t.Error("no tombstone")
	}
	now = now.Add(10 * 24 * time.Hour)
	verdicts[taken] = Needed // its task may still try to start it
	if rep = collect(1); rep.Tombstones != 2 || gone(needed) || gone(live) || !files.Exists(r.tomb(taken)) {
		t.Errorf("GC later = %+v", rep)
	}
	if err := os.WriteFile(filepath.Join(liveReq.Dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	waitFor(t, r, live)
}

func TestB65_DirectoryRemovedWhileRunning(t *testing.T) {
	t.Parallel()
	r := open(t)
	req := sh(t, "touch ready; while ! test -e go; do sleep 0.02; done; echo late")
	id := start(t, r, req)
	eventually(t, "it runs", fileExists(filepath.Join(req.Dir, "ready")))
	if err := os.RemoveAll(r.dir(id)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(req.Dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the exit is recorded all the same", func() bool {
		st, err := r.Recover(t.Context(), id)
		return err == nil && st.Phase == shell.Finished && st.Exit.Succeeded()
	})
	if err := r.Start(t.Context(), id, fence1, req); err != nil {
		t.Errorf("Start = %v", err)
	}
	if e := waitFor(t, r, id); !e.Succeeded() {
		t.Errorf("exit = %+v", e)
	}
}

// A prepared run was never started; without its directory nobody can say so.
func TestPrepare(t *testing.T) {
	t.Parallel()
	r := open(t)
	id := newID(t)
	for range 2 {
		if err := r.Prepare(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if st, err := r.Recover(t.Context(), id); err != nil || st.Phase != shell.NeverStarted {
		t.Errorf("prepared: Recover = %+v, %v", st, err)
	}
	if err := os.RemoveAll(r.dir(id)); err != nil {
		t.Fatal(err)
	}
	if st, err := r.Recover(t.Context(), id); err != nil || st.Phase != shell.UnknownRun || st.Reason != shell.ReasonStateMissing {
		t.Errorf("removed: Recover = %+v, %v", st, err)
	}
	if err := r.Prepare(t.Context(), "../x"); !fault.Is(err, fault.Invalid) {
		t.Errorf("Prepare of a bad id = %v", err)
	}
}

func TestOpenRefusesUnsafeDirectories(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(dir, "runs"), nil); fault.KindOf(err) != fault.Forbidden || !strings.Contains(err.Error(), dir) {
		t.Errorf("Open = %v, want Forbidden and the directory's name", err)
	}
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(dir, "runs"), nil); err != nil {
		t.Errorf("Open under a sticky directory = %v", err)
	}
}

// TestB45_AnotherPlace has records of another boot, and of another pid namespace.
func TestB45_AnotherPlace(t *testing.T) {
	t.Parallel()
	here := proc.Identify(os.Getpid())
	rebooted, container := here, here
	rebooted.BootID = "another"
	container.PidNS++
	for want, id := range map[string]proc.Ident{
		shell.ReasonRebooted: rebooted, shell.ReasonContainerRestarted: container, shell.ReasonSupervisorDied: here,
	} {
		if got := lostReason(started{Ident: id}, nil); got != want {
			t.Errorf("lostReason = %s, want %s", got, want)
		}
	}
}

// TestB50_NoZombies looks for supervisors that nobody took the status of.
func TestB50_NoZombies(t *testing.T) {
	t.Parallel()
	r := open(t)
	var pids []int
	for range 5 {
		id := start(t, r, sh(t, "true"))
		pids = append(pids, shimPid(t, r, id))
		waitFor(t, r, id)
	}
	eventually(t, "no supervisor is left, dead or alive", func() bool {
		if _, err := r.List(t.Context()); err != nil {
			t.Error(err)
		}
		return !slices.ContainsFunc(pids, func(pid int) bool {
			p, ok := proc.Read(pid)
			return ok && p.Ppid == os.Getpid()
		})
	})
}
