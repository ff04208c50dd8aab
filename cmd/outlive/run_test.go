// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/shell"
)

// shell runs shell text in which outlive is the command line.
func (b *box) shell(text string) result {
	b.t.Helper()
	c := exec.Command("bash", "-c", text)
	c.Dir, c.Env = b.dir, b.env
	return b.wait(b.start(c))
}

func TestSlowReaderLosesNothing(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	r := b.shell("outlive run -- head -c 200000000 /dev/zero | (sleep 3; wc -c); echo ${PIPESTATUS[0]}")
	if r.out != "200000000\n0\n" {
		t.Fatalf("wc -c and the exit code: %q, want 200000000 and 0\n%s%s", r.out, r.err, b.must("show", b.only()))
	}
}

func TestInputIsCopied(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	r := b.shell("echo x | outlive run -i -- wc -c")
	if got := strings.TrimSpace(r.out); got != "2" || r.err != "" {
		t.Errorf("wc -c printed %q and %q, want 2 and nothing", got, r.err)
	}
	r = b.shell("head -c 5000000 /dev/zero | outlive run -i -- wc -c")
	if got := strings.TrimSpace(r.out); got != "5000000" {
		t.Errorf("wc -c printed %q, want 5000000", got)
	}
}

// Values of the environment are in no file of outlive.
func TestEnvironmentIsNotStored(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.env = append(b.env, "SECRET=hunter2-by-environment", "LC_X=1", "https_proxy=http://p")
	lines := func(args ...string) []string {
		r := b.run(append(append([]string{"run"}, args...), "--", "env")...)
		list := strings.Split(strings.TrimSpace(r.out), "\n")
		slices.Sort(list)
		return slices.DeleteFunc(list, func(s string) bool { return strings.HasPrefix(s, "OUTLIVE_RUN=") })
	}
	clean := lines("--clean-env")
	with := lines("--clean-env", "--env", "ZZZ=hunter2-by-flag")
	want := append(slices.Clone(clean), "ZZZ=hunter2-by-flag")
	if slices.Sort(want); !slices.Equal(with, want) {
		t.Errorf("--clean-env --env gives\n%v\nwant\n%v", with, want)
	}
	if slices.ContainsFunc(clean, func(s string) bool { return strings.Contains(s, "hunter2") }) {
		t.Errorf("--clean-env gives %v", clean)
	}
	b.must("run", "--env", "ZZZ=hunter2-by-flag", "--", "sh", "-c", "test ${#SECRET} = 22 && test ${#ZZZ} = 15")
	// Output is kept, so look only where nothing was printed.
	files, err := filepath.Glob(b.store + ".runs/*/*/spec")
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if text, err := os.ReadFile(f); err != nil || strings.Contains(string(text), "hunter2") {
			t.Errorf("%s: %s %v", f, text, err)
		}
	}
	db, err := sql.Open("sqlite", b.store)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	n := 0
	if err := db.QueryRow(`SELECT count(*) FROM outlive_task WHERE CAST(body AS TEXT) LIKE '%hunter2%' OR CAST(body AS TEXT) LIKE '%'||'aHVudGVyMi'||'%'`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d records hold the value, %v", n, err)
	}
}

func TestMergedOrderIsExact(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	const text = "i=0; while [ $i -lt 300 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done"
	r := b.shell("outlive run -- sh -c '" + text + "' >both.txt 2>&1")
	got, err := os.ReadFile(filepath.Join(b.dir, "both.txt"))
	if err != nil || r.code != 0 {
		t.Fatal(err, r)
	}
	var want strings.Builder
	for i := range 300 {
		fmt.Fprintf(&want, "out %d\nerr %d\n", i, i)
	}
	if string(got) != want.String() {
		t.Errorf("the order of both streams is not the command's")
	}
}

func TestDetachAfter(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	began := time.Now()
	p := b.start(b.cmd("run", "--detach-after", "1s", "--", "sh", "-c",
		"echo pid $$; for i in 1 2 3 4 5 6; do echo n$i; sleep 0.5; done; exit 44"))
	r := b.wait(p)
	if took := time.Since(began); took < time.Second {
		t.Errorf("detached after %v, want 1s", took)
	}
	id := b.only()
	b.want(r, exitRunning, id)
	lines := strings.Split(strings.TrimSpace(r.err), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "outlive:") {
		t.Errorf("last line on stderr = %q, want outlive: ...", last)
	}
	logs := b.must("logs", "-f", id) // ends by itself
	pid, _, _ := strings.Cut(logs, "\n")
	if want := pid + "\nn1\nn2\nn3\nn4\nn5\nn6"; logs != want || !strings.HasPrefix(r.out, pid+"\nn1\n") {
		t.Errorf("logs = %q, want %q, begun as run printed it: %q", logs, want, r.out)
	}
	b.want(b.run("wait", id), 44, "")
	b.once(id, "task.started", "task.published", "task.completed")
}

func TestDetachedIsPublicFromTheStart(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	r := b.run("run", "-d", "--", "sh", "-c", "exit 9")
	id := strings.TrimSpace(r.out)
	if r.code != 0 || r.out != id+"\n" || r.err != "" || id != b.only() {
		t.Fatalf("run -d = %+v, want the id alone", r)
	}
	b.want(b.run("wait", id), 9, "")
	b.once(id, "task.started", "task.completed")
	if k := b.kinds(id); k["task.published"] != 0 {
		t.Errorf("entries %v, want no task.published", k)
	}
}

func TestKilledRunnerLeavesTheCommand(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	text, open := b.gate()
	p := b.start(b.cmd("run", "--", "sh", "-c", text+"echo end; exit 5"))
	pid := pidIn(t, p.out.String)
	if list := b.must("ps"); !strings.Contains(list, "running*") {
		t.Errorf("ps while run watches:\n%s\nwant the task marked", list)
	}
	_ = p.Process.Kill()
	<-p.end
	if list := b.must("ps"); !strings.Contains(list, "running") {
		t.Fatalf("ps right after the kill:\n%s\nwant the task running", list)
	}
	if !alivePid(pid) {
		t.Error("the command is gone")
	}
	id := b.only()
	until(t, "the task is public", func() bool { return b.kinds(id)["task.published"] > 0 })
	b.once(id, "task.started", "task.published")
	open()
	b.want(b.run("wait", id), 5, "")
	if logs := b.must("logs", id); logs != fmt.Sprintf("pid %d\nend", pid) {
		t.Errorf("logs = %q", logs)
	}
	b.once(id, "task.started", "task.published", "task.completed")
	b.noProcess(id)
}

func TestKilledSupervisorIsLost(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.must("run", "-d", "--", "sh", "-c", "echo here; setsid sleep 300 & sleep 300")
	until(t, "there is output", func() bool { return b.run("logs", id).out != "" })
	if err := syscall.Kill(b.supervisor(id), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.want(b.run("wait", id), exitFailed, "outlive: wait: "+id+" lost")
	v := b.task(id)
	if v.State != "failed" || v.Failure == nil || v.Failure.Code != "lost" || v.Failure.Outcome != "unknown" {
		t.Errorf("state %s, failure %+v, want failed, lost, unknown", v.State, v.Failure)
	}
	b.noProcess(id)
	b.once(id, "task.started", "task.failed")
	if got := b.must("ps", "--needs-attention"); !strings.Contains(got, "outcome unknown") {
		t.Errorf("ps --needs-attention:\n%s\nwant the lost task", got)
	}
	if got := b.must("why", id); !strings.Contains(got, "never run again by itself") || !strings.Contains(got, "outlive retry") {
		t.Errorf("why:\n%s", got)
	}
	if again := b.must("retry", id); again == id {
		t.Error("retry made no new task")
	} else if got := b.must("ps", "--needs-attention"); strings.Contains(got, "outcome unknown") {
		t.Errorf("ps --needs-attention after the retry:\n%s", got)
	}
}

func TestCancelEndsTheStubborn(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.must("run", "-d", "--", "sh", "-c", `trap "" TERM; setsid sh -c 'trap "" TERM; sleep 300' & echo ready; while :; do sleep 0.1; done`)
	until(t, "the command is ready", func() bool { return strings.Contains(b.run("logs", id).out, "ready") })
	if got := b.must("cancel", id, "--reason", "stop"); got != id+" canceled (stop)" {
		t.Errorf("cancel printed %q", got)
	}
	v := b.task(id)
	if took := v.DoneAt.Sub(*v.CancelAt); took > shell.DefaultGrace+time.Second {
		t.Errorf("canceled within %v, want the grace and a second", took)
	}
	if v.State != "canceled" || v.CancelWhy != "stop" {
		t.Errorf("state %s, reason %q", v.State, v.CancelWhy)
	}
	b.noProcess(id)
	for range 2 {
		if got := b.must("cancel", id); got != id+" canceled (stop)" {
			t.Errorf("a later cancel printed %q", got)
		}
	}
	b.once(id, "task.canceled")
}

func TestNestedRunGoesOn(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.want(b.run("run", "--name", "outer", "--", "sh", "-c", "outlive run -d --name inner -- sleep 1.5"), 0, "")
	b.want(b.run("wait", "inner"), 0, "")
	outer, inner := b.task("outer"), b.task("inner")
	if inner.State != "completed" || inner.Parent != outer.ID {
		t.Errorf("inner is %s with parent %q, want completed with parent %s", inner.State, inner.Parent, outer.ID)
	}
	tree := strings.Split(b.must("tree", "outer"), "\n")
	if len(tree) != 2 || !strings.HasPrefix(tree[1], "└─ "+shortID(inner.ID)) {
		t.Errorf("tree:\n%s", strings.Join(tree, "\n"))
	}
}

func TestNestedForegroundFollowsTheOuter(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.must("run", "-d", "--name", "outer", "--", "outlive", "run", "--name", "inner", "--", "sleep", "300")
	until(t, "the inner task runs", func() bool { return b.run("show", "inner").code == 0 && b.task("inner").State == "running" })
	b.must("cancel", "outer")
	b.run("wait", "inner")
	if v := b.task("inner"); v.State != "canceled" {
		t.Errorf("inner is %s, want canceled", v.State)
	}
	b.noProcess(string(b.task("inner").ID))
}

func TestTenAtOnce(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	w := b.cmd("ps", "-w")
	watch := b.start(w)
	until(t, "ps -w shows its head", func() bool { return strings.Contains(watch.out.String(), "COMMAND") })
	var procs []*proc
	for i := range 10 {
		procs = append(procs, b.start(b.cmd("run", "-d", "--", "sh", "-c", "echo "+strconv.Itoa(i)+"; sleep 0.5")))
	}
	args := []string{"wait"}
	for _, p := range procs {
		r := b.wait(p)
		if r.code != 0 {
			t.Fatalf("run -d: %+v", r)
		}
		args = append(args, strings.TrimSpace(r.out))
	}
	r := b.run(args...)
	if r.code != 0 || strings.Count(r.out, " completed 0\n") != 10 {
		t.Errorf("wait printed\n%s%s", r.out, r.err)
	}
	if n := len(b.ids()); n != 10 {
		t.Errorf("%d tasks, want 10", n)
	}
	for _, id := range args[1:] {
		until(t, "ps -w shows the end of "+id, func() bool {
			return strings.Contains(watch.out.String(), id[len(id)-8:]+"  completed")
		})
	}
	_ = watch.Process.Signal(syscall.SIGINT)
	b.want(b.wait(watch), 0, "")
	if got := b.must("doctor"); strings.Contains(got, "fail") || !strings.Contains(got, "10 records are sound") {
		t.Errorf("doctor:\n%s", got)
	}
}

func TestClosedOutputDetaches(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	r := b.shell("outlive run -- yes | head -1; echo ${PIPESTATUS[0]}")
	id := b.only()
	if r.out != "y\n75\n" || !strings.Contains(r.err, id) {
		t.Fatalf("printed %q and %q, want y, 75 and the id", r.out, r.err)
	}
	if v := b.task(id); v.State != "running" || v.Publication != "on_background" {
		t.Errorf("%s, %s: want it running and public", v.State, v.Publication)
	}
	b.once(id, "task.started", "task.published")
	b.must("cancel", id)
	b.noProcess(id)
}

func TestSignalsUnattended(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		sig   syscall.Signal
		flags []string
		code  int
		state string
	}{
		{syscall.SIGINT, nil, 130, "canceled"},
		{syscall.SIGTERM, nil, 143, "canceled"},
		{syscall.SIGHUP, nil, exitRunning, "running"},
		{syscall.SIGTERM, []string{"--on-signal", "detach"}, exitRunning, "running"},
		{syscall.SIGHUP, []string{"--on-signal", "cancel"}, 129, "canceled"},
	} {
		t.Run(fmt.Sprint(tt.sig, tt.flags), func(t *testing.T) {
			b := newBox(t)
			args := append(append([]string{"run"}, tt.flags...), "--", "sh", "-c", "echo pid $$; setsid sleep 300 & sleep 300; echo no")
			p := b.start(b.cmd(args...))
			pid := pidIn(t, p.out.String)
			_ = p.Process.Signal(tt.sig)
			r := b.wait(p)
			id := b.only()
			b.want(r, tt.code, "outlive: run: ")
			if v := b.task(id); string(v.State) != tt.state {
				t.Errorf("state %s, want %s", v.State, tt.state)
			}
			if tt.state == "canceled" {
				b.noProcess(id)
				return
			}
			b.once(id, "task.started", "task.published")
			if !alivePid(pid) {
				t.Error("the command is gone")
			}
			b.must("cancel", id)
		})
	}
}

func TestTwoFollowersOneLeaves(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	text, open := b.gate()
	id := b.must("run", "-d", "--", "sh", "-c", text+"echo end; exit 6")
	first := b.start(b.cmd("wait", id))
	until(t, "the first follower adopts", func() bool { return b.task(id).Worker != "" })
	held := b.task(id).Worker
	second := b.start(b.cmd("logs", "-f", id))
	pid := pidIn(t, second.out.String)
	_ = first.Process.Kill()
	<-first.end
	began := time.Now()
	until(t, "the second follower adopts", func() bool {
		w := b.task(id).Worker
		return w != "" && w != held
	})
	// Within a second, as seen by whole processes of this command line on a busy machine:
	// far less than the lease, which would be the slow proof.
	if took := time.Since(began); took > 6*time.Second {
		t.Errorf("adopted again after %v", took)
	} else {
		t.Logf("adopted again after %v", took)
	}
	open()
	if r := b.wait(second); r.code != 0 || r.out != fmt.Sprintf("pid %d\nend\n", pid) {
		t.Errorf("logs -f = %+v", r)
	}
	b.want(b.run("wait", id), 6, "")
	b.once(id, "task.started", "task.completed")
}

func TestFollowedLinesComeOnce(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.must("run", "-d", "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.05; done")
	c := b.cmd("logs", "-f", id)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for sc := bufio.NewScanner(out); sc.Scan(); {
		if n++; sc.Text() != strconv.Itoa(n) {
			t.Errorf("line %d is %q", n, sc.Text())
		}
	}
	if err := c.Wait(); err != nil || n != 8 {
		t.Errorf("%d lines, %v; want 8", n, err)
	}
}

func TestInterruptedFollowerLeavesTheTask(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.must("run", "-d", "--", "sh", "-c", "echo x; sleep 300")
	p := b.start(b.cmd("logs", "-f", id))
	until(t, "it follows", func() bool { return p.out.String() == "x\n" })
	_ = p.Process.Signal(syscall.SIGINT)
	b.want(b.wait(p), 130, "outlive: ")
	if v := b.task(id); v.State != "running" {
		t.Errorf("state %s, want running", v.State)
	}
	b.must("cancel", id)
}

func TestRunTakesNoLongerThanItMust(t *testing.T) {
	b := newBox(t)
	b.must("run", "--", "true")
	best := time.Hour
	for range 5 {
		began := time.Now()
		b.must("run", "-d", "--", "true")
		best = min(best, time.Since(began))
	}
	t.Logf("run -d returned within %v", best)
	if limit := 150 * time.Millisecond; best > limit && !raceEnabled() {
		t.Errorf("run -d took %v, want at most %v", best, limit)
	}
}

// raceEnabled reports whether this is a build for the race detector, which is many
// times slower.
func raceEnabled() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "-race" && s.Value == "true" })
}
