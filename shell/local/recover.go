// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local/internal/cgroup"
	"github.com/outlive-dev/outlive/shell/local/internal/files"
	"github.com/outlive-dev/outlive/shell/local/internal/proc"
	"github.com/outlive-dev/outlive/shell/local/internal/spool"
)

// readExit returns the exit record: fs.ErrNotExist when there is none, files.ErrCorrupt when
// it cannot be trusted. A whole record whose supervisor died before it could rename it
// counts.
func readExit(dir string) (e shell.Exit, err error) {
	err = files.Read(filepath.Join(dir, nameExit), &e)
	if files.NotThere(err) {
		switch terr := files.Read(filepath.Join(dir, "."+nameExit), &e); {
		case terr == nil && e.Cause != "":
			return e, nil
		case terr != nil && !files.NotThere(terr) && !errors.Is(terr, files.ErrCorrupt):
			return e, terr
		}
		return shell.Exit{}, err
	}
	if err == nil && e.Cause == "" {
		err = files.ErrCorrupt
	}
	return e, err
}

// Recover implements [shell.Recoverable]. The lock is probed first, then the exit
// record is read: a supervisor writes it before it frees the lock.
func (r *Recoverable) Recover(ctx context.Context, id shell.RunID) (shell.State, error) {
	if err := id.Valid(); err != nil {
		return shell.State{}, err
	}
	r.reap()
	for {
		st, settle, err := r.probe(id)
		if err != nil || !settle {
			return st, err
		}
		done, err := r.settleLost(id, st.Reason)
		if err != nil && !done { // it cannot be written down; it is lost all the same
			return st, nil // a read-only directory must not hide the outcome
		}
		if err := r.hub.sleep(ctx, time.Millisecond); err != nil {
			return st, err
		}
	}
}

// probe reads what became of a run and changes nothing. settle is true for a run that
// was lost and has no exit record yet.
func (r *Recoverable) probe(id shell.RunID) (st shell.State, settle bool, err error) {
	dir := r.dir(id)
	lock, busy, err := lockFile(dir, unix.LOCK_SH, os.O_RDONLY)
	switch {
	case files.NotThere(err):
		return r.unlocked(id), false, nil
	case err != nil:
		return st, false, err
	case lock != nil:
		defer lock.Close()
	}
	var sp spec
	if files.Read(filepath.Join(dir, nameSpec), &sp) == nil {
		st.Digest = sp.Digest
	}
	var begun started
	begunErr := files.Read(filepath.Join(dir, nameStarted), &begun)
	if begunErr == nil {
		st.Started, st.StartedAt = true, begun.StartedAt
	}
	e, err := readExit(dir)
	switch {
	case err == nil:
		return finished(st, e), false, nil
	case busy:
		st.Phase, st.Pid, st.Bytes = shell.Live, begun.Ident.Pid, spool.End(dir)
		return st, false, nil
	case errors.Is(err, files.ErrCorrupt):
		st.Started = true
		e = shell.Exit{Cause: shell.Lost, Reason: shell.ReasonCorrupt, Started: true, TotalBytes: spool.End(dir)}
		return finished(st, e), false, nil
	case !files.NotThere(err):
		return st, false, err
	case begunErr != nil && !files.NotThere(begunErr) && !errors.Is(begunErr, files.ErrCorrupt):
		return st, false, begunErr // not to be read now, which decides nothing
	case files.NotThere(begunErr):
		st.Phase, st.EnvironGone = shell.NeverStarted, sp.EnvByPipe
		return st, false, nil
	}
	st.Started = true
	e = shell.Exit{Cause: shell.Lost, Reason: lostReason(begun, begunErr), Started: true, TotalBytes: spool.End(dir)}
	return finished(st, e), true, nil
}

// unlocked describes a run whose lock is not there.
func (r *Recoverable) unlocked(id shell.RunID) shell.State {
	if e, err := readExit(r.dir(id)); err == nil { // written again after somebody removed the directory
		return finished(shell.State{}, e)
	}
	switch {
	case files.Exists(r.tomb(id)):
		return shell.State{Phase: shell.UnknownRun, Reason: shell.ReasonReleased}
	case proc.Supervised(string(id)): // somebody removed the directory: it writes its exit record all the same
		return shell.State{Phase: shell.Live, Started: true}
	}
	return shell.State{Phase: shell.UnknownRun, Reason: shell.ReasonStateMissing}
}

func finished(st shell.State, e shell.Exit) shell.State {
	st.Phase, st.Exit, st.Bytes = shell.Finished, &e, e.TotalBytes
	st.Started = st.Started && e.Started || e.Started
	if e.Cause == shell.Lost {
		st.Phase, st.Reason = shell.RunLost, e.Reason
	}
	if !e.StartedAt.IsZero() {
		st.StartedAt = e.StartedAt
	}
	return st
}

func lostReason(b started, err error) string {
	switch {
	case err != nil:
		return shell.ReasonCorrupt
	case b.Ident.BootID != proc.BootID():
		return shell.ReasonRebooted
	case b.Ident.PidNS != proc.PidNS():
		return shell.ReasonContainerRestarted
	}
	return shell.ReasonSupervisorDied
}

// settleLost stops what is left of a lost run and writes its exit record, under the
// lock. done is false when somebody else is at it.
func (r *Recoverable) settleLost(id shell.RunID, reason string) (done bool, err error) {
	dir := r.dir(id)
	lock, busy, err := lockFile(dir, unix.LOCK_EX, os.O_RDONLY)
	if busy || files.NotThere(err) {
		return true, nil // look again
	}
	if err != nil {
		return false, err
	}
	defer lock.Close()
	e, err := readExit(dir)
	if err == nil {
		if files.Exists(filepath.Join(dir, nameExit)) {
			return true, nil
		}
	} else {
		var begun started
		_ = files.Read(filepath.Join(dir, nameStarted), &begun)
		e = shell.Exit{
			Cause: shell.Lost, Reason: reason, Started: true, TotalBytes: spool.End(dir),
			StartedAt: begun.StartedAt, EndedAt: r.opt.Now(),
		}
		e.OmittedBytes = spool.Omitted(dir)
		var in stopIntent
		if files.Read(filepath.Join(dir, nameStop), &in) == nil {
			e.Canceled, e.TimedOut = in.Cause != shell.TimedOut, in.Cause == shell.TimedOut
		}
		if reason != shell.ReasonRebooted {
			var left int
			e.LeftoversStopped, left = r.sweep(id, begun.Cgroup)
			e.LeftoversKept = left
		}
	}
	if err := files.Write(dir, nameExit, e, files.Durability{Sync: true}); err != nil {
		return false, err
	}
	_ = os.Remove(filepath.Join(dir, nameCmd))
	return true, nil
}

// sweep ends every process that carries the run's cookie or is in its group, and its
// descendants.
func (r *Recoverable) sweep(id shell.RunID, group string) (stopped, left int) {
	t := proc.Tree{Run: string(id), ByCookie: true, Cgroup: group}
	stopped, left = t.Kill(func() { time.Sleep(5 * time.Millisecond) })
	if group != "" {
		_ = cgroup.Remove(group)
	}
	return stopped, left
}

// Read implements [shell.Recoverable].
func (r *Recoverable) Read(ctx context.Context, id shell.RunID, from int64, maxBytes int, wait time.Duration) (shell.Chunk, error) {
	if err := id.Valid(); err != nil {
		return shell.Chunk{}, err
	}
	if from < 0 || maxBytes < 0 || wait < 0 {
		return shell.Chunk{}, fault.New(fault.Invalid, "read output: negative offset, size or wait")
	}
	c, ok, err := r.readOnce(ctx, id, from, maxBytes)
	if ok || err != nil || wait == 0 {
		return c, err
	}
	w := r.hub.watch(r.dir(id), "")
	defer w.close()
	deadline := time.Now().Add(wait)
	for {
		c, ok, err := r.readOnce(ctx, id, from, maxBytes)
		left := time.Until(deadline)
		if ok || err != nil || left <= 0 {
			return c, err
		}
		if err := w.wait(ctx, left); err != nil {
			return c, err
		}
	}
}

// readOnce reads without waiting; ok is false when there is nothing to tell yet.
func (r *Recoverable) readOnce(ctx context.Context, id shell.RunID, from int64, maxBytes int) (c shell.Chunk, ok bool, err error) {
	if maxBytes == 0 {
		maxBytes = 64 << 10
	}
	dir := r.dir(id)
	total := int64(-1)
	e, exitErr := readExit(dir)
	if exitErr == nil {
		total = e.TotalBytes
	}
	var sp spec
	if err := files.Read(filepath.Join(dir, nameSpec), &sp); err != nil && total < 0 {
		if files.NotThere(err) {
			if !files.Exists(dir) {
				return c, false, shell.ErrNoRun
			}
			return shell.Chunk{Next: from}, false, nil
		}
		return c, false, err
	}
	c, err = spool.Read(dir, sp.Split, from, maxBytes, total)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) && !files.Exists(dir) {
			err = shell.ErrNoRun
		}
		return c, false, err
	}
	if total >= 0 && c.Next >= total {
		c.End = true
	} else if total < 0 && c.Next == from {
		st, err := r.Recover(ctx, id) // its supervisor may be gone
		if err != nil {
			return c, false, err
		}
		if st.Exit != nil { // it ended this moment: read again
			return r.endedOnce(id, from, maxBytes, sp.Split, st.Exit.TotalBytes)
		}
	}
	return c, c.End || c.Next > from, nil
}

func (r *Recoverable) endedOnce(id shell.RunID, from int64, maxBytes int, split bool, total int64) (shell.Chunk, bool, error) {
	c, err := spool.Read(r.dir(id), split, from, maxBytes, total)
	c.End = err == nil && c.Next >= total
	return c, true, err
}

// Wait implements [shell.Recoverable].
func (r *Recoverable) Wait(ctx context.Context, id shell.RunID) (shell.Exit, error) {
	w := r.hub.watch(r.dir(id), nameExit)
	defer w.close()
	for {
		st, err := r.Recover(ctx, id)
		switch {
		case err != nil:
			return shell.Exit{}, err
		case st.Exit != nil:
			r.reap()
			return *st.Exit, nil
		case st.Phase != shell.Live:
			return shell.Exit{}, shell.ErrNoRun
		}
		if err := w.wait(ctx, r.opt.Poll); err != nil {
			return shell.Exit{}, err
		}
	}
}
