// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !mutant_unbound

package apply

import "github.com/outlive-dev/outlive/task"

// bound is the safeguard that the cursor of consumed input moves together with the
// checkpoint that holds what was consumed.
func bound(c task.Command) task.Command { return c }
