// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The units that are shipped start what there is, and do not end commands with it.
func TestUnits(t *testing.T) {
	t.Parallel()
	units, err := filepath.Glob("../../packaging/systemd/*.service")
	if err != nil || len(units) == 0 {
		t.Fatalf("units %v, %v", units, err)
	}
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		if !slices.Contains(lines, "KillMode=process") {
			t.Errorf("%s: its restart kills commands", unit)
		}
		for _, line := range lines {
			start, ok := strings.CutPrefix(line, "ExecStart=")
			if !ok {
				continue
			}
			words := strings.Fields(start)
			cmd, rest, err := (&app{}).root().Find(words[1:])
			if err != nil || words[0] != "outlive" || cmd.ParseFlags(rest) != nil {
				t.Errorf("%s: %q cannot be run: %v", unit, start, err)
			}
		}
	}
}
