// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each bench ends with its line, and leaves nothing beside the store.
func TestBench(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	for _, tt := range []struct{ args, last string }{
		{"append --writers 4", `^append writers=4 ops_per_s=\d+ log_per_s=\d+ ratio=\d+\.\d\d seconds=\d+$`},
		{"lifecycle --inflight 4", `^lifecycle inflight=4 ops_per_s=\d+ log_per_s=\d+ ratio=\d+\.\d\d seconds=\d+$`},
		{"history --inflight 4 --tasks 300", `^history tasks=300 inflight=4 empty_per_s=\d+ full_per_s=\d+ ratio=\d+\.\d\d seconds=\d+$`},
	} {
		out := b.must(append([]string{"bench"}, strings.Fields(tt.args+" --seconds 0.2 --rounds 1")...)...)
		lines := strings.Split(out, "\n")
		if last := lines[len(lines)-1]; !regexp.MustCompile(tt.last).MatchString(last) || strings.Contains(last, "_s=0 ") {
			t.Errorf("bench %s ends with %q", tt.args, last)
		}
	}
	figures := strings.Split(b.must("bench", "mail", "--calls", "3", "--inputs", "1500"), "\n")
	for i, want := range []string{
		`^mail "send in process" calls=3 p50_ms=\d+\.\d\d p99_ms=\d+\.\d\d seen_p50_ms=\d+\.\d\d seen_p99_ms=\d+\.\d\d$`,
		`^mail "send --steer" calls=3 .* seen_p99_ms=`, `^mail "answer" calls=3 .* seen_p99_ms=`, `^mail "tree" calls=3 `,
		`^mail "read" inputs=1500 page=1000 pages=2 .* ratio=`, `^mail "send to a long mailbox" calls=3 `,
	} {
		if i >= len(figures) || !regexp.MustCompile(want).MatchString(figures[i]) {
			t.Errorf("bench mail printed\n%s\nwant line %d to be %s", strings.Join(figures, "\n"), i+1, want)
		}
	}
	left, err := os.ReadDir(filepath.Dir(b.store))
	if err != nil || len(left) > 0 {
		t.Errorf("left beside the store: %v, %v", left, err)
	}
	b.want(b.run("bench", "history", "--tasks", "0"), exitUsage, "--tasks")
	b.want(b.run("bench", "mail", "--calls", "0"), exitUsage, "--calls")
	b.want(b.run("bench", "append", "--writers", "0"), exitUsage, "--writers")
}
