// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlive

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/deliver"
	"github.com/outlive-dev/outlive/internal/dispatch"
	"github.com/outlive-dev/outlive/internal/lifecycle"
	"github.com/outlive-dev/outlive/internal/record"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// Options tune a Runtime. The zero value is ready to use.
type Options struct {
	// Slots is how many attempts run at once here. Defaults to 64.
	Slots int
	// Passive runtimes run only what they are asked to start, adopt or stop; they
	// claim no pending work. The command line's short-lived processes are passive.
	// Defaults to false.
	Passive bool
	// Lease is how long this worker is believed without a renewal. Defaults to 15 s.
	Lease time.Duration
	// Renew is the time between renewals of the lease. Defaults to a third of Lease.
	Renew time.Duration
	// Probe is the time between looks at other workers. Defaults to 1 s.
	Probe time.Duration
	// Poll is how long a lost doorbell costs at most. Defaults to 5 s.
	Poll time.Duration
	// Grace is how long Stop waits for attempts when its context has no deadline.
	// Defaults to 30 s.
	Grace time.Duration
	// LockDir is a directory of this host's own, where each of the store's workers has
	// a lock file that proves to the others of the host whether it lives. Defaults to one
	// beside the store's file, and to none where there is no file.
	LockDir string
	// Log gets what an operator should know. Defaults to discarding it.
	Log *slog.Logger
}

// Runtime is one process's share in a store: it creates tasks, runs attempts, and
// answers for every task in the store, whoever runs it.
//
// Its methods may be called concurrently. Register before Start. A Runtime is used
// once: after Stop it stays stopped.
type Runtime struct {
	st   store.Store
	hub  *record.Hub
	reg  dispatch.Registry
	d    *dispatch.Dispatcher
	out  *deliver.Deliverer
	loop *lifecycle.Group
	poll time.Duration

	mu      sync.Mutex
	started bool
	stopped bool
	failed  error // of Start
}

// New returns a Runtime over the store. It starts nothing and does not own the
// store: close it after Stop.
func New(st store.Store, o *Options) *Runtime {
	if o == nil {
		o = &Options{}
	}
	opts := dispatch.Options{
		LockDir: o.LockDir, Slots: o.Slots, Passive: o.Passive, Lease: o.Lease, Renew: o.Renew, Probe: o.Probe, Poll: o.Poll, Grace: o.Grace, Log: o.Log,
		NewID: func() task.WorkerID { return task.WorkerID(string(NewID("wk"))) },
	}
	if opts.Lease > 0 && opts.Renew == 0 {
		opts.Renew = opts.Lease / 3
	}
	if p := st.Info().Path; p != "" && opts.LockDir == "" {
		opts.LockDir = p + ".workers"
	}
	rt := &Runtime{st: st, hub: record.NewHub(st), reg: dispatch.Registry{}, poll: o.Poll}
	if rt.poll == 0 {
		rt.poll = 5 * time.Second
	}
	rt.d = dispatch.New(st, rt.hub, rt.reg, opts)
	rt.out = deliver.New(st, deliver.Options{Poll: rt.poll, Receipt: token, Log: o.Log})
	rt.hub.Listen(rt.out.Hint)
	return rt
}

// Register adds an executor. It panics when the key is malformed or taken: both are
// mistakes of the program, found when it starts.
func (rt *Runtime) Register(ex work.Executor) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	switch {
	case rt.started || rt.stopped:
		panic("outlive: Register after Start: " + ex.Key)
	case rt.reg[ex.Key] != nil:
		panic("outlive: executor registered twice: " + ex.Key)
	case ex.Run == nil:
		panic("outlive: executor without Run: " + ex.Key)
	}
	if err := task.ValidateExecutor(ex.Key); err != nil {
		panic("outlive: " + err.Error())
	}
	if ex.Kind == "" {
		ex.Kind = "tk"
	}
	rt.reg[ex.Key] = &ex
}

// Start starts the runtime; a runtime that is not passive registers as a worker and
// claims pending tasks. It may be repeated and gives the same answer again; after
// Stop it is kind Closed. Canceling ctx does not stop the runtime: Stop does, also
// after a Start that failed.
func (rt *Runtime) Start(ctx context.Context) error {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	switch {
	case rt.stopped:
		return fault.New(fault.Closed, "start: the runtime has stopped")
	case rt.started:
		return rt.failed
	}
	rt.started = true
	rt.loop = lifecycle.New(context.WithoutCancel(ctx))
	rt.loop.Go("doorbell", rt.hub.Run)
	rt.loop.Go("deliver", rt.out.Run)
	rt.failed = rt.d.Start(ctx)
	return rt.failed
}

// Stop drains and stops: attempts that drain yield or leave, others may finish until
// ctx ends; then leases are released so that another worker continues at once. No
// task is canceled or suspended by it. When ctx ends first the error names what
// still runs. It may be repeated.
func (rt *Runtime) Stop(ctx context.Context) error {
	rt.mu.Lock()
	loop := rt.loop
	rt.stopped = true
	rt.mu.Unlock()
	if loop == nil {
		return nil
	}
	err := rt.d.Stop(ctx)
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, loop.Stop(stop))
}

// NewID makes a task id with the given kind as its prefix, for a caller that must
// know it before the task exists.
func NewID(kind string) task.ID {
	var random [14]byte
	_, _ = rand.Read(random[:]) // never fails
	return task.NewID(kind, time.Now(), random)
}

func token() string {
	var b [15]byte
	_, _ = rand.Read(b[:]) // never fails
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}

// Get returns the task, or kind NotFound.
func (rt *Runtime) Get(ctx context.Context, id task.ID) (task.Record, error) {
	var r task.Record
	found := false
	err := rt.st.View(ctx, func(v store.View) (err error) {
		r, found, err = v.Task(id)
		return err
	})
	switch {
	case err != nil:
		return task.Record{}, fmt.Errorf("get task %s: %w", id, err)
	case !found:
		return task.Record{}, notFound(id)
	}
	return r, nil
}
