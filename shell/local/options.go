// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"os"
	"time"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local/internal/failpoint"
)

// FailpointEnv names, separated by commas, the points at which a process kills itself,
// or with ":stop" behind the name stops itself until it is continued: the crash tests'
// lever.
const FailpointEnv = failpoint.Env

// DetachEnv names the way to detach when [Options] do not.
const DetachEnv = "OUTLIVE_DETACH"

// Options of a backend. A nil *Options means the defaults.
type Options struct {
	// Exe is the program executed again as supervisor; it must call [Main] first
	// thing. Defaults to the running program.
	Exe string
	// Detach is how a supervisor is kept apart from the service that its starter may
	// belong to: "auto", "session" or "scope". Defaults to what DetachEnv says, else auto:
	// a scope of systemd's where the service's restart would end it, and systemd can be
	// asked.
	Detach string
	// Poll is how often records are looked at while waiting, beside being told.
	// Defaults to 250 ms.
	Poll time.Duration
	// Retention is how long [Recoverable.GC] keeps the tombstone of a released run.
	// Defaults to 7 days.
	Retention time.Duration
	// OrphanAge is how long GC keeps a run that the store does not know, after its end.
	// Defaults to 24 hours.
	OrphanAge time.Duration
	// Now is the clock for GC. Defaults to time.Now.
	Now func() time.Time
}

// DefaultBudget is how much disk runs may use before output of ended ones goes.
const DefaultBudget = int64(10 << 30)

// Verdict is what the store thinks of a run.
type Verdict uint8

const (
	// Needed means that the run's task has not taken its end over: keep the run.
	Needed Verdict = iota
	// Taken means that exit and output are stored: the run can go.
	Taken
	// Stray means that the store does not know the run's task.
	Stray
	// Stored means that exit and output are stored, and that the run is kept for its
	// readers: when space is short, its output is what goes.
	Stored
)

// GCReport is what a collection did.
type GCReport struct {
	Runs, Live, Removed, Tombstones int
	// Trimmed is how many of the runs that stay lost output.
	Trimmed int
	// Bytes is the space used by what stays; Freed by what went.
	Bytes, Freed int64
	// Partial means that ctx ended before all runs were seen.
	Partial bool
}

func (o *Options) withDefaults() Options {
	var v Options
	if o != nil {
		v = *o
	}
	if v.Detach == "" {
		v.Detach = os.Getenv(DetachEnv)
	}
	if v.Poll <= 0 {
		v.Poll = 250 * time.Millisecond
	}
	if v.Retention <= 0 {
		v.Retention = 7 * 24 * time.Hour
	}
	if v.OrphanAge <= 0 {
		v.OrphanAge = 24 * time.Hour
	}
	if v.Now == nil {
		v.Now = time.Now
	}
	return v
}

var (
	_ shell.Recoverable    = (*Recoverable)(nil)
	_ shell.StreamingShell = (*Shell)(nil)
)
