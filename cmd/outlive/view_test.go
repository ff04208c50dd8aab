// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlive-dev/outlive/cmd/outlive/internal/text"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool/command"
)

// The keys that programs may rely on are there whatever the task is like.
func TestTaskKeys(t *testing.T) {
	t.Parallel()
	b, err := json.Marshal(viewTask(&task.Record{}))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(`attempt cancel_reason cancel_requested_at created_at description done_at executor exit_code
		failure generation id labels name owner parent publication result session started_at state tickets version`)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("keys of an empty task (-want +got):\n%s", diff)
	}
}

func TestStateWord(t *testing.T) {
	t.Parallel()
	result := func(text string) *task.Payload {
		return &task.Payload{Media: command.MediaExit, Data: []byte(text)}
	}
	fail := func(code string) *task.Failure { return &task.Failure{Code: code} }
	for _, tt := range []struct {
		rec  task.Record
		want string
	}{
		{task.Record{State: task.Completed}, "completed"},
		{task.Record{State: task.Completed, Result: result(`{"cause":"exited","code":0}`)}, "completed"},
		{task.Record{State: task.Completed, Result: result(`{"cause":"exited","code":3}`)}, "exit 3"},
		{task.Record{State: task.Completed, Result: result(`{"cause":"exited","code":137,"signal":"SIGKILL"}`)}, "SIGKILL"},
		{task.Record{State: task.Failed, Failure: fail("timed_out")}, "timed out"},
		{task.Record{State: task.Failed, Failure: fail("lost")}, "lost"},
		{task.Record{State: task.Canceled, Failure: fail("canceled")}, "canceled"},
		{task.Record{State: task.Running}, "running"},
		{task.Record{State: task.Running, CancelRequestedAt: time.Now()}, "canceling"},
		{task.Record{State: task.Pending}, "pending"},
		{task.Record{State: task.Waiting}, "waiting"},
		{task.Record{State: task.Suspended}, "suspended"},
	} {
		if got := stateWord(&tt.rec); got != tt.want {
			t.Errorf("stateWord(%s, %v) = %q, want %q", tt.rec.State, tt.rec.Failure, got, tt.want)
		}
	}
}

// A name or a command must not be able to write to the terminal it is listed on.
func TestDescribeIsTame(t *testing.T) {
	t.Parallel()
	got := describe(&task.Record{Name: "n", Description: "a\x1b[2J\nb\x9bc\u202e\td\x7f"})
	if want := "n: a?[2J b?c? d?"; got != want {
		t.Errorf("describe() = %q, want %q", got, want)
	}
}

func TestSmallWords(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", 90 * time.Second: "90s", 5 * time.Minute: "5m", 3 * time.Hour: "3h", 100 * time.Hour: "4d",
	} {
		if got := age(d); got != want {
			t.Errorf("age(%v) = %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int64]string{7: "7 B", 2048: "2.0 KiB", 3 << 20: "3.0 MiB", 5 << 30: "5.0 GiB"} {
		if got := text.Size(n); got != want {
			t.Errorf("text.Size(%d) = %q, want %q", n, got, want)
		}
	}
	if got := cutTo("abcdef", 4); got != "abc…" {
		t.Errorf("cutTo() = %q", got)
	}
	a, b := row{rec: task.Record{ID: "sh-111112345678"}}, row{rec: task.Record{ID: "sh-222212345678"}}
	if diff := cmp.Diff([]string{"112345678", "212345678"}, shortIDs([]row{a, b})); diff != "" {
		t.Errorf("shortIDs() (-want +got):\n%s", diff)
	}
}

// An error is one line, a hint another; commands that pass a code through end with
// the line that begins with outlive:.
func TestReport(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		word string
		want string
	}{
		{"ps", "outlive: ps: a b\nhint: do this\n"},
		{"run", "hint: do this\noutlive: run: a b\n"},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		a := &app{err: w}
		cmd, _, err := a.root().Find([]string{tt.word})
		if err != nil {
			t.Fatal(err)
		}
		code := a.report(cmd, usagef("a\nb").withHint("do\nthis"))
		w.Close()
		var got bytes.Buffer
		if _, err := got.ReadFrom(r); err != nil || code != exitUsage || got.String() != tt.want {
			t.Errorf("report(%s) = %d, %q, want %q", tt.word, code, got.String(), tt.want)
		}
	}
}
