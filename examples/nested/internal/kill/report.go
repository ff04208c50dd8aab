// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

const instant = "at an instant"

// report counts what was done and keeps what was found.
//
// Concurrency: everything is under mu.
type report struct {
	mu         sync.Mutex
	kills      map[string]int // by named point, or instant
	rounds     int
	notices    int // of ends, that are to be stored
	lost       int // of them, those that are not
	twice      int // and those that are there more than once
	cut        int // turns that were killed between reading and committing
	wakes      []time.Duration
	violations []violation
}

type violation struct {
	round int
	text  string
}

func newReport() *report { return &report{kills: map[string]int{}} }

func (r *report) do(fn func(r *report)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fn(r)
}

func (r *report) violate(round int, format string, args ...any) {
	r.do(func(r *report) { r.violations = append(r.violations, violation{round, fmt.Sprintf(format, args...)}) })
}

// found returns the violations.
func (r *report) found() (list []violation) {
	r.do(func(r *report) { list = slices.Clone(r.violations) })
	return list
}

func (r *report) killed() (sum int) {
	r.do(func(r *report) {
		for _, n := range r.kills {
			sum += n
		}
	})
	return sum
}

// load judges whether enough was done for the result to mean something: an idle run
// proves nothing.
func (r *report) load(n int) {
	killed := r.killed()
	var rounds, cut int
	var missed []string
	r.do(func(r *report) {
		rounds, cut = r.rounds, r.cut
		for _, p := range points() {
			if r.kills[p] == 0 {
				missed = append(missed, p)
			}
		}
	})
	if killed < n {
		r.violate(0, "load: %d kills, want at least %d", killed, n)
	}
	if rounds < n {
		r.violate(0, "load: %d rounds, want %d", rounds, n)
	}
	if n < 2*len(points()) {
		return // too few to come by everything
	}
	if len(missed) > 0 {
		r.violate(0, "load: nothing was killed at %v", missed)
	}
	if cut < n/len(points()) {
		r.violate(0, "load: %d turns cut before their commit, want at least %d", cut, n/len(points()))
	}
}

// print writes the counts.
func (r *report) print(out io.Writer) {
	killed := r.killed()
	r.do(func(r *report) {
		fmt.Fprintln(out, "kills:")
		for _, p := range append(points(), instant) {
			fmt.Fprintf(out, "  %-20s %d\n", p, r.kills[p])
		}
		fmt.Fprintf(out, "%d kills in %d rounds\n", killed, r.rounds)
		fmt.Fprintf(out, "%d notices, %d lost, %d stored twice\n", r.notices, r.lost, r.twice)
		fmt.Fprintf(out, "%d turns cut before their commit were given their inputs again\n", r.cut)
		if n := len(r.wakes); n > 0 {
			slices.Sort(r.wakes)
			fmt.Fprintf(out, "%d parents that nothing was done to were woken after the last end: p50 %v, most %v\n", n, r.wakes[n/2].Round(10*time.Microsecond), r.wakes[n-1].Round(10*time.Microsecond))
		}
	})
}
