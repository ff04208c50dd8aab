// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local/internal/files"
	"github.com/outlive-dev/outlive/shell/local/internal/spool"
)

// GC removes what policy says is not needed: at once, runs whose end was taken over;
// after a while, ended runs that the store does not know; and tombstones past their
// retention. When what stays uses more than budget bytes (0: no limit), output goes too,
// oldest end first: of runs that are stored the tail, and when that is not enough runs
// that the store does not know. A live run and one that is needed always stay as they are,
// and exit records stay. It begins anywhere, so that callers with little time see
// everything in turn; when ctx ends it stops early and says so.
func (r *Recoverable) GC(ctx context.Context, policy func(shell.RunID) Verdict, budget int64) (GCReport, error) {
	r.reap()
	c := &collection{r: r, policy: policy}
	shards, err := r.shards()
	if n := len(shards); n > 0 {
		first := rand.IntN(n)
		shards = slices.Concat(shards[first:], shards[:first])
	}
	for _, s := range shards {
		if err == nil && ctx.Err() == nil {
			err = c.shard(ctx, s)
		}
	}
	if ctx.Err() == nil && err == nil {
		err = errors.Join(c.trim(ctx, budget), r.emptyTrash())
	}
	if ctx.Err() != nil {
		c.rep.Partial = true
		return c.rep, nil //nolint:nilerr // to stop early is what ctx is for
	}
	return c.rep, err
}

// collection is one pass of GC.
type collection struct {
	r      *Recoverable
	policy func(shell.RunID) Verdict
	rep    GCReport
	spare  []spareRun
}

// spareRun is an ended run that stays unless space is short.
type spareRun struct {
	id    shell.RunID
	end   time.Time
	stray bool
}

func (c *collection) shard(ctx context.Context, shard string) error {
	var ids, tombs []shell.RunID
	err := c.r.eachOf(ctx, shard, func(id shell.RunID) { ids = append(ids, id) }, func(id shell.RunID) { tombs = append(tombs, id) })
	for _, id := range ids {
		if err != nil || ctx.Err() != nil {
			return err
		}
		err = c.run(ctx, id)
	}
	for _, id := range tombs {
		var rec tombstone
		path := c.r.tomb(id)
		if files.Read(path, &rec) == nil && c.r.opt.Now().Sub(rec.At) > c.r.opt.Retention && c.policy(id) != Needed {
			if os.Remove(path) == nil {
				c.rep.Tombstones++
			}
		}
	}
	return err
}

func (c *collection) run(ctx context.Context, id shell.RunID) error {
	st, settle, err := c.r.probe(id)
	if err != nil {
		return err
	}
	c.rep.Runs++
	dir, v := c.r.dir(id), c.policy(id)
	size, end := files.Use(dir), c.r.endOf(dir, st)
	old := c.r.opt.Now().Sub(end) > c.r.opt.OrphanAge
	drop := false
	switch {
	case st.Phase == shell.Live:
		c.rep.Live++
	case settle: // lost and not yet seen to
	default: // one without a lock may be about to start
		drop = v == Taken || v == Stray && old
	}
	if !drop {
		c.rep.Bytes += size
		if st.Exit != nil && !settle && (v == Stored || v == Stray) {
			c.spare = append(c.spare, spareRun{id, end, v == Stray})
		}
		return nil
	}
	return c.drop(ctx, id, size)
}

func (c *collection) drop(ctx context.Context, id shell.RunID, size int64) error {
	var o owner
	_ = files.Read(filepath.Join(c.r.dir(id), nameOwner), &o)
	err := c.r.remove(ctx, id, o.Fence)
	if errors.Is(err, shell.ErrLive) {
		c.rep.Live++
		return nil
	}
	if err == nil {
		c.rep.Removed++
		c.rep.Freed += size
	}
	return err
}

// trim makes what stays fit the budget, as far as it may.
func (c *collection) trim(ctx context.Context, budget int64) error {
	if budget <= 0 || c.rep.Bytes <= budget {
		return nil
	}
	slices.SortFunc(c.spare, func(a, b spareRun) int { return a.end.Compare(b.end) })
	for _, s := range c.spare {
		if s.stray || c.rep.Bytes <= budget || ctx.Err() != nil {
			continue
		}
		freed, err := c.r.dropTail(s.id)
		if err != nil {
			return err
		}
		if freed > 0 {
			c.rep.Trimmed++
			c.rep.Freed += freed
			c.rep.Bytes -= freed
		}
	}
	for _, s := range c.spare {
		if !s.stray || c.rep.Bytes <= budget || ctx.Err() != nil {
			continue
		}
		size := files.Use(c.r.dir(s.id))
		if err := c.drop(ctx, s.id, size); err != nil {
			return err
		}
		c.rep.Bytes -= size
	}
	return nil
}

// dropTail drops the output of an ended run behind its head, under the run's lock, and
// returns how much that was on the disk.
func (r *Recoverable) dropTail(id shell.RunID) (freed int64, err error) {
	dir := r.dir(id)
	lock, busy, err := lockFile(dir, unix.LOCK_EX, os.O_RDWR)
	if busy || files.NotThere(err) {
		return 0, nil // somebody is at it
	}
	if err != nil {
		return 0, err
	}
	defer lock.Close()
	var sp spec
	if _, err := readExit(dir); err != nil || files.Read(filepath.Join(dir, nameSpec), &sp) != nil {
		return 0, nil //nolint:nilerr // it is not known what may go
	}
	before := files.Use(dir)
	err = spool.DropTail(dir, sp.Output.SpoolHead)
	return before - files.Use(dir), err
}

func (r *Recoverable) emptyTrash() error {
	entries, err := os.ReadDir(filepath.Join(r.root, trashDir))
	if files.NotThere(err) {
		return nil
	}
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(r.root, trashDir, e.Name())))
	}
	return err
}

func (r *Recoverable) endOf(dir string, st shell.State) time.Time {
	if st.Exit != nil && !st.Exit.EndedAt.IsZero() {
		return st.Exit.EndedAt
	}
	fi, err := os.Stat(dir)
	if err != nil {
		return r.opt.Now()
	}
	return fi.ModTime()
}
