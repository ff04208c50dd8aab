// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package journal

// Gap is the data of a gap entry: the numbers From to To will not come. Head is the
// newest position when the gap was found.
type Gap struct {
	From int64  `json:"from"`
	To   int64  `json:"to"`
	Head Cursor `json:"head,omitzero"`
}

// Reader merges pages of the store with a live tail into one sequence that is dense
// or has a declared gap, without duplicates. It does no IO; who drives it
//
//  1. joins the live tail,
//  2. reads the stream's head and calls [Join],
//  3. while [Reader.Behind], reads a page of the store after [Reader.At] and passes
//     each entry to [Reader.Stored]; an empty page goes to [Reader.Empty],
//  4. passes each entry of the tail to [Reader.Tail], and goes back to 3 whenever
//     the reader is behind: a tail that lost entries costs a read, nothing else.
//
// A Reader is a value for one goroutine.
type Reader struct {
	at   Cursor
	goal int64
}

// Verdict says what to do with one entry.
type Verdict uint8

const (
	// Drop it: it was delivered before, or will come from the store.
	Drop Verdict = iota
	// Deliver it.
	Deliver
	// DeliverAfterGap delivers the gap, then it.
	DeliverAfterGap
)

// Join places a reader in a stream with the given head. A cursor past the head, or
// of another epoch, names entries this log never had or has no more: the gap is to
// be delivered first. Reading then goes on after the head, or for another epoch
// with the first entry of the present one.
func Join(p Position, h Head) (Reader, *Gap) {
	r := Reader{at: Cursor{Epoch: h.Epoch}, goal: h.Seq}
	c := p.cursor
	switch p.mode {
	case fromLive:
		r.at = h.Cursor()
		return r, nil
	case fromStart:
		return r, nil
	case fromCursor:
		c.Seq = max(c.Seq-1, 0)
	case afterCursor:
	}
	if c.Epoch != h.Epoch && c.Epoch != 0 {
		return r, &Gap{From: c.Seq + 1, To: c.Seq + 1, Head: h.Cursor()}
	}
	if c.Seq > h.Seq {
		r.at.Seq = h.Seq
		return r, &Gap{From: h.Seq + 1, To: c.Seq, Head: h.Cursor()}
	}
	r.at.Seq = c.Seq
	return r, nil
}

// At returns the position of the last entry or gap; the next comes after it.
func (r *Reader) At() Cursor { return r.at }

// Behind reports whether the store has entries to read before the tail is of use.
func (r *Reader) Behind() bool { return r.at.Seq < r.goal }

// Stored takes an entry of a page of the store, in order. What is missing before it
// is not there any more.
func (r *Reader) Stored(e *Entry) (Verdict, Gap) {
	if e.Epoch > r.at.Epoch {
		// The numbering started anew: nothing of the old one follows.
		gap := Gap{From: r.at.Seq + 1, To: max(r.goal, r.at.Seq+1), Head: e.Cursor()}
		r.at, r.goal = e.Cursor(), e.Seq
		return DeliverAfterGap, gap
	}
	if e.Epoch < r.at.Epoch || e.Seq <= r.at.Seq {
		return Drop, Gap{}
	}
	gap := Gap{From: r.at.Seq + 1, To: e.Seq - 1}
	r.at.Seq = e.Seq
	r.goal = max(r.goal, e.Seq)
	if gap.From > gap.To {
		return Deliver, Gap{}
	}
	gap.Head = Cursor{Epoch: r.at.Epoch, Seq: r.goal}
	return DeliverAfterGap, gap
}

// Empty takes the news that the store has nothing after [Reader.At]. If more was
// expected, its numbers are gone, and the gap says so.
func (r *Reader) Empty() (Gap, bool) {
	if !r.Behind() {
		return Gap{}, false
	}
	gap := Gap{From: r.at.Seq + 1, To: r.goal, Head: Cursor{Epoch: r.at.Epoch, Seq: r.goal}}
	r.at.Seq = r.goal
	return gap, true
}

// Tail takes an entry of the live tail. One that does not follow makes the reader
// fall behind: it, and what is missing before it, will come from the store.
func (r *Reader) Tail(e *Entry) Verdict {
	if e.Epoch == r.at.Epoch && e.Seq == r.at.Seq+1 {
		r.at.Seq = e.Seq
		r.goal = max(r.goal, e.Seq)
		return Deliver
	}
	if e.Epoch > r.at.Epoch {
		r.goal = max(r.goal, r.at.Seq+1)
	}
	if e.Epoch == r.at.Epoch {
		r.goal = max(r.goal, e.Seq)
	}
	return Drop
}
