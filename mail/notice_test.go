// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package mail_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/outlive-dev/outlive/mail"
)

// A notice is never longer than 4 KiB, whatever is in it, and says what it leaves out.
func TestNoticeIsBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		summary string
		least   int // what is to be left of it
	}{
		"empty":    {"", 0},
		"short":    {"done", 4},
		"at":       {strings.Repeat("x", 4<<10-len(`{"task":"sh-1","summary":""}`)), 4<<10 - len(`{"task":"sh-1","summary":""}`)},
		"one over": {strings.Repeat("x", 4<<10-len(`{"task":"sh-1","summary":""}`)+1), 4000},
		"long":     {strings.Repeat("x", 1<<20), 4000},
		"escaped":  {strings.Repeat("\x01", 1<<20), 4000 / 6},
		"runes":    {strings.Repeat("\u4e16", 1<<20), 4000},
		"bytes":    {strings.Repeat("\xff", 1<<20), 4000},
	} {
		b := mail.Notice{Task: "sh-1", Summary: c.summary}.Encode()
		got, ok := mail.NoticeOf(mail.Input{Kind: mail.KindChild + "completed", Data: b})
		whole := len(strings.ToValidUTF8(c.summary, "\uFFFD"))
		if name == "bytes" {
			whole = len("\uFFFD") // one for a run of them
		}
		if !ok || len(b) > mail.MaxNotice || len(got.Summary)+got.Rest != whole || !utf8.ValidString(got.Summary) {
			t.Errorf("%s: %d bytes, summary of %d and %d left out of %d, %v", name, len(b), len(got.Summary), got.Rest, whole, ok)
		}
		if want := min(c.least, whole); len(got.Summary) < want {
			t.Errorf("%s: summary of %d bytes, want at least %d", name, len(got.Summary), want)
		}
	}
	if _, ok := mail.NoticeOf(mail.Input{Kind: "message", Data: []byte(`{"task":"x"}`)}); ok {
		t.Error("a message is a notice")
	}
}
