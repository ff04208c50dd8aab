// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"bytes"
	"unicode/utf8"
)

// near is how far a cut looks for a line end.
const near = 1 << 10

// collector keeps the beginning and the end of a text, and counts all of it.
// Positions are bytes of text.
type collector struct {
	headMax, headLines int
	keep               int // at least so many bytes of the end stay

	head      []byte
	headNL    int // newlines in head
	tail      []byte
	tailStart int64 // position of tail
	newlines  int64
	last      byte
	visible   bool

	gaps []gap // whose marker is in head or tail
	lost gap   // the sums of those whose marker is in neither
}

// gap is a place where n bytes of output are missing, and the marker that says so.
type gap struct {
	pos int64 // of the marker
	len int
	n   int64
}

func (c *collector) total() int64 { return c.tailStart + int64(len(c.tail)) }

func (c *collector) empty() bool { return c.total() == 0 }

// open reports whether the head still grows.
func (c *collector) open() bool { return len(c.head) < c.headMax && c.headNL < c.headLines }

func (c *collector) add(b []byte) {
	if len(b) == 0 {
		return
	}
	c.newlines += int64(bytes.Count(b, []byte("\n")))
	c.last = b[len(b)-1]
	if !c.visible {
		c.visible = lenBlanks(b) < len(b)
	}
	if c.tailStart == int64(len(c.head)) && len(c.tail) == 0 {
		for c.open() && len(b) > 0 {
			k := min(c.headMax-len(c.head), len(b))
			if i := bytes.IndexByte(b[:k], '\n'); i >= 0 {
				k = i + 1
				c.headNL++
			}
			c.head = append(c.head, b[:k]...)
			b = b[k:]
		}
		c.tailStart = int64(len(c.head))
	}
	for len(b) > 0 {
		k := min(len(b), c.keep)
		c.tail = append(c.tail, b[:k]...)
		b = b[k:]
		if drop := len(c.tail) - c.keep; drop > c.keep {
			c.tail = append(c.tail[:0], c.tail[drop:]...)
			c.tailStart += int64(drop)
			c.forget()
		}
	}
}

// forget sums up the gaps whose marker is gone.
func (c *collector) forget() {
	var stay []gap
	for _, g := range c.gaps {
		if g.pos >= int64(len(c.head)) && g.pos < c.tailStart {
			c.lost.n += g.n
			c.lost.len += g.len
		} else {
			stay = append(stay, g)
		}
	}
	c.gaps = stay
}

// addGap adds a marker on a line of its own.
func (c *collector) addGap(marker string, n int64) {
	if !c.empty() && c.last != '\n' {
		c.add([]byte("\n"))
	}
	c.gaps = append(c.gaps, gap{pos: c.total(), len: len(marker) + 1, n: n})
	c.add([]byte(marker + "\n"))
}

// size returns how many bytes of output the text stands for.
func (c *collector) size() int64 {
	n := c.total() + c.lost.n - int64(c.lost.len)
	for _, g := range c.gaps {
		n += g.n - int64(g.len)
	}
	return n
}

// lines returns the number of lines, the last of which may lack its end.
func (c *collector) lines() int64 {
	if c.last != '\n' && !c.empty() {
		return c.newlines + 1
	}
	return c.newlines
}

// headCut returns how much of the head is shown when the text is cut.
func (c *collector) headCut() int {
	if i := bytes.LastIndexByte(c.head, '\n') + 1; i > 0 && len(c.head)-i <= near {
		return i
	}
	return runeStart(c.head, len(c.head))
}

// stable returns how much of the head is shown whatever comes.
func (c *collector) stable() int {
	if !c.open() {
		return c.headCut()
	}
	if len(c.head) <= c.headMax-near {
		return runeStart(c.head, len(c.head))
	}
	return max(runeStart(c.head, c.headMax-near), bytes.LastIndexByte(c.head, '\n')+1)
}

// all returns the whole text; it is there if nothing of it was dropped.
func (c *collector) all() (text []byte, ok bool) {
	if c.tailStart > int64(len(c.head)) {
		return nil, false
	}
	return append(bytes.Clone(c.head), c.tail...), true
}

// cut returns the head, the last at most tailMax bytes in tailLines lines, and how
// many bytes of output are between them. midLine means that the tail does not begin
// with a line.
func (c *collector) cut(tailMax, tailLines int) (head, tail []byte, omitted int64, midLine bool) {
	head = c.head[:c.headCut()]
	rest, start := c.tail, c.tailStart
	if start == int64(len(c.head)) {
		rest, start = append(bytes.Clone(c.head[len(head):]), c.tail...), int64(len(head))
	}
	from := max(len(rest)-tailMax, 0)
	atLine := from == 0 && start == int64(len(head)) && (len(head) == 0 || head[len(head)-1] == '\n')
	if from > 0 && rest[from-1] == '\n' {
		atLine = true
	} else if !atLine {
		window := rest[from:min(from+near, len(rest))]
		if i := bytes.IndexByte(window, '\n') + 1; i > 0 && from+i < len(rest) {
			from, atLine = from+i, true
		} else {
			for from < len(rest) && !utf8.RuneStart(rest[from]) {
				from++
			}
		}
	}
	lines := tailLines
	for i := len(rest) - 2; i >= from; i-- {
		if rest[i] != '\n' {
			continue
		}
		if lines--; lines <= 0 {
			from, atLine = i+1, true
			break
		}
	}
	tail = rest[from:]
	omitted = start + int64(from) - int64(len(head)) + c.lost.n - int64(c.lost.len)
	for _, g := range c.gaps {
		if g.pos >= int64(len(head)) && g.pos < start+int64(from) {
			omitted += g.n - int64(g.len)
		}
	}
	return head, tail, omitted, !atLine
}

// runeStart returns the last rune boundary of b at or before n.
func runeStart(b []byte, n int) int {
	if n >= len(b) {
		n = len(b)
		// The end may be inside of a rune.
		for i := n - 1; i >= 0 && i >= n-utf8.UTFMax; i-- {
			if utf8.RuneStart(b[i]) {
				if !utf8.FullRune(b[i:n]) {
					return i
				}
				break
			}
		}
		return n
	}
	for n > 0 && !utf8.RuneStart(b[n]) {
		n--
	}
	return n
}
