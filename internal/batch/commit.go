// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/store"
)

// maxRounds bounds how often one function may ask for more keys.
const maxRounds = 256

var errRounds = fault.New(fault.Invalid, "store: update asked for more keys too often")

// loop commits batches until nothing waits.
func (e *Executor) loop(context.Context) {
	var ops, again []*op
	answered := 0
	for {
		e.gather(answered)
		var alone, rest []*op
		ops, alone, rest = due(again, ops[:0], time.Now())
		e.mu.Lock()
		if e.holds == 0 {
			ops = e.takeLocked(ops)
		}
		if len(ops)+len(alone)+len(rest) == 0 {
			e.active = false
			if e.idle != nil {
				close(e.idle)
				e.idle = nil
			}
			e.mu.Unlock()
			return
		}
		e.mu.Unlock()
		answered = len(ops)
		again = rest
		if len(ops) > 0 {
			again = e.process(ops, again)
		}
		for _, o := range alone {
			again = e.process([]*op{o}, again)
		}
		if answered+len(alone) == 0 || answered > 0 && len(again) == answered {
			time.Sleep(blockedPause) // nobody got on
		}
		clear(ops)
	}
}

// gather lets the callers that were just answered come back first, since what they
// ask for next belongs to the next batch: it yields as long as that brings some of
// them, and with nobody ready to run it costs nothing.
func (e *Executor) gather(answered int) {
	const rounds = 8
	for i, before := 0, -1; i < rounds; i++ {
		runtime.Gosched()
		n := e.Waiting()
		if n >= answered || n == before {
			return
		}
		before = n
	}
}

// process commits ops, answers them, and returns again with those appended that
// are to run in the next batch.
func (e *Executor) process(ops, again []*op) []*op {
	done, later, err := e.attempt(ops)
	again = append(again, later...)
	for tries := 1; tries < maxAgain && isAgain(err); tries++ {
		done, later, err = e.attempt(done)
		again = append(again, later...)
	}
	if err == nil {
		answer(done)
		return again
	}
	var blocked *BlockedError
	if errors.As(err, &blocked) {
		if free, held := blocked.split(done); len(held) > 0 {
			return e.around(blocked, free, held, again)
		}
	}
	if len(done) == 1 || wholeBatch(err) && blocked == nil && !isAgain(err) {
		for _, o := range done {
			if !o.own {
				o.err = err
			}
		}
		answer(done)
		return again
	}
	half := len(done) / 2
	again = e.process(done[:half:half], again)
	return e.process(done[half:], again)
}

func answer(ops []*op) {
	for _, o := range ops {
		o.done <- struct{}{}
	}
}

// wholeBatch reports whether an error has nothing to do with any one function.
func wholeBatch(err error) bool {
	switch fault.KindOf(err) {
	case fault.Unavailable, fault.UnknownOutcome, fault.Closed:
		return true
	}
	return false
}

// attempt runs ops in one transaction:
//
//  1. Begin.
//  2. Load the union of the keys, and take the batch's time.
//  3. Run every function; one that fails leaves no trace.
//  4. Flush and Commit, unless nothing was staged.
//  5. Ring the hub.
//
// It returns the ops whose outcome is decided by err or, when err is nil, by
// their own err, and those that did not get a turn.
func (e *Executor) attempt(ops []*op) (done, later []*op, err error) {
	for _, o := range ops {
		o.err, o.own = nil, false
	}
	last, err := e.driver.Begin()
	if err != nil {
		return ops, nil, err
	}
	committed := false
	defer func() {
		if !committed {
			e.driver.Rollback()
		}
	}()
	e.tx.reset(last)
	if err := e.load(ops); err != nil {
		return ops, nil, err
	}
	e.tx.now = e.now(last)
	if done, later, err = e.runAll(ops); err != nil {
		return ops, nil, err
	}
	if !e.tx.dirty() {
		return done, later, nil
	}
	e.tx.staging(&e.staging)
	if err := e.driver.Flush(&e.staging); err != nil {
		return done, later, err
	}
	if err := e.driver.Commit(); err != nil {
		return done, later, err
	}
	committed = true
	e.commits.Add(1)
	e.updates.Add(int64(len(done)))
	if e.hub.Listening() {
		e.hub.Ring(e.staging.Hint())
	}
	return done, later, nil
}

// now is the store's clock: it has microseconds and never goes back.
func (e *Executor) now(last time.Time) time.Time {
	now := micros(e.opts.Clock())
	if now.Before(last) {
		return last
	}
	return now
}

func (e *Executor) load(ops []*op) error {
	var keys []store.Key
	for _, o := range ops {
		keys = e.missing(keys, o.keys)
	}
	return e.driver.Load(keys, &e.tx.rows)
}

// missing appends the keys that are not loaded, and takes them as loaded.
func (e *Executor) missing(dst, keys []store.Key) []store.Key {
	for _, k := range keys {
		if _, ok := e.tx.have[k]; !ok {
			e.tx.have[k] = struct{}{}
			dst = append(dst, k)
		}
	}
	return dst
}

// runAll gives every function its turn. Those that ask for more keys have another one
// after the rest, with what all of them asked for loaded in one go; a function is never
// run before an earlier one of its first key.
func (e *Executor) runAll(ops []*op) (done, later []*op, err error) {
	done = ops[:0:0]
	for turn := ops; len(turn) > 0; {
		var asked []*op
		var keys []store.Key
		behind := make(map[store.Key]struct{})
		for i, o := range turn {
			if len(done) > 0 && e.tx.bytes > e.opts.Bytes {
				return done, append(append(later, asked...), turn[i:]...), nil
			}
			if _, ok := behind[o.hot]; ok {
				asked = append(asked, o)
				continue
			}
			switch e.run(o) {
			case ranOut:
				done = append(done, o)
			case ranLater:
				later = append(later, o)
			case ranAsking:
				asked = append(asked, o)
				keys = e.missing(keys, o.keys)
				behind[o.hot] = struct{}{}
			}
		}
		if len(keys) > 0 {
			if err := e.driver.Load(keys, &e.tx.rows); err != nil {
				return nil, nil, err
			}
		}
		turn = asked
	}
	return done, later, nil
}

// ran is how a function's turn ended.
type ran uint8

const (
	ranOut    ran = iota // its answer is in op.err
	ranLater             // it is to run in the next batch
	ranAsking            // it asked for keys, which are now op.keys
)

// run gives one function its turn.
func (e *Executor) run(o *op) ran {
	e.tx.first = !e.tx.dirty()
	e.tx.begin(o.keys)
	err := e.call(o.fn)
	if err == nil {
		e.tx.keep()
		return ranOut
	}
	e.tx.undo()
	if _, late := err.(*laterError); late { //nolint:errorlint // the batch's own mark, never wrapped
		return ranLater
	}
	keys, ok := store.AsMore(err)
	if !ok {
		o.err, o.own = err, e.tx.first
		return ranOut
	}
	if o.more++; o.more > maxRounds {
		o.err = errRounds
		return ranOut
	}
	o.keys = slices.Concat(o.keys, keys)
	return ranAsking
}

type laterError struct{}

func (*laterError) Error() string { return "store: update runs in the next batch" }

// call recovers a panic of fn: it is the failure of that one update.
func (e *Executor) call(fn func(store.Tx) error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case errLater:
			err = &laterError{}
		default:
			err = fmt.Errorf("update panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return fn(e.tx)
}
