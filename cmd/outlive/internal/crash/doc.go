// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Command crash kills real processes of the real binary, at random instants and at
// every named point, on one store file, and then checks that what outlive claims is
// true:
//
//   - what was acknowledged is there, for ever, and has ended;
//   - no command ran twice, and one that "did not run" did not;
//   - each journal is dense, has exactly one terminal entry, which agrees with the
//     record, and no entry of an attempt that had been replaced;
//   - every reader's output is what the command wrote, byte for byte;
//   - a task is lost only when its supervisor was killed, exit codes are right, and no
//     process of a run that has ended is left.
//
// It works in rounds. What a round does follows from the seed and the round's number
// alone; when things happen is up to the machine. Three rounds are directed: they
// bring about the races that the safeguards are for, and take a process that hangs at
// a named point (late, hung, stale). With -mutants it shows that it would notice: each
// safeguard is taken out by a build tag, and violations must follow.
package main
