// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package shelltest

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/shell"
)

// Factory makes the backends of one kind.
type Factory struct {
	// Name is how the tests are called: local, recoverable, http or ssh.
	Name string
	// New returns a fresh backend, closed by the test's cleanup.
	New func(t *testing.T, s Setup) *Backend
}

// Setup is what a test wants of its backend. What a kind of backend cannot have, it
// ignores: the fields of [Backend] say what it has.
type Setup struct {
	// Delay is how long provisioning takes.
	Delay time.Duration
	// Broken makes provisioning fail.
	Broken bool
	// Slots is how many commands may run at once, 0 for any number.
	Slots int
	// Latency is added to every packet, in each direction.
	Latency time.Duration
	// Runs is the directory for runs; "" means one of the test's own.
	Runs string
}

// Backend is one backend under test. At least one of Shell and Recoverable is set; the
// other fields may be nil or zero and then say that the backend has no such thing.
type Backend struct {
	Shell       shell.Shell
	Recoverable shell.Recoverable

	// Provisions says that Setup.Delay is honoured.
	Provisions bool
	// Peer returns the same runs as another process would see them.
	Peer func(t *testing.T) shell.Recoverable
	// StartElsewhere starts the run from a process of its own, with the failpoint in
	// its environment unless that is "", and returns when that process has died or
	// has started the run and was killed. died tells which.
	StartElsewhere func(t *testing.T, failpoint string, id shell.RunID, f shell.Fence, r shell.Request) (died bool)
	// StartUnder starts the run from a process of its own that another program, such as
	// one that takes something away, executes: its arguments come before the process's
	// own. It returns the error of the start as text, or "".
	StartUnder func(t *testing.T, wrap []string, id shell.RunID, f shell.Fence, r shell.Request) (failure string)
	// Supervisor returns the pid of the run's supervisor, which has recorded the start.
	Supervisor func(t *testing.T, id shell.RunID) int
	// Cut breaks every connection that there is. Down makes that last.
	Cut, Down func()
}

// test is one test of the suite.
type test struct {
	name string
	fn   func(h *harness)
	// setup is what the test wants of its backend.
	setup Setup
	// recoverable: it is about Recoverable and nothing else.
	recoverable bool
}

// group is a set of tests; the tests of a group without a name belong to the backend.
type group struct {
	name  string
	tests []test
}

func groups() []group {
	return []group{
		{"", timeoutTests()},
		{"Exec", execTests()},
		{"Output", outputTests()},
		{"Tree", treeTests()},
		{"Cancel", cancelTests()},
		{"Recover", recoverTests()},
		{"Fence", fenceTests()},
		{"Identity", identityTests()},
		{"Faults", faultTests()},
		{"Attach", attachTests()},
		{"TTY", ttyTests()},
		{"Limits", limitTests()},
		{"Shell", shellTests()},
	}
}

// width is how many tests run at once: most of their time is sleep.
const width = 6

// Names returns the names of all tests, as they follow the backend's.
func Names() []string {
	var names []string
	for _, g := range groups() {
		for _, tt := range g.tests {
			names = append(names, strings.TrimPrefix(g.name+"/"+tt.name, "/"))
		}
	}
	return names
}

// Run runs the suite as subtests of t, which should be called TestConformance.
func Run(t *testing.T, f Factory) {
	t.Run(f.Name, func(t *testing.T) {
		slots := make(chan struct{}, width)
		var all sync.WaitGroup
		for _, g := range groups() {
			if g.name == "" {
				runTests(t, f, g.tests, slots, &all)
				continue
			}
			all.Go(func() {
				t.Run(g.name, func(t *testing.T) {
					var wg sync.WaitGroup
					runTests(t, f, g.tests, slots, &wg)
					wg.Wait()
				})
			})
		}
		all.Wait()
		noGoroutines(t)
	})
}

func runTests(t *testing.T, f Factory, tests []test, slots chan struct{}, wg *sync.WaitGroup) {
	t.Helper()
	for _, tt := range tests {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			t.Run(tt.name, func(t *testing.T) {
				b := f.New(t, tt.setup)
				if tt.recoverable && b.Recoverable == nil {
					notRecoverable(t, b)
					return
				}
				h := newHarness(t, f, b, tt.setup)
				t.Cleanup(h.check)
				tt.fn(h)
			})
		})
	}
}

// notRecoverable stands for a test of what the backend does not have: it must say so.
func notRecoverable(t *testing.T, b *Backend) {
	t.Helper()
	if b.Shell.Capabilities().Recoverable {
		t.Error("Capabilities() = recoverable, but the backend is none")
	}
	t.Skip("the backend says that its runs do not outlive the process")
}

// repeat is how often a test of a race or a crash does what it does.
func repeat(n int) int {
	if k, err := strconv.Atoi(os.Getenv("SHELLTEST_REPEAT")); err == nil && k > 0 {
		return n * k
	}
	return n
}

// noGoroutines waits until no goroutine runs a backend's code any more.
func noGoroutines(t *testing.T) {
	t.Helper()
	var left []string
	ok := poll(patience, func() bool {
		left = left[:0]
		buf := make([]byte, 1<<20)
		for s := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(s, "outlive/shell/") && !strings.Contains(s, "testing.tRunner") && !strings.Contains(s, "testing.(*M)") {
				left = append(left, s)
			}
		}
		return len(left) == 0
	})
	if !ok {
		t.Errorf("%d goroutines are left, the first:\n%s", len(left), left[0])
	}
}
