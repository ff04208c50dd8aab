// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local/internal/cgroup"
	"github.com/outlive-dev/outlive/shell/local/internal/files"
)

// Stop implements [shell.Recoverable]. The intent is durable before the supervisor is
// told, and it is told of what it would find anyway.
func (r *Recoverable) Stop(ctx context.Context, id shell.RunID, f shell.Fence, s shell.StopRequest) error {
	if err := id.Valid(); err != nil {
		return err
	}
	switch {
	case s.Cause == "":
		s.Cause = shell.Canceled
	case s.Cause != shell.Canceled && s.Cause != shell.TimedOut:
		return fault.Newf(fault.Invalid, "stop: cause %q", s.Cause)
	}
	if s.Grace < 0 && s.Grace != shell.AtOnce {
		return fault.Newf(fault.Invalid, "stop: negative grace %v", s.Grace)
	}
	if files.Exists(r.tomb(id)) {
		return nil
	}
	dir := r.dir(id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := withDirLock(dir, func() error { return intend(dir, f, s) }); err != nil {
		return err
	}
	for {
		if _, err := readExit(dir); err == nil {
			return nil
		}
		lock, busy, err := lockFile(dir, unix.LOCK_EX, os.O_RDWR|os.O_CREATE)
		switch {
		case err != nil && !files.NotThere(err):
			return err
		case lock != nil:
			done, err := r.stopUnsupervised(ctx, id, lock, s)
			if done || err != nil {
				return err
			}
		case busy && files.Exists(filepath.Join(dir, nameStarted)):
			pokeShim(dir)
			return nil
		case files.NotThere(err):
			return nil // released meanwhile
		}
		// A reader has the lock for a moment, or a supervisor is about to start; it
		// looks at the intent before it opens the gate.
		if err := r.hub.sleep(ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
}

// intend records the intent: the first cause stays, the grace only gets shorter.
func intend(dir string, f shell.Fence, s shell.StopRequest) error {
	if err := raiseFence(dir, f); err != nil {
		return err
	}
	in := stopIntent{Cause: s.Cause, Reason: files.Cut(s.Reason), Grace: s.Grace, Fence: f, At: time.Now()}
	var old stopIntent
	if files.Read(filepath.Join(dir, nameStop), &old) == nil {
		grace := in.Grace
		in = old
		if grace == 0 || old.Grace != 0 && grace >= old.Grace {
			return nil
		}
		in.Grace = grace
	}
	return files.Write(dir, nameStop, in, files.Durability{Sync: true})
}

// stopUnsupervised ends a run that nobody supervises, under its lock: one that never
// started never will, one whose supervisor died is lost.
func (r *Recoverable) stopUnsupervised(ctx context.Context, id shell.RunID, lock *os.File, s shell.StopRequest) (done bool, err error) {
	dir := r.dir(id)
	if _, err := readExit(dir); err == nil {
		lock.Close()
		return true, nil
	}
	if files.Exists(filepath.Join(dir, nameStarted)) || files.Exists(filepath.Join(dir, nameExit)) {
		lock.Close()
		_, err := r.Recover(ctx, id)
		return true, err
	}
	defer lock.Close()
	e := shell.Exit{
		Cause: s.Cause, Reason: files.Cut(s.Reason), EndedAt: time.Now(),
		Canceled: s.Cause == shell.Canceled, TimedOut: s.Cause == shell.TimedOut,
	}
	return true, files.Write(dir, nameExit, e, files.Durability{Sync: true})
}

// pokeShim tells a supervisor to look at the intent now; it would within a moment.
func pokeShim(dir string) {
	f, err := dial(dir)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.Write([]byte{msgPoke})
}

// Release implements [shell.Recoverable]. The tombstone is durable before the run
// goes, so that there is no moment in which a late Start would run it again.
func (r *Recoverable) Release(ctx context.Context, id shell.RunID, f shell.Fence) error {
	if err := id.Valid(); err != nil {
		return err
	}
	dir := r.dir(id)
	err := withDirLock(dir, func() error { return raiseFence(dir, f) })
	if files.NotThere(err) {
		return r.bury(id, f) // nothing there: a late Start must find that it is over
	}
	if err != nil {
		return err
	}
	return r.remove(ctx, id, f)
}

// remove takes the run away unless it is live.
func (r *Recoverable) remove(ctx context.Context, id shell.RunID, f shell.Fence) error {
	dir := r.dir(id)
	for range 200 {
		lock, busy, err := lockFile(dir, unix.LOCK_EX, os.O_RDWR|os.O_CREATE)
		if files.NotThere(err) {
			return r.bury(id, f)
		}
		if err != nil {
			return err
		}
		if busy {
			if _, err := readExit(dir); files.NotThere(err) && files.Exists(filepath.Join(dir, nameStarted)) {
				return shell.ErrLive
			}
			// It is about to end, or a reader looked.
			if err := r.hub.sleep(ctx, 5*time.Millisecond); err != nil {
				return err
			}
			continue
		}
		defer lock.Close()
		if err := r.bury(id, f); err != nil {
			return err
		}
		return r.discard(dir)
	}
	return shell.ErrLive
}

func (r *Recoverable) bury(id shell.RunID, f shell.Fence) error {
	tomb := r.tomb(id)
	if files.Exists(tomb) {
		return nil
	}
	dir, name := filepath.Split(tomb)
	err := files.Write(dir, name, tombstone{Fence: f, At: r.opt.Now()}, files.Durability{Sync: true})
	if files.NotThere(err) {
		if err = os.MkdirAll(dir, 0o700); err == nil {
			err = files.Write(dir, name, tombstone{Fence: f, At: r.opt.Now()}, files.Durability{Sync: true})
		}
	}
	return err
}

// discard moves the directory out of sight in one step and then removes it; what a
// crash leaves is removed by GC.
func (r *Recoverable) discard(dir string) error {
	var begun started
	if files.Read(filepath.Join(dir, nameStarted), &begun) == nil && begun.Cgroup != "" {
		_ = cgroup.Remove(begun.Cgroup) // of leftovers that were kept, and have ended or not
	}
	trash := filepath.Join(r.root, trashDir)
	if err := os.MkdirAll(trash, 0o700); err != nil {
		return err
	}
	to := filepath.Join(trash, filepath.Base(dir)+"."+time.Now().UTC().Format("20060102T150405.000000000"))
	if err := os.Rename(dir, to); err != nil && !files.NotThere(err) {
		return err
	}
	return os.RemoveAll(to)
}
