// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !mutant_nofence

package apply

import "github.com/outlive-dev/outlive/task"

// fenced is the safeguard that an attempt writes only while it holds the task under a
// live lease (I-9): whoever was replaced while it was paused writes nothing.
const fenced = true

func forged(_ *task.Record, c task.Command) task.Command { return c }
