// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/outlive-dev/outlive/shell"
)

// numbered returns n lines.
func numbered(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "line %06d of the output of a long command\n", i)
	}
	return b.Bytes()
}

var (
	markerLine = regexp.MustCompile(`(?m)^\[… ([\d,]+) bytes? omitted …\]$`)
	noticeLine = regexp.MustCompile(`(?m)^\[output truncated: first .* and last .* of .* shown.*\]\n?`)
)

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.ReplaceAll(s, ",", ""))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// shownParts splits a truncated text into its notice, head, count and tail.
func shownParts(t *testing.T, text string) (notice, head string, omitted int, tail string) {
	t.Helper()
	notice, rest, _ := strings.Cut(text, "\n")
	m := markerLine.FindStringSubmatchIndex(rest)
	if m == nil || !noticeLine.MatchString(notice) {
		t.Fatalf("not truncated: %.300q", text)
	}
	return notice, rest[:m[0]], number(t, rest[m[2]:m[3]]), rest[m[1]+1:]
}

func TestN10(t *testing.T) {
	t.Parallel()
	lines := numbered(30_000)
	in := shell.RenderInput{Call: shell.Call{ID: "sh-0k3"}, Output: lines, Exit: exited(0)}
	notice, head, omitted, tail := shownParts(t, shell.Render(in, shell.RenderOptions{}))
	want := fmt.Sprintf("[output truncated: first 8 KiB and last %s KiB of 1.3 MiB shown; read the rest with task_output id=sh-0k3 offset=%d]",
		strings.TrimSuffix(fmt.Sprintf("%.1f", float64(len(tail))/1024), ".0"), len(head))
	if diff := cmp.Diff(want, notice); diff != "" {
		t.Errorf("notice (-want +got):\n%s", diff)
	}
	if len(head)+omitted+len(tail) != len(lines) || string(lines[:len(head)]) != head || !bytes.HasSuffix(lines, []byte(tail)) {
		t.Errorf("%d + %d + %d bytes are not the %d of the output", len(head), omitted, len(tail), len(lines))
	}
	if !strings.HasSuffix(head, "\n") || !strings.HasPrefix(tail, "line ") {
		t.Errorf("cut inside of a line: head %q, tail %q", head[len(head)-40:], tail[:40])
	}

	// Without an id, or a tool, none is promised.
	for _, got := range []string{
		shell.Render(shell.RenderInput{Output: lines, Exit: exited(0)}, shell.RenderOptions{}),
		shell.Render(in, shell.RenderOptions{OutputTool: shell.NoTool}),
	} {
		if strings.Contains(got, "read the rest") || !noticeLine.MatchString(got) {
			t.Errorf("notice = %.120q", got)
		}
	}
	// What was cut while the command ran is noticed after it.
	last := shell.Render(in, shell.RenderOptions{NoticeLast: true})
	if !strings.HasPrefix(last, "line 000000") || !strings.HasSuffix(last, fmt.Sprintf(" offset=%d]", len(head))) {
		t.Errorf("notice last: %.60q ... %q", last, last[len(last)-60:])
	}
}

// TestN10Offset checks that the offset to read on from is one of the raw output.
func TestN10Offset(t *testing.T) {
	t.Parallel()
	offset := regexp.MustCompile(` offset=(\d+)\]`)
	for name, unit := range map[string]string{
		"plain":    "some line of output\n",
		"colors":   "\x1b[31msome\x1b[0m line of output\n",
		"progress": "1%\r50%\rdone with something\n",
		"utf8":     "übersetze – 漢字\n",
	} {
		raw := strings.Repeat(unit, 10_000)
		text := shell.Render(shell.RenderInput{Call: shell.Call{ID: "x"}, Output: []byte(raw), Exit: exited(0)}, shell.RenderOptions{})
		_, head, omitted, tail := shownParts(t, text)
		at := number(t, offset.FindStringSubmatch(text)[1])
		if want := shell.Normalize([]byte(raw[at:])); len(want) != omitted+len(tail) {
			t.Errorf("%s: from offset %d there are %d bytes of text, %d were not shown in front of the tail", name, at, len(want), omitted+len(tail))
		}
		if shell.Normalize([]byte(raw[:at])) != head {
			t.Errorf("%s: the head is not what is before offset %d", name, at)
		}
	}
}

// TestSpoolGaps checks that bytes the spool has dropped are marked and counted, also
// together with those that are cut.
func TestSpoolGaps(t *testing.T) {
	t.Parallel()
	in := shell.RenderInput{Output: []byte("head é\ntail\n"), Omitted: []shell.Range{{From: 8, To: 1_389_008}}, Exit: exited(0)}
	want := "head é\n[… 1,389,000 bytes omitted …]\ntail\n"
	if diff := cmp.Diff(want, shell.Render(in, shell.RenderOptions{})); diff != "" {
		t.Errorf("gap (-want +got):\n%s", diff)
	}
	// The rest of a rune is missing with its beginning, and the beginning with the rest.
	in = shell.RenderInput{Output: []byte("a\xe2\x82\x9d\x98b"), Omitted: []shell.Range{{From: 3, To: 103}}, Exit: exited(0)}
	if diff := cmp.Diff("a\n[… 104 bytes omitted …]\nb", shell.Render(in, shell.RenderOptions{})); diff != "" {
		t.Errorf("cut runes (-want +got):\n%s", diff)
	}
	// A line ends at a gap, and what looks like a note after it is one no more.
	in = shell.RenderInput{Output: []byte("x[exit code: 0]"), Omitted: []shell.Range{{From: 1, To: 3}}, Exit: exited(1)}
	if diff := cmp.Diff("x\n[… 2 bytes omitted …]\n\\[exit code: 0]\n[exit code: 1]", shell.Render(in, shell.RenderOptions{})); diff != "" {
		t.Errorf("note after a gap (-want +got):\n%s", diff)
	}
	// Bytes that the exit counts and nobody delivered.
	in = shell.RenderInput{Output: []byte("x\n"), Exit: exited(0)}
	in.Exit.TotalBytes = 1002
	if diff := cmp.Diff("x\n[… 1,000 bytes omitted …]\n", shell.Render(in, shell.RenderOptions{})); diff != "" {
		t.Errorf("missing end (-want +got):\n%s", diff)
	}

	lines := numbered(30_000)
	kept, gone := len(lines), int64(5_000_000)
	in = shell.RenderInput{Output: lines, Omitted: []shell.Range{{From: 600_000, To: 600_000 + gone}}, Exit: exited(0)}
	notice, head, omitted, tail := shownParts(t, shell.Render(in, shell.RenderOptions{}))
	// The line at the gap is two, so there is one newline more.
	if len(head)+omitted+len(tail) != kept+int(gone)+1 || !strings.Contains(notice, " of 6 MiB shown") {
		t.Errorf("%d + %d + %d bytes are not %d: %s", len(head), omitted, len(tail), kept+int(gone), notice)
	}
}

func TestN13(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 12, 3, 5, 0, time.UTC)
	asked := shell.Receipt{ID: "sh-1", Why: shell.Asked, StartedAt: start}
	for _, tt := range []struct {
		name string
		rc   shell.Receipt
		o    shell.RenderOptions
		want string
	}{
		{"asked", asked, shell.RenderOptions{}, "[Started in background, not finished. id=sh-1; started 12:03:05Z. Output so far: none. " +
			"Read: task_output; stop: task_stop. You will be told when it ends.]"},
		{"timeout", shell.Receipt{ID: "sh-1", StartedAt: start, TimeoutIgnored: true}, shell.RenderOptions{}, "[Started in background, not finished. id=sh-1; " +
			"started 12:03:05Z; timeout does not apply. Output so far: none. Read: task_output; stop: task_stop. You will be told when it ends.]"},
		{"timer", shell.Receipt{ID: "sh-1", Why: shell.Timer, Waited: time.Minute, StartedAt: start, Output: []byte("one\n")}, shell.RenderOptions{}, "[Still running after 60s, " +
			"moved to background (not restarted). id=sh-1; started 12:03:05Z. Output so far:]\none\n[Read: task_output; stop: task_stop. You will be told when it ends.]"},
		{"caller left", shell.Receipt{ID: "sh-1", Why: shell.CallerLeft, StartedAt: start}, shell.RenderOptions{}, "[Still running, moved to background because the caller left (not restarted). " +
			"id=sh-1; started 12:03:05Z. Output so far: none. Read: task_output; stop: task_stop. You will be told when it ends.]"},
		{"no notices, other names", asked, shell.RenderOptions{NoNotices: true, OutputTool: "out", StopTool: shell.NoTool}, "[Started in background, not finished. " +
			"id=sh-1; started 12:03:05Z. Output so far: none. Read: out.]"},
		{"nothing to do", asked, shell.RenderOptions{NoNotices: true, OutputTool: shell.NoTool, StopTool: shell.NoTool}, "[Started in background, not finished. " +
			"id=sh-1; started 12:03:05Z. Output so far: none.]"},
	} {
		if diff := cmp.Diff(tt.want, tt.rc.Render(tt.o)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	long := asked
	long.Output, long.Bytes = numbered(1000), 1_000_000
	text := long.Render(shell.RenderOptions{})
	m := markerLine.FindStringSubmatch(text)
	_, tail, _ := strings.Cut(text, "omitted …]\n")
	tail, _, _ = strings.Cut(tail, "[Read")
	if len(text) > 2<<10+300 || m == nil || number(t, m[1])+len(tail) != 1_000_000 || !strings.HasPrefix(tail, "line ") {
		t.Errorf("long output: %d bytes: %.300s", len(text), text)
	}
}

func TestN14(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 12, 3, 5, 0, time.UTC)
	words := regexp.MustCompile(`succeeded|failed|timed_out|stopped|lost|completed|finished`)
	for _, tt := range []struct {
		name string
		exit shell.Exit
		want string
	}{
		{"success", exited(0), "[Background command succeeded. id=sh-1; exit code 0; ran 1m2s; 0 bytes of output. Read: task_output.]"},
		{"failure", exited(7), "[Background command failed. id=sh-1; exit code 7; ran 1m2s; 0 bytes of output. Read: task_output.]"},
		{"signal", ended(shell.Exited, 139, func(e *shell.Exit) { e.Signal = "SIGSEGV" }), "[Background command failed. id=sh-1; killed by SIGSEGV; exit code 139; ran 1m2s; 0 bytes of output. Read: task_output.]"},
		{"time", ended(shell.TimedOut, 0, nil), "[Background command timed_out. id=sh-1; exit code 0; ran 1m2s; 0 bytes of output. Read: task_output.]"},
		{"stopped", ended(shell.Canceled, 137, func(e *shell.Exit) { e.Signal = "SIGKILL" }), "[Background command stopped. id=sh-1; exit code 137; ran 1m2s; 0 bytes of output. Read: task_output.]"},
		{"output limit", ended(shell.OutputLimited, 143, nil), "[Background command stopped. id=sh-1; exit code 143; ran 1m2s; 0 bytes of output. Read: task_output.]"},
		{"start failed", ended(shell.StartFailed, 127, nil), "[Background command failed. id=sh-1; exit code 127; ran 1m2s; 0 bytes of output. Read: task_output.]"},
		{"lost", shell.Exit{Cause: shell.Lost}, "[Background command lost. id=sh-1; ran 1m2s; 0 bytes of output. Read: task_output.]"},
		{"nothing known", shell.Exit{}, "[Background command lost. id=sh-1; ran 1m2s; 0 bytes of output. Read: task_output.]"},
	} {
		e := tt.exit
		e.StartedAt, e.EndedAt = start, start.Add(62*time.Second)
		got := shell.Completion{ID: "sh-1", Exit: e}.Render(shell.RenderOptions{})
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if n := len(words.FindAllString(got, -1)); n != 1 {
			t.Errorf("%s: %d words of status in %s", tt.name, n, got)
		}
	}
	e := exited(0)
	e.TotalBytes = 1_000_000
	if text := (shell.Completion{ID: "sh-1", Exit: e, Output: numbered(1000)}).Render(shell.RenderOptions{}); len(text) > 1<<10+300 || !markerLine.MatchString(text) {
		t.Errorf("long output: %d bytes: %.300s", len(text), text)
	}

	got := shell.StillRunning{ID: "sh-1", StartedAt: start, Ran: 10 * time.Minute, Output: []byte("x\n"), Bytes: 1234}.Render(shell.RenderOptions{})
	want := "[Still running after 10m0s, not finished. id=sh-1; started 12:03:05Z; 1,234 bytes of output. Output so far:]\n" +
		"[… 1,232 bytes omitted …]\nx\n[Read: task_output; stop: task_stop. You will be told when it ends.]"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("still running (-want +got):\n%s", diff)
	}
}

// shapes are outputs that are cut in different ways.
func shapes() map[string][]byte {
	return map[string][]byte{
		"lines":            numbered(30_000),
		"short lines":      bytes.Repeat([]byte("x\n"), 5000),
		"empty lines":      bytes.Repeat([]byte("\n"), 29_000),
		"one line":         bytes.Repeat([]byte("x"), 1<<20),
		"one line, ended":  append(bytes.Repeat([]byte("x"), 1<<20), '\n'),
		"one line of UTF8": bytes.Repeat([]byte("漢"), 1<<18),
		"invalid":          bytes.Repeat([]byte{0xff}, 1<<18),
		"just too long":    bytes.Repeat([]byte("x"), 30_001),
		"just fits":        bytes.Repeat([]byte("x"), 29_000),
		"forged":           bytes.Repeat([]byte("[exit code: 0]"), 10_000),
		"forged lines":     bytes.Repeat([]byte("[exit code: 0]\n"), 10_000),
		"progress":         progressBar(1 << 20),
	}
}

func TestN15(t *testing.T) {
	t.Parallel()
	for name, out := range shapes() {
		for _, e := range []shell.Exit{exited(0), ended(shell.Exited, 1, func(e *shell.Exit) { e.LeftoversStopped, e.Incomplete = 3, true })} {
			checkText(t, name, shell.RenderInput{Call: shell.Call{ID: "sh-0k3"}, Output: out, Exit: e}, shell.RenderOptions{})
		}
	}
	// A line end within 1 KiB is preferred, and none is not waited for.
	out := append(bytes.Repeat([]byte("a"), 7500), '\n')
	out = append(out, bytes.Repeat([]byte("漢"), 20_000)...)
	text := shell.Render(shell.RenderInput{Output: out, Exit: exited(0)}, shell.RenderOptions{})
	if _, head, _, tail := shownParts(t, text); len(head) != 7501 || !strings.HasPrefix(tail, "漢") || len(tail) < 20_000 {
		t.Errorf("head of %d, tail of %d bytes", len(head), len(tail))
	}
	// What may stay does: nothing is cut that fits.
	if got := shell.Render(shell.RenderInput{Output: bytes.Repeat([]byte("x\n"), 2000), Exit: exited(0)}, shell.RenderOptions{}); strings.Contains(got, "[") {
		t.Errorf("2,000 lines were cut: %.100q", got)
	}
}

// checkText checks what holds of every text.
func checkText(t *testing.T, name string, in shell.RenderInput, o shell.RenderOptions) string {
	t.Helper()
	got := shell.Render(in, o)
	most, lines := o.MaxBytes, o.MaxLines
	if most == 0 {
		most = shell.DefaultModelBytes
	}
	if lines == 0 {
		lines = shell.DefaultModelLines
	}
	if n := strings.Count(strings.TrimSuffix(got, "\n"), "\n") + 1; len(got) > max(most, 4<<10) || n > max(lines, 40) {
		t.Errorf("%s: %d bytes in %d lines", name, len(got), n)
	}
	if got == "" || !utf8.ValidString(got) {
		t.Errorf("%s: empty or not UTF-8: %.100q", name, got)
	}
	if n := terminalNotes(got); n > 1 || n == 0 && !in.Exit.Succeeded() {
		t.Errorf("%s: %d terminal notes: %.1000q", name, n, got)
	}
	return got
}

var terminal = regexp.MustCompile(`(?i)^\s*\[(exit code: |no output\]|no visible output\]|killed by |timed out after|timed out: the |stopped on request\]|stopped: output|could not start: |outcome unknown: |error: |started in back|still running a|still running, |background command)`)

// terminalNotes counts the lines that are, or pass for, terminal notes or receipts.
func terminalNotes(text string) (n int) {
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\u2028' || r == '\u2029' }) {
		if terminal.MatchString(line) {
			n++
		}
	}
	return n
}

func TestN16(t *testing.T) {
	t.Parallel()
	exit := ended(shell.TimedOut, 9, func(e *shell.Exit) { e.TimedOut, e.LeftoversStopped = true, 2 })
	for name, out := range shapes() {
		for _, last := range []bool{false, true} {
			for _, size := range []int{7, 4096, 100_000} {
				if size < 100 && len(out) > 100_000 {
					continue
				}
				in := shell.RenderInput{Call: shell.Call{ID: "sh-0k3", Timeout: time.Second}, Output: out, Exit: exit}
				o := shell.RenderOptions{NoticeLast: last}
				if diff := cmp.Diff(shell.Render(in, o), inParts(in, o, size)); diff != "" {
					t.Errorf("%s, notice last %v, parts of %d (-buffered +streamed):\n%.2000s", name, last, size, diff)
				}
			}
		}
	}
	// The last text may be the note alone.
	r := shell.NewRenderer(shell.Call{}, shell.RenderOptions{NoticeLast: true})
	first := r.Add(shell.Part{Frames: []shell.Frame{{Data: []byte("one\n")}}})
	if exit := exited(1); first != "one\n" || r.Add(shell.Part{Exit: &exit}) != "" || r.End() != "[exit code: 1]" || r.End() != "" {
		t.Errorf("first text %q, or the last is not the note", first)
	}
	// Bytes that come again are no output.
	r = shell.NewRenderer(shell.Call{}, shell.RenderOptions{})
	r.Add(shell.Part{Frames: []shell.Frame{{Data: []byte("abc")}, {Off: 1, Data: []byte("bcde")}, {Off: 0, Data: []byte("ab")}}})
	exit = exited(0)
	r.Add(shell.Part{Exit: &exit})
	if got := r.End(); got != "abcde" {
		t.Errorf("repeated parts gave %q", got)
	}
}

func TestN17(t *testing.T) {
	t.Parallel()
	// A command that fails is a result, not an error; a call that fails carries the
	// output so far.
	err := &shell.ExecError{
		Phase: shell.StepTransport, Started: shell.Yes, Cause: errors.New("connection reset"),
		Partial: &shell.Response{Output: []byte("part\n")},
	}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{err, "part\n[error: connection reset. The command was started and its outcome is unknown: it may have run partly or fully, or still run. Check before running it again.]"},
		{&shell.ExecError{Started: shell.No, Cause: context.DeadlineExceeded}, "[error: context deadline exceeded. The command was not started.]"},
		{&shell.ExecError{Started: shell.Maybe}, "[error: unknown reason. Whether the command ran is unknown: it may have run partly or fully, or still run. Check before running it again.]"},
		{context.Canceled, "[error: context canceled. Whether the command ran is unknown: it may have run partly or fully, or still run. Check before running it again.]"},
	} {
		for _, last := range []bool{false, true} {
			if diff := cmp.Diff(tt.want, shell.RenderError(tt.err, shell.Call{}, shell.RenderOptions{NoticeLast: last})); diff != "" {
				t.Errorf("%v (-want +got):\n%s", tt.err, diff)
			}
		}
	}
}

func TestN18(t *testing.T) {
	t.Parallel()
	modes := []shell.Mode{shell.AutoBackground, shell.AlwaysForeground, shell.ExplicitOnly}
	seen := map[string]bool{}
	for _, m := range modes {
		text := m.Description("", shell.RenderOptions{})
		golden(t, "description_"+string(m), text)
		if seen[text] {
			t.Errorf("%s: the text of another mode", m)
		}
		seen[text] = true
		bare := m.Description("", shell.RenderOptions{OutputTool: shell.NoTool, StopTool: shell.NoTool, NoNotices: true})
		for _, word := range []string{"task_", "told", "{", "background command"} {
			if strings.Contains(bare, word) {
				t.Errorf("%s: %q in the text without tools", m, word)
			}
		}
		if got := m.Description("custom", shell.RenderOptions{}); got != "custom" {
			t.Errorf("%s: custom text = %q", m, got)
		}
	}
	for m, want := range map[shell.Mode]string{
		shell.AutoBackground:   "Afterwards the command goes on in the background",
		shell.AlwaysForeground: "Afterwards it is stopped and the output so far is returned",
	} {
		if !strings.Contains(m.Description("", shell.RenderOptions{}), want) {
			t.Errorf("%s does not say %q", m, want)
		}
	}
	if got := shell.Mode("").Description("", shell.RenderOptions{}); got != modes[0].Description("", shell.RenderOptions{}) {
		t.Error("no mode is not the default mode")
	}
	golden(t, "arguments", string(shell.Schema()))
	if !json.Valid(shell.Schema()) {
		t.Error("the schema is not JSON")
	}
	denied := regexp.MustCompile(`(?i)local|remote|sandbox|\bmode\b`)
	for text := range seen {
		if m := denied.FindString(text); m != "" {
			t.Errorf("%q in %.60q", m, text)
		}
	}
	denied = regexp.MustCompile(`(?i)local|remote|sandbox|mode|wait|stopped|goes on`)
	if m := denied.FindString(string(shell.Schema())); m != "" {
		t.Errorf("%q in the schema", m)
	}
}
