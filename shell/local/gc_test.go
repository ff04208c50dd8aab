// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/shell"
)

// TestBudget has three ended runs, each larger than its head, and space for less and
// less: output goes, oldest end first, and exits and heads stay.
func TestBudget(t *testing.T) {
	t.Parallel()
	for _, split := range []bool{false, true} {
		r := open(t)
		var ids []shell.RunID
		var exits []shell.Exit
		for range 3 {
			req := sh(t, "seq 1 200000")
			req.Output, req.Split = shell.Output{SpoolHead: 64 << 10}, split
			ids = append(ids, start(t, r, req))
			exits = append(exits, waitFor(t, r, ids[len(ids)-1]))
		}
		collect := func(budget int64, v Verdict) GCReport {
			t.Helper()
			rep, err := r.GC(t.Context(), func(shell.RunID) Verdict { return v }, budget)
			if err != nil {
				t.Fatalf("GC = %v", err)
			}
			return rep
		}
		whole := func() (n int) {
			for i, id := range ids {
				data, omitted := readAll(t, r, id)
				want := exits[i].TotalBytes
				switch {
				case int64(len(data)) == want && omitted == nil:
					n++
				case len(data) != 64<<10 || len(omitted) != 1 || omitted[0] != shell.Range{From: 64 << 10, To: want}:
					t.Errorf("run %d: %d bytes, omitted %v", i, len(data), omitted)
				case n > 0:
					t.Errorf("run %d went before an older one", i)
				}
				if !bytes.HasPrefix(data, []byte("1\n2\n3\n")) {
					t.Errorf("run %d: the head is gone", i)
				}
				if e := waitFor(t, r, id); e.TotalBytes != want || !e.Succeeded() {
					t.Errorf("run %d: exit = %+v", i, e)
				}
			}
			return n
		}
		use := collect(0, Stored).Bytes
		if rep := collect(use, Stored); rep.Trimmed != 0 || whole() != 3 {
			t.Errorf("with enough space: %+v", rep)
		}
		if rep := collect(1, Needed); rep.Trimmed != 0 || whole() != 3 {
			t.Errorf("of needed runs: %+v", rep)
		}
		budget := use - 256<<10 // more than the supervisors take away at their end
		rep := collect(budget, Stored)
		if rep.Trimmed != 1 || rep.Freed < 1<<20 || rep.Bytes > budget || rep.Removed != 0 || whole() != 2 {
			t.Errorf("with a little less: %+v, had %d", rep, use)
		}
		if rep := collect(1, Stored); rep.Trimmed != 2 || whole() != 0 {
			t.Errorf("with no space: %+v", rep)
		}
		if rep := collect(1, Stored); rep.Trimmed != 0 || rep.Freed != 0 {
			t.Errorf("once more: %+v", rep)
		}
		if rep := collect(1, Stray); rep.Removed != 3 {
			t.Errorf("of strays: %+v", rep)
		}
	}
}

// TestCollectionBeginsAnywhere has little time: what it sees must not always be the same.
func TestCollectionBeginsAnywhere(t *testing.T) {
	t.Parallel()
	r := open(t)
	for _, id := range []shell.RunID{"gc-aa-r1", "gc-bb-r1", "gc-cc-r1", "gc-dd-r1"} {
		if err := r.Stop(t.Context(), id, fence1, shell.StopRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	var first []shell.RunID
	eventually(t, "each is the first to be seen", func() bool {
		ctx, cancel := context.WithCancel(t.Context())
		rep, err := r.GC(ctx, func(id shell.RunID) Verdict {
			if !slices.Contains(first, id) {
				first = append(first, id)
			}
			cancel()
			return Needed
		}, 0)
		if err != nil || !rep.Partial || rep.Runs != 1 {
			t.Errorf("GC = %+v, %v, want one run and partial", rep, err)
		}
		return len(first) == 4
	})
}

// A retention of its own is none of the collection's business, but its clock is.
func TestTombstonesGo(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r, err := Open(filepath.Join(t.TempDir(), "runs"), &Options{Exe: supervisorExe, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Release(t.Context(), "gone-r1", fence1); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{0, 1} {
		rep, err := r.GC(t.Context(), func(shell.RunID) Verdict { return Stray }, 0)
		if err != nil || rep.Tombstones != want {
			t.Errorf("GC = %+v, %v, want %d tombstones", rep, err, want)
		}
		now = now.Add(8 * 24 * time.Hour)
	}
}
