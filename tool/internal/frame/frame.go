// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package frame holds what the tools put around what others wrote, so that nothing
// others wrote can pass for it.
package frame

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/task"
)

// How the tools' own notes begin, beside those of package shell.
const (
	begin = "[task"
	aside = "[note:"
)

// Aside returns a note about a call: "[note: text]".
func Aside(text string) string { return aside + " " + text + "]" }

// Note returns a note about a task: "[task ID: text]". The text must not be others'.
func Note(id task.ID, format string, args ...any) string {
	return begin + " " + string(id) + ": " + fmt.Sprintf(format, args...) + "]"
}

// Phrases returns the phrases of p, or the default ones, with references that fit the
// tools' own arguments.
func Phrases(p *shell.Phrases) *shell.Phrases {
	var out shell.Phrases
	if p != nil {
		out = *p
	}
	if out.TruncatedRead == "" {
		out.TruncatedRead = `[output truncated: first {head} and last {tail} of {total} shown; read the rest with {output_tool} task_id={id} after={offset}]`
	}
	return &out
}

// Escape puts a backslash before each line of text that begins like those of [Note] and [Aside], after
// blanks and invisible characters.
func Escape(text string) string {
	if low := strings.ToLower(text); !strings.Contains(low, begin) && !strings.Contains(low, aside) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		line := text
		if i := strings.IndexAny(text, "\n\u2028\u2029"); i >= 0 {
			_, n := utf8.DecodeRuneInString(text[i:])
			line = text[:i+n]
		}
		text = text[len(line):]
		rest := strings.TrimLeftFunc(line, func(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) })
		bare := strings.TrimLeft(rest, `\`)
		if begins(bare, begin) || begins(bare, aside) {
			b.WriteString(line[:len(line)-len(rest)])
			b.WriteByte('\\')
			line = rest
		}
		b.WriteString(line)
	}
	return b.String()
}

func begins(line, with string) bool {
	return len(line) >= len(with) && strings.EqualFold(line[:len(with)], with)
}

// Below returns text with a note on a line of its own below.
func Below(text, note string) string {
	switch {
	case note == "":
		return text
	case text == "" || strings.HasSuffix(text, "\n"):
		return text + note
	}
	return text + "\n" + note
}

// MinLen is how many characters of an id name a task at least.
const MinLen = 4

// Quoted returns what others wrote as one quoted line of at most n bytes.
func Quoted(s string, n int) string {
	s = strings.Join(strings.Fields(shell.Normalize([]byte(s))), " ")
	if len(s) > n {
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n] + "…"
	}
	return strconv.Quote(s)
}

// LastLine returns the last line of output that is not blank, or "".
func LastLine(b []byte) string {
	text := strings.TrimSpace(shell.Normalize(b))
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}

// Count writes a number with commas.
func Count(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Lasted writes a duration with no more digits than one reads.
func Lasted(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < 48*time.Hour:
		return d.Round(time.Second).String()
	}
	return strconv.Itoa(int(d.Hours()/24)) + " days"
}

// Seconds writes a limit the way it is asked for.
func Seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s" }
