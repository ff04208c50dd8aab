// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/outlive-dev/outlive/internal/lifecycle"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/store/sqlite"
	"github.com/outlive-dev/outlive/task"
)

const program = "github.com/outlive-dev/outlive/cmd/outlive"

// world is one store with everything that happens on it.
//
// Concurrency: its fields are fixed once it is open; the report has a lock of its own.
type world struct {
	dir    string // scratch: the store, markers, what commands write
	db     string
	bin    string
	env    []string
	seed   uint64
	pieces [][]byte // what commands write, in files named by index
	group  *lifecycle.Group
	report *report

	lockWait time.Duration // how long this process waits for the store, 0: as usual
}

// build makes the binary that is tested.
func build(ctx context.Context, dir, tags string) (string, error) {
	bin := filepath.Join(dir, "outlive")
	c := exec.CommandContext(ctx, "go", "build", "-tags", tags, "-o", bin, program)
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return bin, nil
}

// sizes of the pieces that output is made of; the last is larger than what a journal
// holds.
func sizes() []int { return []int{1, 100, 4 << 10, 60 << 10, 300 << 10, 1100 << 10} }

func newWorld(ctx context.Context, dir, bin string, seed uint64) (*world, error) {
	w := &world{dir: dir, db: filepath.Join(dir, "store.db"), bin: bin, seed: seed, group: lifecycle.New(ctx), report: newReport()}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "OUTLIVE_") {
			w.env = append(w.env, kv)
		}
	}
	w.env = append(w.env, "OUTLIVE_STORE=sqlite:"+w.db)
	rng := rand.New(rand.NewPCG(seed, 0))
	for i, n := range sizes() {
		b := make([]byte, n)
		for j := range b {
			b[j] = byte(rng.Uint32())
		}
		w.pieces = append(w.pieces, b)
		if err := os.WriteFile(w.piece(i), b, 0o600); err != nil {
			return nil, fmt.Errorf("write piece: %w", err)
		}
	}
	return w, nil
}

func (w *world) piece(i int) string { return filepath.Join(w.dir, fmt.Sprintf("piece%d", i)) }

// points are the named points at which processes die.
func points() []string { return append(local.Failpoints(), sqlite.Failpoints()...) }

// with runs fn over the store, which is open no longer than that: between rounds
// nobody has it open, so that the next process finds what the dead ones left.
func (w *world) with(ctx context.Context, fn func(st store.Store) error) (err error) {
	st, err := sqlite.Open(ctx, w.db, &sqlite.Options{LockWait: w.lockWait})
	if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return fn(st)
}

// tasks returns the tasks with the label.
func (w *world) tasks(ctx context.Context, label string) (recs []task.Record, err error) {
	err = w.view(ctx, func(v store.View) (err error) {
		recs, err = v.Tasks(store.Filter{Label: map[string]string{"crash": label}})
		return err
	})
	return recs, err
}

func (w *world) view(ctx context.Context, fn func(v store.View) error) error {
	return w.with(ctx, func(st store.Store) error { return st.View(ctx, fn) })
}

// entries returns all entries of a task's journal.
func entries(v store.View, id task.ID) (all []journal.Entry, err error) {
	for after := int64(0); ; {
		page, err := v.Entries(journal.StreamID(id), after, store.MaxPage)
		if err != nil || len(page) == 0 {
			return all, err
		}
		all = append(all, page...)
		after = page[len(page)-1].Seq
	}
}

var errNoWorker = errors.New("the process is no worker")

// endLease lets the lease of the worker in process pid be over, as if its process had
// slept for long: it is believed by nobody, and does not know.
func (w *world) endLease(ctx context.Context, pid int) error {
	found := false
	brief := *w
	brief.lockWait = time.Second // the process may have been stopped inside a transaction
	err := brief.with(ctx, func(st store.Store) error {
		var ws []store.Worker
		if err := st.View(ctx, func(v store.View) (err error) {
			ws, err = v.Workers()
			return err
		}); err != nil {
			return err
		}
		for _, old := range ws {
			if old.PID != pid {
				continue
			}
			found = true
			if err := st.Update(ctx, []store.Key{store.WorkerKey(old.ID)}, func(tx store.Tx) error {
				if now, ok := tx.Worker(old.ID); ok {
					now.LeaseUntil = tx.Now().Add(-time.Hour)
					now.RenewedAt = now.LeaseUntil.Add(-time.Second)
					tx.PutWorker(now)
				}
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && !found {
		err = errNoWorker
	}
	return err
}

// integrity checks the store's file, with the binary's own doctor if it has one.
func (w *world) integrity(ctx context.Context) error {
	p := w.finish(ctx, time.Minute, nil, "doctor")
	if p.code != 0 && !strings.Contains(string(p.err.bytes()), "unknown command") {
		return fmt.Errorf("%s exits %d: %s%s", p, p.code, p.out.bytes(), p.err.bytes())
	}
	db, err := sql.Open("sqlite", w.db) // the driver comes with store/sqlite
	if err != nil {
		return err
	}
	defer db.Close()
	var said string
	if err := db.QueryRowContext(ctx, "PRAGMA integrity_check").Scan(&said); err != nil {
		return err
	}
	if said != "ok" {
		return fmt.Errorf("integrity_check: %s", said)
	}
	return nil
}

// runOf is the name of a task's run, which its processes carry.
func runOf(id task.ID) string { return string(id) + "-r1" }

// taskOf is the task a cookie belongs to.
func taskOf(cookie string) task.ID { return task.ID(strings.TrimSuffix(cookie, "-r1")) }

const cookie = shell.Cookie + "="
