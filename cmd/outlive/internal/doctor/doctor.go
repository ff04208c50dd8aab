// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package doctor looks whether a store, its tasks and this machine are well.
package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/cmd/outlive/internal/host"
	"github.com/outlive-dev/outlive/cmd/outlive/internal/place"
	"github.com/outlive-dev/outlive/cmd/outlive/internal/text"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/shell/local"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/store/postgres"
	"github.com/outlive-dev/outlive/task"
)

// The verdicts of a check.
const (
	OK   = "ok"
	Warn = "warn"
	Fail = "fail"
)

// Check is one line of doctor.
type Check struct {
	Name   string `json:"check"`
	Status string `json:"status"`
	Text   string `json:"text"`
	Hint   string `json:"hint,omitempty"`
}

func okf(name, format string, args ...any) Check {
	return Check{Name: name, Status: OK, Text: fmt.Sprintf(format, args...)}
}

func warnf(name, hint, format string, args ...any) Check {
	return Check{Name: name, Status: Warn, Text: fmt.Sprintf(format, args...), Hint: hint}
}

// Failed is a check that came to nothing.
func Failed(name string, err error) Check {
	return Check{Name: name, Status: Fail, Text: text.OneLine(err.Error()), Hint: text.OneLine(fault.Hint(err))}
}

func failf(name, hint, format string, args ...any) Check {
	return Check{Name: name, Status: Fail, Text: fmt.Sprintf(format, args...), Hint: hint}
}

// Subject is what is looked at.
type Subject struct {
	Store   place.Database
	Runtime *outlive.Runtime
	// Place is where the store is, and Runs where the files of its commands are.
	Place place.Place
	Runs  string
	// Pages lists tasks, newest first, as long as fn wants more.
	Pages func(ctx context.Context, f store.Filter, fn func([]task.Record) (more bool, err error)) error
	// Strays counts the commands that no task of this store knows, and how many of them run.
	Strays func(ctx context.Context) (all, live int, err error)
}

// Checks are what to do, in this order.
func (s *Subject) Checks() []func(context.Context) []Check {
	return []func(context.Context) []Check{
		s.checkStore, s.checkWorkers, s.checkTasks, s.checkRuns, s.checkDisk, s.checkClock,
		func(context.Context) []Check { return []Check{Service()} },
	}
}

func (s *Subject) checkStore(ctx context.Context) []Check {
	info := s.Store.Info()
	size, unsafe := fileSizes(info.Path), []string(nil)
	if db, ok := s.Store.(*postgres.Store); ok {
		srv, err := db.Server(ctx)
		if err != nil {
			return []Check{Failed("store", err)}
		}
		size, unsafe = srv.Bytes, srv.Unsafe
	} else if err := host.CheckDatabase(ctx, info.Path); err != nil {
		return []Check{Failed("store", err)}
	}
	var n int64
	err := s.Store.View(ctx, func(v store.View) error {
		counts, err := v.Counts()
		for _, c := range counts {
			n += c
		}
		return err
	})
	if err != nil {
		return []Check{Failed("store", err)}
	}
	out := []Check{okf("store", "%s, schema %d, %d tasks, %s", s.Place, info.Schema, n, text.Size(size))}
	if len(unsafe) > 0 {
		out = append(out, warnf("store", "set them on in postgresql.conf and restart the server",
			"%s: what was acknowledged may be lost with the server's host", strings.Join(unsafe, ", ")))
	}
	return out
}

// fileSizes is what the store's own files take.
func fileSizes(path string) (n int64) {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if fi, err := os.Stat(path + suffix); err == nil {
			n += fi.Size()
		}
	}
	return n
}

func (s *Subject) checkWorkers(ctx context.Context) []Check {
	before, err := s.Runtime.Workers(ctx)
	if err != nil {
		return []Check{Failed("workers", err)}
	}
	s.Runtime.Reconcile(ctx, nil) // the dead are buried
	after, err := s.Runtime.Workers(ctx)
	if err != nil {
		return []Check{Failed("workers", err)}
	}
	out := []Check{okf("workers", "%d alive", len(after))}
	if n := len(before) - len(after); n > 0 {
		out[0].Text += fmt.Sprintf(", %d dead ones cleared away", n)
	}
	for i := range after {
		if w := &after[i]; time.Now().After(w.LeaseUntil) {
			out = append(out, warnf("workers", "it hangs, or its host is gone; its tasks are taken over when four leases have passed",
				"worker %s (pid %d on %s) did not renew since %s", w.ID, w.PID, w.Host, w.RenewedAt.Local().Format(time.DateTime)))
		}
	}
	return out
}

// checkTasks looks at every record and at how its story in the journal ends.
func (s *Subject) checkTasks(ctx context.Context) []Check {
	var out []Check
	n := 0
	err := s.Pages(ctx, store.Filter{}, func(recs []task.Record) (bool, error) {
		for i := range recs {
			n++
			if err := task.Check(recs[i]); err != nil {
				out = append(out, failf("tasks", "report it, with the output of outlive show "+string(recs[i].ID), "%s: %v", recs[i].ID, err))
			}
			c, err := s.checkEnd(ctx, &recs[i])
			if err != nil {
				return false, err
			}
			if c != nil {
				out = append(out, *c)
			}
		}
		return len(out) < 20 && ctx.Err() == nil, nil
	})
	switch {
	case err != nil:
		return append(out, Failed("tasks", err))
	case len(out) == 0:
		return []Check{okf("tasks", "%d records are sound, and each that has ended has one end in its journal", n)}
	}
	return out
}

// checkEnd counts the terminal entries of a task: one when it has ended, else none.
func (s *Subject) checkEnd(ctx context.Context, r *task.Record) (*Check, error) {
	ends, want := 0, 0
	if r.State.Terminal() {
		want = 1
	}
	err := s.Store.View(ctx, func(v store.View) error {
		ends = 0
		for after := int64(0); ; {
			page, err := v.Entries(journal.StreamID(r.Stream()), after, store.MaxPage)
			if err != nil {
				return err
			}
			for i := range page {
				if page[i].Task == string(r.ID) && journal.Terminal(page[i].Kind) {
					ends++
				}
			}
			if len(page) < store.MaxPage {
				return nil
			}
			after = page[len(page)-1].Seq
		}
	})
	if err != nil || ends == want {
		return nil, err
	}
	if now, err := s.Runtime.Get(ctx, r.ID); err == nil && now.Version != r.Version {
		return nil, nil // it ended while we looked
	}
	c := failf("tasks", "report it, with the output of outlive events "+string(r.ID), "%s is %s and has %d ends in its journal", r.ID, r.State, ends)
	return &c, nil
}

func (s *Subject) checkRuns(ctx context.Context) []Check {
	all, live, err := s.Strays(ctx)
	if err != nil {
		return []Check{Failed("runs", err)}
	}
	use := int64(0)
	_ = filepath.WalkDir(s.Runs, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			use += host.DiskUse(path)
		}
		return nil
	})
	out := []Check{okf("runs", "%s, %s of %s", s.Runs, text.Size(use), text.Size(local.DefaultBudget))}
	if use > local.DefaultBudget {
		out[0] = warnf("runs", "outlive gc makes them fit, oldest output first", "%s, %s, which is more than %s", s.Runs, text.Size(use), text.Size(local.DefaultBudget))
	}
	if all > 0 {
		out = append(out, warnf("runs", "outlive ps --orphans lists them, outlive gc removes those that ended a day ago",
			"%d commands have no task in this store, %d of them run", all, live))
	}
	return out
}

// disk is a directory on the disk of what the store and its commands write here.
func (s *Subject) disk() string {
	if s.Place.Path != "" {
		return filepath.Dir(s.Place.Path)
	}
	dir := s.Runs
	for _, err := os.Stat(dir); err != nil && filepath.Dir(dir) != dir; _, err = os.Stat(dir) {
		dir = filepath.Dir(dir)
	}
	return dir
}

func (s *Subject) checkDisk(context.Context) []Check {
	free, total, err := host.FreeSpace(s.disk())
	switch {
	case err != nil:
		return []Check{warnf("disk", "", "free space is not known: %v", err)}
	case free < 16<<20:
		return []Check{failf("disk", "free some space: nothing new can be stored", "%s free of %s", text.Size(free), text.Size(total))}
	case free < 512<<20 || free < total/50:
		return []Check{warnf("disk", "outlive gc removes what may go", "%s free of %s", text.Size(free), text.Size(total))}
	}
	return []Check{okf("disk", "%s free of %s", text.Size(free), text.Size(total))}
}

func (s *Subject) checkClock(ctx context.Context) []Check {
	var now time.Time
	if err := s.Store.View(ctx, func(v store.View) error {
		now = v.Now()
		return nil
	}); err != nil {
		return []Check{Failed("clock", err)}
	}
	if ahead := time.Until(now).Round(time.Millisecond); ahead > time.Second {
		return []Check{warnf("clock", "set this machine's clock; the store's never goes back", "this machine is %s behind the store", ahead)}
	}
	return []Check{okf("clock", "agrees with the store's")}
}
