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

// How a command is started.
const (
	modeDetached   = "run -d"
	modeForeground = "run"
	modeTimed      = "run --detach-after"
)

// strike is what happens to a process.
type strike struct {
	kind  strikeKind
	point string        // atPoint: its name
	nth   int           // atPoint of the store: the how manieth time
	after time.Duration // when, counted from the process's start (atShim: from the stop)
	hold  time.Duration // pause: for how long
}

type strikeKind int

const (
	unharmed       strikeKind = iota
	atPoint                   // it kills itself at a named point
	atShim                    // its supervisor stops at a named point and is then killed
	killed                    // it is killed at an instant
	killSupervisor            // its supervisor is
	paused                    // it is stopped for a while
)

// script is what a command does. It says at its start, in a file that is only ever
// appended to, who it is; then it writes pieces; then it says that it has ended.
type script struct {
	steps  []step
	code   int
	deaf   bool // ignores TERM
	orphan bool // leaves a process behind that holds its output
	clean  bool // its environment is the small one: whoever finds it may start it
}

// step is one thing a command does: it pauses, waits for a file, or writes a piece.
type step struct {
	pause  time.Duration
	gate   string
	piece  int
	stderr bool
}

// start is a command to start.
type start struct {
	name   string // round and number; its label, and its marker file's name
	mode   string
	detach time.Duration
	script script
	strike strike
}

// visit is another process that works on the tasks of a round.
type visit struct {
	verb   string
	target int // index of the start
	delay  time.Duration
	strike strike
}

// plan is a round.
type plan struct {
	round  string
	starts []start
	visits []visit
}

// planOf makes round n of a seed: the same for ever.
func planOf(seed uint64, n int) plan {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	p := plan{round: fmt.Sprint(n)}
	all := points()
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	k := 2 + rng.IntN(3)
	for i := range k {
		s := start{name: fmt.Sprintf("%d.%d", n, i+1), script: randomScript(rng)}
		switch rng.IntN(20) {
		case 0, 1, 2, 3, 4, 5, 6, 7, 8:
			s.mode = modeDetached
		case 9, 10, 11, 12, 13, 14:
			s.mode = modeForeground
		default:
			s.mode, s.detach = modeTimed, ms(rng, 50, 400)
		}
		if i < 2 { // every point comes again and again
			turn := 2*(n-1) + i
			s.strike = strikeAt(rng, all[turn%len(all)], turn/len(all))
		} else {
			s.strike = randomStrike(rng, true)
		}
		p.starts = append(p.starts, s)
	}
	verbs := []string{"wait", "wait", "logs", "logs", "events", "ps", "ps"}
	for range 1 + rng.IntN(4) {
		v := visit{verb: verbs[rng.IntN(len(verbs))], target: rng.IntN(k), delay: ms(rng, 0, 200), strike: randomStrike(rng, false)}
		p.visits = append(p.visits, v)
	}
	if rng.IntN(5) == 0 {
		p.visits = append(p.visits, visit{verb: "cancel", target: rng.IntN(k), delay: ms(rng, 0, 300), strike: randomStrike(rng, false)})
	}
	return p
}

func strikeAt(rng *rand.Rand, point string, cycle int) strike {
	s := strike{kind: atPoint, point: point, nth: 1}
	switch {
	case strings.HasPrefix(point, "shim."):
		s.kind, s.after = atShim, ms(rng, 0, 100)
	case strings.HasPrefix(point, "store.") && cycle > 0:
		s.nth = 1 + rng.IntN(6)
	}
	return s
}

func randomStrike(rng *rand.Rand, starter bool) strike {
	switch n := rng.IntN(20); {
	case n < 6:
		return strike{kind: killed, after: ms(rng, 0, 500)}
	case n < 8:
		return strike{kind: paused, after: ms(rng, 0, 200), hold: ms(rng, 50, 400)}
	case n < 10:
		names := sqlite.Failpoints()
		return strike{kind: atPoint, point: names[rng.IntN(len(names))], nth: 1 + rng.IntN(5)}
	case n < 14 && starter:
		return strike{kind: killSupervisor, after: ms(rng, 0, 300)}
	case n < 12:
		names := local.Failpoints()[:5] // those of the process that starts
		return strike{kind: atPoint, point: names[rng.IntN(len(names))], nth: 1}
	}
	return strike{}
}

func ms(rng *rand.Rand, from, to int) time.Duration {
	return time.Duration(from+rng.IntN(to-from)) * time.Millisecond
}

func randomScript(rng *rand.Rand) script {
	s := script{clean: rng.IntN(2) == 0, deaf: rng.IntN(12) == 0, orphan: rng.IntN(12) == 0}
	if rng.IntN(2) == 0 {
		s.code = 1 + rng.IntN(99)
	}
	for range 1 + rng.IntN(6) {
		t := step{piece: rng.IntN(len(sizes()) - 2), stderr: rng.IntN(6) == 0}
		switch rng.IntN(24) {
		case 0:
			t.piece = len(sizes()) - 1
		case 1, 2:
			t.piece = len(sizes()) - 2
		}
		s.steps = append(s.steps, t)
		if rng.IntN(3) > 0 {
			s.steps = append(s.steps, step{pause: ms(rng, 1, 200)})
		}
	}
	return s
}

// text is the script for a shell.
func (w *world) text(s *start) string {
	var b strings.Builder
	marker := w.marker(s)
	if s.script.deaf {
		b.WriteString("trap '' TERM; ")
	}
	token := "$CRASH_TOKEN"
	if s.script.clean {
		token = w.token(s)
	}
	fmt.Fprintf(&b, "echo \"start $$ $OUTLIVE_RUN %s\" >> %s; echo '%s'; ", token, marker, w.token(s))
	if s.script.orphan {
		b.WriteString("setsid sleep 600 & ")
	}
	for _, t := range s.script.steps {
		switch {
		case t.pause > 0:
			fmt.Fprintf(&b, "sleep %.3f; ", t.pause.Seconds())
		case t.gate != "":
			fmt.Fprintf(&b, "until [ -e %s ]; do sleep 0.02; done; ", t.gate)
		case t.stderr:
			fmt.Fprintf(&b, "cat %s >&2; ", w.piece(t.piece))
		default:
			fmt.Fprintf(&b, "cat %s; ", w.piece(t.piece))
		}
	}
	fmt.Fprintf(&b, "echo \"end $$\" >> %s; exit %d", marker, s.script.code)
	return b.String()
}

// token is what only the command of this start knows.
func (w *world) token(s *start) string { return fmt.Sprintf("token-%d-%s", w.seed, s.name) }

func (w *world) marker(s *start) string { return w.dir + "/marker." + s.name }

// want is what the command writes: in order, and by stream.
func (w *world) want(s *start) (all, out, err []byte) {
	line := []byte(w.token(s) + "\n")
	all, out = append(all, line...), append(out, line...)
	for _, t := range s.script.steps {
		if t.pause > 0 || t.gate != "" {
			continue
		}
		b := w.pieces[t.piece]
		all = append(all, b...)
		if t.stderr {
			err = append(err, b...)
		} else {
			out = append(out, b...)
		}
	}
	return all, out, err
}

// args is the command line of a start.
func (w *world) args(s *start) (env, args []string) {
	args = []string{"run", "--label", "crash=" + s.name}
	switch s.mode {
	case modeDetached:
		args = append(args, "-d")
	case modeTimed:
		args = append(args, "--detach-after", s.detach.String())
	}
	if s.script.clean {
		args = append(args, "--clean-env")
	} else {
		env = []string{"CRASH_TOKEN=" + w.token(s)}
	}
	return env, append(args, "-c", w.text(s))
}
