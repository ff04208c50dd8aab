// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package failpoint

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Hit kills or stops the process when the environment names this point.
func Hit(name string) {
	v := os.Getenv(Env)
	if v == "" || name == "" {
		return
	}
	names := strings.Split(v, ",")
	if slices.Contains(names, name+":stop") {
		// To this thread: another one would stop the process a moment later, and this
		// one would get past the point.
		runtime.LockOSThread()
		_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGSTOP)
		runtime.UnlockOSThread()
	}
	if slices.Contains(names, name) {
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
		select {}
	}
}
