// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"strings"
	"testing"
)

func TestParseKeys(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"ctrl-p,ctrl-q": "\x10\x11", "Ctrl-]": "\x1d", "ctrl-@": "\x00", "a,b": "ab", "~,.": "~.", "none": "",
	} {
		k, err := ParseKeys(text)
		got := ""
		if k != nil {
			got = string(k.want)
		}
		if err != nil || got != want {
			t.Errorf("ParseKeys(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", "ab", "ctrl-", "ctrl-1", "ctrl-pq", "a,,b", "\x01", "é"} {
		if _, err := ParseKeys(text); err == nil {
			t.Errorf("ParseKeys(%q) is accepted", text)
		}
	}
}

// However the input is cut into pieces, the same is passed on, and the sequence is found
// at the same place.
func TestKeysPass(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		keys, in, out string
		found         bool
	}{
		{"ctrl-p,ctrl-q", "ls\r\x10\x11rest", "ls\r", true},
		{"ctrl-p,ctrl-q", "\x10x\x10\x10\x11", "\x10x\x10", true},
		{"ctrl-p,ctrl-q", "\x10", "", false},
		{"ctrl-p,ctrl-q", "a\x11\x10b", "a\x11\x10b", false},
		{"a,a,b", "aaaab", "aa", true},
		{"a,b,a,c", "ababac", "ab", true},
		{"a,b,a,c", "abab", "ab", false},
		{"none", "\x10\x11", "\x10\x11", false},
	} {
		for size := 1; size <= len(tt.in); size++ {
			k, err := ParseKeys(tt.keys)
			if err != nil {
				t.Fatal(err)
			}
			var out []byte
			found := false
			for rest := []byte(tt.in); len(rest) > 0 && !found; {
				n := min(size, len(rest))
				var p []byte
				p, found = k.Pass(rest[:n])
				out, rest = append(out, p...), rest[n:]
			}
			if string(out) != tt.out || found != tt.found {
				t.Errorf("%s: %q in pieces of %d passes %q, found %v, want %q, %v", tt.keys, tt.in, size, out, found, tt.out, tt.found)
			}
		}
	}
}

func FuzzKeys(f *testing.F) {
	f.Add("abab", "ababac")
	f.Fuzz(func(t *testing.T, want, in string) {
		if want == "" || len(want) > 20 {
			return
		}
		k := &Keys{want: []byte(want)}
		out, found := k.Pass([]byte(in))
		before, _, ok := strings.Cut(in, want)
		if found != ok {
			t.Fatalf("%q in %q: found %v, want %v", want, in, found, ok)
		}
		if !found {
			before = in[:len(in)-k.seen]
		}
		if !bytes.Equal(out, []byte(before)) {
			t.Errorf("%q in %q: passes %q, want %q", want, in, out, before)
		}
	})
}
