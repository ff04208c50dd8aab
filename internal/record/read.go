// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store"
)

const (
	page    = 512             // entries read from the store at a time
	keep    = 2048            // entries a tail shares between its readers
	recheck = 2 * time.Second // a lost doorbell costs this much
	retries = 5               // transient read errors before one is reported
)

// Gap is the data of a gap entry: the sequence numbers that are not there any more.
type Gap struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Query says what to read. Zero fields mean everything, from the start.
type Query struct {
	After  journal.Cursor // exclusive
	Task   string         // only this task's entries; the sequence ends after its terminal entry
	Follow bool           // wait for more at the end
}

// Read replays the stream from the cursor and, when asked, follows it: one
// duplicate-free sequence that is dense or has one declared gap. It joins the
// doorbell before it reads the store, so that nothing falls between. A transient
// read error is retried, then yielded as an error and never as a gap.
func (h *Hub) Read(ctx context.Context, stream journal.StreamID, q Query) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		w := h.WatchStream(string(stream))
		defer w.Close()
		t, release := h.tail(stream)
		defer release()
		timer := time.NewTimer(recheck)
		defer timer.Stop()
		after, first := q.After.Seq, true
		for {
			entries, err := t.next(ctx, after)
			if err != nil {
				yield(journal.Entry{}, fmt.Errorf("read stream %s: %w", stream, err))
				return
			}
			if first {
				first = false
				if g, ok := foreign(q.After, entries); ok {
					if !yield(gap(stream, g), nil) {
						return
					}
					after = 0
					continue
				}
			}
			for i := range entries {
				e := entries[i]
				if e.Seq > after+1 {
					if !yield(gap(stream, Gap{From: after + 1, To: e.Seq - 1}), nil) {
						return
					}
				}
				after = e.Seq
				if q.Task != "" && e.Task != q.Task {
					continue
				}
				e.Data = append([]byte(nil), e.Data...)
				if !yield(e, nil) {
					return
				}
				if q.Task != "" && journal.Terminal(e.Kind) {
					return
				}
			}
			if len(entries) > 0 {
				continue
			}
			if !q.Follow {
				return
			}
			timer.Reset(recheck)
			select {
			case <-ctx.Done():
				yield(journal.Entry{}, context.Cause(ctx))
				return
			case <-w.C():
			case <-timer.C:
			}
		}
	}
}

// foreign reports a cursor of another epoch: its reader gets a gap, then the head.
func foreign(c journal.Cursor, entries []journal.Entry) (Gap, bool) {
	if c.Epoch == 0 || len(entries) == 0 || entries[0].Epoch == c.Epoch {
		return Gap{}, false
	}
	return Gap{From: c.Seq + 1, To: c.Seq + 1}, true
}

func gap(s journal.StreamID, g Gap) journal.Entry {
	data, err := json.Marshal(g)
	if err != nil {
		panic(err) // two integers
	}
	return journal.Entry{Stream: s, Kind: journal.KindGap, Media: "application/json", Data: data}
}

// tail shares the newest entries of one stream between its readers.
//
// Concurrency: busy is a lock of capacity one that may be held over a store read;
// whoever holds it owns entries.
type tail struct {
	st      store.Store
	stream  journal.StreamID
	refs    int // guarded by Hub.mu
	busy    chan struct{}
	entries []journal.Entry // dense, ascending; never changed in place
}

func (h *Hub) tail(s journal.StreamID) (*tail, func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.tails[string(s)]
	if t == nil {
		t = &tail{st: h.st, stream: s, busy: make(chan struct{}, 1)}
		h.tails[string(s)] = t
	}
	t.refs++
	return t, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if t.refs--; t.refs == 0 {
			delete(h.tails, string(s))
		}
	}
}

// next returns the entries after seq, at most a page; none means the end for now.
func (t *tail) next(ctx context.Context, after int64) ([]journal.Entry, error) {
	select {
	case t.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-t.busy }()
	if n := len(t.entries); n > 0 && after >= t.entries[0].Seq-1 && after < t.entries[n-1].Seq {
		rest := t.entries[after-t.entries[0].Seq+1:]
		return rest[:min(len(rest), page)], nil
	}
	entries, err := t.load(ctx, after)
	if err != nil || len(entries) == 0 {
		return entries, err
	}
	switch n := len(t.entries); {
	case entries[len(entries)-1].Seq-entries[0].Seq != int64(len(entries)-1):
		t.entries = nil // a hole: positions do not follow from numbers
	case n > 0 && entries[0].Seq == t.entries[n-1].Seq+1:
		t.entries = append(t.entries[max(0, n+len(entries)-keep):n:n], entries...)
	case n == 0 || entries[0].Seq > t.entries[n-1].Seq:
		t.entries = entries
	}
	return entries, nil
}

func (t *tail) load(ctx context.Context, after int64) (entries []journal.Entry, err error) {
	for try := range retries {
		err = t.st.View(ctx, func(v store.View) error {
			var verr error
			entries, verr = v.Entries(t.stream, after, page)
			return verr
		})
		if err == nil || ctx.Err() != nil {
			return entries, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(time.Duration(1<<try) * 10 * time.Millisecond):
		}
	}
	return nil, err
}
