// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/session"
	"github.com/outlive-dev/outlive/task"
)

// busyPolicy reads what a command is to do about a turn that has not ended. A command is
// no message that somebody could read, and its environment is this process's alone: it
// waits here for its turn, and leaves nothing behind when it does not come to it.
func busyPolicy(word string) (session.Policy, error) {
	p := session.Policy(word)
	if p == session.Enqueue || p == session.Reject || p == session.Interrupt {
		return p, nil
	}
	return "", usagef("--busy %q: want enqueue, reject or interrupt", word)
}

// turn starts a task; one of a session as soon as that is free. Busy says what to do
// meanwhile. The store decides which of several that wait is next.
func (a *app) turn(ctx context.Context, s outlive.Spec, busy session.Policy, start func(outlive.Spec) error) error {
	if s.Session == "" {
		return start(s)
	}
	s.Busy = session.Reject
	for said := task.ID(""); ; {
		err := start(s)
		if busy == session.Reject || !errors.Is(err, session.ErrBusy) {
			return err
		}
		now, err := a.rt.Session(ctx, s.Session)
		if err != nil {
			return err
		}
		if now.Active == "" {
			continue // it has ended meanwhile
		}
		if now.Active != said {
			said = now.Active
			a.note("waits for its turn in session %s: %s has not ended", s.Session, said)
		}
		if err := a.free(ctx, now.Active, busy); err != nil {
			return err
		}
	}
}

// free waits until a turn has ended, or is interrupted itself: then nothing was started.
func (a *app) free(ctx context.Context, active task.ID, busy session.Policy) error {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.group.Go("interrupt", func(context.Context) {
		defer signal.Stop(c)
		select {
		case sig := <-c:
			if n, ok := sig.(syscall.Signal); ok {
				a.interrupted.Store(int32(n))
			}
			cancel()
		case <-ctx.Done():
		}
	})
	if busy == session.Interrupt {
		if _, err := a.rt.Cancel(ctx, active, &outlive.CancelOptions{Reason: "interrupted by the next command"}); err != nil && !fault.Is(err, fault.Finished) {
			return err
		}
	}
	_, err := a.rt.Wait(ctx, active, outlive.Terminal)
	if fault.Is(err, fault.NotFound) {
		return nil // it has ended, and is forgotten
	}
	return err
}
