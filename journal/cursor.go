// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/outlive-dev/outlive/fault"
)

// ErrCursor means that a text is no cursor.
var ErrCursor = fault.New(fault.Invalid, "not a cursor").
	WithHint("Pass a cursor back as it was given; it looks like 1-42.")

// Cursor returns the position of the entry.
func (e *Entry) Cursor() Cursor { return Cursor{Epoch: e.Epoch, Seq: e.Seq} }

// Cursor returns the newest position as a cursor.
func (h Head) Cursor() Cursor { return Cursor(h) }

// String returns the cursor as E-S, opaque to clients. [ParseCursor] reads it back.
func (c Cursor) String() string {
	b := make([]byte, 0, 24)
	b = strconv.AppendInt(b, c.Epoch, 10)
	b = append(b, '-')
	return string(strconv.AppendInt(b, c.Seq, 10))
}

// ParseCursor reads what [Cursor.String] wrote and nothing else: no signs, no
// spaces, no leading zeros.
func ParseCursor(s string) (Cursor, error) {
	e, q, ok := strings.Cut(s, "-")
	epoch, ok1 := number(e)
	seq, ok2 := number(q)
	if !ok || !ok1 || !ok2 {
		return Cursor{}, ErrCursor
	}
	return Cursor{Epoch: epoch, Seq: seq}, nil
}

func number(s string) (int64, bool) {
	if s == "" || len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// MarshalText is String, so that a cursor is a string in JSON.
func (c Cursor) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText is [ParseCursor].
func (c *Cursor) UnmarshalText(b []byte) error {
	p, err := ParseCursor(string(b))
	if err == nil {
		*c = p
	}
	return err
}

// Compare orders cursors by epoch, then by sequence number.
func (c Cursor) Compare(o Cursor) int {
	return cmp.Or(cmp.Compare(c.Epoch, o.Epoch), cmp.Compare(c.Seq, o.Seq))
}

// NewerThan reports whether c lies after o.
func (c Cursor) NewerThan(o Cursor) bool { return c.Compare(o) > 0 }

// Position says where a reader begins. The zero Position is [Start].
type Position struct {
	cursor Cursor
	mode   mode
}

type mode uint8

const (
	fromStart mode = iota
	fromCursor
	afterCursor
	fromLive
)

var (
	// Start is before everything that is retained.
	Start = Position{}
	// Live is after everything there is when the reader joins.
	Live = Position{mode: fromLive}
)

// From begins with the entry at c.
func From(c Cursor) Position { return Position{cursor: c, mode: fromCursor} }

// After begins with the entry that follows c. After the zero Cursor is [Start].
func After(c Cursor) Position {
	if c == (Cursor{}) {
		return Start
	}
	return Position{cursor: c, mode: afterCursor}
}

// ParsePosition reads what a client sends: nothing or "start", "live", or a cursor
// after which to read.
func ParsePosition(s string) (Position, error) {
	switch s {
	case "", "start":
		return Start, nil
	case "live":
		return Live, nil
	}
	c, err := ParseCursor(s)
	return After(c), err
}

// String returns the position for logs: start, live, from E-S or after E-S.
func (p Position) String() string {
	switch p.mode {
	case fromCursor:
		return "from " + p.cursor.String()
	case afterCursor:
		return "after " + p.cursor.String()
	case fromLive:
		return "live"
	default:
		return "start"
	}
}
