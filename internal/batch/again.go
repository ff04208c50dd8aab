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

// BlockedError is a driver's error when another process keeps rows locked. The functions
// that declare none of the keys go on without the others.
type BlockedError struct {
	Keys map[store.Key]struct{} // none where it is not known which: then halves are tried
	Err  error                  // what a function hears that waited for too long
}

// Error implements error.
func (e *BlockedError) Error() string { return e.Err.Error() }

// Unwrap returns what a function hears.
func (e *BlockedError) Unwrap() error { return e.Err }

func (e *BlockedError) split(ops []*op) (free, held []*op) {
	if len(e.Keys) == 0 && len(ops) == 1 {
		return nil, ops
	}
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

// blockedPause is how long the committer rests when nobody gets on.
const blockedPause = 5 * time.Millisecond

// alonePause is how long a function rests after it was blocked for no key of its own, at
// first; it then rests as long again as it has been waiting.
const alonePause = 200 * time.Millisecond

// around runs the free functions now and the held ones later, until the patience of one
// ends. Those that are not held for one of their keys would hold up a whole batch again:
// they are tried alone, and ever more rarely.
func (e *Executor) around(b *BlockedError, free, held, again []*op) []*op {
	now := time.Now()
	for _, o := range held {
		if o.since.IsZero() {
			o.since = now
		}
		waited := now.Sub(o.since)
		if waited >= e.opts.Patience {
			o.err = b.Err
			answer([]*op{o})
			continue
		}
		if o.alone = len(b.Keys) == 0; o.alone {
			o.retry = now.Add(max(alonePause, waited))
		}
		again = append(again, o)
	}
	if len(free) > 0 {
		return e.process(free, again)
	}
	return again
}

// due sorts what is to run again into those that run with others now, those that run
// alone now, and the rest.
func due(again, dst []*op, now time.Time) (ops, alone, rest []*op) {
	for _, o := range again {
		switch {
		case !o.alone:
			dst = append(dst, o)
		case now.Before(o.retry):
			rest = append(rest, o)
		default:
			alone = append(alone, o)
		}
	}
	return dst, alone, rest
}
