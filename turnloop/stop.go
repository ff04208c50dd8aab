// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package turnloop

import "time"

// StopOptions say how a loop is to end. The zero value lets the present turn end.
type StopOptions struct {
	// At cuts the turn at these safe points. Defaults to none.
	At Points
	// Immediate cuts the turn at once, by its context. Defaults to false.
	Immediate bool
	// Timeout is how long the turn may take before it is cut at once; the earliest of
	// several stops counts. Defaults to no end.
	Timeout time.Duration
	// Idle stops only when nothing has happened for so long; pushes are accepted until
	// then. Defaults to 0: now.
	Idle time.Duration
	// Cause is for people; the first one stays. Defaults to none.
	Cause string
	// SkipCheckpoint keeps nothing for a next loop, and deletes what there is. Defaults
	// to false.
	SkipCheckpoint bool
}

// stopping is the sum of all stops.
type stopping struct {
	d        demand
	deadline time.Time
	timer    *time.Timer
	idle     time.Duration // 0: none asked for
	cause    string
	skip     bool
}

// Stop ends the loop and does not wait: Wait does. It may be called before Run and any
// number of times: stops add up.
func (l *Loop[T]) Stop(o *StopOptions) {
	if o == nil {
		o = &StopOptions{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	s := &l.stop
	if s.cause == "" {
		s.cause = o.Cause
	}
	s.skip = s.skip || o.SkipCheckpoint
	s.d = demand{s.d.points | o.At, s.d.now || o.Immediate}
	if o.Idle > 0 {
		if s.idle == 0 || o.Idle < s.idle {
			s.idle = o.Idle
		}
	} else {
		l.stopped = true
	}
	if o.Timeout > 0 {
		if at := time.Now().Add(o.Timeout); s.deadline.IsZero() || at.Before(s.deadline) {
			s.deadline = at
			if s.timer != nil {
				s.timer.Stop()
			}
			s.timer = time.AfterFunc(o.Timeout, l.hurry)
		}
	}
	l.heedLocked()
	l.ring()
}

// hurry is the deadline of a stop.
func (l *Loop[T]) hurry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop.d.now = true
	l.stopped = true
	l.heedLocked()
	l.ring()
}

// heedLocked lets the present turn know of a stop.
func (l *Loop[T]) heedLocked() {
	if !l.stopped || l.stop.d == (demand{}) {
		return
	}
	if l.turn != nil {
		l.turn.ask(l.stop.d, byStop)
	}
	if l.planning != nil && l.stop.d.now {
		l.planning()
	}
}
