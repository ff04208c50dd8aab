// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package console lends this process's terminal to a command's, and takes it back.
package console

import (
	"os"
	"sync"

	"golang.org/x/term"

	"github.com/outlive-dev/outlive/shell"
)

// Size returns the size of the first of the files that is a terminal, or what a
// terminal has when nobody says.
func Size(files ...*os.File) shell.TTY {
	for _, f := range files {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
			return shell.TTY{Cols: uint16(min(w, 1<<16-1)), Rows: uint16(min(h, 1<<16-1))}
		}
	}
	return shell.TTY{Cols: 80, Rows: 24}
}

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Raw is a terminal that passes every key on as it is. All methods may be called on
// nil, which is no terminal.
//
// Concurrency: safe for concurrent use; state is under mu.
type Raw struct {
	in *os.File

	mu    sync.Mutex
	state *term.State // as it was, or nil when it is so again
	given bool        // back for good
}

// MakeRaw changes a terminal. Whoever gets it calls Restore, whatever happens.
func MakeRaw(in *os.File) (*Raw, error) {
	r := &Raw{in: in}
	return r, r.enter()
}

func (r *Raw) enter() (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == nil && !r.given {
		r.state, err = term.MakeRaw(int(r.in.Fd()))
	}
	return err
}

func (r *Raw) leave(good bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != nil {
		_ = term.Restore(int(r.in.Fd()), r.state) // it has gone
		r.state = nil
	}
	r.given = r.given || good
}

// Restore gives the terminal back for good, as it was. It is idempotent.
func (r *Raw) Restore() {
	if r != nil {
		r.leave(true)
	}
}

// Pause gives the terminal back until resume is called.
func (r *Raw) Pause() (resume func()) {
	if r == nil {
		return func() {}
	}
	r.leave(false)
	return func() { _ = r.enter() }
}
