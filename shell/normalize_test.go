// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/outlive-dev/outlive/shell"
)

func ExampleNormalizer() {
	var n shell.Normalizer
	for _, p := range []string{"\x1b[1mbuild", "ing\x1b[0m\n 10%\r", " 50%", "\r100%\n", "do", "ne"} {
		_, _ = n.Write([]byte(p))
		fmt.Printf("%q ", n.Settled())
	}
	n.Flush()
	fmt.Printf("%q\n", n.Settled())
	// Output: "" "building\n" "" "100%\n" "" "" "done"
}

// normalizations has one row per rule.
var normalizations = []struct{ name, in, want string }{
	{"empty", "", ""},
	{"plain", "a\nb\n", "a\nb\n"},
	{"no newline at the end", "a\nb", "a\nb"},
	{"tab", "a\tb\n", "a\tb\n"},
	{"spaces at the end stay", "a  \n", "a  \n"},
	{"CRLF", "a\r\nb\r\n", "a\nb\n"},
	{"CRLF not ASCII", "é\r\nü\r\n", "é\nü\n"},
	{"CR draws over", "abc\rX\n", "Xbc\n"},
	{"CR draws over other than ASCII", "äöü\rX\n", "Xöü\n"},
	{"CR, other than ASCII over ASCII", "abc\rü\n", "übc\n"},
	{"CR, longer", "ab\rwxyz\n", "wxyz\n"},
	{"CR at the end", "abc\r", "abc"},
	{"progress", " 1%\r 50%\r100%\n", "100%\n"},
	{"progress padded", "working...\rdone      \n", "done\n"},
	{"progress bar", "\r[" + strings.Repeat("#", 40) + strings.Repeat(" ", 40) + "]\r[" + strings.Repeat("#", 80) + "] 100%\n", "[##########] 100%\n"},
	{"a long rule is no progress", strings.Repeat("=", 80) + "\n", strings.Repeat("=", 80) + "\n"},
	{"digits are no bar", strings.Repeat("0", 30) + "\r" + strings.Repeat("1", 30) + "\n", strings.Repeat("1", 30) + "\n"},
	{"backspace", "abc\b\bX\n", "aXc\n"},
	{"backspace at the start", "\b\bx\n", "x\n"},
	{"backspace erases", "abc\b \b\n", "ab\n"},
	{"overstrike", "b\bbo\bol\bld _\bx\n", "bold x\n"},
	{"backspace, not ASCII", "äö\bü\n", "äü\n"},
	{"bell and NUL", "a\a\x00b\x7f\n", "ab\n"},
	{"vertical tab, form feed", "a\v\fb\n", "ab\n"},
	{"colors", "\x1b[1;31mred\x1b[0m\n", "red\n"},
	{"colors, colon form", "\x1b[38:2:1:2:3mx\x1b[m\n", "x\n"},
	{"private mode", "\x1b[?25lx\x1b[?25h\n", "x\n"},
	{"other private sequence is no K", "abc\r\x1b[?0Kx\n", "xbc\n"},
	{"title", "\x1b]0;a title\ax\n", "x\n"},
	{"hyperlink", "\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\\n", "link\n"},
	{"DCS, APC, PM, SOS", "a\x1bPq\x1b\\b\x1b_x\x1b\\c\x1b^y\x1b\\d\x1bXz\x1b\\e\n", "abcde\n"},
	{"character set", "\x1b(Bx\x1b)0y\n", "xy\n"},
	{"two byte escape", "\x1b=x\x1b>\x1b7y\x1b8\n", "xy\n"},
	{"erase to the end", "abcdef\r\x1b[Kxy\n", "xy\n"},
	{"erase to the end from the middle", "abcdef\x1b[3D\x1b[K\n", "abc\n"},
	{"erase to the end, not ASCII", "äöü\r\x1b[Kß\n", "ß\n"},
	{"erase at the end", "äöü\x1b[K\n", "äöü\n"},
	{"erase the start", "abcdef\x1b[3D\x1b[1K\n", "    ef\n"},
	{"erase all", "abcdef\x1b[2K\rxy\n", "xy\n"},
	{"erase all keeps the column", "abc\x1b[2Kx\n", "   x\n"},
	{"erase all keeps the column, not ASCII", "äöü\x1b[2Kx\n", "   x\n"},
	{"erase the display", "abc\x1b[2J\rx\n", "x\n"},
	{"left and right", "abcdef\x1b[4DX\x1b[2CY\n", "abXdeY\n"},
	{"right of the end", "ab\x1b[3Cc\n", "ab   c\n"},
	{"right of the end, not ASCII", "ä\x1b[2Cb\n", "ä  b\n"},
	{"right without drawing", "ab\x1b[30C\n", "ab\n"},
	{"far right is bounded", "\x1b[999999999999Cx\n", strings.Repeat(" ", 256) + "x\n"},
	{"column", "abcdef\x1b[2GX\n", "aXcdef\n"},
	{"column, not ASCII", "äöüß\x1b[2Gx\n", "äxüß\n"},
	{"erase characters", "abcdef\x1b[4G\x1b[2X\n", "abc  f\n"},
	{"delete characters", "abcdef\x1b[2G\x1b[2P\n", "adef\n"},
	{"up ends the line", "one\n50%\x1b[1A\rtwo\n", "one\n50%\ntwo\n"},
	{"home on an empty line", "\x1b[H\x1b[2Jx\n", "x\n"},
	{"position", "a\x1b[5;3Hb\n", "a\n  b\n"},
	{"unfinished CSI at a newline", "a\x1b[12\nb\n", "a\nb\n"},
	{"unfinished CSI at the end", "a\x1b[1", "a"},
	{"endless CSI", "a\x1b[" + strings.Repeat("1", 200) + "\nb\n", "a" + strings.Repeat("1", 200-127) + "\nb\n"},
	{"unfinished OSC ends with the line", "a\x1b]0;title\nb\n", "a\nb\n"},
	{"unfinished OSC, no newline", "\x1b]" + strings.Repeat("t", 64<<10) + "end", "end"},
	{"unfinished DCS at the end", "a\x1bPxyz", "a"},
	{"CAN ends a sequence", "\x1b[1\x18m\x1b]x\x1ay\n", "my\n"},
	{"ESC restarts", "\x1b[1\x1b[31mx\x1b\x1b[0my\n", "xy\n"},
	{"ESC in a title", "\x1b]0;t\x1b[1mx\n", "x\n"},
	{"not ASCII in a sequence", "\x1b[1é\n", "é\n"},
	{"C1 is dropped", "a\u009b1mb\u0085c\n", "a1mbc\n"},
	{"invalid byte", "a\xffb\n", "a\uFFFDb\n"},
	{"invalid, each byte", "\xc0\xaf\n", "\uFFFD\uFFFD\n"},
	{"surrogate", "\xed\xa0\x80\n", "\uFFFD\uFFFD\uFFFD\n"},
	{"cut rune before ASCII", "\xe2\x82a\n", "\uFFFD\uFFFDa\n"},
	{"cut rune at the end", "x\xf0\x9f\x98", "x\uFFFD\uFFFD\uFFFD"},
	{"cut rune before ESC", "\xe2\x82\x1b[1mx\n", "\uFFFD\uFFFDx\n"},
	{"wide runes", "漢字 😀\n", "漢字 😀\n"},
	{"a long line", strings.Repeat("x", 1<<20) + "\n", strings.Repeat("x", 1<<20) + "\n"},
	{"a long line, not ASCII", strings.Repeat("é", 50_000) + "y\n", strings.Repeat("é", 50_000) + "y\n"},
	{"CR goes back to where a long line was settled", strings.Repeat("x", 16<<10) + "abc\rX\n", strings.Repeat("x", 16<<10) + "Xbc\n"},
}

func TestNormalize(t *testing.T) {
	t.Parallel()
	for _, tt := range normalizations {
		if got := shell.Normalize([]byte(tt.in)); got != tt.want {
			t.Errorf("%s: Normalize(%.60q) = %.300q, want %.300q", tt.name, tt.in, got, tt.want)
		}
	}
}

// inChunks normalizes p in pieces whose sizes next gives.
func inChunks(p []byte, next func() int) string {
	var n shell.Normalizer
	var b strings.Builder
	for len(p) > 0 {
		k := min(max(next(), 1), len(p))
		_, _ = n.Write(p[:k])
		b.WriteString(n.Settled())
		p = p[k:]
	}
	n.Flush()
	return b.String() + n.Settled()
}

// TestB28 is the case of output that is stripped piece by piece.
// Given output with control sequences that arrives in pieces, when a piece ends inside
// of a sequence or a rune, must give the same text as in one piece.
func TestB28(t *testing.T) {
	t.Parallel()
	for _, tt := range normalizations {
		for _, size := range []int{1, 2, 3, 7} {
			if got := inChunks([]byte(tt.in), func() int { return size }); got != tt.want {
				t.Errorf("%s, in pieces of %d: got %.300q, want %.300q", tt.name, size, got, tt.want)
			}
		}
	}
}

// TestNormalizeAgain checks that text passes unchanged.
func TestNormalizeAgain(t *testing.T) {
	t.Parallel()
	for _, tt := range normalizations {
		if diff := cmp.Diff(tt.want, shell.Normalize([]byte(tt.want))); diff != "" {
			t.Errorf("%s: not stable (-want +got):\n%s", tt.name, diff)
		}
	}
}

func progressBar(size int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < size; i++ {
		done := i % 101
		fmt.Fprintf(&b, "\r\x1b[32mDownloading\x1b[0m %3d%% |%s%s| %d MiB", done,
			strings.Repeat("█", done), strings.Repeat(" ", 100-done), i)
	}
	b.WriteByte('\n')
	return b.Bytes()
}

func TestProgressBarIsShort(t *testing.T) {
	t.Parallel()
	in := progressBar(10 << 20)
	if got := shell.Normalize(in); len(got) >= 100 || !strings.HasPrefix(got, "Downloading") {
		t.Errorf("10 MB of progress became %d bytes: %.200q", len(got), got)
	}
}

// TestNormalizeBounded checks that hostile lines cost neither memory nor much time.
func TestNormalizeBounded(t *testing.T) {
	t.Parallel()
	for name, unit := range map[string]string{
		"no newline":        "xxxxxxxxxxxxxxxx",
		"columns":           "\x1b[9999Cx",
		"erase from far":    "\x1b[9999C\bé\x1b[1K",
		"other sizes":       "\ré\ra",
		"delete characters": "\x1b[9999Ce\r\x1b[P",
		"strings":           "\x1b]\x1b[",
		"no rune":           "\xf0\x9f\x98",
	} {
		var n shell.Normalizer
		in := []byte(strings.Repeat(unit, 1<<20/len(unit)))
		_, _ = n.Write(in)
		if got := n.Settled(); len(got) > 300*len(in) || len(got) < len(in)-100_000 && name == "no newline" {
			t.Errorf("%s: %d bytes became %d", name, len(in), len(got))
		}
	}
}

func FuzzNormalizeChunks(f *testing.F) {
	for i, tt := range normalizations {
		if len(tt.in) < 1000 {
			f.Add([]byte(tt.in), uint64(i))
		}
	}
	f.Fuzz(func(t *testing.T, p []byte, seed uint64) {
		want := shell.Normalize(p)
		if !utf8.ValidString(want) {
			t.Fatalf("Normalize(%q) = %q is not UTF-8", p, want)
		}
		for _, c := range want {
			if c < ' ' && c != '\n' && c != '\t' || 0x7f <= c && c < 0xa0 {
				t.Fatalf("Normalize(%q) = %q has a control character", p, want)
			}
		}
		rnd := rand.New(rand.NewPCG(seed, 0))
		for _, most := range []int{1, 4, 40} {
			if got := inChunks(p, func() int { return rnd.IntN(most) + 1 }); got != want {
				t.Fatalf("%q in pieces of up to %d = %q, want %q", p, most, got, want)
			}
		}
		// A whole window of lines in front must not change what follows.
		long := append(bytes.Repeat([]byte("x"), 16<<10-2), p...)
		whole := shell.Normalize(long)
		if got := inChunks(long, func() int { return rnd.IntN(5000) + 1 }); got != whole {
			t.Fatalf("%q after a long line in pieces differs: %q, want %q", p, got, whole)
		}
	})
}

func BenchmarkNormalize(b *testing.B) {
	lines := func(line string) []byte { return bytes.Repeat([]byte(line), 4<<20/len(line)) }
	for _, bb := range []struct {
		name string
		in   []byte
	}{
		{"plain", lines("2026-01-02T03:04:05Z INFO  compiled package internal/record in 12 ms (cached)\n")},
		{"crlf", lines("2026-01-02T03:04:05Z INFO  compiled package internal/record in 12 ms (cached)\r\n")},
		{"colors", lines("\x1b[32mok\x1b[0m    github.com/outlive-dev/outlive/\x1b[1mshell\x1b[0m  0.123s\n")},
		{"utf8", lines("Übersetze Paket internal/record … fertig in 12 ms – 漢字 ✓\n")},
		{"progress", progressBar(4 << 20)},
		{"binary", func() []byte {
			p := make([]byte, 4<<20)
			rnd := rand.NewChaCha8([32]byte{})
			_, _ = rnd.Read(p)
			return p
		}()},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.SetBytes(int64(len(bb.in)))
			var n shell.Normalizer
			for b.Loop() {
				for p := bb.in; len(p) > 0; {
					k := min(64<<10, len(p))
					_, _ = n.Write(p[:k])
					n.Settled()
					p = p[k:]
				}
			}
		})
	}
}
