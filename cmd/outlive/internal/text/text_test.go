// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package text

import "testing"

func TestParseSize(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]int64{
		"1": 1, "100b": 100, "1k": 1 << 10, "1KB": 1 << 10, "1KiB": 1 << 10, "512m": 512 << 20, "1.5G": 3 << 29, "2tib": 2 << 40,
	} {
		if got, err := ParseSize(s); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "0", "-1", "m", "1x", "1mm", "1 m", "1e", "NaN", "inf", "999999999999t", "9999999t", "1bi"} {
		if got, err := ParseSize(s); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", s, got)
		}
	}
}
