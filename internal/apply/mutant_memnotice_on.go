// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mutant_memnotice

package apply

import "github.com/outlive-dev/outlive/task"

func notifies(child *task.Record) bool { return child.Attempt <= 1 }
