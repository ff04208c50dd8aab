// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package turnloop

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"time"
)

// ending is why the loop ends. nil means that it goes on.
type ending struct {
	reason Reason
	err    error
	state  []byte
	items  any // []Item[T] of the turn that did not end
}

func (l *Loop[T]) serve(ctx context.Context) {
	release := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.turn != nil {
			l.turn.ask(demand{now: true}, byContext)
		}
		l.ring()
	})
	defer release()
	end := l.start(ctx)
	for end == nil {
		var more bool
		if end, more = l.next(ctx); end == nil && !more {
			break
		}
	}
	l.finish(ctx, end)
}

// finish closes the buffer, and only then takes what is left in it.
func (l *Loop[T]) finish(ctx context.Context, end *ending) {
	l.mu.Lock()
	l.stopped, l.closed = true, true
	l.settleLocked(LoopClosed)
	if l.stop.timer != nil {
		l.stop.timer.Stop()
	}
	e := Exit[T]{Reason: Stopped, Cause: l.stop.cause, Unhandled: l.buffer}
	l.buffer = nil
	skip := l.stop.skip
	l.mu.Unlock()
	if end != nil {
		e.Reason, e.Err, e.State = end.reason, end.err, end.state
		if items, ok := end.items.([]Item[T]); ok {
			e.Interrupted = items
		}
	} else if ctx.Err() != nil {
		e.Reason, e.Err = ContextEnded, context.Cause(ctx)
	}
	l.keep(ctx, &e, skip)
	l.exit = e
	close(l.done)
}

// next plans a turn and performs it. more is false when the loop is to end.
func (l *Loop[T]) next(ctx context.Context) (end *ending, more bool) {
	items, planCtx, ok := l.awaitItems(ctx)
	if !ok {
		return nil, false
	}
	defer l.planned()
	plan, err := guard(func() (Plan[T], error) { return l.cfg.GenInput(planCtx, slices.Clone(items)) })
	if err == nil {
		plan, err = plan.check(items)
	}
	if err != nil {
		return l.planFailed(ctx, fmt.Errorf("plan turn: %w", err)), true
	}
	end, ran := l.perform(ctx, planCtx, plan, nil)
	if end == nil && ran {
		end = l.digest(ctx)
	}
	return end, true
}

// awaitItems waits for something to plan, and begins a plan. ok is false when the loop
// is to end.
func (l *Loop[T]) awaitItems(ctx context.Context) (items []Item[T], plan context.Context, ok bool) {
	var idle *time.Timer
	var since time.Duration
	defer func() {
		if idle != nil {
			idle.Stop()
		}
	}()
	for {
		l.mu.Lock()
		if l.stopped || ctx.Err() != nil {
			l.mu.Unlock()
			return nil, nil, false
		}
		if l.deciding == 0 && (l.resuming || l.changed && len(l.buffer) > 0) {
			l.changed = false
			l.turnID++
			plan, l.planning = context.WithCancel(ctx)
			items = slices.Clone(l.buffer)
			l.mu.Unlock()
			return items, plan, true
		}
		var expired <-chan time.Time
		if d := l.stop.idle; d > 0 && l.deciding == 0 {
			if idle == nil || d != since {
				if idle != nil {
					idle.Stop()
				}
				idle, since = time.NewTimer(d), d
			}
			expired = idle.C
		}
		l.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-l.wake:
		case <-expired:
			l.mu.Lock()
			// What came in the same instant is not to be lost.
			l.stopped = l.stopped || !(l.changed && len(l.buffer) > 0) && l.deciding == 0
			l.mu.Unlock()
			idle = nil
		}
	}
}

// planned ends a plan that led to no turn.
func (l *Loop[T]) planned() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.planning != nil {
		l.planning()
		l.planning = nil
		l.settleLocked(NoTarget)
	}
}

func (l *Loop[T]) planFailed(ctx context.Context, err error) *ending {
	l.mu.Lock()
	stopped := l.stopped && l.stop.d.now && errors.Is(err, context.Canceled)
	l.mu.Unlock()
	if stopped {
		return &ending{reason: Stopped} // that is what it was told
	}
	return &ending{reason: l.failed(ctx), err: err}
}

// failed is the reason of an error, which may be the context's.
func (l *Loop[T]) failed(ctx context.Context) Reason {
	if ctx.Err() != nil {
		return ContextEnded
	}
	return Failed
}

// perform prepares the agent of a planned turn, runs it and takes what is left of it.
// Until the turn begins its items are in the buffer.
func (l *Loop[T]) perform(ctx, planCtx context.Context, plan Plan[T], state []byte) (end *ending, ran bool) {
	if len(plan.Consume) == 0 {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.removeLocked(plan)
		return nil, false
	}
	l.mu.Lock()
	id := l.turnID
	l.mu.Unlock()
	turn := &Turn[T]{
		ID: id, Items: plan.Consume, State: state,
		preempted: make(chan struct{}), stopped: make(chan struct{}),
		cause: func() string {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.stop.cause
		},
	}
	agent, err := guard(func() (Agent, error) { return l.cfg.PrepareAgent(planCtx, turn) })
	if err == nil && agent == nil {
		err = errors.New("no agent")
	}
	if err != nil {
		return l.planFailed(ctx, fmt.Errorf("prepare agent: %w", err)), false
	}
	a, ok := l.activate(ctx, turn, plan)
	if !ok {
		return nil, false
	}
	got := l.play(a, agent)
	return l.conclude(ctx, a, got), true
}

// activate begins the turn, unless the loop was stopped meanwhile.
func (l *Loop[T]) activate(ctx context.Context, turn *Turn[T], plan Plan[T]) (*active[T], bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped || ctx.Err() != nil {
		return nil, false
	}
	a := &active[T]{Turn: turn}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	l.removeLocked(plan)
	l.planning() // the plan's context; the turn has its own
	l.planning = nil
	l.turn = a
	l.applyLocked()
	return a, true
}

// played is what a turn came to.
type played struct {
	callback  error
	agent     error // the last error that the agent yielded
	canceled  *CancelError
	interrupt *InterruptError
}

// play runs the agent under the callback. When it returns the agent has ended: a
// callback that reads no further does not end it, its context does, and what it still
// says is heard.
func (l *Loop[T]) play(a *active[T], agent Agent) (got played) {
	ended := make(chan struct{})
	began := false
	at := func(p Points) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if a.d.points&p == 0 && !a.d.now {
			return nil
		}
		return &CancelError{At: p}
	}
	var said played // written before ended is closed
	events := func(yield func(Event, error) bool) {
		l.mu.Lock()
		again := began
		began = true
		l.mu.Unlock()
		if again {
			return // a turn has one sequence of events
		}
		defer close(ended)
		open := true
		for ev, err := range agent(a.ctx, at) {
			if err != nil {
				said.agent = err
				_ = errors.As(err, &said.canceled)
				_ = errors.As(err, &said.interrupt)
			}
			if open && !yield(ev, err) {
				open = false
				a.cancel(errCut)
			}
		}
	}
	_, err := guard(func() (struct{}, error) {
		return struct{}{}, l.cfg.OnEvents(a.ctx, a.Turn, iter.Seq2[Event, error](events))
	})
	l.mu.Lock()
	running := began
	began = true // from here on there is nothing to read
	l.mu.Unlock()
	if !running {
		if err == nil {
			err = errors.New("OnEvents did not read the events")
		}
		return played{callback: err}
	}
	select {
	case <-ended:
	default: // it is read elsewhere
		a.cancel(errCut)
		t := time.NewTimer(l.cfg.DrainTimeout)
		defer t.Stop()
		select {
		case <-ended:
		case <-t.C:
			return played{callback: errors.Join(err, errors.New("the agent did not end after OnEvents returned"))}
		}
	}
	got = said
	got.callback = err
	return got
}

// conclude decides about a turn that is over: a callback's error comes before a cut,
// and that before an interrupt.
func (l *Loop[T]) conclude(ctx context.Context, a *active[T], got played) *ending {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn = nil
	a.over()
	l.settleLocked(TurnEnded)
	now := a.d.now || ctx.Err() != nil
	asked := now || a.d.points != 0
	own := got.agent != nil && errors.Is(got.callback, got.agent) // it passed the agent's word on
	cut := asked && got.canceled != nil || now && ended(got)
	switch {
	case got.callback != nil && !(own && (cut || got.interrupt != nil)) && !(cut && isContext(got.callback)):
		return &ending{reason: Failed, err: fmt.Errorf("turn %d: %w", a.ID, got.callback), items: a.Items, state: got.left()}
	case cut && ctx.Err() != nil:
		return &ending{reason: ContextEnded, err: context.Cause(ctx), items: a.Items, state: got.left()}
	case cut && l.stopped:
		err := error(&CancelError{})
		if got.canceled != nil {
			err = got.canceled
		}
		return &ending{reason: Stopped, err: err, items: a.Items, state: got.left()}
	case cut:
		back := slices.Clone(a.Items)
		for n := range back {
			back[n].Cuts++
		}
		l.returnLocked(back)
		return nil
	case got.canceled != nil:
		return &ending{reason: Failed, err: fmt.Errorf("turn %d: the agent ended as cut, and nobody asked: %w", a.ID, got.agent), items: a.Items, state: got.left()}
	case got.interrupt != nil:
		return &ending{reason: Interrupted, err: got.interrupt, items: a.Items, state: got.left()}
	}
	return nil
}

// ended reports whether a turn that was cut at once ended because of that. One that
// came to its own end all the same has ended.
func ended(got played) bool { return isContext(got.agent) || isContext(got.callback) }

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errCut)
}

// left is the state that the agent left.
func (p played) left() []byte {
	switch {
	case p.canceled != nil:
		return p.canceled.State
	case p.interrupt != nil:
		return p.interrupt.State
	}
	return nil
}

// guard turns a panic into an error.
func guard[R any](fn func() (R, error)) (r R, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return fn()
}
