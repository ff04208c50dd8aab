// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Command approval runs a command after a person has approved it, at most once,
// whatever is killed meanwhile.
//
//	go run ./examples/approval -command 'echo hello'   # asks, and waits
//
// It says what it asks and how to answer. Kill it if you like (kill -9), and answer
// while nothing runs:
//
//	go run ./examples/approval answer approve
//	outlive --store sqlite:PATH answer ID approve      # the same
//
// The first command line again goes on from there, and runs what was approved.
//
// # What it shows
//
//   - An approval is for exactly the arguments that were asked for, by the SHA-256 of
//     their canonical JSON (RFC 8785). What this program wants to run follows from its
//     flag, as what a model wants follows from the model: go on with another -command
//     after the approval and it is denied, and the approval stays unused.
//   - The approval is claimed, durably, before the command runs. Killed from then on,
//     nobody can know what became of the command: the task ends with outcome unknown
//     and the command is not repeated.
//   - Killed anywhere else, nothing is lost and nothing is asked twice.
package main
