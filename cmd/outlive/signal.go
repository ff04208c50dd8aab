// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/task"
)

// mindChange is how long a first Ctrl-C waits for a second one.
const mindChange = 2 * time.Second

// signals is what a foreground run does about signals.
type signals struct {
	c    chan os.Signal
	end  chan struct{}
	exit atomic.Int32
}

func (a *app) listen() *signals {
	s := &signals{c: make(chan os.Signal, 4), end: make(chan struct{})}
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

// serve acts on signals until stop.
func (s *signals) serve(ctx context.Context, a *app, w *outlive.Watched, onSignal string) {
	attended := a.attended()
	id := w.Task().ID
	var second <-chan time.Time
	for {
		select {
		case <-s.end:
			return
		case <-second:
			second = nil
			w.Detach()
		case sig := <-s.c:
			switch {
			case sig == syscall.SIGPIPE:
			case onSignal == "detach":
				w.Detach()
			case sig == syscall.SIGHUP && onSignal == "":
				w.Detach()
			case sig == syscall.SIGINT && onSignal == "" && attended && second == nil:
				a.note("detaching; Ctrl-C again within 2 s cancels")
				second = time.After(mindChange)
			case sig == syscall.SIGINT && attended:
				second = nil
				s.cancel(ctx, a, id, exitCanceled, "interrupted")
			case sig == syscall.SIGINT:
				s.cancel(ctx, a, id, 128+int(syscall.SIGINT), "interrupted")
			default:
				s.cancel(ctx, a, id, 128+int(syscall.SIGTERM), "terminated")
			}
		}
	}
}

func (s *signals) cancel(ctx context.Context, a *app, id task.ID, code int, reason string) {
	s.exit.Store(int32(code))
	if _, err := a.rt.Cancel(ctx, id, &outlive.CancelOptions{Reason: reason}); err != nil {
		a.note("cancel: %v", err)
	}
}
