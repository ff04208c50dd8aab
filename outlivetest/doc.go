// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package outlivetest tests what is built on outlive: a store with one or several
// runtimes over it, instances that crash, hang and come back, executors made of a
// few scripted steps, and a check of everything that must always be true.
//
// In a testing/synctest bubble time is fake: leases run out, backoffs pass and
// foreground calls detach at once, and [Env.Idle] waits until nothing is left to
// happen. Outside of one the same code runs in real time.
//
//	synctest.Test(t, func(t *testing.T) {
//		env := outlivetest.New(t, nil)
//		env.Script("job.v1", outlivetest.Emit("half"), outlivetest.Await("go"), outlivetest.Complete("done"))
//		rec := env.Submit(outlive.Spec{Executor: "job.v1"})
//		env.Idle()
//		env.Crash("main")
//		...
//	})
//
// # Guarantees
//
//  1. After [Env.Crash] returns, nothing of that instance reaches the store: every
//     call of it waits for ever, as those of a killed process do. The rows stay.
//  2. [Env.Check] reads only. It may be called at any time, and is called once more
//     at the end of the test.
//  3. At the end of the test every goroutine of the Env has ended.
package outlivetest
