// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestKill is the harness as every change runs it. make nested does more.
func TestKill(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("kills real processes for some seconds")
	}
	var out strings.Builder
	if err := (options{n: len(points()), seed: 1}).kill(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), " 0 lost, 0 stored twice\n") || !strings.HasSuffix(out.String(), "\nviolations 0\n") {
		t.Errorf("it says neither that nothing was lost nor \"violations 0\":\n%s", out.String())
	}
	t.Log(out.String())
}

// TestLoad holds the harness to its minimum: a run in which little happens is no
// success.
func TestLoad(t *testing.T) {
	t.Parallel()
	r := newReport()
	r.load(200)
	var found []string
	for _, v := range r.found() {
		found = append(found, strings.Join(strings.Fields(v.text)[:3], " "))
	}
	if want := []string{"load: 0 kills,", "load: 0 rounds,", "load: nothing was", "load: 0 turns"}; !slices.Equal(found, want) {
		t.Errorf("an idle run is told %q, want %q", found, want)
	}
}

// TestPlan holds a round to its seed and number.
func TestPlan(t *testing.T) {
	t.Parallel()
	if a, b := planOf(7, 3), planOf(7, 3); !reflect.DeepEqual(a, b) {
		t.Errorf("planOf(7, 3) differs from itself: %v, %v", a, b)
	}
	if a := planOf(7, 3); reflect.DeepEqual(a, planOf(8, 3)) || reflect.DeepEqual(a, planOf(7, 4)) {
		t.Error("planOf(7, 3) = planOf of another seed or number")
	}
	var first []string
	for n := range points() {
		first = append(first, planOf(7, n+1).strikes[0].point)
	}
	if !slices.Equal(first, points()) {
		t.Errorf("%d rounds come by %v, want every point", len(first), first)
	}
}
