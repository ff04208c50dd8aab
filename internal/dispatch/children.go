// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/apply"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// keyLife is how long an idempotency key of a child is kept.
const keyLife = 7 * 24 * time.Hour

// hold is the proof that this attempt drives its task.
func (a *attempt) hold() task.Hold {
	return task.Hold{Parent: a.rec.ID, Attempt: a.fence.Attempt, Lease: a.fence.Lease, Generation: a.rec.Generation}
}

// child makes the record of a child, and the row of its idempotency key if it has
// one.
func (a *attempt) child(c work.Child) (rec task.Record, inv *store.Invocation, err error) {
	ex, err := a.d.Executor(c.Executor)
	if err != nil {
		return rec, nil, err
	}
	if ex.Validate != nil {
		if err := ex.Validate(c.Input); err != nil {
			return rec, nil, fmt.Errorf("child %s: %w", c.Executor, err)
		}
	}
	if c.Timeout < 0 {
		return rec, nil, fault.Newf(fault.Invalid, "child: negative timeout %v", c.Timeout)
	}
	if c.Tokens < 0 {
		return rec, nil, fault.Newf(fault.Invalid, "child: negative budget of %d tokens", c.Tokens)
	}
	now := time.Now()
	if c.ID == "" {
		var random [14]byte
		_, _ = rand.Read(random[:]) // never fails
		c.ID = task.NewID(ex.Kind, now, random)
	}
	rec = task.Record{
		ID: c.ID, Executor: c.Executor, Kind: ex.Kind, Name: c.Name, Description: c.Description, Spec: c.Input, Invocation: c.Invocation,
		Parent: a.rec.ID, Principal: a.rec.Principal, Tenant: a.rec.Tenant, Labels: c.Labels, Bound: !c.Detach,
		OnLeaseLoss: ex.OnLeaseLoss, ReadsInput: ex.ReadsInput, Recoverable: ex.Recoverable,
		Queue: c.Queue, MaxAttempts: c.MaxAttempts, Backoff: c.Backoff, Tokens: c.Tokens,
	}
	if c.Timeout > 0 {
		rec.Deadline = now.Add(c.Timeout)
	}
	if c.Invocation == "" || !deduplicates {
		return rec, nil, nil
	}
	b, err := json.Marshal([]any{c.Executor, c.Input, c.Name, c.Labels, c.Queue})
	if err != nil {
		return rec, nil, fault.Newf(fault.Invalid, "child: %v", err)
	}
	sum := sha256.Sum256(b)
	rec.Digest = hex.EncodeToString(sum[:])
	key := strings.Join([]string{rec.Tenant, rec.Principal, string(rec.Parent), c.Invocation}, "\x00")
	return rec, &store.Invocation{Key: key, Digest: rec.Digest, Expires: now.Add(keyLife)}, nil
}

// make creates a child, or finds the one that the same invocation made before.
func (a *attempt) make(ctx context.Context, c work.Child, create func(store.Tx, task.Record) (apply.Outcome, error), found func(store.Tx, task.Record) (task.Record, error)) (task.Record, error) {
	rec, inv, err := a.child(c)
	if err != nil {
		return task.Record{}, err
	}
	keys := append(apply.CreateKeys(&rec), store.WorkerKey(a.fence.Lease.Worker))
	if inv != nil {
		keys = append(keys, store.InvocationKey(inv.Key))
	}
	var out Launched
	err = a.sure(ctx, func(again bool) error {
		return a.d.st.Update(ctx, keys, func(tx store.Tx) error {
			out = Launched{}
			if err := apply.Live(tx, a.fence.Lease); err != nil {
				return err
			}
			if old, ok := tx.Task(rec.ID); ok && again {
				out.Record = old // by the one whose answer was lost: ids are not guessed
				return nil
			}
			if inv != nil {
				done, err := invoked(tx, Launch{Create: task.Create{Record: rec}, Invocation: inv}, &out)
				if err != nil {
					return err
				}
				if done {
					out.Record, err = found(tx, out.Record)
					return err
				}
			}
			made, err := create(tx, rec)
			out.Record = made.Record
			return err
		})
	})
	a.heed(err)
	if err != nil {
		return task.Record{}, fmt.Errorf("create child of %s: %w", a.rec.ID, err)
	}
	return out.Record, nil
}

// Spawn implements work.Port.
func (a *attempt) Spawn(ctx context.Context, c work.Child) (task.Record, error) {
	return a.make(ctx, c, func(tx store.Tx, rec task.Record) (apply.Outcome, error) {
		rec.Owner, rec.Publication = task.OwnerManager, task.OnCreate
		return apply.CreateUnder(tx, task.Create{Record: rec}, a.hold(), a.rec.Generation)
	}, func(_ store.Tx, old task.Record) (task.Record, error) { return old, nil })
}

// Hold implements work.Port. A child that an earlier attempt drove is taken back;
// what it had offered is sealed, or withdrawn when input came after it.
func (a *attempt) Hold(ctx context.Context, c work.Child) (task.Record, error) {
	return a.make(ctx, c, func(tx store.Tx, rec task.Record) (apply.Outcome, error) {
		rec.Owner, rec.Publication, rec.Hold = task.OwnerParent, task.Deferred, a.hold()
		return apply.CreateOwned(tx, task.Create{Record: rec}, a.rec.Generation)
	}, func(tx store.Tx, old task.Record) (task.Record, error) {
		if old.Owner != task.OwnerParent || old.State.Terminal() || old.Hold == a.hold() {
			return old, nil
		}
		r, ok := tx.Task(a.rec.ID)
		if !ok || r.State != task.Running || r.Attempt != a.fence.Attempt || r.Lease != a.fence.Lease {
			return old, apply.ErrFenced
		}
		out, err := apply.Step(tx, old.ID, task.Retake{Hold: a.hold()})
		if err != nil || out.Record.Candidate == nil || out.Record.Canceling() {
			return out.Record, err
		}
		out, err = apply.Step(tx, old.ID, task.Seal{Generation: out.Record.Generation})
		return out.Record, err
	})
}

// Drive implements work.Port. Its errors say nothing about the attempt itself.
func (a *attempt) Drive(ctx context.Context, child task.ID, generation int64, t work.Turn) (task.Record, error) {
	fence := task.Fence{Attempt: a.fence.Attempt, Lease: a.fence.Lease, Generation: generation}
	var c task.Command
	switch {
	case t.Offer != nil:
		c = task.Offer{Generation: generation, Result: t.Offer.Result, Cursor: t.Offer.Cursor}
	case t.Seal:
		c = task.Seal{Generation: generation}
	case t.Fail != nil:
		c = task.Fail{Fence: fence, Failure: *t.Fail}
	case t.Stopped:
		c = task.AckCancel{Fence: fence, Outcome: task.OutcomeKnown}
	case t.HandOff == nil:
		return task.Record{}, fault.New(fault.Invalid, "drive child: nothing is asked")
	}
	var out apply.Outcome
	err := a.d.st.Update(ctx, attemptKeys(child, a.fence.Lease), func(tx store.Tx) (err error) {
		if err = apply.Live(tx, a.fence.Lease); err != nil {
			return err
		}
		r, ok := tx.Task(child)
		switch {
		case !ok:
			return apply.ErrNoTask
		case r.State.Terminal():
			return &task.FinishedError{Record: r}
		case r.Generation != generation || r.Hold != a.hold():
			return task.ErrOwner // whatever is tried: the generation is the fence
		}
		if h := t.HandOff; h != nil {
			out, err = apply.HandOff(tx, child, task.HandOff{
				Generation: generation, All: h.All, Suspend: h.Suspend, Checkpoint: h.Checkpoint, Cursor: h.Cursor,
			}, h.Tickets)
			return err
		}
		out, err = apply.Step(tx, child, c)
		return err
	})
	if err != nil {
		return task.Record{}, fmt.Errorf("drive child %s: %w", child, err)
	}
	return out.Record, nil
}

// end commits how the attempt ends, with the number of children it still drives read
// in the same transaction.
func (a *attempt) end(ctx context.Context, c task.Command, asked []mail.Ticket) (task.Record, error) {
	return a.commit(ctx, func(tx store.Tx) (apply.Outcome, error) {
		held, err := heldBy(tx, a.rec.ID)
		if err != nil {
			return apply.Outcome{}, err
		}
		switch c := c.(type) {
		case task.Wait:
			c.Fence.Held = held
			return apply.Wait(tx, a.rec.ID, c, asked)
		case task.Complete:
			c.Fence.Held = held
			return apply.Step(tx, a.rec.ID, c)
		case task.Suspend:
			c.Fence.Held = held
			return apply.Step(tx, a.rec.ID, c)
		case task.Yield:
			c.Fence.Held = held
			return apply.Step(tx, a.rec.ID, c)
		}
		return apply.Step(tx, a.rec.ID, c)
	})
}

func heldBy(tx store.Tx, id task.ID) (int, error) {
	if r, ok := tx.Task(id); !ok || r.Children == 0 {
		return 0, nil
	}
	k := store.HeldKey(id)
	if !tx.Declared(k) {
		return 0, store.More(k)
	}
	return tx.Held(id), nil
}

// orphan ends the holds of earlier attempts on children of this task, and its own
// when it ends because it was told to: a drained attempt lets go. It reports whether
// there was one.
func (a *attempt) orphan(res work.Result) (any bool) {
	ctx, stop := a.patience()
	defer stop()
	own := res.End == work.EndYield && a.ctx.Err() != nil
	for after := task.ID(""); ; {
		var kids []task.Record
		if err := a.d.st.View(ctx, func(v store.View) (err error) {
			kids, err = v.Children(a.rec.ID, after, store.DefaultPage)
			return err
		}); err != nil || len(kids) == 0 {
			return any
		}
		for i := range kids {
			k := &kids[i]
			if k.Owner == task.OwnerParent && !k.State.Terminal() && (own || k.Hold != a.hold()) {
				any = a.d.orphan(ctx, k) == nil || any
			}
		}
		after = kids[len(kids)-1].ID
	}
}

func (d *Dispatcher) orphan(ctx context.Context, r *task.Record) error {
	err := d.st.Update(ctx, apply.Keys(r.ID), func(tx store.Tx) error {
		_, err := apply.Step(tx, r.ID, task.Orphan{Generation: r.Generation})
		return err
	})
	if err != nil && !settled(err) && !errors.Is(err, apply.ErrNoTask) {
		return fmt.Errorf("orphan task %s: %w", r.ID, err)
	}
	return nil
}

// orphans ends the holds of attempts that are over. The next attempt of a parent has
// one lease to take its children back.
func (d *Dispatcher) orphans(ctx context.Context) error {
	var errs []error
	for after := task.ID(""); ; {
		var over []task.Record
		n := 0
		if err := d.st.View(ctx, func(v store.View) error {
			over = over[:0]
			list, err := v.Driven(after, store.DefaultPage)
			if n = len(list); err != nil || n == 0 {
				return err
			}
			after = list[n-1].ID
			for i := range list {
				p, ok, err := v.Task(list[i].Parent)
				if err != nil {
					return err
				}
				if !ok || d.holdOver(&list[i], &p, v.Now()) {
					over = append(over, list[i])
				}
			}
			return nil
		}); err != nil {
			return fmt.Errorf("list driven tasks: %w", err)
		}
		for i := range over {
			if err := d.orphan(ctx, &over[i]); err != nil {
				errs = append(errs, err)
			}
		}
		if n < store.DefaultPage || ctx.Err() != nil {
			return errors.Join(errs...)
		}
	}
}

// holdOver reports whether the attempt that drives a child is over for good: its
// parent is not running, or another attempt of it had its time to take it back.
func (d *Dispatcher) holdOver(child, p *task.Record, now time.Time) bool {
	h := child.Hold
	drives := p.State == task.Running && p.Attempt == h.Attempt && p.Lease == h.Lease
	if p.Owner == task.OwnerParent {
		drives = p.State == task.Running && p.Hold.Attempt == h.Attempt && p.Hold.Lease == h.Lease
	}
	switch {
	case drives && (h.Generation == 0 || h.Generation == p.Generation):
		return false
	case p.State == task.Running || p.State == task.Pending && !p.Canceling():
		return now.Sub(p.UpdatedAt) > d.o.Lease
	}
	return true
}

// Ticket implements work.Port.
func (a *attempt) Ticket(ctx context.Context, id task.TicketID) (row mail.Ticket, err error) {
	found := false
	err = a.d.st.View(ctx, func(v store.View) (err error) {
		row, found, err = v.Ticket(a.rec.ID, id)
		return err
	})
	if err == nil && !found {
		err = fmt.Errorf("%w: %s", mail.ErrNoTicket, id)
	}
	return row, err
}

// Claim implements work.Port.
func (a *attempt) Claim(ctx context.Context, id task.TicketID, digest string) error {
	return a.onTicket(ctx, id, func(tx store.Tx) error { return apply.Claim(tx, a.rec.ID, a.fence, id, digest) })
}

// Settle implements work.Port.
func (a *attempt) Settle(ctx context.Context, id task.TicketID) error {
	return a.onTicket(ctx, id, func(tx store.Tx) error { return apply.Settle(tx, a.rec.ID, a.fence, id) })
}

func (a *attempt) onTicket(ctx context.Context, id task.TicketID, fn func(store.Tx) error) error {
	keys := append(attemptKeys(a.rec.ID, a.fence.Lease), store.TicketKey(a.rec.ID, id))
	err := a.sure(ctx, func(bool) error {
		return a.d.st.Update(ctx, keys, func(tx store.Tx) error {
			if err := apply.Live(tx, a.fence.Lease); err != nil {
				return err
			}
			return fn(tx)
		})
	})
	if !errors.Is(err, mail.ErrClaimed) {
		a.heed(err)
	}
	return err
}
