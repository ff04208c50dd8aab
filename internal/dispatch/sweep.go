// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/alive"
	"github.com/outlive-dev/outlive/internal/apply"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// patienceOfHung is how many lease lengths a worker is believed whose lock is held:
// it hangs, but it is there.
const patienceOfHung = 4

// sweepLoop looks for dead workers and due timers; it takes over what lives on
// unattended only in a worker that takes work.
func (d *Dispatcher) sweepLoop(ctx context.Context) {
	tick := time.NewTicker(d.o.Probe)
	defer tick.Stop()
	last := time.Now()
	skip := time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// A lid was closed: the wall clock went on while nothing ran. Everybody gets
		// one lease to renew.
		now := time.Now()
		if lidClosed(now.Round(0).Sub(last.Round(0)), now.Sub(last), d.o.Renew) {
			skip = now.Add(d.o.Lease)
		}
		last = now
		if now.Before(skip) {
			continue
		}
		err := d.Sweep(ctx)
		if !d.o.Passive {
			err = errors.Join(err, d.adoptAll(ctx), d.dropKeys(ctx))
		}
		if err != nil && ctx.Err() == nil {
			d.o.Log.Warn("sweep", "err", err)
		}
	}
}

// lidClosed reports whether the wall clock went on by more than a renewal while the
// clock that counts only running time stood still.
func lidClosed(wall, running, renewal time.Duration) bool { return wall-running > renewal }

// Sweep buries every worker that is proved dead and does what due timers ask for.
// Any process may call it at any time; two sweepers do not disturb each other.
func (d *Dispatcher) Sweep(ctx context.Context) error {
	var dead []store.Worker
	if err := d.st.View(ctx, func(v store.View) error {
		ws, err := v.Workers()
		if err != nil {
			return err
		}
		for _, w := range ws {
			if d.isDead(w, v.Now()) {
				dead = append(dead, w)
			}
		}
		return nil
	}); err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	var errs []error
	for _, w := range dead {
		if err := d.bury(ctx, w); err != nil && !errors.Is(err, errRenewed) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, d.timers(ctx), d.orphans(ctx))
	return errors.Join(errs...)
}

// firePages bounds the timers that one sweep fires: others have to be seen to as well.
const firePages = 50

// timers fires what is due, page by page: many deadlines of one instant do not wait for
// many sweeps.
func (d *Dispatcher) timers(ctx context.Context) error {
	var errs []error
	for range firePages {
		var due []store.Timer
		if err := d.st.View(ctx, func(v store.View) (err error) {
			due, err = v.Timers(v.Now(), store.MaxPage)
			return err
		}); err != nil {
			return fmt.Errorf("list timers: %w", err)
		}
		fired := 0
		for _, t := range due {
			if d.o.Passive && t.Kind == string(task.AlarmRetention) {
				continue // a worker's
			}
			if err := d.fire(ctx, t); err != nil {
				errs = append(errs, err)
				continue
			}
			fired++
		}
		if len(due) < store.MaxPage || fired == 0 || ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// dead reports whether the holder of a lease is proved dead.
func (d *Dispatcher) dead(v store.View, l task.Lease) (bool, error) {
	w, ok, err := v.Worker(l.Worker)
	if err != nil {
		return false, err
	}
	if !ok || w.Epoch != l.Epoch {
		return true, nil // a row goes, or takes a new epoch, only when the lease is over
	}
	return d.isDead(w, v.Now()), nil
}

func (d *Dispatcher) isDead(w store.Worker, now time.Time) bool {
	d.mu.Lock()
	own := d.worker == w.ID
	d.mu.Unlock()
	if own {
		return false
	}
	verdict := alive.Unknown
	if w.LockPath != "" && w.Host == d.host.Name && w.Boot == d.host.Boot {
		verdict = alive.Probe(w.LockPath, w.LockDev, w.LockIno)
	}
	switch verdict {
	case alive.Dead:
		return true
	case alive.Alive:
		return !now.Before(w.LeaseUntil.Add((patienceOfHung - 1) * w.LeaseUntil.Sub(w.RenewedAt)))
	default:
		return !now.Before(w.LeaseUntil)
	}
}

// errRenewed says that a worker thought dead has renewed meanwhile.
var errRenewed = errors.New("worker renewed")

// still fails when the worker's row is not the one that was judged.
func still(tx store.Tx, w *store.Worker) error {
	if w.RenewedAt.IsZero() {
		if now, ok := tx.Worker(w.ID); ok && now.Epoch == w.Epoch {
			return errRenewed
		}
		return nil
	}
	if now, ok := tx.Worker(w.ID); !ok || now.Epoch != w.Epoch || !now.RenewedAt.Equal(w.RenewedAt) {
		return errRenewed
	}
	return nil
}

// bury ends everything a dead worker held: attempts, then observers, then its row.
// A worker without a row (RenewedAt is zero) has only what it held.
func (d *Dispatcher) bury(ctx context.Context, w store.Worker) error {
	if err := d.expireLease(ctx, w.Lease(), &w); err != nil {
		return err
	}
	for {
		var obs []store.Observer
		if err := d.st.View(ctx, func(v store.View) (err error) {
			obs, err = v.ObserversOf(w.Lease(), store.DefaultPage)
			return err
		}); err != nil {
			return fmt.Errorf("bury worker %s: %w", w.ID, err)
		}
		if len(obs) == 0 {
			break
		}
		for _, o := range obs {
			if err := d.reveal(ctx, o, &w); err != nil {
				return err
			}
		}
	}
	err := d.st.Update(ctx, []store.Key{store.WorkerKey(w.ID)}, func(tx store.Tx) error {
		if err := still(tx, &w); err != nil {
			return err
		}
		if now, ok := tx.Worker(w.ID); ok && now.Epoch == w.Epoch {
			tx.DropWorker(w.ID)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("bury worker %s: %w", w.ID, err)
	}
	d.o.Log.Info("buried worker", "worker", w.ID, "epoch", w.Epoch)
	if w.LockPath != "" && w.Host == d.host.Name {
		alive.Sweep(w.LockPath, w.LockDev, w.LockIno)
	}
	return nil
}

// reveal ends a claim whose holder is gone: nothing stays hidden unobserved. With w
// it does so only while the worker's row is the one that was judged.
func (d *Dispatcher) reveal(ctx context.Context, o store.Observer, w *store.Worker) error {
	keys := append(apply.Keys(o.Task), store.ObserversKey(o.Task))
	if w != nil {
		keys = append(keys, store.WorkerKey(w.ID))
	}
	err := d.st.Update(ctx, keys, func(tx store.Tx) error {
		if w != nil {
			if err := still(tx, w); err != nil {
				return err
			}
		}
		if !slices.ContainsFunc(tx.Observers(o.Task), func(have store.Observer) bool { return have.ID == o.ID && have.Lease == o.Lease }) {
			return nil // taken meanwhile
		}
		r, ok := tx.Task(o.Task)
		if ok {
			if _, err := apply.Step(tx, o.Task, task.Reveal{Policy: r.Liveness.Policy}); err != nil && !settled(err) {
				return err
			}
		}
		tx.DropObserver(o.Task, o.ID)
		return nil
	})
	if err != nil {
		return fmt.Errorf("reveal task %s: %w", o.Task, err)
	}
	return nil
}

// expireLease expires every task held under a lease that is over.
func (d *Dispatcher) expireLease(ctx context.Context, l task.Lease, w *store.Worker) error {
	for after := task.ID(""); ; {
		var held []task.Record
		if err := d.st.View(ctx, func(v store.View) (err error) {
			held, err = v.Held(l, after, store.DefaultPage)
			return err
		}); err != nil {
			return fmt.Errorf("expire lease of %s: %w", l.Worker, err)
		}
		if len(held) == 0 {
			return nil
		}
		if err := d.expire(ctx, held, w); err != nil {
			return err
		}
		after = held[len(held)-1].ID
	}
}

// expire expires attempts whose lease is over, in one transaction. With w it does
// so only while the worker's row is the one that was judged.
func (d *Dispatcher) expire(ctx context.Context, recs []task.Record, w *store.Worker) error {
	var keys []store.Key
	if w != nil {
		keys = append(keys, store.WorkerKey(w.ID))
	}
	for i := range recs {
		keys = append(keys, apply.Keys(recs[i].ID)...)
	}
	err := d.st.Update(ctx, keys, func(tx store.Tx) error {
		if w != nil {
			if err := still(tx, w); err != nil {
				return err
			}
		}
		for i := range recs {
			r := &recs[i]
			_, err := apply.Step(tx, r.ID, task.Expire{Fence: task.Fence{Attempt: r.Attempt, Lease: r.Lease}})
			if err != nil && !settled(err) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("expire attempts: %w", err)
	}
	return nil
}

// fire does what a due timer asks for.
func (d *Dispatcher) fire(ctx context.Context, t store.Timer) error {
	switch t.Kind {
	case store.TimerTicket:
		return d.expireTicket(ctx, t)
	case store.TimerCascade:
		return d.cascade(ctx, t)
	case string(task.AlarmRetention):
		return d.collect(ctx, t)
	case string(task.AlarmDeadline):
	default:
		return nil // of a newer version
	}
	id := task.ID(t.Subject)
	gone := true
	if err := d.st.View(ctx, func(v store.View) error {
		r, ok, err := v.Task(id)
		if err != nil || !ok {
			return err
		}
		if r.State == task.Running && !r.Lease.IsZero() {
			gone, err = d.dead(v, r.Lease)
		}
		return err
	}); err != nil {
		return err
	}
	err := d.st.Update(ctx, apply.Keys(id), func(tx store.Tx) error {
		tx.DropTimer(t.Kind, t.Subject)
		if _, err := apply.Step(tx, id, task.Deadline{WorkerGone: gone}); err != nil && !settled(err) && !fault.Is(err, fault.Invalid) {
			return err
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("deadline of task %s: %w", id, err)
	}
	d.Tell(id)
	return nil
}
