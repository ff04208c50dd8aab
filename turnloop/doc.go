// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package turnloop runs a long-lived agent: items are pushed from anywhere, the loop
// takes what it wants of them into a turn, runs the agent, and goes on. A push may
// preempt the turn that runs at a safe point; a stop ends the loop and says what is
// left.
//
// The loop knows no message type and no framework. It needs no store and no runtime.
//
// # What is guaranteed
//
//  1. Each item that was pushed ends in exactly one place: consumed by a turn that
//     ended, dropped by a plan, or in the exit as unhandled, interrupted or late. This
//     holds also when a callback fails or panics and when the context ends.
//  2. What Push accepted is never late, and what it refused because the loop ends is
//     late, until the late items were taken.
//  3. When a callback returns early the agent is canceled and heard to its end before
//     anything is decided about the turn.
//  4. A preemption is for the turn that it saw. When that has ended nothing happens.
//  5. Every acknowledgement is given exactly once.
//  6. Stops add up and never weaken: the strongest wins, and the earliest deadline.
//  7. Items of a turn that was preempted come back, in their order, with the item that
//     preempted it.
package turnloop
