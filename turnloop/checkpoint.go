// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package turnloop

import (
	"context"
	"fmt"
	"slices"
)

// Checkpoint is what a loop leaves for the next one.
type Checkpoint[T any] struct {
	// Interrupted are the items of the turn that did not end.
	Interrupted []Item[T] `json:"interrupted,omitempty"`
	// State is what its agent left.
	State []byte `json:"state,omitempty"`
	// Unhandled are the items that were in no turn.
	Unhandled []Item[T] `json:"unhandled,omitempty"`
}

// Checkpoints keeps one checkpoint. Its calls are made one after another.
type Checkpoints[T any] interface {
	// Load returns the checkpoint, or nil when there is none.
	Load(ctx context.Context) (*Checkpoint[T], error)
	// Save keeps c instead of what there was, in one step.
	Save(ctx context.Context, c Checkpoint[T]) error
	// Delete is idempotent.
	Delete(ctx context.Context) error
}

// Resume is what a loop begins with when a checkpoint holds a turn that did not end.
type Resume[T any] struct {
	Interrupted []Item[T] // of that turn
	State       []byte    // of its agent
	Unhandled   []Item[T] // left by the loop before
	New         []Item[T] // pushed since
}

// ResumePlan decides: with Resume the interrupted turn goes on from its state with
// Consume, of the unhandled and new items, in addition. Without, the plan is that of a
// new turn over all items and the checkpoint is deleted before it runs. Items in no list
// stay buffered.
type ResumePlan[T any] struct {
	Plan[T]
	Resume bool
}

// held is the checkpoint that is still kept, until what it holds is done with.
type held struct{ items map[int64]bool }

// start reads the checkpoint and performs its turn.
func (l *Loop[T]) start(ctx context.Context) *ending {
	if l.cfg.Checkpoints == nil {
		return nil
	}
	cp, err := guard(func() (*Checkpoint[T], error) { return l.cfg.Checkpoints.Load(ctx) })
	if err != nil {
		return &ending{reason: l.failed(ctx), err: fmt.Errorf("load checkpoint: %w", err)}
	}
	if cp == nil {
		return nil
	}
	l.held = &held{seqs(slices.Concat(cp.Interrupted, cp.Unhandled))}
	l.mu.Lock()
	l.shiftLocked(cp)
	l.returnLocked(cp.Unhandled)
	l.resuming = len(cp.Interrupted) > 0
	l.mu.Unlock()
	if len(cp.Interrupted) == 0 {
		return nil
	}
	end := l.resume(ctx, cp)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resuming = false
	return end
}

// shiftLocked numbers what was pushed already behind what the checkpoint holds.
func (l *Loop[T]) shiftLocked(cp *Checkpoint[T]) {
	last := int64(0)
	for _, i := range slices.Concat(cp.Interrupted, cp.Unhandled) {
		last = max(last, i.Seq)
	}
	for n := range l.buffer {
		l.buffer[n].Seq += last
	}
	for n := range l.late {
		l.late[n].Seq += last
	}
	l.seq += last
}

// resume decides what becomes of the interrupted turn. Its items are in no buffer:
// whatever ends the loop before they are in a turn again leaves them interrupted.
func (l *Loop[T]) resume(ctx context.Context, cp *Checkpoint[T]) *ending {
	still := func(end *ending) *ending {
		if end == nil {
			end = &ending{reason: Stopped}
			if ctx.Err() != nil {
				end.reason, end.err = ContextEnded, context.Cause(ctx)
			}
		}
		if end.items == nil {
			end.items, end.state = cp.Interrupted, cp.State
		}
		return end
	}
	if l.cfg.GenResume == nil {
		if end := l.abandon(ctx); end != nil {
			return still(end)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.returnLocked(cp.Interrupted)
		return nil
	}
	items, planCtx, ok := l.awaitItems(ctx)
	if !ok {
		return still(nil)
	}
	defer l.planned()
	r := Resume[T]{Interrupted: slices.Clone(cp.Interrupted), State: cp.State, Unhandled: slices.Clone(cp.Unhandled)}
	for _, i := range items {
		if !l.held.items[i.Seq] {
			r.New = append(r.New, i)
		}
	}
	plan, err := guard(func() (ResumePlan[T], error) { return l.cfg.GenResume(planCtx, r) })
	if err == nil && plan.Resume {
		plan.Plan, err = plan.check(items)
	} else if err == nil {
		plan.Plan, err = plan.check(slices.Concat(cp.Interrupted, items))
	}
	if err != nil {
		return still(l.planFailed(ctx, fmt.Errorf("plan the resumed turn: %w", err)))
	}
	if plan.Resume {
		plan.Consume = slices.Concat(cp.Interrupted, plan.Consume)
		end, ran := l.perform(ctx, planCtx, plan.Plan, cp.State)
		if end != nil || !ran {
			return still(end)
		}
		return l.digest(ctx)
	}
	if end := l.abandon(ctx); end != nil {
		return still(end)
	}
	l.mu.Lock()
	changed := l.changed
	l.returnLocked(cp.Interrupted)
	l.changed = changed // the plan has seen these
	l.mu.Unlock()
	end, _ := l.perform(ctx, planCtx, plan.Plan, nil)
	return end
}

// digest deletes the checkpoint when all that it holds was in turns that have ended.
func (l *Loop[T]) digest(ctx context.Context) *ending {
	if l.held == nil {
		return nil
	}
	l.mu.Lock()
	waits := slices.ContainsFunc(l.buffer, func(i Item[T]) bool { return l.held.items[i.Seq] })
	l.mu.Unlock()
	if waits {
		return nil
	}
	return l.abandon(ctx)
}

// abandon deletes the checkpoint.
func (l *Loop[T]) abandon(ctx context.Context) *ending {
	if _, err := guard(func() (struct{}, error) { return struct{}{}, l.cfg.Checkpoints.Delete(ctx) }); err != nil {
		return &ending{reason: l.failed(ctx), err: fmt.Errorf("delete checkpoint: %w", err)}
	}
	l.held = nil
	return nil
}

// keep saves what is left, or deletes what was there before.
func (l *Loop[T]) keep(ctx context.Context, e *Exit[T], skip bool) {
	if l.cfg.Checkpoints == nil || e.Reason == Failed || e.Reason == ContextEnded {
		return
	}
	ctx = context.WithoutCancel(ctx)
	left := len(e.Interrupted)+len(e.Unhandled) > 0
	_, e.CheckpointErr = guard(func() (struct{}, error) {
		switch {
		case left && !skip:
			return struct{}{}, l.cfg.Checkpoints.Save(ctx, Checkpoint[T]{Interrupted: e.Interrupted, State: e.State, Unhandled: e.Unhandled})
		case l.held != nil || skip:
			return struct{}{}, l.cfg.Checkpoints.Delete(ctx)
		}
		return struct{}{}, nil
	})
	e.Checkpointed = left && !skip && e.CheckpointErr == nil
}
