// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/placement"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local/internal/failpoint"
	"github.com/outlive-dev/outlive/shell/local/internal/files"
)

// Recoverable is a directory of runs, each under a supervisor of its own. Several
// processes may have the same directory open.
//
// Concurrency: safe for concurrent use. holds and children are under mu; everything
// else is in files.
type Recoverable struct {
	root string
	opt  Options
	exe  string
	hub  *hub
	// place decides, once, where supervisors live.
	place         func() (placement.Decision, error)
	scopePatience time.Duration

	mu       sync.Mutex
	closed   bool
	holds    map[shell.RunID]*os.File // made by Start, for the first Attach
	children map[int]struct{}         // supervisors to reap
}

// Open opens the runs directory dir and makes it when it is not there. It refuses a
// directory that others could change. Close it after use; runs are left alone.
func Open(dir string, o *Options) (*Recoverable, error) {
	root, err := secureRoot(dir)
	if err != nil {
		return nil, err
	}
	opt := o.withDefaults()
	mode, err := placement.ParseMode(opt.Detach)
	if err != nil {
		return nil, fmt.Errorf("open runs: %w", err)
	}
	exe := opt.Exe
	if exe == "" {
		exe = self
	}
	return &Recoverable{
		root: root, opt: opt, exe: exe, hub: newHub(opt.Poll), scopePatience: scopePatience,
		place: sync.OnceValues(func() (placement.Decision, error) {
			return placement.Decide(mode, placement.Look(context.Background(), mode == placement.Scope)) //nolint:forbidigo // once for all, and bounded
		}),
		holds: map[shell.RunID]*os.File{}, children: map[int]struct{}{},
	}, nil
}

// Dir returns the runs directory.
func (r *Recoverable) Dir() string { return r.root }

// Close releases what the process holds: watches, and holds of Start that no Attach
// took over. It is idempotent.
func (r *Recoverable) Close() error {
	r.mu.Lock()
	r.closed = true
	holds := r.holds
	r.holds = map[shell.RunID]*os.File{}
	r.mu.Unlock()
	for _, f := range holds {
		f.Close()
	}
	r.reap()
	return r.hub.close()
}

// Capabilities implements [shell.Recoverable].
func (r *Recoverable) Capabilities() shell.Capabilities {
	c := groups()
	c.Streaming, c.Recoverable, c.OwnsTimeout, c.TTY, c.Stdin = true, true, true, true, true
	c.Split, c.Signals, c.Leftovers, c.Umask, c.Rlimits = true, true, true, true, true
	return c
}

// reap takes the status of supervisors that this process started and that have
// ended, so that none stays as a zombie for long.
func (r *Recoverable) reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for pid := range r.children {
		got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
		if got == pid || errors.Is(err, unix.ECHILD) {
			delete(r.children, pid)
		}
	}
}

// List implements [shell.Recoverable].
func (r *Recoverable) List(ctx context.Context) ([]shell.RunID, error) {
	r.reap()
	var ids []shell.RunID
	shards, err := r.shards()
	for _, s := range shards {
		if err == nil {
			err = r.eachOf(ctx, s, func(id shell.RunID) { ids = append(ids, id) }, nil)
		}
	}
	return ids, err
}

// shards returns the directories that hold runs.
func (r *Recoverable) shards() (names []string, err error) {
	entries, err := os.ReadDir(r.root)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	for _, e := range entries {
		if len(e.Name()) == 2 && e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// eachOf calls run for every run of a shard and tomb for every tombstone.
func (r *Recoverable) eachOf(ctx context.Context, shard string, run, tomb func(id shell.RunID)) error {
	entries, err := os.ReadDir(filepath.Join(r.root, shard))
	if err != nil {
		return fmt.Errorf("list runs: %w", err)
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		id := shell.RunID(e.Name())
		switch {
		case e.IsDir() && id.Valid() == nil:
			run(id)
		case tomb != nil && filepath.Ext(e.Name()) == tombSuffix:
			tomb(id[:len(id)-len(tombSuffix)])
		}
	}
	return nil
}

// Failpoints returns the names of all failpoints.
func Failpoints() []string { return failpoint.All() }

// Prepare implements [shell.Preparer]: the run's directory and lock are there before
// anybody is told that it may be started. Where they are missing later, they were taken
// away.
func (r *Recoverable) Prepare(_ context.Context, id shell.RunID) error {
	if err := id.Valid(); err != nil {
		return err
	}
	dir := r.dir(id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("prepare run: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, nameLock), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("prepare run: %w", err)
	}
	return f.Close()
}

const startPatience = 10 * time.Second

// Start implements [shell.Recoverable]. The steps, in the order they become visible:
//
//  1. The run's directory and lock; the lock is taken.
//  2. Under the lock: tombstone, exit and started are looked for; any of them means
//     that there is nothing to start.
//  3. The fence, the shell text and the spec.
//  4. The supervisor, which inherits the lock.
func (r *Recoverable) Start(ctx context.Context, id shell.RunID, f shell.Fence, req shell.Request) error {
	if err := id.Valid(); err != nil {
		return err
	}
	if err := req.Validate(); err != nil {
		return err
	}
	if req.Limits != (shell.Limits{}) { // to look costs something
		if err := r.Capabilities().Honours(req.Limits); err != nil {
			return fmt.Errorf("start: %w", err)
		}
	}
	r.reap()
	req = req.WithDefaults()
	deadline := time.Now().Add(startPatience)
	for {
		done, err := r.tryStart(id, f, req)
		if done || err != nil {
			return err
		}
		// Somebody holds the lock and nothing says that the command has started: a
		// reader that looked for a moment, or another starter at work.
		if time.Now().After(deadline) {
			return &shell.ExecError{
				Phase: shell.StepStart, Started: shell.Maybe,
				Cause: fault.New(fault.Unavailable, "another process is starting the run and does not get on"),
			}
		}
		if err := r.hub.sleep(ctx, 2*time.Millisecond); err != nil {
			return &shell.ExecError{Phase: shell.StepStart, Started: shell.Maybe, Cause: err}
		}
	}
}

// tryStart makes one attempt. done is false when the lock was busy and the run had
// not started.
func (r *Recoverable) tryStart(id shell.RunID, f shell.Fence, req shell.Request) (done bool, err error) {
	no := func(step shell.Step, err error) (bool, error) {
		return true, &shell.ExecError{Phase: step, Started: shell.No, Cause: err}
	}
	dir := r.dir(id)
	if settled, err := r.settled(id, f, req); settled || err != nil {
		return true, err
	}
	failpoint.Hit(failpoint.BeforeLock)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return no(shell.StepProvision, err)
	}
	lock, busy, err := lockFile(dir, unix.LOCK_EX, os.O_RDWR|os.O_CREATE)
	switch {
	case busy, files.NotThere(err): // moved away by a release
		return false, nil
	case err != nil:
		return no(shell.StepProvision, err)
	}
	defer lock.Close()
	failpoint.Hit(failpoint.Locked)
	if recheckUnderLock {
		if settled, err := r.settled(id, f, req); settled || err != nil {
			return true, err
		}
	}
	var old spec
	switch err := files.Read(filepath.Join(dir, nameSpec), &old); {
	case err != nil && !files.NotThere(err) && !errors.Is(err, files.ErrCorrupt):
		return no(shell.StepProvision, err)
	case err == nil && old.EnvByPipe && req.Environ == nil:
		return true, shell.ErrEnvironmentGone
	}
	if err := withDirLock(dir, func() error { return raiseFence(dir, f) }); err != nil {
		if errors.Is(err, shell.ErrFenced) {
			return true, err
		}
		return no(shell.StepProvision, err)
	}
	if err := r.writeSpec(dir, id, f, req); err != nil {
		return no(shell.StepProvision, err)
	}
	failpoint.Hit(failpoint.SpecDurable)
	if err := r.fork(dir, id, req, lock); err != nil {
		return no(shell.StepStart, err)
	}
	failpoint.Hit(failpoint.ShimForked)
	return true, nil
}

// settled reports whether there is nothing to start any more: then it adopts the run
// for f. It also refuses a request that is not the one the run was made with.
func (r *Recoverable) settled(id shell.RunID, f shell.Fence, req shell.Request) (bool, error) {
	dir := r.dir(id)
	if files.Exists(r.tomb(id)) {
		return true, shell.ErrReleased
	}
	var s spec
	specErr := files.Read(filepath.Join(dir, nameSpec), &s)
	if specErr == nil && s.Digest != req.Digest() {
		return true, shell.ErrDigest
	}
	_, exitErr := readExit(dir)
	begun := files.Exists(filepath.Join(dir, nameStarted)) || !files.NotThere(exitErr)
	if !begun {
		return false, nil
	}
	return true, withDirLock(dir, func() error { return raiseFence(dir, f) })
}

func (r *Recoverable) writeSpec(dir string, id shell.RunID, f shell.Fence, req shell.Request) error {
	cmd := filepath.Join(dir, nameCmd)
	if err := os.Remove(cmd); err != nil && !files.NotThere(err) {
		return err
	}
	if req.Command != "" {
		if err := writeScript(cmd, req.Command); err != nil {
			return err
		}
	}
	s := spec{
		Proto: protoMajor, Minor: protoMinor, Run: id, Fence: f, Digest: req.Digest(),
		Shell: req.Command != "", Argv: req.Argv, Dir: req.Dir, Timeout: req.Timeout, Grace: req.Grace,
		Drain: req.Drain, DrainCap: req.DrainCap, Output: req.Output, Split: req.Split, Leftovers: req.Leftovers,
		Umask: req.Umask, StdinOpen: req.StdinOpen, TTY: req.TTY, Limits: req.Limits, EnvByPipe: req.Environ != nil, CreatedAt: time.Now(),
	}
	for k := range req.Env {
		s.EnvNames = append(s.EnvNames, k)
	}
	return files.Write(dir, nameSpec, s, files.Durability{Sync: true, Tmp: failpoint.SpecTmp})
}

func writeScript(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o400)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// fork starts the supervisor with the lock, the payload, standard input and, for an
// attached start, one end of a connection.
func (r *Recoverable) fork(dir string, id shell.RunID, req shell.Request, lock *os.File) error {
	p := payload{dir: req.Dir, argv: req.Argv, env: environment(id, req)}
	if req.Command != "" {
		p.script = filepath.Join(dir, nameCmd)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	log, err := os.OpenFile(filepath.Join(dir, nameLog), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	load, err := memfile("outlive-payload", p.encode())
	if err != nil {
		return err
	}
	defer load.Close()
	stdin := null
	if len(req.Stdin) > 0 {
		if stdin, err = memfile("outlive-stdin", req.Stdin); err != nil {
			return err
		}
		defer stdin.Close()
	}
	hold := null
	if req.Attached {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		hold = os.NewFile(uintptr(fds[0]), "hold")
		defer hold.Close()
		if err := unix.SetNonblock(fds[1], true); err != nil {
			unix.Close(fds[1])
			return err
		}
		mine := os.NewFile(uintptr(fds[1]), "hold")
		if err := r.keepHold(id, mine); err != nil {
			return err
		}
	}
	env := []string{shell.Cookie + "=" + string(id)}
	if v := os.Getenv(failpoint.Env); v != "" {
		env = append(env, failpoint.Env+"="+v)
	}
	pid, err := r.spawn(dir, env, []*os.File{null, null, log, lock, load, stdin, hold})
	if err != nil {
		r.takeHold(id).close()
		return fmt.Errorf("start supervisor: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.children[pid] = struct{}{}
	return nil
}

// heldConn is a connection made by Start, or nil.
type heldConn struct{ f *os.File }

func (h heldConn) close() {
	if h.f != nil {
		h.f.Close()
	}
}

func (r *Recoverable) keepHold(id shell.RunID, f *os.File) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		f.Close()
		return fault.New(fault.Closed, "start: the backend is closed")
	}
	if old := r.holds[id]; old != nil {
		old.Close()
	}
	r.holds[id] = f
	return nil
}

func (r *Recoverable) takeHold(id shell.RunID) heldConn {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.holds[id]
	delete(r.holds, id)
	return heldConn{f}
}
