// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
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

// crashPoint is one row of the failure matrix.
type crashPoint struct {
	name  string
	phase shell.Phase // what the next process sees
	execs int         // at most
}

func crashPoints() []crashPoint {
	return []crashPoint{
		{fpBeforeLock, shell.UnknownRun, 0},
		{fpLocked, shell.NeverStarted, 0},
		{fpSpecTmp, shell.NeverStarted, 0},
		{fpSpecDurable, shell.NeverStarted, 0},
		{fpShimForked, shell.Finished, 1},
		{fpEntry, shell.NeverStarted, 0},
		{fpStage2Spawned, shell.NeverStarted, 0},
		{fpStartedTmp, shell.NeverStarted, 0},
		{fpStartedRenamed, shell.RunLost, 0},
		{fpStartedDurable, shell.RunLost, 0},
		{fpRunning, shell.RunLost, 1},
		{fpExited, shell.RunLost, 1},
		{fpExitTmp, shell.Finished, 1}, // a whole record that was not renamed counts
		{fpExitRenamed, shell.Finished, 1},
		{fpExitDurable, shell.Finished, 1},
	}
}

func TestCrash(t *testing.T) {
	t.Parallel()
	points := crashPoints()
	if len(points) != len(Failpoints()) {
		t.Errorf("%d failpoints tested, there are %d", len(points), len(Failpoints()))
	}
	for _, p := range points {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for range 3 {
				crashOnce(t, p)
			}
		})
	}
}

// crashOnce kills a process at the point, looks at what is left, and lets three
// processes' worth of backends race to bring the run to an end.
func crashOnce(t *testing.T, p crashPoint) {
	t.Helper()
	r := open(t)
	id := newID(t)
	dir := t.TempDir()
	marker := filepath.Join(dir, "marker")
	const text = "setsid sleep 50 >/dev/null 2>&1 & echo x >> marker; sleep 0.05; echo out"
	err := inProcess(t, []string{FailpointEnv + "=" + p.name}, "start", r, id, dir, text)
	var exit *exec.ExitError
	if killed := errors.As(err, &exit); killed != strings.HasPrefix(p.name, "daemon.") || err != nil && !killed {
		t.Fatalf("helper ended with %v", err)
	}
	var st shell.State
	eventually(t, "the crash has happened", func() bool {
		st, err = r.Recover(t.Context(), id)
		return err == nil && st.Phase != shell.Live
	})
	if st.Phase != p.phase {
		t.Errorf("Recover = %+v, want phase %s", st, p.phase)
	}
	if n := strings.Count(slurp(marker), "x"); n > p.execs {
		t.Errorf("executed %d times before the restart, want at most %d", n, p.execs)
	}
	if st.Phase == shell.RunLost && (st.Exit == nil || !exists(filepath.Join(r.dir(id), nameExit))) {
		t.Errorf("lost without an exit record: %+v", st)
	}
	if st.Phase == shell.RunLost {
		noneLeft(t, id)
	}
	req := shell.Request{Command: text, Dir: dir}
	var wg sync.WaitGroup
	for i := range 3 {
		rr := openDir(t, r.Dir())
		wg.Go(func() {
			if err := rr.Start(t.Context(), id, shell.Fence{Generation: 1, Attempt: int64(2 + i)}, req); err != nil &&
				fault.KindOf(err) != fault.Fenced {
				t.Errorf("Start again = %v", err)
			}
		})
	}
	wg.Wait()
	e := waitFor(t, r, id)
	n := strings.Count(slurp(marker), "x")
	if n > 1 || n < 1 && p.phase != shell.RunLost {
		t.Errorf("executed %d times, want once (lost: at most once)", n)
	}
	if again := p.phase == shell.RunLost; (e.Cause == shell.Lost) != again || !again && !e.Succeeded() {
		t.Errorf("exit = %+v after phase %s", e, p.phase)
	}
	noneLeft(t, id)
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
	c.Env = append(os.Environ(), FailpointEnv+"="+fpBeforeLock+":stop")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the late starter has stopped", func() bool {
		p, ok := readProc(c.Process.Pid)
		return ok && p.state == 'T'
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
	if err := inProcess(t, []string{FailpointEnv + "=" + fpStartedTmp + ":stop"}, "start", r, id, dir, "echo x >> marker"); err != nil {
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
	if exists(filepath.Join(dir, "marker")) {
		t.Error("the command was executed")
	}
}

func slurp(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}

// TestRestartersRace has nothing crash: several starters at once, early and late.
func TestRestartersRace(t *testing.T) {
	t.Parallel()
	r := open(t)
	for range 10 {
		id := newID(t)
		req := sh(t, "echo x >> marker")
		var wg sync.WaitGroup
		for range 4 {
			rr := openDir(t, r.Dir())
			wg.Go(func() {
				if err := rr.Start(t.Context(), id, fence1, req); err != nil {
					t.Errorf("Start = %v", err)
				}
			})
		}
		wg.Wait()
		if e := waitFor(t, r, id); !e.Succeeded() {
			t.Errorf("exit = %+v", e)
		}
		if got := slurp(filepath.Join(req.Dir, "marker")); got != "x\n" {
			t.Errorf("executed %d times, want once", strings.Count(got, "x"))
		}
	}
}

func TestB58_KilledSupervisor(t *testing.T) {
	t.Parallel()
	r := open(t)
	req := sh(t, `echo before; setsid sleep 100 &
		setsid sh -c 'env -i sh -c "echo \$\$ > pid; touch ready; exec sleep 100"; :' &
		while :; do sleep 0.1; done`)
	id := start(t, r, req)
	eventually(t, "the command is ready", fileExists(filepath.Join(req.Dir, "ready")))
	// What is still in the pipe dies with the supervisor; this is about the spool.
	eventually(t, "the output is spooled", func() bool {
		c, err := r.Read(t.Context(), id, 0, 0, 0)
		return err == nil && string(c.Bytes()) == "before\n"
	})
	pid := shimPid(t, r, id)
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	e := waitFor(t, r, id)
	if e.Cause != shell.Lost || e.Reason != shell.ReasonSupervisorDied || e.Code != nil || !e.Started || e.Succeeded() {
		t.Errorf("exit = %+v, want lost", e)
	}
	if out, _ := readAll(t, r, id); string(out) != "before\n" {
		t.Errorf("output = %q", out)
	}
	noneLeft(t, id)
	bare, err := strconv.Atoi(strings.TrimSpace(slurp(filepath.Join(req.Dir, "pid"))))
	if p, ok := readProc(bare); err != nil || ok && !p.dead() {
		t.Errorf("the child without environment is left: %+v, %v", p, err)
	}
	if err := r.Start(t.Context(), id, fence1, req); err != nil {
		t.Errorf("Start of a lost run = %v", err)
	}
	if again := waitFor(t, r, id); again.Cause != shell.Lost || !again.EndedAt.Equal(e.EndedAt) {
		t.Errorf("exit changed from %+v to %+v", e, again)
	}
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

func TestStopBeforeStart(t *testing.T) {
	t.Parallel()
	r := open(t)
	id := newID(t)
	req := sh(t, "touch marker")
	if err := r.Stop(t.Context(), id, fence1, shell.StopRequest{Reason: "early"}); err != nil {
		t.Fatalf("Stop = %v", err)
	}
	if err := r.Start(t.Context(), id, fence1, req); err != nil {
		t.Fatalf("Start = %v", err)
	}
	e := waitFor(t, r, id)
	if e.Cause != shell.Canceled || e.Started || e.Code != nil || e.Reason != "early" {
		t.Errorf("exit = %+v, want canceled, not started", e)
	}
	if exists(filepath.Join(req.Dir, "marker")) {
		t.Error("the command was executed")
	}
}

// TestT04_StopBeforeTheGate stops a run whose supervisor has not opened the gate.
func TestT04_StopBeforeTheGate(t *testing.T) {
	t.Parallel()
	for _, point := range []string{fpEntry, fpStage2Spawned, fpStartedDurable} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			r := open(t)
			id := newID(t)
			dir := t.TempDir()
			if err := inProcess(t, []string{FailpointEnv + "=" + point + ":stop"}, "start", r, id, dir, "touch marker"); err != nil {
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
			if e.Cause != shell.Canceled || e.Started || e.Reason != "early" || exists(filepath.Join(dir, "marker")) {
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
		for _, p := range (tree{run: string(id), byCookie: true}).members() {
			if p.state == 'T' {
				pid = p.pid
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
	p, ok := readProc(st.Pid)
	if !ok {
		t.Fatalf("no process %d", st.Pid)
	}
	other := tree{run: string(id), byCookie: true}
	if fd, _ := other.handle(p); fd < 0 {
		t.Error("the process itself is refused")
	} else {
		unix.Close(fd)
	}
	stale := p
	stale.start--
	if fd, _ := other.handle(stale); fd >= 0 {
		t.Error("a process with another start time is taken for it")
	}
	other.run = "another-r1"
	if fd, _ := other.handle(p); fd >= 0 {
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
	for _, point := range []string{fpEntry, fpStartedTmp} {
		r := open(t)
		id := newID(t)
		dir := t.TempDir()
		err := inProcess(t, []string{FailpointEnv + "=" + point}, "start-environ", r, id, dir, "echo $SECRET")
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
	eventually(t, "the window is full", func() bool { return spoolEnd(r.dir(id)) >= window })
	if exists(filepath.Join(dir, "done")) {
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

func TestB53_TwoObserversAgree(t *testing.T) {
	t.Parallel()
	r, other := open(t), (*Recoverable)(nil)
	other = openDir(t, r.Dir())
	id := start(t, r, sh(t, "for i in 1 2 3 4 5; do echo $i; sleep 0.02; done"))
	var wg sync.WaitGroup
	got := make([]string, 2)
	for i, o := range []*Recoverable{r, other} {
		wg.Go(func() {
			var b strings.Builder
			for from, end := int64(0), false; !end; {
				c, err := o.Read(t.Context(), id, from, 0, testTimeout)
				if err != nil {
					t.Errorf("Read = %v", err)
					return
				}
				b.Write(c.Bytes())
				from, end = c.Next, c.End
			}
			got[i] = b.String()
		})
	}
	wg.Wait()
	if want := "1\n2\n3\n4\n5\n"; got[0] != want || got[1] != want {
		t.Errorf("observers saw %q", got)
	}
	a, b := fmt.Sprintf("%+v", waitFor(t, r, id)), fmt.Sprintf("%+v", waitFor(t, other, id))
	if len(a) != len(b) {
		t.Errorf("exits differ: %s, %s", a, b)
	}
}
