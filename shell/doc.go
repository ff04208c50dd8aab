// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package shell is the contract between outlive and whatever runs its commands:
// the request, the exit, and the interfaces of a backend. It does no IO.
//
// # Guarantees
//
//  1. A run is executed at most once, whatever crashes. Only a run that certainly
//     never started is started again.
//  2. The backend owns the command's clock: Timeout counts from the execution of
//     the command, survives restarts of the caller, and ctx is the only other bound.
//  3. An exit has exactly one cause, chosen once. An outcome that is not known is
//     reported as lost, never as a success and never as a plain failure.
//  4. Output offsets are byte offsets into what the command wrote and never change
//     their meaning; what was dropped is always reported as explicit ranges.
package shell
