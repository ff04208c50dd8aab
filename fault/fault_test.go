// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outlive-dev/outlive/fault"
)

func TestKindOfThroughWraps(t *testing.T) {
	t.Parallel()
	gone := fault.New(fault.NotFound, "task: not found")
	tests := []struct {
		err  error
		want fault.Kind
	}{
		{nil, fault.Unknown},
		{errors.New("plain"), fault.Unknown},
		{gone, fault.NotFound},
		{fmt.Errorf("get: %w", fmt.Errorf("load: %w", gone)), fault.NotFound},
		{errors.Join(errors.New("x"), gone), fault.NotFound},
		{context.Canceled, fault.Canceled},
		{fmt.Errorf("wait: %w", context.DeadlineExceeded), fault.Timeout},
		{errors.Join(gone, context.Canceled), fault.NotFound},
	}
	for _, tt := range tests {
		if got := fault.KindOf(tt.err); got != tt.want {
			t.Errorf("KindOf(%v) = %v, want %v", tt.err, got, tt.want)
		}
		if got, want := fault.Is(tt.err, tt.want), tt.err != nil; got != want {
			t.Errorf("Is(%v, %v) = %v, want %v", tt.err, tt.want, got, want)
		}
	}
}

func TestHintedCopyStillMatches(t *testing.T) {
	t.Parallel()
	base := fault.New(fault.Conflict, "busy")
	hinted := base.WithHint("Wait.")
	err := fmt.Errorf("open: %w", hinted)
	if !errors.Is(err, base) {
		t.Error("a copy with a hint does not match its sentinel")
	}
	if errors.Is(err, fault.New(fault.Conflict, "other")) {
		t.Error("another text matches")
	}
	if got, want := fault.Hint(err), "Wait."; got != want {
		t.Errorf("Hint = %q, want %q", got, want)
	}
	if base.Hint != "" {
		t.Error("WithHint changed the sentinel")
	}
	if got := fault.Hint(errors.New("x")); got != "" {
		t.Errorf("Hint of a plain error = %q", got)
	}
}

func TestKindNamesAreStable(t *testing.T) {
	t.Parallel()
	want := []string{
		"unknown", "invalid", "not_found", "exists", "conflict", "fenced", "finished", "unsupported", "unavailable",
		"canceled", "timeout", "no_input", "cancel_requested", "unknown_outcome", "closed", "forbidden",
	}
	var got []string
	for _, k := range fault.Kinds() {
		got = append(got, k.String())
		if back, ok := fault.ParseKind(k.String()); !ok || back != k {
			t.Errorf("ParseKind(%q) = %v, %v", k.String(), back, ok)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds are append only (-want +got):\n%s", diff)
	}
	if got, want := fault.Kind(200).String(), "kind(200)"; got != want {
		t.Errorf("String = %q, want %q", got, want)
	}
	if _, ok := fault.ParseKind("nonsense"); ok {
		t.Error("ParseKind accepts nonsense")
	}
}

func TestEdges(t *testing.T) {
	t.Parallel()
	want := map[fault.Kind]fault.Edge{
		fault.Unknown:         {500, -32603, "InternalError", -32603, 1, false},
		fault.Invalid:         {400, -32602, "InvalidParamsError", -32602, 2, false},
		fault.NotFound:        {404, -32001, "TaskNotFoundError", -32602, 3, false},
		fault.Exists:          {409, -32602, "InvalidParamsError", -32602, 4, false},
		fault.Conflict:        {409, -32603, "InternalError", -32603, 4, false},
		fault.Fenced:          {500, -32603, "InternalError", -32603, 1, false},
		fault.Finished:        {409, -32004, "UnsupportedOperationError", -32602, 4, false},
		fault.Unsupported:     {501, -32004, "UnsupportedOperationError", -32602, 1, false},
		fault.Unavailable:     {503, -32603, "InternalError", -32603, 1, true},
		fault.Canceled:        {499, -32603, "InternalError", -32603, 1, false},
		fault.Timeout:         {504, -32603, "InternalError", -32603, 1, false},
		fault.NoInput:         {409, -32004, "UnsupportedOperationError", -32602, 1, false},
		fault.CancelRequested: {500, -32603, "InternalError", -32603, 1, false},
		fault.UnknownOutcome:  {500, -32603, "InternalError", -32603, 1, false},
		fault.Closed:          {409, -32004, "UnsupportedOperationError", -32602, 1, false},
		fault.Forbidden:       {403, -32001, "TaskNotFoundError", -32602, 3, false},
	}
	got := map[fault.Kind]fault.Edge{}
	for _, k := range fault.Kinds() {
		got[k] = fault.EdgeOf(k)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("edges (-want +got):\n%s", diff)
	}
	if got := fault.EdgeOf(200); got != want[fault.Unknown] {
		t.Errorf("EdgeOf(200) = %+v, want that of Unknown", got)
	}
}

func ExampleKindOf() {
	errGone := fault.New(fault.NotFound, "no such task").WithHint("List them with ps -a.")
	err := fmt.Errorf("cancel sh-1: %w", errGone)
	fmt.Println(err)
	fmt.Println(fault.KindOf(err), "-", fault.Hint(err))
	// Output:
	// cancel sh-1: no such task
	// not_found - List them with ps -a.
}

func ExampleEdgeOf() {
	e := fault.EdgeOf(fault.NotFound)
	fmt.Println(e.HTTP, e.A2A, e.RPC, "exit", e.Exit)
	// Output: 404 TaskNotFoundError -32001 exit 3
}
