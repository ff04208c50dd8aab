// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package project performs what package foreground decides for one caller that
// watches one task: it waits for signals, asks, and does as told, until the call
// returns. It restarts nothing and owns nothing of the task.
package project

import (
	"context"
	"fmt"
	"time"

	"github.com/outlive-dev/outlive/foreground"
	"github.com/outlive-dev/outlive/task"
)

// Port is what a projection needs of the runtime.
type Port interface {
	Get(ctx context.Context, id task.ID) (task.Record, error)
	// Publish makes the task public and ends the claim behind the call. Without ended
	// it leaves a task that has ended alone.
	Publish(ctx context.Context, id task.ID, ended bool) (task.Record, error)
	Cancel(ctx context.Context, id task.ID, reason string) (task.Record, error)
	// Take ends the claim: the outcome has been handed over.
	Take(ctx context.Context, id task.ID) error
	Watch(id task.ID) (c <-chan struct{}, done func())
}

// Outcome is how the call ended.
type Outcome struct {
	Record   task.Record
	Detached bool
}

// Projection is one foreground view of one task.
//
// Concurrency: loop. The goroutine in Run owns everything but detach, which is a
// doorbell.
type Projection struct {
	port   Port
	id     task.ID
	policy foreground.Policy
	poll   time.Duration
	detach chan struct{}

	rec    task.Record
	st     foreground.State
	reason string
	after  <-chan time.Time // cleanup timer, once started
}

// New returns a projection of the task; Run performs it.
func New(port Port, id task.ID, policy foreground.Policy, poll time.Duration) *Projection {
	return &Projection{port: port, id: id, policy: policy, poll: poll, detach: make(chan struct{}, 1)}
}

// Detach asks to send the task to the background. It may be called at any time and
// repeated.
func (p *Projection) Detach() {
	select {
	case p.detach <- struct{}{}:
	default:
	}
}

// Run waits for the call's end. ctx is the caller: when it ends the caller is gone,
// which decides what the policy says and not that the work is to stop.
func (p *Projection) Run(ctx context.Context) (Outcome, error) {
	free := context.WithoutCancel(ctx)
	ring, done := p.port.Watch(p.id)
	defer done()
	var timer <-chan time.Time
	if p.policy.DetachAfter > 0 {
		t := time.NewTimer(p.policy.DetachAfter)
		defer t.Stop()
		timer = t.C
	}
	slow := time.NewTicker(p.poll)
	defer slow.Stop()
	gone := ctx.Done()
	if err := p.read(free); err != nil {
		return Outcome{}, err
	}
	sig := foreground.Signal{Event: foreground.Boundary}
	for {
		if out, over, err := p.perform(ctx, free, sig); over {
			return out, err
		}
		select {
		case <-ring:
			sig = foreground.Signal{Event: foreground.Boundary}
		case <-slow.C:
			sig = foreground.Signal{Event: foreground.Boundary}
		case <-p.watch(timer):
			timer, sig = nil, foreground.Signal{Event: foreground.Timer}
		case <-p.after:
			p.after, sig = nil, foreground.Signal{Event: foreground.Timer}
		case <-gone:
			gone, sig = nil, foreground.Signal{Event: foreground.CallerGone}
		case <-p.detach:
			sig = foreground.Signal{Event: foreground.DetachAsked}
		}
		if err := p.read(free); err != nil {
			return Outcome{Record: p.rec}, err
		}
	}
}

// watch returns the timer of the policy, unless the cleanup timer runs: to a call that
// is being canceled the time to detach means nothing any more.
func (p *Projection) watch(timer <-chan time.Time) <-chan time.Time {
	if p.st.Phase == foreground.Canceling {
		return nil
	}
	return timer
}

// read takes the record as it is now. A store that does not answer is asked again.
func (p *Projection) read(ctx context.Context) error {
	var err error
	for try := range 5 {
		var r task.Record
		if r, err = p.port.Get(ctx, p.id); err == nil {
			p.rec = r
			return nil
		}
		time.Sleep(time.Duration(1<<try) * 10 * time.Millisecond) // the store's own patience comes first
	}
	return fmt.Errorf("watch task %s: %w", p.id, err)
}

// perform decides and does until it must wait or the call is over.
func (p *Projection) perform(caller, free context.Context, sig foreground.Signal) (Outcome, bool, error) {
	for tries := 0; ; tries++ {
		sig.State = p.st
		sig.Last = tries >= maxTries
		a := foreground.Decide(p.policy, sig, p.rec)
		p.st = a.State
		switch a.Do {
		case foreground.Wait:
			return Outcome{}, false, nil
		case foreground.Return:
			return Outcome{Record: p.rec}, true, p.take(free)
		case foreground.Detach:
			return Outcome{Record: p.rec, Detached: true}, true, nil
		case foreground.PublishThenReturn, foreground.PublishThenDetach:
			sig = foreground.Signal{Event: foreground.PublishResult, Err: p.publish(free, a.Ended, tries)}
		case foreground.CancelThenWait:
			sig = foreground.Signal{Event: foreground.CancelResult, Err: p.cancel(free, a.Reason, tries)}
		case foreground.ReturnTimeout:
			err := &foreground.TimeoutError{After: p.policy.DetachAfter, Task: p.rec}
			return Outcome{Record: p.rec}, true, p.taken(free, err)
		case foreground.ReturnGone:
			return Outcome{Record: p.rec}, true, p.taken(free, context.Cause(caller))
		case foreground.ReturnError:
			return Outcome{Record: p.rec}, true, p.taken(free, a.Err)
		}
	}
}

// maxTries bounds how often a publish or cancel that fails is repeated; together
// with the pauses about the length of a lease.
const maxTries = 20

func pause(tries int) {
	if tries > 0 {
		time.Sleep(min(time.Duration(1<<min(tries, 6))*10*time.Millisecond, 640*time.Millisecond))
	}
}

func (p *Projection) publish(ctx context.Context, ended bool, tries int) error {
	pause(tries)
	r, err := p.port.Publish(ctx, p.id, ended)
	if err == nil {
		p.rec = r
	}
	return err
}

func (p *Projection) cancel(ctx context.Context, reason string, tries int) error {
	pause(tries)
	if reason == "" {
		reason = p.reason
	}
	p.reason = reason
	if p.after == nil {
		p.after = time.After(p.policy.Cleanup())
	}
	r, err := p.port.Cancel(ctx, p.id, reason)
	if err == nil || r.State.Terminal() {
		p.rec = r
		return nil
	}
	return err
}

// take ends the claim of a task whose outcome is handed over. A task that goes on
// was published, which ended it.
func (p *Projection) take(ctx context.Context) error {
	if p.rec.State.Terminal() {
		return p.port.Take(ctx, p.id)
	}
	return nil
}

func (p *Projection) taken(ctx context.Context, err error) error {
	if terr := p.take(ctx); terr != nil && err == nil {
		return terr
	}
	return err
}
