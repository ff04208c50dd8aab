// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files and generated pages")

// golden compares got with the file, or rewrites the file.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run with -update)", err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s is stale, run with -update (-want +got):\n%s", path, diff)
	}
}

func TestTableCoversEveryOpOnce(t *testing.T) {
	t.Parallel()
	type cell struct {
		op   Op
		who  string
		from State
	}
	var order []Op
	seen := map[cell]bool{}
	for _, tr := range transitions() {
		if !slices.Contains(order, tr.op) {
			order = append(order, tr.op)
		}
		for _, from := range tr.from {
			c := cell{tr.op, tr.who, from}
			if seen[c] {
				t.Errorf("%v is in the table twice", c)
			}
			seen[c] = true
			if from.Terminal() && tr.op != OpPublish && tr.op != OpReveal {
				t.Errorf("%s moves a task that has ended", tr.op)
			}
		}
	}
	var given []Op
	for _, c := range commands(Record{}) {
		if !slices.Contains(given, c.c.Op()) {
			given = append(given, c.c.Op())
		}
	}
	if diff := cmp.Diff(given, order); diff != "" {
		t.Errorf("ops of the table (-commands +table):\n%s", diff)
	}
	if diff := cmp.Diff(given, Ops()); diff != "" {
		t.Errorf("Ops (-commands +Ops):\n%s", diff)
	}
}

func TestLegal(t *testing.T) {
	t.Parallel()
	tests := []struct {
		s    State
		op   Op
		want bool
	}{
		{none, OpCreate, true},
		{Pending, OpCreate, false},
		{Pending, OpStart, true},
		{Running, OpStart, false},
		{Waiting, OpComplete, false},
		{Suspended, OpRelease, true},
		{Completed, OpPublish, true},
		{Completed, OpRequestCancel, false},
		{none, OpRequestCancel, false},
	}
	for _, tt := range tests {
		if got := Legal(tt.s, tt.op); got != tt.want {
			t.Errorf("Legal(%q, %s) = %v, want %v", tt.s, tt.op, got, tt.want)
		}
	}
}

// Breaking any invariant is noticed and named.
func TestCheckNames(t *testing.T) {
	t.Parallel()
	tests := []struct {
		id    string
		spoil func(*Record)
	}{
		{"T-1", func(r *Record) { r.State = "dreaming" }},
		{"T-1", func(r *Record) { r.Executor = "" }},
		{"T-1", func(r *Record) { r.Owner = "nobody" }},
		{"T-1", func(r *Record) { r.Publication = "" }},
		{"T-2", func(r *Record) { r.Revision = 0 }},
		{"T-2", func(r *Record) { r.Generation = 0 }},
		{"T-3", func(r *Record) { r.Lease = Lease{} }},
		{"T-3", func(r *Record) { r.Attempt = 0 }},
		{"T-4", func(r *Record) { r.Owner = OwnerParent }},
		{"T-4", func(r *Record) { r.Hold = Hold{Parent: "p"} }},
		{"T-5", func(r *Record) { r.Result = &Payload{} }},
		{"T-5", func(r *Record) { r.Failure = &Failure{} }},
		{"T-6", func(r *Record) { r.MailSealed = true }},
		{"T-6", func(r *Record) { r.DoneAt = r.CreatedAt }},
		{"T-7", func(r *Record) { r.CancelReason = "x" }},
		{"T-7", func(r *Record) { r.State, r.CancelRequestedAt = Waiting, r.CreatedAt }},
		{"T-8", func(r *Record) { r.ConsumedInput = 1 }},
		{"T-8", func(r *Record) { r.LatestInput = 1 }},
		{"T-9", func(r *Record) { r.State = Waiting }},
		{"T-9", func(r *Record) { r.Tickets = []TicketID{"a", "a"} }},
		{"T-10", func(r *Record) { r.State = Suspended }},
		{"T-10", func(r *Record) { r.SuspendReason = "idle" }},
		{"T-11", func(r *Record) { r.DueAt = r.CreatedAt }},
		{"T-12", func(r *Record) { r.UpdatedAt = r.CreatedAt.Add(-1) }},
	}
	for _, tt := range tests {
		r := runningForCheck(t)
		tt.spoil(&r)
		if err := Check(r); err == nil || !strings.Contains(err.Error(), tt.id+": ") {
			t.Errorf("Check = %v, want a complaint by %s", err, tt.id)
		}
	}
}
