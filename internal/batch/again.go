// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"errors"
	"time"

	"github.com/outlive-dev/outlive/store"
)

// AgainError is a driver's error after which the same functions may well succeed when
// they run again over what is stored by then: a lost race with another process.
type AgainError struct{ Err error }

// Error implements error.
func (e *AgainError) Error() string { return e.Err.Error() }

// Unwrap returns what happened.
func (e *AgainError) Unwrap() error { return e.Err }

func isAgain(err error) bool {
	var again *AgainError
	return errors.As(err, &again)
}

// maxAgain is how often a batch is tried until it is taken apart.
const maxAgain = 6

// BlockedError is Load's error when another process keeps rows locked. The functions
// that declare none of the keys go on without the others.
type BlockedError struct {
	Keys map[store.Key]struct{}
	Err  error // what a function hears that waited for too long
}

// Error implements error.
func (e *BlockedError) Error() string { return e.Err.Error() }

// Unwrap returns what a function hears.
func (e *BlockedError) Unwrap() error { return e.Err }

func (e *BlockedError) split(ops []*op) (free, held []*op) {
	for _, o := range ops {
		if e.blocks(o) {
			held = append(held, o)
		} else {
			free = append(free, o)
		}
	}
	return free, held
}

func (e *BlockedError) blocks(o *op) bool {
	for _, k := range o.keys {
		if _, ok := e.Keys[k]; ok {
			return true
		}
	}
	return false
}

// blockedPause is how long the committer rests when nothing but blocked functions is
// there to run.
const blockedPause = 5 * time.Millisecond

// around runs the free functions now and the held ones with the next batch, until the
// patience of one ends.
func (e *Executor) around(b *BlockedError, free, held, again []*op) []*op {
	now := time.Now()
	for _, o := range held {
		if o.since.IsZero() {
			o.since = now
		}
		if now.Sub(o.since) < e.opts.Patience {
			again = append(again, o)
			continue
		}
		o.err = b.Err
		answer([]*op{o})
	}
	if len(free) > 0 {
		return e.process(free, again)
	}
	time.Sleep(blockedPause)
	return again
}
