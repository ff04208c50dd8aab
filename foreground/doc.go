// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package foreground decides what becomes of a call that waits for a task: whether
// it returns the result, leaves the task to go on by itself, or cancels it. It does
// no IO.
//
// [Decide] is one pure function over a policy, a signal and the task's record; a
// loop feeds it signals, performs the action and keeps the state.
//
// # Guarantees
//
//  1. Finished first: a task that has ended gives its plain result, whatever signal
//     told of it, and stays deferred. Completion wins over a late timeout.
//  2. The decision is taken once: a timer and a caller that goes at the same moment
//     agree on what the first of them decided.
//  3. No task is left unpublished and unobserved. If the caller is gone and publishing
//     is refused for good, the task is canceled; after a transient error it is
//     published again, or revealed when the caller's claim ends.
//  4. A call ends within [Policy.CleanupTimeout] of its decision to cancel, with the
//     intent durable.
package foreground
