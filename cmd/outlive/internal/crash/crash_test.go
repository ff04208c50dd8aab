// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"
	"testing"
)

// TestCrash is the harness as every change runs it: few rounds, but every named point
// and every directed race. make crash does more.
func TestCrash(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("kills real processes for some seconds")
	}
	o := options{n: 9, seed: 1} // 9: with each, two points
	var out strings.Builder
	if err := o.crash(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !strings.HasSuffix(out.String(), "\nviolations 0\n") {
		t.Errorf("its last line is not \"violations 0\":\n%s", out.String())
	}
	t.Log(out.String())
}

// TestPlan holds a round to its seed and number.
func TestPlan(t *testing.T) {
	t.Parallel()
	w := &world{dir: "/d", seed: 7}
	text := func(seed uint64, n int) string {
		p := planOf(seed, n)
		var b strings.Builder
		for i := range p.starts {
			b.WriteString(p.starts[i].mode + p.starts[i].strike.describe() + w.text(&p.starts[i]))
		}
		for i := range p.visits {
			b.WriteString(p.visits[i].verb + p.visits[i].delay.String() + p.visits[i].strike.describe())
		}
		return b.String()
	}
	if a, b := text(7, 3), text(7, 3); a != b {
		t.Errorf("planOf(7, 3) differs from itself:\n%s\n%s", a, b)
	}
	if text(7, 3) == text(8, 3) || text(7, 3) == text(7, 4) {
		t.Error("planOf(7, 3) = planOf of another seed or number")
	}
	armed := map[string]bool{}
	for n := 1; n <= 9; n++ {
		p := planOf(7, n)
		for i := range p.starts {
			armed[p.starts[i].strike.point] = true
		}
	}
	for _, point := range points() {
		if !armed[point] {
			t.Errorf("nine rounds do not come by %s", point)
		}
	}
}
