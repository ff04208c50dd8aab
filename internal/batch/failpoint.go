// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// The points.
const (
	FailBeforeWrite = "store.before_write"
	FailAfterWrite  = "store.after_write"
	FailAfterCommit = "store.after_commit"
)

// Failpoints lists the places where OUTLIVE_FAILPOINT=NAME (or NAME@N for the Nth
// time) makes the process kill itself: before a batch's rows are written, after
// that and before the commit, and after the commit before anybody is answered.
func Failpoints() []string { return []string{FailBeforeWrite, FailAfterWrite, FailAfterCommit} }

// Failpoint is the one that is armed.
type Failpoint struct {
	name string
	left atomic.Int64
}

// Arm reads NAME or NAME@N.
func (f *Failpoint) Arm(spec string) {
	name, nth, counted := strings.Cut(spec, "@")
	n := int64(1)
	if counted {
		if v, err := strconv.ParseInt(nth, 10, 64); err == nil && v > 0 {
			n = v
		}
	}
	f.name = name
	f.left.Store(n)
}

// Armed reports whether one is.
func (f *Failpoint) Armed() bool { return f.name != "" }

// Hit kills the process if the point is the armed one and its time has come.
func (f *Failpoint) Hit(name string) {
	if f.name != name || f.left.Add(-1) != 0 {
		return
	}
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
	select {} // the kill is on its way
}
