// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"

	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// patienceOfAudit is how many renewals in a row must see the same disagreement:
// between a commit and what follows from it here there is always a moment.
const patienceOfAudit = 2

// audit lets the store and this worker agree about what the lease holds. An attempt
// in the store that does not run here is expired. One that runs here and not in the
// store is over. A claim that nobody here stands for is revealed.
func (d *Dispatcher) audit(ctx context.Context, lease task.Lease) {
	if !agrees {
		return
	}
	if err := d.auditAttempts(ctx, lease); err != nil && ctx.Err() == nil {
		d.o.Log.Warn("compare attempts with the store", "err", err)
	}
	if err := d.auditClaims(ctx, lease); err != nil && ctx.Err() == nil {
		d.o.Log.Warn("compare claims with the store", "err", err)
	}
}

func (d *Dispatcher) auditAttempts(ctx context.Context, lease task.Lease) error {
	rows := map[held]task.Record{}
	for after := task.ID(""); ; {
		var page []task.Record
		if err := d.st.View(ctx, func(v store.View) (err error) {
			page, err = v.Held(lease, after, store.DefaultPage)
			return err
		}); err != nil {
			return err
		}
		for _, r := range page {
			rows[held{r.ID, r.Attempt}] = r
		}
		if len(page) < store.DefaultPage {
			break
		}
		after = page[len(page)-1].ID
	}
	lost, doubted := d.compare(lease, rows)
	for _, id := range doubted {
		d.look(ctx, id) // reads the row again: it may have begun a moment ago
	}
	if len(lost) > 0 {
		return d.expire(ctx, lost, nil)
	}
	return nil
}

// compare returns the rows without an attempt, after the second time, and the
// attempts without a row.
func (d *Dispatcher) compare(lease task.Lease, rows map[held]task.Record) (lost []task.Record, doubted []task.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := map[held]int{}
	for h, r := range rows {
		if a := d.attempts[h.id]; a != nil && a.fence.Attempt == h.attempt {
			continue
		}
		if seen[h] = d.missing[h] + 1; seen[h] >= patienceOfAudit {
			lost = append(lost, r)
		}
	}
	d.missing = seen
	for id, a := range d.attempts {
		if _, ok := rows[held{id, a.fence.Attempt}]; !ok && a.fence.Lease == lease {
			doubted = append(doubted, id)
		}
	}
	return lost, doubted
}

// auditClaims reveals the tasks whose callers have left without a word.
func (d *Dispatcher) auditClaims(ctx context.Context, lease task.Lease) error {
	var obs []store.Observer
	if err := d.st.View(ctx, func(v store.View) (err error) {
		obs, err = v.ObserversOf(lease, store.MaxPage)
		return err
	}); err != nil {
		return err
	}
	var left []store.Observer
	d.mu.Lock()
	seen := map[string]int{}
	for _, o := range obs {
		if _, ok := d.claims[o.ID]; ok {
			continue
		}
		if seen[o.ID] = d.loose[o.ID] + 1; seen[o.ID] >= patienceOfAudit {
			left = append(left, o)
		}
	}
	d.loose = seen
	d.mu.Unlock()
	for _, o := range left {
		if err := d.reveal(ctx, o, nil); err != nil {
			return err
		}
	}
	return nil
}
