// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mutant_unbound

package apply

import "github.com/outlive-dev/outlive/task"

// bound leaves the checkpoint to another transaction, which a kill may be before.
func bound(c task.Command) task.Command {
	if c, ok := c.(task.CommitInput); ok {
		c.Checkpoint = nil
		return c
	}
	return c
}
