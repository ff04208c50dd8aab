// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"sync/atomic"
)

// checkpointer copies the log into the file in bulk, on a connection of its own
// while commits go on, and lets the committer copy the small rest between two
// batches: only then does the log begin anew, within the space it has.
//
// Concurrency: base and due belong to the committer; busy is handed between the
// two, and who has set it owns c.
type checkpointer struct {
	s    *Store
	base int64 // pages the writing connection had written when the log began anew
	busy atomic.Bool
	rest atomic.Bool // the bulk is copied: settle
	c    *conn
}

// pages returns how many frames start a checkpoint: half of what is grown ahead.
func (k *checkpointer) pages() int64 { return max(k.s.opts.Grow, 8<<20) / 4096 / 2 }

// wrote is called by the committer after a commit.
func (k *checkpointer) wrote(d *driver) {
	if d.c.written()-k.base < k.pages() || k.rest.Load() || !k.busy.CompareAndSwap(false, true) {
		return
	}
	if !k.s.group.Go("store checkpoint", k.bulk) {
		k.busy.Store(false)
	}
}

func (k *checkpointer) bulk(context.Context) {
	defer k.busy.Store(false)
	if k.c == nil {
		c, err := k.s.connect()
		if err != nil {
			return // the next commit tries again
		}
		_ = c.exec(k.s.checkpointPragmas())
		k.c = c
	}
	for range 2 {
		if _, _, err := k.c.checkpoint(); err != nil {
			break
		}
	}
	k.rest.Store(true)
}

// settle is called by the committer between two batches.
func (k *checkpointer) settle(d *driver) {
	if !k.rest.Load() || k.busy.Load() {
		return
	}
	k.rest.Store(false)
	frames, done, err := d.c.checkpoint()
	if err != nil || done < frames {
		// A reader needs the old log: half as many frames until the next try.
		k.base = d.c.written() - k.pages()/2
		return
	}
	k.base = d.c.written()
}

func (k *checkpointer) close() {
	k.c.close()
	k.c = nil
}
