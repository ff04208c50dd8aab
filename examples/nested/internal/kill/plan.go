// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/outlive-dev/outlive/shell/local"
	"github.com/outlive-dev/outlive/store/sqlite"
)

// children is how many commands a parent starts.
const children = 3

// turnPoints are the points of examples/nested itself.
func turnPoints() []string {
	return []string{"turn.begun", "turn.spawned1", "turn.spawned2", "turn.spawned3", "turn.asks", "turn.read", "turn.committed"}
}

// points are the named points at which the process dies: those of the program, of the
// store, and of starting a command.
func points() []string {
	all := append(turnPoints(), sqlite.Failpoints()...)
	for _, p := range local.Failpoints() {
		if strings.HasPrefix(p, "daemon.") {
			all = append(all, p)
		}
	}
	return all
}

// strike is what happens to one process of the program.
type strike struct {
	point string        // where it kills itself; else it is killed
	nth   int           // a point of the store: the how manieth time
	after time.Duration // when it is killed, counted from its start
}

func (s strike) String() string {
	if s.point == "" {
		return fmt.Sprintf("killed after %v", s.after)
	}
	return s.spec()
}

// spec is the failpoint that the process is started with.
func (s strike) spec() string {
	if s.nth > 1 {
		return fmt.Sprintf("%s@%d", s.point, s.nth)
	}
	return s.point
}

// plan is a round: one process after another is struck, and the one after them is not.
type plan struct {
	strikes []strike
	pauses  [children]time.Duration // how long the commands take
}

// planOf makes round n of a seed: the same for ever. Every point comes again and again.
func planOf(seed uint64, n int) plan {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	all := points()
	at := func(point string) strike {
		s := strike{point: point, nth: 1}
		if strings.HasPrefix(point, "store.") {
			s.nth = 1 + rng.IntN(20) // about as often as a process comes by
		}
		return s
	}
	p := plan{strikes: []strike{at(all[(n-1)%len(all)])}}
	for range rng.IntN(3) {
		s := strike{after: time.Duration(1+rng.IntN(500)) * time.Millisecond}
		if rng.IntN(2) == 0 {
			s = at(all[rng.IntN(len(all))])
		}
		p.strikes = append(p.strikes, s)
	}
	for i := range p.pauses {
		p.pauses[i] = time.Duration(rng.IntN(400)) * time.Millisecond
	}
	return p
}
