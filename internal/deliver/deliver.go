// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package deliver takes messages out of the store's outbox to receivers in this
// process: leased by a receipt, acknowledged, offered again, and given up with a
// reason.
//
// A message is delivered at least once. Its id is the same every time, so that a
// receiver can tell.
package deliver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/store"
)

// Receiver takes one message. An error offers it again later.
type Receiver func(ctx context.Context, d store.Delivery) error

// Options tune a Deliverer.
type Options struct {
	// Lease is how long a receiver has for one message. Defaults to 30 s.
	Lease time.Duration
	// Tries is how often a message is offered before it is given up. Defaults to 12.
	Tries int
	// Backoff is the pause after the first failure; it doubles. Defaults to 1 s, and is
	// never longer than 5 min.
	Backoff time.Duration
	// Poll is how long a lost doorbell costs at most. Defaults to 5 s.
	Poll time.Duration
	// Receipt makes a receipt that nobody guesses. Required.
	Receipt func() string
	// Log gets what an operator should know. Defaults to discarding.
	Log *slog.Logger
}

// Errors of receipts.
var (
	// ErrReceipt: the lease of that receipt is over, and another deliverer may have the
	// message.
	ErrReceipt = fault.New(fault.Fenced, "the message is leased under another receipt")
	// ErrGone: the message was acknowledged, or never was.
	ErrGone = fault.New(fault.NotFound, "no such message")
)

// Deliverer offers messages to the receivers of this process.
//
// Concurrency: mu guards receivers; Run is called once.
type Deliverer struct {
	st   store.Store
	o    Options
	bell chan struct{} // cap 1: something may be due

	mu        sync.Mutex
	receivers map[string]Receiver
}

// New returns a Deliverer that has started nothing.
func New(st store.Store, o Options) *Deliverer {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&o.Lease, 30*time.Second)
	def(&o.Backoff, time.Second)
	def(&o.Poll, 5*time.Second)
	if o.Tries <= 0 {
		o.Tries = 12
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Deliverer{st: st, o: o, bell: make(chan struct{}, 1), receivers: map[string]Receiver{}}
}

// Register makes fn the receiver of a target; false when the target has one.
func (d *Deliverer) Register(target string, fn Receiver) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.receivers[target] != nil {
		return false
	}
	d.receivers[target] = fn
	return true
}

// Hint is the store's doorbell. It does not block.
func (d *Deliverer) Hint(h store.Hint) {
	if h.Any || h.Pending {
		select {
		case d.bell <- struct{}{}:
		default:
		}
	}
}

// Run delivers until ctx ends.
func (d *Deliverer) Run(ctx context.Context) {
	d.mu.Lock()
	n := len(d.receivers)
	d.mu.Unlock()
	if n == 0 {
		return
	}
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.bell:
		case <-t.C:
		}
		wait := d.o.Poll
		for ctx.Err() == nil {
			n, err := d.Once(ctx)
			if err != nil && ctx.Err() == nil {
				d.o.Log.Warn("deliver", "err", err)
			}
			if n == 0 || err != nil {
				break
			}
		}
		if next, ok := d.next(ctx); ok {
			wait = min(wait, max(next, time.Millisecond))
		}
		t.Reset(wait)
	}
}

// next returns how long until the next message of a receiver here is due, if that is
// within the poll.
func (d *Deliverer) next(ctx context.Context) (wait time.Duration, ok bool) {
	_ = d.st.View(ctx, func(v store.View) error { // an error costs a poll
		list, err := v.Due(v.Now().Add(d.o.Poll), store.DefaultPage)
		for i := range list {
			if d.receiver(list[i].Target) != nil {
				wait, ok = list[i].Due.Sub(v.Now()), true
				break
			}
		}
		return err
	})
	return wait, ok
}

func (d *Deliverer) receiver(target string) Receiver {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.receivers[target]
}

// Once offers what is due now, once, and returns how many messages it offered.
func (d *Deliverer) Once(ctx context.Context) (n int, err error) {
	var due []store.Delivery
	if err := d.st.View(ctx, func(v store.View) (err error) {
		due, err = v.Due(v.Now(), store.MaxPage)
		return err
	}); err != nil {
		return 0, fmt.Errorf("list messages: %w", err)
	}
	var errs []error
	for i := range due {
		fn := d.receiver(due[i].Target)
		if fn == nil {
			continue
		}
		m, err := d.Lease(ctx, due[i].Target, due[i].Message.ID)
		switch {
		case fault.Is(err, fault.Fenced) || fault.Is(err, fault.NotFound):
			continue // another one was faster
		case err != nil:
			errs = append(errs, err)
			continue
		}
		n++
		if err := d.offer(ctx, fn, m); err != nil {
			errs = append(errs, d.Fail(ctx, m, err))
			continue
		}
		errs = append(errs, ignoreLost(d.Ack(ctx, m)))
	}
	return n, errors.Join(errs...)
}

func (d *Deliverer) offer(ctx context.Context, fn Receiver, m store.Delivery) (err error) {
	ctx, cancel := context.WithTimeout(ctx, d.o.Lease)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the receiver panicked: %v", p)
		}
	}()
	return fn(ctx, m)
}

func ignoreLost(err error) error {
	if fault.Is(err, fault.Fenced) || fault.Is(err, fault.NotFound) {
		return nil // another deliverer has it, or had it
	}
	return err
}

// Lease takes a message that is due, under a new receipt.
func (d *Deliverer) Lease(ctx context.Context, target, id string) (m store.Delivery, err error) {
	receipt := d.o.Receipt()
	err = d.change(ctx, target, id, func(tx store.Tx, now *store.Delivery) error {
		if !now.Offered() || now.Due.After(tx.Now()) {
			return ErrReceipt
		}
		now.Receipt, now.Due = receipt, tx.Now().Add(d.o.Lease)
		now.Tries++
		tx.PutDelivery(*now)
		m = *now
		return nil
	})
	return m, err
}

// Ack drops a message that its receiver has. An old receipt is Fenced, and NotFound
// when the message is gone.
func (d *Deliverer) Ack(ctx context.Context, m store.Delivery) error {
	return d.change(ctx, m.Target, m.Message.ID, func(tx store.Tx, now *store.Delivery) error {
		if now.Receipt != m.Receipt || !tx.Now().Before(now.Due) {
			return ErrReceipt
		}
		tx.DropDelivery(m.Target, m.Message.ID)
		return nil
	})
}

// Fail offers a message again later, or gives it up with the reason.
func (d *Deliverer) Fail(ctx context.Context, m store.Delivery, why error) error {
	return ignoreLost(d.change(context.WithoutCancel(ctx), m.Target, m.Message.ID, func(tx store.Tx, now *store.Delivery) error {
		if now.Receipt != m.Receipt {
			return ErrReceipt
		}
		now.Failure = cut(why.Error())
		pause := d.o.Backoff
		for range min(now.Tries-1, 20) {
			pause *= 2
		}
		now.Due = tx.Now().Add(min(pause, 5*time.Minute))
		if now.Tries >= d.o.Tries {
			now.Dead = fmt.Sprintf("gave up after %d tries: %s", now.Tries, now.Failure)
		}
		tx.PutDelivery(*now)
		return nil
	}))
}

// Replay offers a message again from the beginning, also one that was given up.
func (d *Deliverer) Replay(ctx context.Context, target, id string) error {
	return d.change(ctx, target, id, func(tx store.Tx, now *store.Delivery) error {
		now.Dead, now.Tries, now.Failure, now.Receipt, now.Due = "", 0, "", "", tx.Now()
		tx.PutDelivery(*now)
		return nil
	})
}

func (d *Deliverer) change(ctx context.Context, target, id string, fn func(store.Tx, *store.Delivery) error) error {
	err := d.st.Update(ctx, []store.Key{store.DeliveryKey(target, id)}, func(tx store.Tx) error {
		now, ok := tx.Delivery(target, id)
		if !ok {
			return ErrGone
		}
		return fn(tx, &now)
	})
	if err != nil {
		return fmt.Errorf("message %s to %s: %w", id, target, err)
	}
	return nil
}

const maxText = 4 << 10

func cut(s string) string { return s[:min(len(s), maxText)] }
