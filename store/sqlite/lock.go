// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/outlive-dev/outlive/fault"
)

// The bytes of PATH.turn that are locked, beyond the holder's pid at its start.
const (
	byteTurn = 100 // held from before BEGIN IMMEDIATE until after COMMIT
	byteNext = 101 // held while waiting for byteTurn
	byteOpen = 102 // shared while the store is open; exclusive to migrate
)

var errBusy = errors.New("lock is held")

// turnstile lets the writers of several processes take turns. Who has just
// committed cannot overtake a process that waits: to wait for the turn one must
// hold byteNext, which the waiting process holds already.
type turnstile struct {
	f   *os.File // nil: the store is read-only
	pid []byte
}

func openTurnstile(path string) (*turnstile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return &turnstile{}, err
	}
	return &turnstile{f: f, pid: fmt.Appendf(nil, "%-16d\n", os.Getpid())}, nil
}

func (t *turnstile) enter(s *Store) error {
	take := func(at int64) error {
		err := s.patiently("turn", func() error { return lockByte(t.f, at, true) })
		if err != nil && fault.KindOf(err) == fault.Unknown {
			return fmt.Errorf("%w: %w", fault.New(fault.Unavailable, "the store's turnstile does not work"), err)
		}
		return err
	}
	if err := take(byteNext); err != nil {
		return err
	}
	err := take(byteTurn)
	unlockByte(t.f, byteNext)
	if err != nil {
		return err
	}
	if t.holder() != strings.TrimSpace(string(t.pid)) {
		_, _ = t.f.WriteAt(t.pid, 0) // only for the text of an error
	}
	return nil
}

func (t *turnstile) leave() { unlockByte(t.f, byteTurn) }

// holder returns the pid of who had the turn last, or "".
func (t *turnstile) holder() string {
	b := make([]byte, 16)
	n, _ := t.f.ReadAt(b, 0)
	pid := strings.TrimSpace(string(b[:n]))
	if _, err := strconv.Atoi(pid); err != nil {
		return ""
	}
	return pid
}

func (t *turnstile) close() {
	if t.f != nil {
		_ = t.f.Close()
	}
}

// lockReport is after how long a lock held by somebody else is reported.
const lockReport = 2 * time.Second

// patiently calls try until it is not refused because somebody else holds a lock,
// at most for the store's LockWait. It reports a lock that is held for long.
func (s *Store) patiently(what string, try func() error) error {
	err := try()
	if !refused(err) {
		return err
	}
	start := time.Now()
	reported := false
	for pause := 50 * time.Microsecond; ; pause = min(pause*5/4, 2*time.Millisecond) {
		time.Sleep(pause)
		if err = try(); !refused(err) {
			return err
		}
		waited := time.Since(start)
		if waited >= lockReport && !reported {
			reported = true
			s.opts.Logger.Warn("store's write lock is held by another process", "path", s.path, "pid", s.turn.holder(), "waited", waited)
		}
		if waited >= s.opts.LockWait {
			return fmt.Errorf("%w: %s (pid %s) for %s", ErrLocked, what, s.turn.holder(), waited.Round(time.Millisecond))
		}
	}
}

func refused(err error) bool { return err != nil && (errors.Is(err, errBusy) || isBusy(err)) }
