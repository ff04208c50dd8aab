// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle starts goroutines, so that each has a name and an owner that
// waits for it. It is the one package that does: a component holds a [Group],
// starts its loops with [Group.Go], and ends with [Group.Stop].
//
// # Guarantees
//
//  1. Stop may be called before the first Go, twice, and from several goroutines.
//  2. After Stop began, Go starts nothing and says so.
//  3. Stop returns nil only when every goroutine has returned; otherwise its error
//     names those that run.
package lifecycle

import (
	"context"
	"errors"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// ErrStopped is the cause of the context of a stopped group, so that a controlled
// stop can be told from a caller's cancel with [context.Cause].
var ErrStopped = errors.New("stopped")

// Group is a set of named goroutines with one context. The zero Group is ready to
// use; its context descends from [context.Background]. A Group must not be copied.
//
// Concurrency: every field is touched only under mu. No method holds mu while it
// calls out or waits. All methods may be called concurrently, Stop also from
// within the group's own goroutines, where it can only end by its ctx.
type Group struct {
	mu       sync.Mutex
	ctx      context.Context
	cancel   context.CancelCauseFunc
	running  map[string]int
	n        int           // sum of running
	stopping bool          // Stop was called: n only falls
	stopped  chan struct{} // closed when stopping and n == 0
}

// New returns a group whose context descends from parent. It starts nothing. The
// end of parent ends the goroutines' context, not the group: Stop still waits.
func New(parent context.Context) *Group {
	g := &Group{}
	g.bindLocked(parent) // nobody else has g yet
	return g
}

// Go runs fn in a goroutine of that name, unless the group is stopping, and
// reports whether it did. The ctx of fn ends with cause [ErrStopped] when the
// group stops. Several goroutines may share a name. A panic is not recovered.
func (g *Group) Go(name string, fn func(ctx context.Context)) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.initLocked()
	if g.stopping {
		return false
	}
	g.running[name]++
	g.n++
	ctx := g.ctx
	go func() {
		defer g.done(name)
		// The label shows in goroutine and CPU profiles.
		pprof.Do(ctx, pprof.Labels("outlive", name), fn)
	}()
	return true
}

// Stop cancels the group's context with cause [ErrStopped] and waits until every
// goroutine has returned. When ctx ends first it returns a [*RunningError], and
// may be called again to go on waiting.
func (g *Group) Stop(ctx context.Context) error {
	stopped := g.stop()
	select {
	case <-stopped: // before ctx: nothing to wait for is success, whatever ctx says
		return nil
	default:
	}
	select {
	case <-stopped:
		return nil
	case <-ctx.Done():
	}
	names := g.Running()
	if len(names) == 0 { // the last one returned in that instant
		return nil
	}
	return &RunningError{Names: names, cause: ctx.Err()}
}

// Stopped returns a channel that is closed once Stop was called and every
// goroutine has returned.
func (g *Group) Stopped() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.initLocked()
	return g.stopped
}

// Running returns the names of the goroutines that run, sorted; a name shared by n
// goroutines is there once, as "name (n)".
func (g *Group) Running() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	names := make([]string, 0, len(g.running))
	for name, n := range g.running {
		if n > 1 {
			name += " (" + strconv.Itoa(n) + ")"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (g *Group) stop() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.initLocked()
	if !g.stopping {
		g.stopping = true
		g.cancel(ErrStopped)
		if g.n == 0 {
			close(g.stopped)
		}
	}
	return g.stopped
}

func (g *Group) done(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n--
	if g.running[name]--; g.running[name] == 0 {
		delete(g.running, name)
	}
	if g.stopping && g.n == 0 {
		close(g.stopped)
	}
}

func (g *Group) initLocked() {
	if g.ctx == nil {
		g.bindLocked(context.Background()) //nolint:forbidigo // the root of a group that nobody bound
	}
}

// bindLocked makes what a group needs lazily, so that a zero Group first used in a
// synctest bubble belongs to that bubble.
func (g *Group) bindLocked(parent context.Context) {
	g.ctx, g.cancel = context.WithCancelCause(parent)
	g.running = make(map[string]int)
	g.stopped = make(chan struct{})
}

// RunningError is what Stop returns when its context ended first. It unwraps to
// the context's error.
type RunningError struct {
	Names []string // as [Group.Running] returns them
	cause error
}

// Error says "still running: " and the names.
func (e *RunningError) Error() string { return "still running: " + strings.Join(e.Names, ", ") }

// Unwrap returns the error of the context that ended.
func (e *RunningError) Unwrap() error { return e.cause }
