// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mutant_nofence

package apply

import "github.com/outlive-dev/outlive/task"

const fenced = false

// forged gives a write of any attempt the fence of the one that holds the task.
func forged(r *task.Record, c task.Command) task.Command {
	f := task.Fence{Attempt: r.Attempt, Lease: r.Lease}
	switch c := c.(type) {
	case task.CommitStart:
		c.Fence = f
		return c
	case task.Save:
		c.Fence = f
		return c
	case task.CommitInput:
		c.Fence = f
		return c
	case task.Progress:
		c.Fence = f
		return c
	case task.Complete:
		c.Fence = f
		return c
	case task.Wait:
		c.Fence = f
		return c
	case task.Suspend:
		c.Fence = f
		return c
	case task.Yield:
		c.Fence = f
		return c
	case task.DetachWorker:
		c.Fence = f
		return c
	case task.Fail:
		c.Fence = f
		return c
	case task.AckCancel:
		c.Fence = f
		return c
	default:
		return c
	}
}
