// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// maxRun is how many of one symbol in a row stay in a line that was drawn over.
const maxRun = 10

// width is the number of columns of the line, or of bytes while only its end is used.
func (n *Normalizer) width() int {
	if n.inCell {
		return len(n.cells)
	}
	return len(n.row)
}

// ascii draws printable ASCII at the cursor.
func (n *Normalizer) ascii(p []byte) {
	for len(p) > 0 {
		k := n.room(1)
		switch at := n.cur; {
		case n.inCell:
			k = min(k, len(p))
			for _, c := range p[:k] {
				n.cell(rune(c))
			}
		case at == len(n.row):
			k = min(k, len(p))
			n.row = append(n.row, p[:k]...)
			n.cur += k
		case n.wide || n.cur > len(n.row):
			n.edit()
			continue
		default:
			k = copy(n.row[at:], p)
			n.cur += k
			n.drawn = true
		}
		p = p[k:]
	}
}

// put draws one rune at the cursor. C1 controls are dropped: they are what text that
// was encoded twice looks like, more often than they are controls.
func (n *Normalizer) put(r rune) {
	if 0x80 <= r && r < 0xa0 {
		return
	}
	if !n.inCell && n.cur == len(n.row) && n.cur+utf8.UTFMax <= maxLine {
		n.row = utf8.AppendRune(n.row, r)
		n.cur, n.wide = len(n.row), true
		return
	}
	n.room(utf8.RuneLen(r))
	if !n.inCell && n.cur == len(n.row) {
		n.row = utf8.AppendRune(n.row, r)
		n.cur, n.wide = len(n.row), true
		return
	}
	n.edit()
	n.cell(r)
}

// room makes sure that size more bytes fit the line at the cursor, and returns how
// many do. A full line settles, and the rest goes on as a line of its own.
func (n *Normalizer) room(size int) int {
	if n.inCell {
		size = 1
	}
	if n.cur+size > maxLine {
		n.settle(false)
	}
	return maxLine - n.cur
}

// cell draws one rune into cells.
func (n *Normalizer) cell(r rune) {
	n.pad()
	if n.cur < len(n.cells) {
		n.cells[n.cur] = r
		n.drawn = true
	} else {
		n.cells = append(n.cells, r)
	}
	n.cur++
}

// pad fills with blanks up to the cursor.
func (n *Normalizer) pad() {
	for len(n.cells) < n.cur {
		n.cells = append(n.cells, ' ')
	}
}

// edit moves the line into cells.
func (n *Normalizer) edit() {
	if n.inCell {
		return
	}
	atEnd, ahead := n.cur >= len(n.row), n.cur-len(n.row)
	n.cells = n.cells[:0]
	for i := 0; i < len(n.row); {
		r, size := utf8.DecodeRune(n.row[i:])
		n.cells = append(n.cells, r)
		i += size
	}
	if n.wide && atEnd {
		n.cur = len(n.cells) + ahead
	}
	n.row, n.wide, n.inCell = n.row[:0], false, true
}

// columns makes the cursor a column.
func (n *Normalizer) columns() {
	if n.wide {
		n.edit()
	}
}

// move puts the cursor into a column; columns was called before.
func (n *Normalizer) move(to int) {
	n.cur = min(max(to, 0), n.width()+maxAhead)
}

// erase does ESC[K: 0 to the end of the line, 1 up to the cursor, 2 all of it.
func (n *Normalizer) erase(what int) {
	if n.width() == 0 {
		return
	}
	switch what {
	case 0:
		switch {
		case n.cur >= n.width():
		case n.inCell:
			n.cells, n.drawn = n.cells[:n.cur], true
		default:
			n.row, n.drawn = n.row[:n.cur], true
			n.wide = n.wide && n.cur > 0
		}
	case 1:
		n.edit()
		n.blank(0, n.cur+1)
	case 2, 3:
		if n.wide {
			n.cur = utf8.RuneCount(n.row[:min(n.cur, len(n.row))])
		}
		cur := min(n.cur, maxAhead)
		n.clear()
		n.cur, n.drawn = cur, true
	}
}

// blank overwrites cells with blanks.
func (n *Normalizer) blank(from, to int) {
	for i := from; i < min(to, len(n.cells)); i++ {
		n.cells[i] = ' '
		n.drawn = true
	}
}

// leave ends the line when the cursor goes to another one. Which one is not known, so
// that drawing on over this line would mix two.
func (n *Normalizer) leave() {
	if n.width() > 0 {
		n.newline()
	}
	n.cur = 0
}

// newline settles the line with its end.
func (n *Normalizer) newline() {
	n.settle(true)
	n.out = append(n.out, '\n')
}

// settle passes the line on. A line that is not whole is passed on as it is.
func (n *Normalizer) settle(whole bool) {
	if n.inCell {
		n.row = n.row[:0]
		for _, r := range n.cells {
			n.row = utf8.AppendRune(n.row, r)
		}
	}
	if n.drawn && whole {
		n.out = appendShort(n.out, n.row)
	} else {
		n.out = append(n.out, n.row...)
	}
	n.clear()
}

// clear begins a line.
func (n *Normalizer) clear() {
	n.row, n.cells = n.row[:0], n.cells[:0]
	n.inCell, n.wide, n.drawn, n.cur = false, false, false, 0
}

// appendShort appends a line that was drawn over, without blanks at its end and with
// at most maxRun of a symbol in a row.
func appendShort(dst, line []byte) []byte {
	line = bytes.TrimRight(line, " \t")
	last, run := rune(-1), 0
	for i := 0; i < len(line); {
		r, size := utf8.DecodeRune(line[i:])
		if r == last {
			run++
		} else {
			last, run = r, 1
		}
		if run <= maxRun || unicode.IsLetter(r) || unicode.IsDigit(r) {
			dst = append(dst, line[i:i+size]...)
		}
		i += size
	}
	return dst
}
