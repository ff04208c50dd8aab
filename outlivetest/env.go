// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlivetest

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/store/memory"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// Main is the instance that [Env.Runtime] returns.
const Main = "main"

// Options tune an Env. The zero value is ready to use.
type Options struct {
	// Store is what all instances share. The Env does not close it. Defaults to a new
	// memory store, which the Env closes.
	Store store.Store
	// Runtime are the options of an instance that is started without its own.
	// Defaults to the Runtime's defaults.
	Runtime outlive.Options
	// NoCheck leaves out the check at the end of the test. Defaults to false.
	NoCheck bool
}

// Env is one store with the instances that share it.
//
// Concurrency: mu guards the maps and the list of executors; all methods may be
// called from several goroutines of the test.
type Env struct {
	t    testing.TB
	st   store.Store
	opts Options
	over chan struct{} // closed when the test is over
	fake bool          // in a bubble

	mu        sync.Mutex
	executors []*work.Executor
	instances map[string]*Instance
	all       []*Instance
	signals   map[string]chan struct{}
	ran       map[run]int
	hooks     map[task.ID]int
	marks     map[string]int
	problems  []string
}

// run is one attempt of one task.
type run struct {
	id      task.ID
	attempt int64
}

// New returns an Env without an instance: register executors first. It ends with
// the test.
func New(t testing.TB, o *Options) *Env {
	t.Helper()
	e := &Env{
		t: t, over: make(chan struct{}), instances: map[string]*Instance{}, signals: map[string]chan struct{}{},
		ran: map[run]int{}, hooks: map[task.ID]int{}, marks: map[string]int{}, fake: bubbled(),
	}
	if o != nil {
		e.opts = *o
	}
	e.st = e.opts.Store
	if e.st == nil {
		e.st = memory.New(nil)
	}
	t.Cleanup(e.close)
	return e
}

func (e *Env) close() {
	if !e.opts.NoCheck {
		e.Check()
	}
	e.mu.Lock()
	all := slices.Clone(e.all)
	e.mu.Unlock()
	close(e.over)
	for _, i := range all {
		i.h.set(ended)
	}
	for _, i := range all {
		hurry, cancel := context.WithTimeout(context.WithoutCancel(e.t.Context()), 10*time.Millisecond)
		_ = i.rt.Stop(hurry) // whoever needs longer is given up
		cancel()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(e.t.Context()), time.Minute)
		if err := i.rt.Stop(ctx); err != nil {
			e.t.Errorf("stop instance %s: %v", i.name, err)
		}
		cancel()
	}
	if e.opts.Store == nil {
		if err := e.st.Close(); err != nil {
			e.t.Errorf("close the store: %v", err)
		}
	}
}

// Store returns the store that the instances share, without the faults of any.
func (e *Env) Store() store.Store { return e.st }

// Register adds an executor to every instance that is started from now on.
func (e *Env) Register(ex work.Executor) *work.Executor {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.executors = append(e.executors, &ex)
	return &ex
}

// Runtime returns the instance [Main], started.
func (e *Env) Runtime() *outlive.Runtime { return e.Instance(Main).Runtime() }

// Instance returns the instance of that name, started on first use.
func (e *Env) Instance(name string) *Instance {
	e.t.Helper()
	e.mu.Lock()
	i := e.instances[name]
	e.mu.Unlock()
	if i == nil {
		i = e.Start(name, nil)
	}
	return i
}

// Start starts an instance with options of its own; nil means those of the Env. The
// name may be that of an instance which has stopped or crashed.
func (e *Env) Start(name string, o *outlive.Options) *Instance {
	e.t.Helper()
	if o == nil {
		o = &e.opts.Runtime
	}
	i := &Instance{e: e, name: name, h: newHandle(e.st)}
	opts := *o
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	i.rt = outlive.New(i.h, &opts)
	e.mu.Lock()
	for _, ex := range e.executors {
		own := *ex
		if run := own.Run; run != nil {
			own.Run = func(ctx context.Context, a *work.Attempt) work.Result { return run(within(ctx, i), a) }
		}
		if stop := own.Stop; stop != nil {
			own.Stop = func(ctx context.Context, a *work.Attempt) work.Result { return stop(within(ctx, i), a) }
		}
		i.rt.Register(own)
	}
	e.instances[name] = i
	e.all = append(e.all, i)
	e.mu.Unlock()
	if err := i.rt.Start(e.t.Context()); err != nil {
		e.t.Fatalf("start instance %s: %v", name, err)
	}
	return i
}

// Crash stops the instance dead, as SIGKILL would: nothing of it reaches the store
// any more, and nobody is told.
func (e *Env) Crash(name string) { e.Instance(name).Crash() }

// Reopen starts an instance that has crashed or stopped again, as a new process.
func (e *Env) Reopen(name string) *Instance { return e.Start(name, nil) }

// Idle waits until every goroutine waits for something. In a bubble that is the
// moment when only the passing of time can change anything; outside it does nothing.
func (e *Env) Idle() {
	if e.fake {
		synctest.Wait()
	}
}

// bubbled reports whether the caller is in a bubble.
func bubbled() (in bool) {
	defer func() {
		in = recover() == nil // Wait panics outside of one
	}()
	synctest.Wait()
	return true
}

// Submit creates a background task on [Main], or fails the test.
func (e *Env) Submit(s outlive.Spec) task.Record {
	e.t.Helper()
	r, err := e.Runtime().Submit(e.t.Context(), s)
	if err != nil {
		e.t.Fatalf("Submit() = %v", err)
	}
	return r
}

// Get returns the task's record as the store has it, or fails the test.
func (e *Env) Get(id task.ID) task.Record {
	e.t.Helper()
	var r task.Record
	var ok bool
	err := e.st.View(e.t.Context(), func(v store.View) (err error) {
		r, ok, err = v.Task(id)
		return err
	})
	if err != nil || !ok {
		e.t.Fatalf("Get(%s) = %v, found %v", id, err, ok)
	}
	return r
}

// Signal lets every step that awaits the name go on, now and later.
func (e *Env) Signal(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.signalLocked(name)
	select {
	case <-c:
	default:
		close(c)
	}
}

func (e *Env) signal(name string) <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.signalLocked(name)
}

func (e *Env) signalLocked(name string) chan struct{} {
	c := e.signals[name]
	if c == nil {
		c = make(chan struct{})
		e.signals[name] = c
	}
	return c
}

// Count returns how often a [Mark] of that name was passed, in all instances.
func (e *Env) Count(name string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.marks[name]
}

// Started returns how often a [Start] of the task was committed.
func (e *Env) Started(id task.ID) int { return e.Count("started/" + string(id)) }

// Runs returns how many attempts of the task an executor was entered for.
func (e *Env) Runs(id task.ID) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for r, times := range e.ran {
		if r.id == id {
			n += times
		}
	}
	return n
}

// problem notes what an executor saw and must not have seen; Check reports it.
func (e *Env) problem(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Contains(e.problems, text) {
		e.problems = append(e.problems, text)
	}
}

// Instance is one runtime: a process, as far as the store can tell.
type Instance struct {
	e    *Env
	name string
	rt   *outlive.Runtime
	h    *handle
}

type instanceKey struct{}

func within(ctx context.Context, i *Instance) context.Context {
	return context.WithValue(ctx, instanceKey{}, i)
}

func instanceOf(ctx context.Context) *Instance {
	i, _ := ctx.Value(instanceKey{}).(*Instance)
	return i
}

// Name returns the instance's name.
func (i *Instance) Name() string { return i.name }

// Runtime returns the instance's runtime.
func (i *Instance) Runtime() *outlive.Runtime { return i.rt }

// Crash stops the instance dead, see [Env.Crash].
func (i *Instance) Crash() { i.h.set(dead) }

// Crashed reports whether the instance has crashed.
func (i *Instance) Crashed() bool { return !i.h.alive() }

// Hang makes every call to the store wait until Resume: a disk that does not
// answer, or a process that is stopped.
func (i *Instance) Hang() { i.h.set(hung) }

// Resume ends Hang.
func (i *Instance) Resume() { i.h.set(live) }

// Lose makes the next n updates commit and then fail as of unknown outcome.
func (i *Instance) Lose(n int) {
	i.h.mu.Lock()
	defer i.h.mu.Unlock()
	i.h.lose = n
}

// Refuse makes the next n updates fail with err; nothing of them is committed.
func (i *Instance) Refuse(n int, err error) {
	i.h.mu.Lock()
	defer i.h.mu.Unlock()
	i.h.refuse, i.h.err = n, err
}

// Deafen makes the instance lose every doorbell, until it is called with false.
func (i *Instance) Deafen(on bool) {
	i.h.mu.Lock()
	defer i.h.mu.Unlock()
	i.h.deaf = on
}

// Calls returns how many views and updates the instance has asked for.
func (i *Instance) Calls() (views, updates int) {
	i.h.mu.Lock()
	defer i.h.mu.Unlock()
	return i.h.views, i.h.writes
}

// Stop stops the instance cleanly.
func (i *Instance) Stop(ctx context.Context) error { return i.rt.Stop(ctx) }

// oneLine makes a text fit in a line of a journal or a report.
func oneLine(s string) string {
	s = strings.ReplaceAll(strings.TrimSpace(s), "\n", " ")
	if len(s) > 120 {
		s = s[:117] + "..."
	}
	return s
}
