// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package turnloop

import (
	"context"
	"errors"
	"time"
)

// Preempt asks for the present turn to be cut when an item is pushed. The zero value
// cuts it at any safe point.
type Preempt[T any] struct {
	// At are the points where the turn may be cut. Defaults to AnySafePoint.
	At Points
	// Immediate cuts it at once, by its context. Defaults to false.
	Immediate bool
	// Timeout is how long a safe point is waited for before the turn is cut at once.
	// Defaults to no end.
	Timeout time.Duration
	// Delay is how long the turn may go on before it is asked. Defaults to 0.
	Delay time.Duration
	// Decide, when set, sees the turn, nil when none runs, and says what to ask instead;
	// nil asks nothing. Planning waits for it. A panic in it asks nothing. Defaults to
	// none.
	Decide func(turn *Turn[T]) *Preempt[T]
}

// Outcome is what became of a preemption.
type Outcome string

// The outcomes.
const (
	Applied    Outcome = "applied"     // the turn has been asked
	NoTarget   Outcome = "no_target"   // no turn ran and none was planned, or nothing was asked
	NotRunning Outcome = "not_running" // the loop had not begun
	TurnEnded  Outcome = "turn_ended"  // the turn it saw ended before it was asked
	LoopClosed Outcome = "loop_closed"
)

// preempt is a preemption under way.
type preempt struct {
	turn    int64
	d       demand
	timeout time.Duration
	waits   bool // for its delay
	timer   *time.Timer
	ack     chan Outcome
}

func (p *preempt) settle(o Outcome) {
	if p.timer != nil {
		p.timer.Stop()
	}
	p.ack <- o
	close(p.ack)
}

// answered returns an acknowledgement that is given already.
func answered(o Outcome) <-chan Outcome {
	c := make(chan Outcome, 1)
	c <- o
	close(c)
	return c
}

// nothing is the acknowledgement of a push that asks nothing.
var nothing = func() <-chan Outcome {
	c := make(chan Outcome)
	close(c)
	return c
}()

// Push adds an item. p, when not nil, also cuts the turn that runs or is being planned.
// The channel gives one outcome and is closed; without p it is closed at once. The item
// is accepted if and only if the error is nil: whatever becomes of the preemption, it is
// buffered.
func (l *Loop[T]) Push(v T, p *Preempt[T]) (<-chan Outcome, error) {
	l.mu.Lock()
	if p != nil && p.Decide != nil {
		l.deciding++
		var turn *Turn[T]
		if l.turn != nil {
			turn = l.turn.Turn
		}
		l.mu.Unlock()
		p = decide(p, turn)
		l.mu.Lock()
		l.deciding--
		l.ring()
	}
	defer l.mu.Unlock()
	if err := l.admitLocked(v); err != nil {
		return answered(LoopClosed), err
	}
	if p == nil {
		return nothing, nil
	}
	return l.preemptLocked(p), nil
}

func decide[T any](p *Preempt[T], turn *Turn[T]) (d *Preempt[T]) {
	defer func() {
		if recover() != nil {
			d = nil
		}
	}()
	return p.Decide(turn)
}

func (l *Loop[T]) preemptLocked(p *Preempt[T]) <-chan Outcome {
	switch {
	case !l.started:
		return answered(NotRunning)
	case l.turn == nil && l.planning == nil:
		return answered(NoTarget)
	}
	r := &preempt{turn: l.turnID, d: demand{points: p.At, now: p.Immediate}, timeout: p.Timeout, ack: make(chan Outcome, 1)}
	if r.d.points == 0 {
		r.d.points = AnySafePoint
	}
	l.pending[r] = struct{}{}
	if p.Delay > 0 {
		r.waits = true
		r.timer = time.AfterFunc(p.Delay, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			r.waits = false
			l.applyLocked()
		})
	}
	l.applyLocked()
	return r.ack
}

// applyLocked asks the turn that runs for what pending preemptions want of it.
func (l *Loop[T]) applyLocked() {
	if l.turn == nil {
		return // while a turn is planned they wait for it
	}
	for r := range l.pending {
		if r.waits || r.turn != l.turn.ID {
			continue
		}
		delete(l.pending, r)
		l.turn.ask(r.d, byPreempt)
		if r.timeout > 0 {
			l.turn.later(r.timeout, func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				if l.turn != nil && l.turn.ID == r.turn {
					l.turn.ask(demand{now: true}, byPreempt)
				}
			})
		}
		r.settle(Applied)
	}
}

// settleLocked answers what is pending for a turn that is over, or was none.
func (l *Loop[T]) settleLocked(o Outcome) {
	for r := range l.pending {
		delete(l.pending, r)
		r.settle(o)
	}
}

// demand is how a turn is to be cut.
type demand struct {
	points Points
	now    bool
}

// Who demands.
const (
	byPreempt = iota
	byStop
	byContext
)

// errCut is the cause of a turn's context that was cut at once.
var errCut = errors.New("the turn was cut")

// active is a turn that runs. It dies with it.
//
// Concurrency: under the loop's mu.
type active[T any] struct {
	*Turn[T]
	ctx    context.Context //nolint:containedctx // the turn's, it lives as long
	cancel context.CancelCauseFunc
	d      demand
	by     [3]bool // who has a part in it
	timers []*time.Timer
}

// ask adds a demand. Only one that asks for more than was asked has a part in it.
func (a *active[T]) ask(d demand, by int) {
	sum := demand{a.d.points | d.points, a.d.now || d.now}
	if sum == a.d {
		return
	}
	a.d = sum
	if !a.by[by] {
		a.by[by] = true
		switch by {
		case byPreempt:
			close(a.preempted)
		case byStop:
			close(a.stopped)
		}
	}
	if sum.now {
		a.cancel(errCut)
	}
}

func (a *active[T]) later(d time.Duration, fn func()) {
	a.timers = append(a.timers, time.AfterFunc(d, fn))
}

func (a *active[T]) over() {
	for _, t := range a.timers {
		t.Stop()
	}
	a.cancel(context.Canceled)
}
