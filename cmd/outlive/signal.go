// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool/command"
)

// mindChange is how long a first Ctrl-C waits for a second one.
const mindChange = 2 * time.Second

// interruptible returns a context that SIGINT and SIGTERM end, for commands that only
// look: the process then ends with 128+n. A second signal ends it at once.
func (a *app) interruptible(ctx context.Context) context.Context {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(ctx)
	a.group.Go("interrupt", func(group context.Context) {
		defer cancel()
		select {
		case sig := <-c:
			if n, ok := sig.(syscall.Signal); ok {
				a.interrupted.Store(int32(n))
			}
		case <-group.Done():
		}
		signal.Stop(c)
	})
	return ctx
}

// signals is what a foreground run does about signals.
//
// Concurrency: serve runs in one goroutine; exit and left are read by others.
type signals struct {
	c    chan os.Signal
	end  chan struct{}
	exit atomic.Int32
	once sync.Once
	left chan struct{} // closed when a signal sent the task to the background
}

func (a *app) listen() *signals {
	s := &signals{c: make(chan os.Signal, 4), end: make(chan struct{}), left: make(chan struct{})}
	// SIGPIPE is taken so that a closed stdout is an error of the write.
	signal.Notify(s.c, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	return s
}

func (s *signals) stop() {
	signal.Stop(s.c)
	close(s.end)
}

// code is the exit code of a task that a signal canceled, or 0.
func (s *signals) code() int { return int(s.exit.Load()) }

// serve acts on signals until stop; leave lets the task go on by itself.
func (s *signals) serve(ctx context.Context, a *app, rec task.Record, onSignal string, leave func()) {
	attended := a.attended()
	var second <-chan time.Time
	for {
		var sig os.Signal
		select {
		case <-s.end:
			return
		case <-second:
			second = nil
			s.detach(leave)
			continue
		case sig = <-s.c:
		}
		n, _ := sig.(syscall.Signal)
		switch {
		case n == syscall.SIGPIPE:
		case onSignal == "detach":
			s.detach(leave)
		case onSignal == "cancel":
			s.cancel(ctx, a, &rec, 128+int(n), n.String())
		case n == syscall.SIGHUP:
			s.detach(leave)
		case n == syscall.SIGINT && attended && second == nil && s.code() == 0:
			a.note("detaching; Ctrl-C again within 2 s cancels")
			second = time.After(mindChange)
		case n == syscall.SIGINT && attended:
			second = nil
			s.cancel(ctx, a, &rec, exitCanceled, "interrupted")
		case n == syscall.SIGINT:
			s.cancel(ctx, a, &rec, 128+int(n), "interrupted")
		default:
			s.cancel(ctx, a, &rec, 128+int(n), "terminated")
		}
	}
}

// detach leaves the task to itself.
func (s *signals) detach(leave func()) {
	s.once.Do(func() { close(s.left) })
	leave()
}

// askStore is how long a canceling signal waits for the store.
const askStore = 2 * time.Second

// cancel asks the store, and the command's supervisor itself when the store does not
// answer.
func (s *signals) cancel(ctx context.Context, a *app, rec *task.Record, code int, reason string) {
	s.exit.CompareAndSwap(0, int32(code))
	asked := make(chan error, 1)
	a.group.Go("cancel", func(context.Context) {
		_, err := a.rt.Cancel(ctx, rec.ID, &outlive.CancelOptions{Reason: reason})
		asked <- err
	})
	select {
	case err := <-asked:
		if err == nil || fault.Is(err, fault.Finished) {
			return
		}
	case <-time.After(askStore):
	}
	b, err := a.commands.Backend(rec)
	if err == nil {
		fence := shell.Fence{Generation: rec.Generation, Attempt: rec.Attempt}
		err = b.Stop(ctx, command.RunID(rec.ID), fence, shell.StopRequest{Cause: shell.Canceled, Reason: reason})
	}
	if err != nil {
		a.note("cancel: %v", err)
	}
}
