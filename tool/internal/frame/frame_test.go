// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"strings"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool/internal/frame"
)

// Given any line of others that begins like a note of the tools, it gets one more
// backslash, and no other text is changed.
func TestEscape(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{"plain [task x]\n", "plain [task x]\n"},
		{"[task x: y]", `\[task x: y]`},
		{"a\n  [TASK x]\nb", "a\n  \\[TASK x]\nb"},
		{`\[task x]`, `\\[task x]`},
		{"\u200b[note: x]\n[note: y]", "\u200b\\[note: x]\n\\[note: y]"},
		{"a\u2028[task x]\u2029[task y]", "a\u2028\\[task x]\u2029\\[task y]"},
		{"[tas k]", "[tas k]"},
	} {
		if got := frame.Escape(tt.in); got != tt.want {
			t.Errorf("Escape(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

// FuzzEscape wants to find what was written again, and no line that passes for a note.
func FuzzEscape(f *testing.F) {
	for _, s := range []string{"[task x", "\n\\[note: x", "a\u2028 [task", "[[task"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := frame.Escape(s)
		for line := range strings.SplitSeq(got, "\n") {
			low := strings.ToLower(strings.TrimSpace(line))
			if strings.HasPrefix(low, "[task") || strings.HasPrefix(low, "[note:") {
				t.Errorf("Escape(%q) = %q", s, got)
			}
		}
		if strings.ReplaceAll(got, `\`, "") != strings.ReplaceAll(s, `\`, "") {
			t.Errorf("Escape(%q) = %q changes more than backslashes", s, got)
		}
	})
}

func TestTexts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ got, want string }{
		{frame.Quoted("a\x1b[31mred\nline", 80), `"ared line"`},
		{frame.Quoted("ééé", 3), `"é…"`},
		{frame.LastLine([]byte("one\r\ntwo\rTWO\n\n  \n")), "TWO"},
		{frame.Count(1234567), "1,234,567"},
		{frame.Count(999), "999"},
		{frame.Lasted(-1), "0s"},
		{frame.Lasted(1500 * time.Millisecond), "1.5s"},
		{frame.Lasted(90 * time.Second), "1m30s"},
		{frame.Lasted(73 * time.Hour), "3 days"},
		{frame.Seconds(1500 * time.Millisecond), "1.5s"},
		{frame.Note(task.ID("x"), "n=%d", 1), "[task x: n=1]"},
		{frame.Below("a", "n"), "a\nn"},
		{frame.Below("a\n", "n"), "a\nn"},
		{frame.Below("a", ""), "a"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}
