// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

func TestTalk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint.json")
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		if err := talk(t.Context(), &out, path); err != nil {
			t.Error(err)
		}
		want := `turn 1, asked 1 things, goes on from ""
   tell
  (no, the mountains: cut it after a word)
   me
turn 2, asked 2 things, goes on from ""
   no,
   the
   mountains
  (the program closes)
   and
left: 2 items in a turn that got as far as "no, the mountains and"
turn 1, asked 2 things, goes on from "no, the mountains and"
   their
   lakes
stopped, 0 items left
`
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("output (-want +got):\n%s", diff)
		}
	})
}
