// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package project_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/foreground"
	"github.com/outlive-dev/outlive/internal/project"
	"github.com/outlive-dev/outlive/task"
)

// port is a runtime made of functions over one record. The functions are called
// under mu.
type port struct {
	mu        sync.Mutex
	rec       task.Record
	bell      chan struct{}
	onGet     func() error
	onPublish func() error
	onCancel  func() error

	published, canceled, taken int
}

func newPort() *port {
	return &port{bell: make(chan struct{}, 1), rec: task.Record{
		ID: "t", State: task.Running, Owner: task.OwnerManager, Publication: task.Deferred, Attempt: 1,
	}}
}

func (p *port) Get(context.Context, task.ID) (task.Record, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.onGet != nil {
		if err := p.onGet(); err != nil {
			return task.Record{}, err
		}
	}
	return p.rec, nil
}

func (p *port) Publish(_ context.Context, _ task.ID, ended bool) (task.Record, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.published++
	if p.onPublish != nil {
		if err := p.onPublish(); err != nil {
			return p.rec, err
		}
	}
	if !p.rec.State.Terminal() || ended {
		p.rec.Publication = task.OnBackground
	}
	return p.rec, nil
}

func (p *port) Cancel(_ context.Context, _ task.ID, reason string) (task.Record, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.canceled++
	if p.onCancel != nil {
		if err := p.onCancel(); err != nil {
			return p.rec, err
		}
	}
	if p.rec.CancelRequestedAt.IsZero() {
		p.rec.CancelRequestedAt, p.rec.CancelReason = time.Now(), reason
	}
	return p.rec, nil
}

func (p *port) Take(context.Context, task.ID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken++
	return nil
}

func (p *port) Watch(task.ID) (<-chan struct{}, func()) { return p.bell, func() {} }

// later changes the port.
func (p *port) later(after time.Duration, change func()) {
	time.AfterFunc(after, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		change()
	})
}

// becomes changes the record later, and rings.
func (p *port) becomes(after time.Duration, s task.State) {
	p.later(after, func() {
		p.rec.State = s
		p.bell <- struct{}{}
	})
}

func run(t *testing.T, name string, fn func(t *testing.T, p *port)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { fn(t, newPort()) })
	})
}

func watch(ctx context.Context, p *port, policy foreground.Policy) (project.Outcome, error) {
	return project.New(p, "t", policy, 2*time.Second).Run(ctx)
}

var errBusy = fault.New(fault.Unavailable, "store is busy")

func TestProjection(t *testing.T) {
	t.Parallel()
	detach := foreground.Policy{DetachAfter: time.Second}
	run(t, "publish is tried again while that may help", func(t *testing.T, p *port) {
		left := 3
		p.onPublish = func() error {
			if left--; left >= 0 {
				return errBusy
			}
			return nil
		}
		out, err := watch(t.Context(), p, detach)
		if err != nil || !out.Detached || p.published != 4 {
			t.Errorf("Run() = %+v, %v after %d publishes, want detached by the fourth", out, err, p.published)
		}
	})
	run(t, "publish that never works gives up, and leaves the claim", func(t *testing.T, p *port) {
		p.onPublish = func() error { return errBusy }
		out, err := watch(t.Context(), p, detach)
		if !errors.Is(err, errBusy) || out.Detached || p.taken != 0 {
			t.Errorf("Run() = %+v, %v, taken %d, want the error and the claim left to be revealed", out, err, p.taken)
		}
	})
	run(t, "refused publish with the caller gone cancels", func(t *testing.T, p *port) {
		refused := fault.New(fault.Forbidden, "not yours")
		p.onPublish = func() error { return refused }
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		p.becomes(2*time.Second, task.Canceled)
		out, err := watch(ctx, p, foreground.Policy{})
		if !errors.Is(err, refused) || p.canceled != 1 || out.Record.State != task.Canceled || out.Record.CancelReason != "foreground projection publication failed" {
			t.Errorf("Run() = %+v, %v, canceled %d times", out, err, p.canceled)
		}
	})
	run(t, "refused publish with a failing cleanup reports both", func(t *testing.T, p *port) {
		refused, stuck := fault.New(fault.Forbidden, "not yours"), fault.New(fault.Forbidden, "nor to cancel")
		p.onPublish = func() error { return refused }
		p.onCancel = func() error { return stuck }
		ctx, leave := context.WithCancel(t.Context())
		leave()
		if _, err := watch(ctx, p, foreground.Policy{}); !errors.Is(err, refused) || !errors.Is(err, stuck) {
			t.Errorf("Run() = %v, want both errors", err)
		}
	})
	run(t, "completion wins over the timer", func(t *testing.T, p *port) {
		p.onCancel = func() error { // it completes in that instant
			p.rec.State = task.Completed
			return fault.New(fault.Finished, "the task has ended")
		}
		out, err := watch(t.Context(), p, foreground.Policy{DetachAfter: time.Second, OnTimeout: foreground.CancelTask})
		if err != nil || out.Record.State != task.Completed || p.taken != 1 {
			t.Errorf("Run() = %+v, %v, taken %d, want the result, taken", out, err, p.taken)
		}
	})
	run(t, "it ends while publishing is decided", func(t *testing.T, p *port) {
		p.onPublish = func() error {
			p.rec.State = task.Completed
			return nil
		}
		out, err := watch(t.Context(), p, detach)
		if err != nil || out.Detached || out.Record.Publication != task.Deferred || p.taken != 1 {
			t.Errorf("Run() = %+v, %v, taken %d, want the plain result, taken", out, err, p.taken)
		}
	})
	run(t, "timer and caller decide once", func(t *testing.T, p *port) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p.onPublish = func() error { <-time.After(time.Second); return nil }
		out, err := watch(ctx, p, foreground.Policy{DetachAfter: time.Second, OnGone: foreground.DetachTask})
		if err != nil || !out.Detached || p.published != 1 || p.canceled != 0 {
			t.Errorf("Run() = %+v, %v, published %d, canceled %d times", out, err, p.published, p.canceled)
		}
	})
	run(t, "the timer to detach does not end the wait for a cancel", func(t *testing.T, p *port) {
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(900*time.Millisecond, leave)
		p.becomes(3*time.Second, task.Canceled)
		began := time.Now()
		out, err := watch(ctx, p, foreground.Policy{DetachAfter: time.Second, OnGone: foreground.CancelTask})
		if !errors.Is(err, context.Canceled) || out.Record.State != task.Canceled || time.Since(began) != 3*time.Second {
			t.Errorf("Run() = %s, %v after %v, want canceled after 3s", out.Record.State, err, time.Since(began))
		}
	})
	run(t, "a cancel that nobody heeds is waited for no longer than said", func(t *testing.T, p *port) {
		began := time.Now()
		_, err := watch(t.Context(), p, foreground.Policy{DetachAfter: time.Second, OnTimeout: foreground.CancelTask, CleanupTimeout: 2 * time.Second})
		var te *foreground.TimeoutError
		if !errors.As(err, &te) || time.Since(began) != 3*time.Second || p.taken != 0 {
			t.Errorf("Run() = %v after %v, want a timeout error after 3s", err, time.Since(began))
		}
	})
	run(t, "a lost doorbell costs one poll", func(t *testing.T, p *port) {
		p.later(time.Second, func() { p.rec.State = task.Completed })
		began := time.Now()
		out, err := watch(t.Context(), p, foreground.Policy{})
		if err != nil || out.Record.State != task.Completed || time.Since(began) != 2*time.Second {
			t.Errorf("Run() = %s, %v after %v, want completed after 2s", out.Record.State, err, time.Since(began))
		}
	})
	run(t, "a store that does not answer is asked again", func(t *testing.T, p *port) {
		left := 0
		p.onGet = func() error {
			if left--; left >= 0 {
				return errBusy
			}
			return nil
		}
		p.later(time.Second, func() {
			left = 4
			p.rec.State = task.Completed
		})
		if out, err := watch(t.Context(), p, foreground.Policy{}); err != nil || out.Record.State != task.Completed {
			t.Errorf("Run() = %s, %v, want completed", out.Record.State, err)
		}
	})
	run(t, "asked to detach", func(t *testing.T, p *port) {
		pr := project.New(p, "t", foreground.Policy{}, 2*time.Second)
		time.AfterFunc(time.Second, pr.Detach)
		out, err := pr.Run(t.Context())
		if err != nil || !out.Detached || p.published != 1 {
			t.Errorf("Run() = %+v, %v, want detached", out, err)
		}
	})
}
