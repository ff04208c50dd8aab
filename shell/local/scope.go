// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
)

// scopePatience is how long systemd may take to make a scope.
const scopePatience = 5 * time.Second

// argScope tells a supervisor that it has descriptors beyond the usual ones.
const argScope = "scope"

// Those are the program itself, and where to say that it has begun.
const (
	shimExe   = shimHold + 1
	shimBegun = shimHold + 2
)

// spawn starts the supervisor with the files as its first descriptors, in a scope of its
// own where it needs one. When no scope can be had it starts in the starter's group,
// unless a scope was asked for.
func (r *Recoverable) spawn(dir string, env []string, files []*os.File) (pid int, err error) {
	d, err := r.place()
	if err != nil {
		return 0, err
	}
	if d.Prefix != nil {
		pid, err := r.inScope(d.Prefix, dir, env, files)
		if err == nil || d.Must {
			return pid, err
		}
	}
	return r.forkExec(r.exe, []string{"outlive", argShim, dir}, env, files)
}

func (*Recoverable) forkExec(path string, argv, env []string, files []*os.File) (int, error) {
	fds := make([]uintptr, len(files))
	for i, f := range files {
		fds[i] = f.Fd()
	}
	return syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Dir: "/", Env: env, Files: fds, Sys: &syscall.SysProcAttr{Setsid: true},
	})
}

// inScope starts the supervisor through systemd-run, which makes the scope, moves itself
// there and becomes the supervisor, with the descriptors it was given. The supervisor says
// first of all that it is there: whoever has not said so has executed nothing and, once
// it is dead, never will.
func (r *Recoverable) inScope(prefix []string, dir string, env []string, files []*os.File) (pid int, err error) {
	exe, err := os.Open(r.exe) // /proc/self/exe means another program there
	if err != nil {
		return 0, err
	}
	defer exe.Close()
	p, here, err := newPipe(shell.Merged)
	if err != nil {
		return 0, err
	}
	began := p.f
	defer began.Close()
	files = append(files[:len(files):len(files)], exe, here)
	for _, name := range []string{"XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"} { // how a user's manager is found
		if v := os.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	program := "/proc/self/fd/" + strconv.Itoa(shimExe)
	argv := append(prefix[:len(prefix):len(prefix)], "--", program, argShim, dir, argScope)
	pid, err = r.forkExec(prefix[0], argv, env, files)
	here.Close()
	if err != nil {
		return 0, err
	}
	_ = began.SetReadDeadline(time.Now().Add(r.scopePatience))
	var word [1]byte
	if n, _ := began.Read(word[:]); n == 1 {
		return pid, nil
	}
	_ = unix.Kill(pid, unix.SIGKILL) // our child, not yet reaped
	var ws unix.WaitStatus
	for {
		if _, err = unix.Wait4(pid, &ws, 0, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if n, _ := unix.Read(p.fd, word[:]); n == 1 {
		return pid, nil // it came to it at the last moment: its records tell how far
	}
	return 0, fault.Newf(fault.Unavailable, "systemd made no scope: %s", scopeEnd(ws))
}

// sayBegun is the first thing that a supervisor in a scope does.
func sayBegun() {
	_, _ = unix.Write(shimBegun, []byte{1}) // its starter may have died
}

func scopeEnd(ws unix.WaitStatus) string {
	if ws.Signaled() {
		return "systemd-run did not answer"
	}
	return fmt.Sprintf("systemd-run ended with %d", ws.ExitStatus())
}
