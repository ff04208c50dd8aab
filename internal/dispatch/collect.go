// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"fmt"

	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// Bounds of one collection: rows of one transaction, and transactions of one task in
// one sweep.
const (
	collectRows  = 500
	collectSteps = 20
)

// collect forgets a finished task whose time is over, in bounded steps. What is left
// the next sweep goes on with: the timer is the last row but one to go.
func (d *Dispatcher) collect(ctx context.Context, t store.Timer) error {
	id := task.ID(t.Subject)
	for range collectSteps {
		gone := false
		if err := d.st.Update(ctx, []store.Key{store.TaskKey(id)}, func(tx store.Tx) error {
			r, ok := tx.Task(id)
			if gone = !ok || !r.State.Terminal(); gone {
				tx.DropTimer(t.Kind, t.Subject)
				return nil
			}
			tx.ForgetTask(id, collectRows)
			return nil
		}); err != nil {
			return fmt.Errorf("forget task %s: %w", id, err)
		}
		if gone {
			return nil
		}
	}
	return nil
}

// dropKeys removes idempotency keys that have expired.
func (d *Dispatcher) dropKeys(ctx context.Context) error {
	var old []store.Invocation
	if err := d.st.View(ctx, func(v store.View) (err error) {
		old, err = v.Invocations(v.Now(), store.DefaultPage)
		return err
	}); err != nil {
		return fmt.Errorf("list expired keys: %w", err)
	}
	if len(old) == 0 {
		return nil
	}
	var keys []store.Key
	for _, i := range old {
		keys = append(keys, store.InvocationKey(i.Key))
	}
	if err := d.st.Update(ctx, keys, func(tx store.Tx) error {
		for _, i := range old {
			if now, ok := tx.Invocation(i.Key); ok && now.Expires.Before(tx.Now()) {
				tx.DropInvocation(i.Key)
			}
		}
		return nil
	}); err != nil {
		return fmt.Errorf("drop expired keys: %w", err)
	}
	return nil
}
