// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Command nested starts three commands in the background, ends its turn, and is woken
// when they have ended, whatever is killed meanwhile.
//
//	go run ./examples/nested                              # three commands of its own
//	go run ./examples/nested -name b 'sleep 1' 'make' 'date'
//
// Kill it (kill -9) and start it again: the commands went on, the same name finds the
// same task, and no notice of an end is lost or comes twice.
//
// # What it shows
//
//   - A child made again by the same invocation is the same child: a turn that was cut
//     may simply be done again.
//   - A turn that ends by waiting for its children keeps nothing in memory: there is no
//     goroutine and no process for it. The end of the last child wakes it, in the
//     transaction of that end.
//   - The notice of an end is written into the mailbox by the transaction of the end.
//   - A turn that is cut before it has committed what it read is given it again; what it
//     has committed is in its checkpoint, and is never given again.
//
// internal/kill kills it at every step and checks all that.
package main
