// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command kill kills the process of examples/nested, at random instants and at every
// named point, starts it again until it gets through, and then checks that what nested
// completion claims is true:
//
//   - the parent has exactly the three children it asked for, and each command ran once;
//   - the end of each child is stored as one notice in the parent's mailbox, not none
//     and not two, and says how the child ended;
//   - the parent is woken when all three have ended, and not before;
//   - a turn that is killed before it has committed what it read is given the same
//     again, and what was committed is never given again;
//   - the result tells of each child once, whatever turns it took.
//
// A round is one store with one parent. What is done to it follows from the seed and
// the round's number alone; when things happen is up to the machine. A run in which too
// little happened fails: it wants as many kills and finished rounds as it was asked for,
// and, where there are two rounds for each point, a kill at every point and a turn cut
// before its commit in every fifteenth round.
//
// With -mutants it shows that it would notice: each safeguard is taken out by a build
// tag, and violations must follow.
package main
