// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
)

// report counts what was done and keeps what was found.
//
// Concurrency: everything is under mu.
type report struct {
	mu         sync.Mutex
	kills      map[string]int // by named point, or by what was killed
	n          map[string]int // other counts
	bytes      int64
	violations []violation
}

type violation struct{ round, text string }

func newReport() *report { return &report{kills: map[string]int{}, n: map[string]int{}} }

func (r *report) kill(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kills[what]++
}

func (r *report) count(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n[what]++
}

func (r *report) compared(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes += int64(n)
}

func (r *report) violate(round, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.violations = append(r.violations, violation{round, fmt.Sprintf(format, args...)})
}

// found returns the violations.
func (r *report) found() []violation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.violations)
}

func (r *report) killed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := 0
	for _, n := range r.kills {
		sum += n
	}
	return sum
}

// load judges whether enough was done for the result to mean something: an idle run
// proves nothing.
func (r *report) load(rounds int) {
	r.mu.Lock()
	acked, bytes := r.n["acknowledged"], r.bytes
	var missed []string
	if 2*rounds >= len(points()) {
		for _, p := range points() {
			if r.kills[p] == 0 {
				missed = append(missed, p)
			}
		}
	}
	r.mu.Unlock()
	if killed := r.killed(); killed < rounds {
		r.violate("", "load: %d processes killed, want at least %d", killed, rounds)
	}
	if acked < rounds {
		r.violate("", "load: %d tasks acknowledged, want at least %d", acked, rounds)
	}
	if want := int64(rounds) * 10_000; bytes < want {
		r.violate("", "load: %d bytes compared, want at least %d", bytes, want)
	}
	if len(missed) > 0 {
		r.violate("", "load: nothing was killed at %v", missed)
	}
}

// print writes the counts, under the names they were made with.
func (r *report) print(out io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintln(out, "killed at points:")
	for _, p := range points() {
		fmt.Fprintf(out, "  %-24s %d\n", p, r.kills[p])
	}
	fmt.Fprintln(out, "killed at an instant:")
	named := map[string]bool{}
	for _, p := range points() {
		named[p] = true
	}
	for _, k := range slices.Sorted(maps.Keys(r.kills)) {
		if !named[k] {
			fmt.Fprintf(out, "  %-24s %d\n", k, r.kills[k])
		}
	}
	fmt.Fprintln(out, "tasks:")
	for _, k := range slices.Sorted(maps.Keys(r.n)) {
		fmt.Fprintf(out, "  %-24s %d\n", k, r.n[k])
	}
	fmt.Fprintf(out, "bytes compared %d\n", r.bytes)
}
