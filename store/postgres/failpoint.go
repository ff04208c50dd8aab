// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

const (
	failBeforeWrite = "store.before_write"
	failAfterWrite  = "store.after_write"
	failAfterCommit = "store.after_commit"
)

// Failpoints lists the places where OUTLIVE_FAILPOINT=NAME (or NAME@N for the Nth
// time) makes the process kill itself: before a batch's rows are written, after
// that and before the commit, and after the commit before anybody is answered.
func Failpoints() []string { return []string{failBeforeWrite, failAfterWrite, failAfterCommit} }

// failpoint is the one that is armed. It is read from the environment by Open.
type failpoint struct {
	name string
	left atomic.Int64
}

func (f *failpoint) arm(spec string) {
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

func (f *failpoint) armed() bool { return f.name != "" }

func (f *failpoint) hit(name string) {
	if f.name != name || f.left.Add(-1) != 0 {
		return
	}
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
	select {} // the kill is on its way
}
