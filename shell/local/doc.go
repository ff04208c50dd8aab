// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package local runs commands on this machine: [Shell] inside the calling process,
// and [Recoverable] under one small supervisor process per run, which owns the
// command's clock, its processes, its output and its exit record, and which outlives
// the process that started it.
//
// The supervisor is the calling program itself, executed again: a program that uses
// Recoverable calls [Main] before anything else in its main function (a test binary
// in TestMain).
//
// # Guarantees
//
//  1. A run is executed at most once. The decision to start is taken under an
//     exclusive lock that passes to the supervisor without a gap, after a look at the
//     records under that lock; the command waits at a gate until the record that it
//     started is on disk.
//  2. Liveness is that lock and nothing else. A process is signalled only through a
//     pidfd opened before its identity was checked.
//  3. Records are written whole or not at all and carry a checksum. An exit record,
//     once there, is final.
//  4. A lost supervisor leaves no process behind: its command dies with it, and
//     whoever finds it lost stops the rest.
//
// # Files
//
// A run lives in RUNS/XX/ID, XX being the last two characters of the task's id:
// lock, spec, cmd, owner, started, stop, out, out.idx, out.gap, ctl, shim.log and
// exit. RUNS/XX/ID.released is the tombstone of a released run.
//
// # Caveats
//
// Linux only; elsewhere every constructor returns kind fault.Unsupported. The command
// runs as the same user and could tamper with its own records: they are checked for
// integrity, not authenticated. A process that both left the process tree of a dead
// supervisor and cleared its environment cannot be found.
package local
