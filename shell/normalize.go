// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"bytes"
	"unicode/utf8"
)

// Bounds of what a Normalizer holds back. A line of maxLine columns settles as it is,
// and the rest of it is edited on its own; the cursor goes at most maxAhead columns
// past the end of a line; a control sequence that is longer than its bound is dropped
// and what follows is text again.
const (
	maxLine   = 16 << 10
	maxAhead  = 256
	maxSeq    = 128
	maxString = 64 << 10
)

// Normalizer turns what a command wrote to a terminal into the text that stays on the
// lines: control sequences are removed, carriage return, backspace, cursor movement
// within the line and erasure are applied, other control characters are dropped, and
// bytes that are not UTF-8 become U+FFFD. A cursor movement to another line ends the
// line. The text does not depend on how the bytes are split into writes.
//
// In a line that was drawn over, which is how progress is shown, blanks at the end
// go and a long run of one symbol is shortened.
//
// The zero value is ready. It is not safe for concurrent use.
type Normalizer struct {
	out []byte // settled and not taken

	// The current line is in row while it is ASCII, or while nothing but its end or
	// its whole is touched; else in cells, one rune per column. The cursor is an
	// index into whichever is in use, and may lie past its end. With other than
	// ASCII in row it is 0 or len(row).
	row    []byte
	cells  []rune
	inCell bool
	wide   bool // row has other than ASCII
	cur    int
	drawn  bool // something was drawn over or erased

	held  [utf8.UTFMax]byte // the beginning of a rune
	nheld int

	state  state
	seqLen int
	csi    csi
}

type state uint8

const (
	ground    state = iota
	escape          // after ESC
	escapeMid       // ESC and intermediates
	control         // CSI
	str             // OSC, DCS, APC, PM, SOS
	strEscape       // ESC inside of one
)

// csi is a control sequence as far as it was read.
type csi struct {
	arg   [2]int
	n     int  // index of the argument being read
	has   bool // any digit
	other bool // private or with intermediates: not one of ours
}

// Normalize returns the text of p.
func Normalize(p []byte) string {
	var n Normalizer
	n.write(p)
	n.Flush()
	return n.Settled()
}

// Write takes the next bytes. It never fails.
func (n *Normalizer) Write(p []byte) (int, error) {
	n.write(p)
	return len(p), nil
}

// Settled returns the text that will not change any more and was not returned before:
// whole lines, until Flush. What all calls return, joined, is the text.
func (n *Normalizer) Settled() string { return string(n.take()) }

// take is Settled without a copy: it is valid until the next write.
func (n *Normalizer) take() []byte {
	b := n.out
	if cap(n.out) > 1<<20 {
		n.out = nil
	} else {
		n.out = n.out[:0]
	}
	return b
}

// Flush ends the text: the current line settles as it is, an unfinished control
// sequence is dropped, and an unfinished rune becomes U+FFFD.
func (n *Normalizer) Flush() {
	for range n.nheld {
		n.put(utf8.RuneError)
	}
	n.nheld = 0
	n.abandon()
}

// abandon settles the current line at a place where bytes are missing, and returns
// how many bytes of an unfinished rune it dropped.
func (n *Normalizer) abandon() (dropped int) {
	dropped, n.nheld = n.nheld, 0
	n.state = ground
	n.settle(true)
	return dropped
}

// clean reports whether n is at the start of a line and holds nothing back.
func (n *Normalizer) clean() bool {
	return n.state == ground && n.nheld == 0 && n.width() == 0 && n.cur == 0
}

func (n *Normalizer) write(p []byte) {
	for len(p) > 0 {
		switch {
		case n.state != ground:
			p = p[n.sequence(p):]
		case n.nheld > 0:
			p = p[n.finishRune(p):]
		case p[0] >= utf8.RuneSelf:
			p = p[n.runes(p):]
		default:
			k := plainRun(p)
			n.plain(p[:k])
			if p = p[k:]; len(p) > 0 && p[0] < utf8.RuneSelf {
				n.control(p[0])
				p = p[1:]
			}
		}
	}
}

// plainRun returns how many bytes from the start of p are printable ASCII, tabs and
// newlines.
func plainRun(p []byte) int {
	for i, c := range p {
		if c-' ' > '~'-' ' && c != '\n' && c != '\t' {
			return i
		}
	}
	return len(p)
}

// plain takes printable ASCII, tabs and newlines. Lines that need no editing are
// passed on whole.
func (n *Normalizer) plain(p []byte) {
	for len(p) > 0 {
		if !n.drawn && !n.inCell && n.cur == len(n.row) {
			if i := bytes.LastIndexByte(p, '\n'); i >= 0 {
				n.out = append(n.out, n.row...)
				n.out = append(n.out, p[:i+1]...)
				n.clear()
				p = p[i+1:]
			}
			n.ascii(p)
			return
		}
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			n.ascii(p)
			return
		}
		n.ascii(p[:i])
		n.newline()
		p = p[i+1:]
	}
}

// runes takes UTF-8 up to the next ASCII byte, and holds back a rune that is cut off.
func (n *Normalizer) runes(p []byte) int {
	i := 0
	for i < len(p) && p[i] >= utf8.RuneSelf {
		r, size := utf8.DecodeRune(p[i:])
		if r == utf8.RuneError && !utf8.FullRune(p[i:]) {
			n.nheld = copy(n.held[:], p[i:])
			return len(p)
		}
		n.put(r)
		i += size
	}
	return i
}

// finishRune goes on with a rune that was held back, and returns how many bytes of p
// it took.
func (n *Normalizer) finishRune(p []byte) int {
	var b [utf8.UTFMax]byte
	copy(b[:], n.held[:n.nheld])
	k := copy(b[n.nheld:], p)
	have := b[:n.nheld+k]
	if !utf8.FullRune(have) {
		n.nheld = copy(n.held[:], have)
		return k
	}
	r, size := utf8.DecodeRune(have)
	n.put(r)
	if size >= n.nheld {
		took := size - n.nheld
		n.nheld = 0
		return took
	}
	n.nheld = copy(n.held[:], n.held[size:n.nheld])
	return 0
}

// control takes a control character in ground state.
func (n *Normalizer) control(c byte) {
	switch c {
	case '\r':
		n.cur = 0
	case '\b':
		n.columns()
		n.move(n.cur - 1)
	case '\n':
		n.newline()
	case 0x1b:
		n.state, n.seqLen = escape, 0
	}
}

// sequence goes on with a control sequence and returns how many bytes of p it took. A
// byte that cannot be part of it ends it and is not taken.
func (n *Normalizer) sequence(p []byte) int {
	for i, c := range p {
		n.seqLen++
		switch n.state {
		case ground:
			return i
		case str:
			switch {
			case c == 0x1b:
				n.state = strEscape
			case c == 0x07, c == 0x18, c == 0x1a:
				n.state = ground
			case c == '\n', n.seqLen > maxString:
				n.state = ground
				return i
			}
			continue
		case strEscape:
			if c == '\\' {
				n.state = ground
				continue
			}
			n.state, n.seqLen = escape, 1
		default:
		}
		switch {
		case c == 0x1b:
			n.state, n.seqLen = escape, 0
		case c == 0x18, c == 0x1a:
			n.state = ground
		case c < ' ', c >= 0x7f, n.seqLen > maxSeq:
			n.state = ground
			return i
		case n.state == control:
			n.controlByte(c)
		default:
			n.escapeByte(c)
		}
	}
	return len(p)
}

func (n *Normalizer) escapeByte(c byte) {
	switch {
	case c < '0':
		n.state = escapeMid
		return
	case n.state == escapeMid:
	case c == '[':
		n.state, n.csi = control, csi{}
		return
	case c == ']', c == 'P', c == 'X', c == '^', c == '_':
		n.state, n.seqLen = str, 0
		return
	case c == 'D', c == 'E', c == 'M', c == 'c':
		n.leave()
	}
	n.state = ground
}

func (n *Normalizer) controlByte(c byte) {
	s := &n.csi
	switch {
	case c >= '@':
		n.state = ground
		if !s.other {
			n.perform(c)
		}
	case '0' <= c && c <= '9':
		if s.n < len(s.arg) {
			s.arg[s.n] = min(s.arg[s.n]*10+int(c-'0'), 1<<20)
		}
		s.has = true
	case c == ';':
		s.n++
	default:
		s.other = true
	}
}

// perform does what a control sequence asks for, as far as it concerns the line.
func (n *Normalizer) perform(final byte) {
	first := n.csi.arg[0]
	count := max(first, 1)
	if final != 'K' && final != 'J' {
		n.columns()
	}
	switch final {
	case 'C', 'a':
		n.move(n.cur + count)
	case 'D':
		n.move(n.cur - count)
	case 'G', '`':
		n.move(count - 1)
	case 'A', 'B', 'E', 'F', 'd':
		n.leave()
	case 'H', 'f':
		n.leave()
		n.move(max(n.csi.arg[1], 1) - 1)
	case 'K', 'J':
		n.erase(first)
	case 'X':
		n.edit()
		n.blank(n.cur, n.cur+count)
	case 'P':
		n.edit()
		if n.cur < len(n.cells) {
			end := min(n.cur+count, len(n.cells))
			n.cells = append(n.cells[:n.cur], n.cells[end:]...)
			n.drawn = true
		}
	}
}
