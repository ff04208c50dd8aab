// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package files

import (
	"errors"
	"testing"

	"github.com/outlive-dev/outlive/shell"
)

func FuzzRecord(f *testing.F) {
	good, err := seal(shell.Exit{Cause: shell.Exited, Started: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte("00000000 {}\n"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var e shell.Exit
		if err := unseal(b, &e); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("unseal(%q) = %v", b, err)
		}
	})
}
