// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package outlive runs work that outlives the call that started it. Every tool
// call, command or sub-agent is a Task with one stable identity: it can be watched
// in the foreground, detach without being restarted, survive the death of the
// process that started it, and be found, followed, awaited and canceled from any
// later process on the same store.
//
// A [Runtime] is made over a store with [New]; executors are registered with
// [Handle] or [Runtime.Register]; [Runtime.Start] starts it. [Submit] makes a task
// that runs in the background, [Runtime.Run] one that is watched until it ends or
// detaches.
package outlive
