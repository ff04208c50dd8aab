// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import "github.com/outlive-dev/outlive/internal/batch"

// Failpoints lists the places where OUTLIVE_FAILPOINT=NAME (or NAME@N for the Nth
// time) makes the process kill itself: before a batch's rows are written, after
// that and before the commit, and after the commit before anybody is answered.
func Failpoints() []string { return batch.Failpoints() }
