// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/apply"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// Bounds of the final flush: what a canceled attempt may still write.
const (
	flushTime  = 5 * time.Second
	flushBytes = 64 << 10
)

// attempt is one attempt that runs here. It implements work.Port.
//
// Concurrency: rec, fence, ex, before and the channels are fixed; mu guards the rest.
type attempt struct {
	d        *Dispatcher
	rec      task.Record
	fence    task.Fence
	ex       *work.Executor
	cancel   context.CancelCauseFunc
	ctx      context.Context //nolint:containedctx // the executor's, it lives as long
	revoke   context.CancelCauseFunc
	life     context.Context //nolint:containedctx // ends when the attempt owns nothing any more, whatever ended ctx before
	detached chan struct{}
	done     chan struct{}
	before   *attempt // of the same task, over but still winding up here
	freed    bool     // its slot is given away; under the dispatcher's mu

	mu         sync.Mutex
	isDetached bool
	started    bool // the start is committed, by this attempt
	flushBegan time.Time
	flushed    int
}

// begin runs an attempt that the store says is ours, once however often it is told
// so. It returns nil when the dispatcher has stopped.
func (d *Dispatcher) begin(rec task.Record) *attempt {
	life, revoke := context.WithCancelCause(context.Background()) //nolint:forbidigo // ends with the attempt: revoke is called in every case
	ctx, cancel := context.WithCancelCause(life)
	a := &attempt{
		d: d, rec: rec, fence: task.Fence{Attempt: rec.Attempt, Lease: rec.Lease}, ex: d.reg[rec.Executor],
		ctx: ctx, cancel: cancel, life: life, revoke: revoke, detached: make(chan struct{}), done: make(chan struct{}),
	}
	if rec.Publication != task.Deferred {
		a.detach()
	}
	d.mu.Lock()
	if old := d.attempts[rec.ID]; old != nil {
		if old.fence == a.fence {
			d.mu.Unlock()
			revoke(context.Canceled)
			return old
		}
		// The row says that the old attempt is over.
		old.revoke(work.ErrFenced)
		a.before = old
	}
	if a.before != nil && a.before.freed {
		d.ended--
	}
	d.attempts[rec.ID] = a
	drain := d.draining && (a.ex.Drains || a.ex.Recoverable)
	d.mu.Unlock()
	if drain {
		cancel(work.ErrDrain)
	}
	if !d.runs.Go("attempt "+string(rec.ID), func(context.Context) { a.serve() }) {
		a.leave()
		return nil
	}
	return a
}

// over reports whether the attempt owns nothing any more: it is to write nothing.
func (a *attempt) over() bool { return a.life.Err() != nil }

// free gives the attempt's slot away before anybody learns of its end, who may want
// to start the next task in it.
func (a *attempt) free() {
	a.d.mu.Lock()
	defer a.d.mu.Unlock()
	if !a.freed && a.d.attempts[a.rec.ID] == a {
		a.freed = true
		a.d.ended++
	}
}

// leave takes the attempt off the books.
func (a *attempt) leave() {
	a.d.mu.Lock()
	if a.d.attempts[a.rec.ID] == a {
		delete(a.d.attempts, a.rec.ID)
		if a.freed {
			a.d.ended--
		}
	}
	backlog := a.d.backlog
	a.d.mu.Unlock()
	a.revoke(context.Canceled)
	close(a.done)
	if backlog {
		ring(a.d.pending) // what waits for a slot has one
	}
}

func (a *attempt) serve() {
	defer a.leave()
	a.awaitBefore()
	if !a.rec.StopOnly() {
		a.finish(a.guard(a.ctx, a.ex.Run))
		return
	}
	if res, ok := a.stop(); ok {
		a.finish(res)
	}
}

// awaitBefore lets the attempt before, which is over, come to its end: one task's
// code does not run twice at once in one process if it heeds its context. What does
// not is left alone after a lease, as it would be by any other worker.
func (a *attempt) awaitBefore() {
	if a.before == nil {
		return
	}
	t := time.NewTimer(a.d.o.Lease)
	defer t.Stop()
	select {
	case <-a.before.done:
	case <-a.ctx.Done():
	case <-t.C:
	}
	a.before = nil
}

// Bounds of the pause between two runs of a stop hook that fails.
const (
	hookPause    = 100 * time.Millisecond
	maxHookPause = time.Minute
)

// stop runs the stop hook until it has stopped what lives outside: a hook that fails
// and may be tried again is run again. ok is false when the attempt ended before;
// whoever comes next goes on with it.
func (a *attempt) stop() (res work.Result, ok bool) {
	if a.ex.Stop == nil {
		return work.Stopped(), true
	}
	for pause := hookPause; ; pause = min(2*pause, maxHookPause) {
		res = a.guard(a.life, a.ex.Stop) // not ctx: that has ended by the very cancel
		if res.End != work.EndFail || !res.Retryable {
			return res, true
		}
		a.d.o.Log.Warn("stop hook failed", "task", a.rec.ID, "attempt", a.rec.Attempt, "code", res.Failure.Code, "message", res.Failure.Message)
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-a.life.Done():
			t.Stop()
			return res, false
		case <-a.d.quit:
			t.Stop()
			return res, false
		}
	}
}

// guard runs the executor and turns a panic into a failed attempt whose stack is in
// the journal, not in the result.
func (a *attempt) guard(ctx context.Context, run func(context.Context, *work.Attempt) work.Result) (res work.Result) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		stack := debug.Stack()
		a.d.o.Log.Error("executor panicked", "task", a.rec.ID, "attempt", a.rec.Attempt, "panic", p)
		if err := a.note(journal.KindPanic, []byte(fmt.Sprintf("%v\n\n%s", p, cut(stack, 64<<10)))); err != nil {
			a.d.o.Log.Warn("journal panic", "task", a.rec.ID, "err", err)
		}
		res = work.Retry(task.CodePanic, "the executor panicked; its stack is in the journal")
	}()
	return run(ctx, work.NewAttempt(a.rec, a.detached, a))
}

func cut(b []byte, n int) []byte { return b[:min(len(b), n)] }

func (a *attempt) note(kind string, data []byte) error {
	ctx, stop := a.patience()
	defer stop()
	return a.d.st.Update(ctx, attemptKeys(a.rec.ID, a.fence.Lease), func(tx store.Tx) error {
		if err := apply.Live(tx, a.fence.Lease); err != nil {
			return err
		}
		s := journal.StreamID(a.rec.Stream())
		if s != journal.StreamID(a.rec.ID) && !tx.Declared(store.StreamKey(s)) {
			return store.More(store.StreamKey(s))
		}
		tx.Append(journal.Entry{Stream: s, Task: string(a.rec.ID), Attempt: a.rec.Attempt, Kind: kind, Media: "text/plain", Data: data})
		return nil
	})
}

// patience is a context for writes of an attempt whose own context may be over.
func (a *attempt) patience() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(a.ctx), a.d.o.Lease)
}

// detach tells the executor that its caller has left it to go on.
func (a *attempt) detach() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.isDetached {
		a.isDetached = true
		close(a.detached)
	}
}

// step commits one command of the attempt under its live lease.
func (a *attempt) step(ctx context.Context, c task.Command) (task.Record, error) {
	return a.commit(ctx, func(tx store.Tx) (apply.Outcome, error) { return apply.Step(tx, a.rec.ID, c) })
}

// commit commits what fn stages for the attempt under its live lease.
func (a *attempt) commit(ctx context.Context, fn func(store.Tx) (apply.Outcome, error)) (task.Record, error) {
	var out apply.Outcome
	err := a.d.st.Update(ctx, attemptKeys(a.rec.ID, a.fence.Lease), func(tx store.Tx) (err error) {
		if err = apply.Live(tx, a.fence.Lease); err != nil {
			return err
		}
		out, err = fn(tx)
		return err
	})
	a.heed(err)
	if err == nil && out.Record.State.Terminal() {
		a.free()
		a.d.hub.Settle(&out.Record)
	}
	return out.Record, err
}

// heed lets the attempt's context follow from what a write was told.
func (a *attempt) heed(err error) {
	switch fault.KindOf(err) {
	case fault.Fenced, fault.Finished, fault.NotFound:
		if err != nil {
			a.revoke(work.ErrFenced)
		}
	case fault.CancelRequested:
		a.d.look(a.ctx, a.rec.ID)
	default:
	}
}

// answerTries is how often a write is made whose answers are lost.
const answerTries = 5

// sure makes a write again whose answer was lost: one that changes nothing when it was
// made before. Again is true from the second time on.
func (a *attempt) sure(ctx context.Context, write func(again bool) error) error {
	for try := 1; ; try++ {
		err := write(try > 1)
		if !fault.Is(err, fault.UnknownOutcome) || try == answerTries {
			return err
		}
		t := time.NewTimer(time.Duration(try*try) * 5 * time.Millisecond)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return err
		}
	}
}

// CommitStart implements work.Port.
func (a *attempt) CommitStart(ctx context.Context, b work.Begin) error {
	err := a.sure(ctx, func(again bool) error {
		_, err := a.step(ctx, task.CommitStart{Fence: a.fence, Checkpoint: b.Checkpoint, Place: b.Place, Outside: b.Outside})
		if again && errors.Is(err, task.ErrStarted) {
			return nil // by the one whose answer was lost
		}
		return err
	})
	if err == nil || errors.Is(err, task.ErrStarted) {
		a.mu.Lock()
		a.started = true
		a.mu.Unlock()
	}
	return err
}

// committed reports whether the start of what lives outside is committed.
func (a *attempt) committed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.started || a.rec.StartCommitted
}

// Checkpoint implements work.Port.
func (a *attempt) Checkpoint(ctx context.Context, cp task.Checkpoint) error {
	return a.sure(ctx, func(bool) error {
		_, err := a.step(ctx, task.Save{Fence: a.fence, Checkpoint: cp})
		return err
	})
}

// CommitInput implements work.Port.
func (a *attempt) CommitInput(ctx context.Context, cursor int64, cp *task.Checkpoint) error {
	return a.sure(ctx, func(bool) error {
		_, err := a.step(ctx, task.CommitInput{Fence: a.fence, Cursor: cursor, Checkpoint: cp})
		return err
	})
}

// Emit implements work.Port.
func (a *attempt) Emit(ctx context.Context, p work.Part) (stored journal.Entry, inserted bool, err error) {
	e := journal.Entry{
		Stream: journal.StreamID(a.rec.Stream()), Event: p.Event, Part: p.ID, Final: p.Final,
		Kind: p.Kind, Media: p.Media, Data: p.Data,
	}
	if e.Kind == "" {
		e.Kind = journal.KindOutput
	}
	o := apply.PartOptions{Flush: p.Flush && a.mayFlush(len(p.Data)), Once: p.Once}
	keys := append(apply.PartKeys(a.rec.ID, e), store.WorkerKey(a.fence.Lease.Worker))
	write := func(bool) error {
		return a.d.st.Update(ctx, keys, func(tx store.Tx) error {
			if err := apply.Live(tx, a.fence.Lease); err != nil {
				return err
			}
			var err error
			stored, inserted, err = apply.Part(tx, a.rec.ID, a.fence, e, o)
			return err
		})
	}
	if e.Part == "" {
		err = write(false) // an event of its own: again would be a second one
	} else {
		err = a.sure(ctx, write)
	}
	a.heed(err)
	return stored, inserted && err == nil, err
}

// mayFlush bounds what a canceled attempt may still write. What a recoverable one
// spooled is bounded by its own limit.
func (a *attempt) mayFlush(n int) bool {
	if a.ex.Recoverable {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.flushBegan.IsZero() {
		a.flushBegan = time.Now()
	}
	if time.Since(a.flushBegan) > flushTime || a.flushed+n > flushBytes {
		return false
	}
	a.flushed += n
	return true
}

// Tail implements work.Port.
func (a *attempt) Tail(ctx context.Context, event string) (t journal.Tail, err error) {
	err = a.d.st.View(ctx, func(v store.View) (err error) {
		t, err = v.Tail(journal.StreamID(a.rec.Stream()), event)
		return err
	})
	return t, err
}

// Inputs implements work.Port.
func (a *attempt) Inputs(ctx context.Context, after int64, wait bool) ([]mail.Input, error) {
	w := a.d.hub.WatchTask(string(a.rec.ID))
	defer w.Close()
	for {
		var ins []mail.Input
		if err := a.d.st.View(ctx, func(v store.View) (err error) {
			ins, err = v.Inputs(a.rec.ID, after, store.DefaultPage)
			return err
		}); err != nil || len(ins) > 0 || !wait {
			return ins, err
		}
		t := time.NewTimer(a.d.o.Poll)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil, context.Cause(ctx)
		case <-w.C():
			t.Stop()
		case <-t.C:
		}
	}
}
