// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package failpoint lets a crash test kill or stop a process at a named point of a
// run's life.
package failpoint

// Env names, separated by commas, the points at which a process kills itself, or with
// ":stop" behind the name stops itself until it is continued.
const Env = "OUTLIVE_FAILPOINT"

// The failpoints, in the order a run passes them.
const (
	BeforeLock     = "daemon.before_lock"
	Locked         = "daemon.locked"
	SpecTmp        = "daemon.spec_tmp"
	SpecDurable    = "daemon.spec_durable"
	ShimForked     = "daemon.shim_forked"
	Entry          = "shim.entry"
	Stage2Spawned  = "shim.stage2_spawned"
	StartedTmp     = "shim.started_tmp"
	StartedRenamed = "shim.started_renamed"
	StartedDurable = "shim.started_durable"
	Running        = "shim.running"
	Exited         = "shim.command_exited"
	ExitTmp        = "shim.exit_tmp"
	ExitRenamed    = "shim.exit_renamed"
	ExitDurable    = "shim.exit_durable"
)

// All returns the names of all failpoints.
func All() []string {
	return []string{
		BeforeLock, Locked, SpecTmp, SpecDurable, ShimForked,
		Entry, Stage2Spawned, StartedTmp, StartedRenamed, StartedDurable,
		Running, Exited, ExitTmp, ExitRenamed, ExitDurable,
	}
}
