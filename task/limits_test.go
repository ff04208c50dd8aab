// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package task_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/task"
)

func TestDefaultLimits(t *testing.T) {
	t.Parallel()
	want := task.Limits{
		Spec: 1 << 20, Checkpoint: 1 << 20, Result: 1 << 20, Input: 1 << 20, Part: 256 << 10, ID: 1024, Text: 4096,
		Labels: 32, LabelKey: 64, LabelValue: 256, Depth: 16, Children: 10_000, Tickets: 64, Page: 100, MaxPage: 1000,
		Lease: 15 * time.Second, Renewal: 5 * time.Second, LockProbe: time.Second, DetachAfter: 120 * time.Second,
	}
	if diff := cmp.Diff(want, task.Limits{}.WithDefaults()); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, want.WithDefaults()); diff != "" {
		t.Errorf("defaults of the defaults (-want +got):\n%s", diff)
	}
	if got := (task.Limits{Depth: 3}).WithDefaults().Depth; got != 3 {
		t.Errorf("an adjusted limit is %d, want 3", got)
	}
}

// Each limit accepts what is exactly as large and refuses one more, and the error
// says what, how large, and the limit.
func TestLimitsAtAndPast(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	var l task.Limits
	bytes := func(n int) []byte { return make([]byte, n) }
	text := func(n int) string { return strings.Repeat("x", n) }
	create := func(set func(*task.Record, int)) func(int) error {
		return func(n int) error {
			r := task.Record{ID: "t", Executor: "echo.v1"}
			set(&r, n)
			return l.Validate(task.Create{Record: r})
		}
	}
	checkpoint := func(n int) *task.Checkpoint { return &task.Checkpoint{Format: "f", Data: bytes(n)} }
	tickets := func(n int) []task.TicketID { return make([]task.TicketID, n) }
	result := func(n int) task.Payload { return task.Payload{Data: bytes(n)} }
	tests := []struct {
		what  string
		limit int
		unit  string
		try   func(n int) error
	}{
		{"spec", mib, "bytes", create(func(r *task.Record, n int) { r.Spec.Data = bytes(n) })},
		{"spec media type", 1024, "bytes", create(func(r *task.Record, n int) { r.Spec.Media = text(n) })},
		{"description", 4096, "bytes", create(func(r *task.Record, n int) { r.Description = text(n) })},
		{"id", 1024, "bytes", create(func(r *task.Record, n int) { r.ID = task.ID(text(n)) })},
		{"kind", 1024, "bytes", create(func(r *task.Record, n int) { r.Kind = text(n) })},
		{"name", 1024, "bytes", create(func(r *task.Record, n int) { r.Name = text(n) })},
		{"invocation", 1024, "bytes", create(func(r *task.Record, n int) { r.Invocation = text(n) })},
		{"session", 1024, "bytes", create(func(r *task.Record, n int) { r.Session = task.SessionID(text(n)) })},
		{"queue", 1024, "bytes", create(func(r *task.Record, n int) { r.Queue = text(n) })},
		{"concurrency key", 1024, "bytes", create(func(r *task.Record, n int) { r.ConcurrencyKey = text(n) })},
		{"depth", 16, "levels", create(func(r *task.Record, n int) { r.Depth = n })},
		{"labels", 32, "labels", create(func(r *task.Record, n int) {
			r.Labels = map[string]string{}
			for i := range n {
				r.Labels[fmt.Sprint(i)] = ""
			}
		})},
		{"label key xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...", 64, "bytes", create(func(r *task.Record, n int) {
			r.Labels = map[string]string{text(n): ""}
		})},
		{"value of label k", 256, "bytes", create(func(r *task.Record, n int) { r.Labels = map[string]string{"k": text(n)} })},
		{"executor", 128, "bytes", func(n int) error { return task.ValidateExecutor(text(n-3) + ".v1") }},
		{"children", 10_000, "tasks", func(n int) error { return l.ValidateChildren(n - 1) }},
		{"checkpoint", mib, "bytes", func(n int) error { return l.Validate(task.Save{Checkpoint: *checkpoint(n)}) }},
		{"checkpoint", mib, "bytes", func(n int) error { return l.Validate(task.CommitStart{Checkpoint: checkpoint(n)}) }},
		{"checkpoint", mib, "bytes", func(n int) error { return l.Validate(task.CommitInput{Checkpoint: checkpoint(n)}) }},
		{"checkpoint", mib, "bytes", func(n int) error { return l.Validate(task.Complete{Checkpoint: checkpoint(n)}) }},
		{"checkpoint", mib, "bytes", func(n int) error { return l.Validate(task.Wait{Checkpoint: checkpoint(n)}) }},
		{"checkpoint", mib, "bytes", func(n int) error { return l.Validate(task.Suspend{Checkpoint: *checkpoint(n)}) }},
		{"checkpoint", mib, "bytes", func(n int) error { return l.Validate(task.Yield{Checkpoint: checkpoint(n)}) }},
		{"checkpoint", mib, "bytes", func(n int) error { return l.Validate(task.HandOff{Checkpoint: checkpoint(n)}) }},
		{"checkpoint format", 1024, "bytes", func(n int) error { return l.Validate(task.Yield{Checkpoint: &task.Checkpoint{Format: text(n)}}) }},
		{"result", mib, "bytes", func(n int) error { return l.Validate(task.Complete{Result: result(n)}) }},
		{"result", mib, "bytes", func(n int) error { return l.Validate(task.Offer{Result: result(n)}) }},
		{"result", mib, "bytes", func(n int) error { return l.Validate(task.Fail{Failure: task.Failure{Detail: result(n)}}) }},
		{"result", mib, "bytes", func(n int) error { r := result(n); return l.Validate(task.AckCancel{Result: &r}) }},
		{"failure code", 1024, "bytes", func(n int) error { return l.Validate(task.Fail{Failure: task.Failure{Code: text(n)}}) }},
		{"open tickets", 64, "tickets", func(n int) error { return l.Validate(task.Wait{Tickets: tickets(n)}) }},
		{"open tickets", 64, "tickets", func(n int) error { return l.Validate(task.HandOff{Tickets: tickets(n)}) }},
		{"ticket id", 1024, "bytes", func(n int) error { return l.Validate(task.Wait{Tickets: []task.TicketID{task.TicketID(text(n))}}) }},
		{"input", mib, "bytes", func(n int) error { return l.ValidateInput(&mail.Input{ID: "i", Data: bytes(n)}) }},
		{"input id", 1024, "bytes", func(n int) error { return l.ValidateInput(&mail.Input{ID: text(n)}) }},
		{"input kind", 1024, "bytes", func(n int) error { return l.ValidateInput(&mail.Input{ID: "i", Kind: text(n)}) }},
		{"part", 1000, "bytes", func(n int) error {
			return task.Limits{Part: 1000}.ValidateEntry(&journal.Entry{Stream: "s", Kind: "k", Data: bytes(n)})
		}},
		{"event id", 10, "bytes", func(n int) error {
			return task.Limits{ID: 10}.ValidateEntry(&journal.Entry{Stream: "s", Kind: "k", Event: text(n)})
		}},
		{"entry: part", 256 << 10, "bytes", func(n int) error {
			return l.ValidateEntry(&journal.Entry{Stream: "s", Kind: "k", Data: bytes(n)})
		}},
	}
	for _, tt := range tests {
		if err := tt.try(tt.limit); err != nil {
			t.Errorf("%s of %d: %v", tt.what, tt.limit, err)
		}
		err := tt.try(tt.limit + 1)
		want := fmt.Sprintf("%s: %d %s, the limit is %d", tt.what, tt.limit+1, tt.unit, tt.limit)
		if tt.what == "entry: part" {
			want = fmt.Sprintf("entry: part is %d bytes, the limit is %d", tt.limit+1, tt.limit)
		}
		if !fault.Is(err, fault.Invalid) || err.Error() != want {
			t.Errorf("%s of %d: %v, want %q", tt.what, tt.limit+1, err, want)
		}
	}
}

func TestValidateRefusesNonsense(t *testing.T) {
	t.Parallel()
	var l task.Limits
	for name, err := range map[string]error{
		"empty label":     l.ValidateCreate(&task.Record{Executor: "echo.v1", Labels: map[string]string{"": "x"}}),
		"negative":        l.ValidateCreate(&task.Record{Executor: "echo.v1", MaxAttempts: -1}),
		"input sans id":   l.ValidateInput(&mail.Input{}),
		"entry sans kind": l.ValidateEntry(&journal.Entry{Stream: "s"}),
	} {
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v, want Invalid", name, err)
		}
	}
	if err := l.Validate(task.Publish{}); err != nil {
		t.Errorf("a command without payload: %v", err)
	}
}

func TestPageSize(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{-1: 100, 0: 100, 1: 1, 100: 100, 1000: 1000, 1001: 1000} {
		if got := (task.Limits{}).PageSize(n); got != want {
			t.Errorf("PageSize(%d) = %d, want %d", n, got, want)
		}
	}
}

func TestValidateExecutor(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"a.v1", "report.v12", "shell.run.v1", "my-tool_2.v999999"} {
		if err := task.ValidateExecutor(key); err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
	for _, key := range []string{
		"", "report", "report.1", "report.v0", "report.v01", "report.v", "Report.v1", ".v1", "v1", "a..v1", "a.v1 ", "a.v1\n", "a/b.v1",
		"1a.v1", "a.v1000000", "a.v-1",
	} {
		if err := task.ValidateExecutor(key); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v, want Invalid", key, err)
		}
	}
}

func TestNewID(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^[a-z0-9]+-[0-9a-hjkmnp-tv-z]{33}$`)
	rapid.Check(t, func(t *rapid.T) {
		var a, b [14]byte
		copy(a[:], rapid.SliceOfN(rapid.Byte(), 14, 14).Draw(t, "a"))
		copy(b[:], rapid.SliceOfN(rapid.Byte(), 14, 14).Draw(t, "b"))
		kind := rapid.String().Draw(t, "kind")
		early := rapid.Int64Range(0, 1<<47).Draw(t, "early")
		later := rapid.Int64Range(early+1, 1<<48-1).Draw(t, "later")
		x := task.NewID(kind, time.UnixMilli(early), a)
		y := task.NewID(kind, time.UnixMilli(later), b)
		if x >= y {
			t.Fatalf("%s of %d does not sort before %s of %d", x, early, y, later)
		}
		if !form.MatchString(string(x)) || len(x) > task.MaxIDLen {
			t.Fatalf("id %q", x)
		}
		same := task.NewID(kind, time.UnixMilli(early), b)
		if (same == x) != (a == b) {
			t.Fatalf("ids %s, %s of random %x, %x", x, same, a, b)
		}
	})
	// Every random bit shows.
	seen := map[task.ID]bool{}
	for i := range 112 {
		var r [14]byte
		r[i/8] = 1 << (i % 8)
		seen[task.NewID("x", time.UnixMilli(0), r)] = true
	}
	if len(seen) != 112 {
		t.Errorf("%d ids of 112 random bits", len(seen))
	}
	for kind, want := range map[string]string{"sh": "sh-", "": "t-", "Ä!": "t-", "a_b": "ab-", "abcdefghijklmnopq": "abcdefghijklmn-"} {
		if got := task.NewID(kind, time.UnixMilli(0), [14]byte{}); !strings.HasPrefix(string(got), want) || len(got) > task.MaxIDLen {
			t.Errorf("NewID(%q) = %s, want prefix %s", kind, got, want)
		}
	}
	if got := task.NewID("x", time.UnixMilli(-5), [14]byte{}); !strings.HasPrefix(string(got), "x-0000000000") {
		t.Errorf("before 1970: %s", got)
	}
}
