// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local/internal/failpoint"
	"github.com/outlive-dev/outlive/shell/local/internal/files"
	"github.com/outlive-dev/outlive/shell/local/internal/proc"
	"github.com/outlive-dev/outlive/shell/local/internal/spool"
)

// inProcess runs the helper in a process of its own and returns its error.
func inProcess(t *testing.T, env []string, verb string, r *Recoverable, id shell.RunID, dir, text string) error {
	t.Helper()
	c := exec.Command(supervisorExe, verb, r.Dir(), string(id), dir, text)
	c.Env = append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	if len(out) > 0 {
		t.Logf("helper: %s", out)
	}
	return err
}

// TestLateStarter has a starter that decided to start, and gets on only after another
// one's run has finished.
func TestLateStarter(t *testing.T) {
	t.Parallel()
	r := open(t)
	id := newID(t)
	dir := t.TempDir()
	const text = "echo x >> marker"
	c := exec.Command(supervisorExe, "start", r.Dir(), string(id), dir, text)
	c.Env = append(os.Environ(), FailpointEnv+"="+failpoint.BeforeLock+":stop")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the late starter has stopped", func() bool {
		p, ok := proc.Read(c.Process.Pid)
		return ok && p.State == 'T'
	})
	if err := r.Start(t.Context(), id, fence1, shell.Request{Command: text, Dir: dir}); err != nil {
		t.Fatalf("Start = %v", err)
	}
	waitFor(t, r, id)
	noneLeft(t, id)
	if err := c.Process.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("the late starter ended with %v", err)
	}
	noneLeft(t, id)
	if got := slurp(filepath.Join(dir, "marker")); got != "x\n" {
		t.Errorf("executed %d times, want once", strings.Count(got, "x"))
	}
}

// TestNothingRunsBeforeItIsRecorded kills a supervisor that has hung just before the
// record that the command started became visible.
func TestNothingRunsBeforeItIsRecorded(t *testing.T) {
	t.Parallel()
	r := open(t)
	id := newID(t)
	dir := t.TempDir()
	if err := inProcess(t, []string{failpoint.Env + "=" + failpoint.StartedTmp + ":stop"}, "start", r, id, dir, "echo x >> marker"); err != nil {
		t.Fatal(err)
	}
	shim := stoppedMember(t, id)
	waitFor(t, r, start(t, r, sh(t, "sleep 0.1"))) // time enough for the command, if it could
	if err := unix.Kill(shim, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is seen as never started", func() bool {
		st, err := r.Recover(t.Context(), id)
		return err == nil && st.Phase == shell.NeverStarted
	})
	noneLeft(t, id)
	if files.Exists(filepath.Join(dir, "marker")) {
		t.Error("the command was executed")
	}
}

func slurp(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}

func TestStopAfterSupervisorDied(t *testing.T) {
	t.Parallel()
	r := open(t)
	req := sh(t, "setsid sleep 100 & touch ready; wait")
	id := start(t, r, req)
	eventually(t, "the command is ready", fileExists(filepath.Join(req.Dir, "ready")))
	if err := unix.Kill(shimPid(t, r, id), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the lock is free", func() bool {
		f, busy, err := lockFile(r.dir(id), unix.LOCK_SH, os.O_RDONLY)
		if err == nil && !busy {
			f.Close()
		}
		return !busy
	})
	if err := r.Stop(t.Context(), id, fence1, shell.StopRequest{Reason: "late"}); err != nil {
		t.Fatalf("Stop = %v", err)
	}
	noneLeft(t, id)
	if e := waitFor(t, r, id); e.Cause != shell.Lost || !e.Canceled {
		t.Errorf("exit = %+v, want lost and canceled", e)
	}
}

// TestT04_StopBeforeTheGate stops a run whose supervisor has not opened the gate.
func TestT04_StopBeforeTheGate(t *testing.T) {
	t.Parallel()
	for _, point := range []string{failpoint.Entry, failpoint.Stage2Spawned, failpoint.StartedDurable} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			r := open(t)
			id := newID(t)
			dir := t.TempDir()
			if err := inProcess(t, []string{failpoint.Env + "=" + point + ":stop"}, "start", r, id, dir, "touch marker"); err != nil {
				t.Fatal(err)
			}
			shim := stoppedMember(t, id)
			var wg sync.WaitGroup
			wg.Go(func() {
				if err := r.Stop(t.Context(), id, fence1, shell.StopRequest{Reason: "early"}); err != nil {
					t.Errorf("Stop = %v", err)
				}
			})
			eventually(t, "the intent is there", fileExists(filepath.Join(r.dir(id), nameStop)))
			if err := unix.Kill(shim, unix.SIGCONT); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
			e := waitFor(t, r, id)
			if e.Cause != shell.Canceled || e.Started || e.Reason != "early" || files.Exists(filepath.Join(dir, "marker")) {
				t.Errorf("exit = %+v, want canceled, never started", e)
			}
			noneLeft(t, id)
		})
	}
}

// stoppedMember returns the process of a run that stopped at a failpoint.
func stoppedMember(t *testing.T, id shell.RunID) (pid int) {
	t.Helper()
	eventually(t, "a process has stopped", func() bool {
		for _, p := range (proc.Tree{Run: string(id), ByCookie: true}).Members() {
			if p.State == 'T' {
				pid = p.Pid
			}
		}
		return pid != 0
	})
	return pid
}

// TestB44_RecycledPid checks that a process is not signalled for having the pid of
// another.
func TestB44_RecycledPid(t *testing.T) {
	t.Parallel()
	r := open(t)
	req := sh(t, "touch ready; while ! test -e go; do sleep 0.02; done")
	id := start(t, r, req)
	eventually(t, "it runs", fileExists(filepath.Join(req.Dir, "ready")))
	st, err := r.Recover(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	p, ok := proc.Read(st.Pid)
	if !ok {
		t.Fatalf("no process %d", st.Pid)
	}
	other := proc.Tree{Run: string(id), ByCookie: true}
	if fd, _ := other.Handle(p); fd < 0 {
		t.Error("the process itself is refused")
	} else {
		unix.Close(fd)
	}
	stale := p
	stale.Start--
	if fd, _ := other.Handle(stale); fd >= 0 {
		t.Error("a process with another start time is taken for it")
	}
	other.Run = "another-r1"
	if fd, _ := other.Handle(p); fd >= 0 {
		t.Error("a process with another run's cookie is taken")
	}
	if err := os.WriteFile(filepath.Join(req.Dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if e := waitFor(t, r, id); !e.Succeeded() {
		t.Errorf("exit = %+v", e)
	}
}

func TestEnvironmentGone(t *testing.T) {
	t.Parallel()
	for _, point := range []string{failpoint.Entry, failpoint.StartedTmp} {
		r := open(t)
		id := newID(t)
		dir := t.TempDir()
		err := inProcess(t, []string{failpoint.Env + "=" + point}, "start-environ", r, id, dir, "echo $SECRET")
		if err != nil {
			t.Fatal(err)
		}
		var st shell.State
		eventually(t, "the supervisor died", func() bool {
			st, err = r.Recover(t.Context(), id)
			return err == nil && st.Phase == shell.NeverStarted
		})
		if !st.EnvironGone {
			t.Errorf("Recover = %+v, want EnvironGone", st)
		}
		req := shell.Request{Command: "echo $SECRET", Dir: dir}
		if err := r.Start(t.Context(), id, fence1, req); !errors.Is(err, shell.ErrEnvironmentGone) {
			t.Errorf("Start without environment = %v", err)
		}
		out, err := exec.Command("grep", "-rc", "value-of-secret", r.Dir()).CombinedOutput()
		if err == nil {
			t.Errorf("the value is on the disk: %s", out)
		}
		req.Environ = []string{"PATH=/usr/bin:/bin", "SECRET=again"}
		if err := r.Start(t.Context(), id, fence1, req); err != nil {
			t.Errorf("Start with a new environment = %v", err)
		}
		waitFor(t, r, id)
		if got, _ := readAll(t, r, id); string(got) != "again\n" {
			t.Errorf("output = %q", got)
		}
	}
}

func TestCorruptRecords(t *testing.T) {
	t.Parallel()
	r := open(t)
	req := sh(t, "true")
	id := start(t, r, req)
	waitFor(t, r, id)
	path := filepath.Join(r.dir(id), nameExit)
	eventually(t, "the supervisor has ended", func() bool {
		f, busy, err := lockFile(r.dir(id), unix.LOCK_EX, os.O_RDONLY)
		if err == nil && !busy {
			f.Close()
		}
		return !busy
	})
	for _, content := range []string{"", "xxxxxxxx {}\n", slurp(path)[:20], strings.Replace(slurp(path), `"code":0`, `"code":1`, 1)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if e := waitFor(t, r, id); e.Cause != shell.Lost || e.Reason != shell.ReasonCorrupt {
			t.Errorf("exit with record %q = %+v, want lost, corrupt", content, e)
		}
		if err := r.Start(t.Context(), id, fence1, req); err != nil {
			t.Errorf("Start = %v", err)
		}
	}
}

// TestB74_StarterDies kills the process that started the run, and its whole session.
func TestB74_StarterDies(t *testing.T) {
	t.Parallel()
	r := open(t)
	id := newID(t)
	dir := t.TempDir()
	c := exec.Command(supervisorExe, "attach", r.Dir(), string(id), dir,
		"echo first; while ! test -e go; do sleep 0.02; done; head -c 20000000 /dev/zero; touch done")
	c.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "attached\n" {
		t.Fatalf("helper said %q, %v", line, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// It is held back by a reader that does not acknowledge, until that dies.
	eventually(t, "the window is full", func() bool { return spool.End(r.dir(id)) >= spool.Window })
	if files.Exists(filepath.Join(dir, "done")) {
		t.Error("the command was not held back")
	}
	if err := unix.Kill(-c.Process.Pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	e := waitFor(t, r, id)
	if !e.Succeeded() || e.TotalBytes != 20000006 {
		t.Errorf("exit = %+v, want success and 20000006 bytes", e)
	}
	noneLeft(t, id)
}
