// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package shelltest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/outlive-dev/outlive/shell"
)

func fenceTests() []test {
	return []test{
		{name: "stale stop", fn: testStaleStop, recoverable: true},
		{name: "stale release", fn: testStaleRelease, recoverable: true},
		{name: "stale start", fn: testStaleStart, recoverable: true},
	}
}

func older() []shell.Fence {
	return []shell.Fence{{}, {Generation: 1, Attempt: 9}, {Generation: 2, Attempt: 2}}
}

func newest() shell.Fence { return shell.Fence{Generation: 2, Attempt: 3} }

// testStaleStop has an adopter take a run over: the old owner can stop it no more.
func testStaleStop(h *harness) {
	b := h.b.Recoverable
	r := h.sh("touch ready; while ! test -e go; do sleep 0.02; done")
	id := h.start(r)
	h.ready(r)
	if err := b.Start(h.Context(), id, newest(), r); err != nil { // adopts
		h.Fatalf("Start = %v", err)
	}
	for _, f := range older() {
		if err := b.Stop(h.Context(), id, f, shell.StopRequest{Grace: shell.AtOnce}); !errors.Is(err, shell.ErrFenced) {
			h.Errorf("Stop with fence %v = %v, want %v", f, err, shell.ErrFenced)
		}
	}
	if st := h.recover(id); st.Phase != shell.Live {
		h.Errorf("Recover = %+v, want live", st)
	}
	h.touch(r, "go")
	if e := h.wait(id); !e.Succeeded() {
		h.Errorf("exit = %+v", e)
	}
}

func testStaleRelease(h *harness) {
	b := h.b.Recoverable
	r := h.sh("true")
	id := h.newID()
	if err := b.Start(h.Context(), id, newest(), r); err != nil {
		h.Fatalf("Start = %v", err)
	}
	h.wait(id)
	for _, f := range older() {
		if err := b.Release(h.Context(), id, f); !errors.Is(err, shell.ErrFenced) {
			h.Errorf("Release with fence %v = %v, want %v", f, err, shell.ErrFenced)
		}
	}
	if st := h.recover(id); st.Phase != shell.Finished {
		h.Errorf("Recover = %+v, want finished", st)
	}
	if err := b.Release(h.Context(), id, newest()); err != nil {
		h.Errorf("Release = %v", err)
	}
}

func testStaleStart(h *harness) {
	b := h.b.Recoverable
	r := h.sh("true")
	id := h.newID()
	h.stopWith(id, newest())
	for _, f := range older() {
		if err := b.Start(h.Context(), id, f, r); !errors.Is(err, shell.ErrFenced) {
			h.Errorf("Start with fence %v = %v, want %v", f, err, shell.ErrFenced)
		}
	}
	if err := b.Start(h.Context(), id, newest(), r); err != nil {
		h.Errorf("Start = %v", err)
	}
	if e := h.wait(id); e.Started || executions(r.Dir) != 0 {
		h.Errorf("exit = %+v, want not started", e)
	}
}

func (h *harness) stopWith(id shell.RunID, f shell.Fence) {
	h.Helper()
	if err := h.b.Recoverable.Stop(h.Context(), id, f, shell.StopRequest{}); err != nil {
		h.Fatalf("Stop = %v", err)
	}
}

func identityTests() []test {
	return []test{{name: "B44_recycled pid", fn: testRecycledPid, recoverable: true}}
}

// testRecycledPid kills a run's supervisor, gives the command's pid to a stranger, and
// has the run recovered and stopped: the stranger lives.
func testRecycledPid(h *harness) {
	const lastPid = "/proc/sys/kernel/ns_last_pid"
	if h.b.Supervisor == nil {
		h.Skip("the backend has no supervisor")
	}
	if f, err := os.OpenFile(lastPid, os.O_WRONLY, 0); err != nil {
		h.Skipf("pids cannot be chosen: %v", err)
	} else {
		f.Close()
	}
	r := h.sh("echo $$ > pid; touch ready; exec sleep 100")
	id := h.start(r)
	h.ready(r)
	pid, err := strconv.Atoi(strings.TrimSpace(slurp(r, "pid")))
	if err != nil {
		h.Fatal(err)
	}
	h.killSupervisor(id, "")
	h.eventually("the command is gone", func() bool {
		_, err := procState(strconv.Itoa(pid))
		return err != nil
	})
	var stranger *exec.Cmd
	for range 200 {
		if err := os.WriteFile(lastPid, []byte(strconv.Itoa(pid-1)), 0o600); err != nil {
			h.Skipf("pids cannot be chosen: %v", err)
		}
		c := exec.Command("sleep", "100")
		if err := c.Start(); err != nil {
			h.Fatal(err)
		}
		if c.Process.Pid == pid {
			stranger = c
			break
		}
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	if stranger == nil {
		h.Skip("somebody else always got the pid")
	}
	defer func() {
		_ = stranger.Process.Kill()
		_ = stranger.Wait()
	}()
	if e := h.wait(id); e.Cause != shell.Lost {
		h.Errorf("exit = %+v, want lost", e)
	}
	h.stop(id, shell.StopRequest{Grace: shell.AtOnce})
	if s, err := procState(strconv.Itoa(pid)); err != nil || s == 'Z' || stranger.Process.Signal(syscall.Signal(0)) != nil {
		h.Errorf("the stranger with the recycled pid was killed: state %q, %v", s, err)
	}
}

// procState returns the state letter of a process.
func procState(pid string) (byte, error) {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, err
	}
	i := bytes.LastIndexByte(b, ')')
	if i < 0 || i+2 >= len(b) {
		return 0, fmt.Errorf("process %s: stat %q", pid, b)
	}
	return b[i+2], nil
}
