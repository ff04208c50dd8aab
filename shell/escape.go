// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// filter prepares text for the model, piece by piece: the path of the script that
// holds the command becomes "sh", and a line that begins like a note, after blanks
// and invisible characters, gets a backslash before its bracket. A line that has
// backslashes there already gets one more, so that nothing is ambiguous.
//
// A piece ends at a line end or is much longer than a note, so that the beginning of
// a line is never split.
type filter struct {
	script string // with its colon, or empty
	forms  []form
	carry  []byte // may be the beginning of script
	inLine bool   // something other than blanks was seen in this line
	buf    []byte
}

// add returns what is known of the text after b. It is valid until the next call.
func (f *filter) add(b []byte) []byte {
	f.buf = f.buf[:0]
	f.replace(b)
	return f.buf
}

// flush returns what was held back; the next text begins a line.
func (f *filter) flush() []byte {
	f.buf = f.buf[:0]
	if len(f.carry) > 0 {
		f.escape(f.carry)
		f.carry = f.carry[:0]
	}
	f.inLine = false
	return f.buf
}

func (f *filter) replace(b []byte) {
	if f.script == "" {
		f.escape(b)
		return
	}
	if len(f.carry) > 0 {
		b = append(f.carry, b...)
		f.carry = nil
	}
	for {
		i := bytes.Index(b, []byte(f.script))
		if i < 0 {
			break
		}
		f.escape(b[:i])
		f.escape([]byte("sh:"))
		b = b[i+len(f.script):]
	}
	keep := 0
	for k := min(len(f.script)-1, len(b)); k > 0; k-- {
		if b[len(b)-1] == f.script[k-1] && string(b[len(b)-k:]) == f.script[:k] {
			keep = k
			break
		}
	}
	f.escape(b[:len(b)-keep])
	f.carry = append(f.carry[:0], b[len(b)-keep:]...)
}

// escape appends b to buf with its notes escaped.
func (f *filter) escape(b []byte) {
	if bytes.IndexByte(b, '[') < 0 {
		f.buf = append(f.buf, b...)
		if i := lineStart(b); i > 0 {
			f.inLine, b = false, b[i:]
		}
		f.inLine = f.inLine || lenBlanks(b) < len(b)
		return
	}
	for len(b) > 0 {
		line, rest := firstLine(b)
		if !f.inLine {
			blanks := lenBlanks(line)
			f.buf = append(f.buf, line[:blanks]...)
			line = line[blanks:]
			if looksLikeNote(line, f.forms) {
				f.buf = append(f.buf, '\\')
			}
			f.inLine = len(line) > 0
		}
		f.buf = append(f.buf, line...)
		if lineStart(b[:len(b)-len(rest)]) == len(b)-len(rest) {
			f.inLine = false
		}
		b = rest
	}
}

// firstLine cuts b after its first line end.
func firstLine(b []byte) (line, rest []byte) {
	i := bytes.IndexByte(b, '\n') + 1
	if i == 0 {
		i = len(b)
	}
	// Two more characters end a line for some readers.
	for _, sep := range []string{"\u2028", "\u2029"} {
		if j := bytes.Index(b[:i], []byte(sep)); j >= 0 {
			i = j + len(sep)
		}
	}
	return b[:i], b[i:]
}

// lineStart returns where the last line of b begins.
func lineStart(b []byte) int {
	i := bytes.LastIndexByte(b, '\n') + 1
	for _, sep := range []string{"\u2028", "\u2029"} {
		if j := bytes.LastIndex(b[i:], []byte(sep)); j >= 0 {
			i += j + len(sep)
		}
	}
	return i
}

// lenBlanks returns how many bytes at the start of a line nobody sees.
func lenBlanks(line []byte) int {
	i := 0
	for i < len(line) {
		r, size := utf8.DecodeRune(line[i:])
		if !unicode.IsSpace(r) && !unicode.Is(unicode.Cf, r) {
			break
		}
		i += size
	}
	return i
}

// looksLikeNote reports whether a line begins with any number of backslashes and the
// form of a note.
func looksLikeNote(line []byte, forms []form) bool {
	if len(line) == 0 || line[0] != '[' && line[0] != '\\' {
		return false
	}
	line = bytes.TrimLeft(line, `\`)
	if len(line) == 0 || line[0] != '[' {
		return false
	}
	start := string(line[:min(len(line), 4*formLen)])
	for _, form := range forms {
		if form.matches(start) {
			return true
		}
	}
	return false
}

// escapeStart is escape for a text that is cut out of a line.
func escapeStart(text []byte, forms []form) string {
	f := filter{forms: forms}
	line, rest := firstLine(text)
	f.escape(line)
	var b strings.Builder
	b.Write(f.buf)
	b.Write(rest)
	return b.String()
}
