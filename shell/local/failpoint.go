// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// FailpointEnv names, separated by commas, the points at which a process kills
// itself, or with ":stop" behind the name stops itself until it is continued: the
// crash tests' lever.
const FailpointEnv = "OUTLIVE_FAILPOINT"

// The failpoints, in the order a run passes them.
const (
	fpBeforeLock     = "daemon.before_lock"
	fpLocked         = "daemon.locked"
	fpSpecTmp        = "daemon.spec_tmp"
	fpSpecDurable    = "daemon.spec_durable"
	fpShimForked     = "daemon.shim_forked"
	fpEntry          = "shim.entry"
	fpStage2Spawned  = "shim.stage2_spawned"
	fpStartedTmp     = "shim.started_tmp"
	fpStartedRenamed = "shim.started_renamed"
	fpStartedDurable = "shim.started_durable"
	fpRunning        = "shim.running"
	fpExited         = "shim.command_exited"
	fpExitTmp        = "shim.exit_tmp"
	fpExitRenamed    = "shim.exit_renamed"
	fpExitDurable    = "shim.exit_durable"
)

// Failpoints returns the names of all failpoints.
func Failpoints() []string {
	return []string{
		fpBeforeLock, fpLocked, fpSpecTmp, fpSpecDurable, fpShimForked,
		fpEntry, fpStage2Spawned, fpStartedTmp, fpStartedRenamed, fpStartedDurable,
		fpRunning, fpExited, fpExitTmp, fpExitRenamed, fpExitDurable,
	}
}

// failpoint kills or stops the process when the environment names this point.
func failpoint(name string) {
	v := os.Getenv(FailpointEnv)
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
