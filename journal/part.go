// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"

	"github.com/outlive-dev/outlive/fault"
)

// Limits of an entry.
const (
	MaxPart = 256 << 10 // bytes of Data
	MaxID   = 1024      // bytes of Event, Part and Kind
)

var (
	// ErrPart means that a part of that id is there with other content.
	ErrPart = fault.New(fault.Conflict, "the part is there with other content")
	// ErrEvent means that the event's final part is there and it takes no new one.
	ErrEvent = fault.New(fault.Closed, "the event is closed")
)

// Accept decides what becomes of a part. The tail is that of its event, existing
// the stored part of the same event and part id, or nil.
//
//   - the same part again (same content, same final flag): insert is false, also
//     after the final part;
//   - the same id with other content: [ErrPart];
//   - a new part after the final one: [ErrEvent];
//   - anything else is to be inserted.
//
// An entry without Part is a whole event of its own and always new. Accept does not
// judge who writes; the fence of the attempt is checked before, for every part.
func Accept(tail Tail, existing *Entry, e Entry) (insert bool, err error) {
	if err := e.Validate(); err != nil {
		return false, err
	}
	switch {
	case e.Part == "":
		return true, nil
	case existing != nil && existing.same(&e):
		return false, nil
	case existing != nil:
		return false, ErrPart
	case tail.Final:
		return false, ErrEvent
	}
	return true, nil
}

func (e *Entry) same(o *Entry) bool {
	return e.Final == o.Final && e.Kind == o.Kind && e.Media == o.Media && bytes.Equal(e.Data, o.Data)
}

// Add returns the tail with e, which Accept said to insert, as its last part.
func (t Tail) Add(e Entry) Tail {
	return Tail{Part: e.Part, Bytes: t.Bytes + int64(len(e.Data)), Final: t.Final || e.Final, Parts: t.Parts + 1}
}

// Validate checks what a writer gives: the limits, a kind, and an event for a part.
func (e *Entry) Validate() error {
	switch {
	case e.Stream == "":
		return fault.New(fault.Invalid, "entry: stream is missing")
	case e.Kind == "":
		return fault.New(fault.Invalid, "entry: kind is missing")
	case e.Part != "" && e.Event == "":
		return fault.New(fault.Invalid, "entry: a part needs an event")
	case e.Final && e.Part == "":
		return fault.New(fault.Invalid, "entry: only a part can be final")
	}
	for _, f := range []struct {
		name  string
		size  int
		limit int
	}{
		{"kind", len(e.Kind), MaxID},
		{"event id", len(e.Event), MaxID},
		{"part id", len(e.Part), MaxID},
		{"part", len(e.Data), MaxPart},
	} {
		if f.size > f.limit {
			return fault.Newf(fault.Invalid, "entry: %s is %d bytes, the limit is %d", f.name, f.size, f.limit)
		}
	}
	return nil
}
