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
		after, missed, err := t.from(ctx, q.After)
		if err != nil {
			yield(journal.Entry{}, fmt.Errorf("read stream %s: %w", stream, err))
			return
		}
		if missed != (Gap{}) && !yield(gap(stream, missed), nil) {
			return
		}
		for {
			entries, err := t.next(ctx, after)
			if err != nil {
				yield(journal.Entry{}, fmt.Errorf("read stream %s: %w", stream, err))
				return
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

// from tells where a reader with that cursor goes on, and what it has missed. One of
// another epoch begins anew; one past the head goes on at the head. Both get a gap:
// what they have read is not what is there now.
func (t *tail) from(ctx context.Context, c journal.Cursor) (after int64, missed Gap, err error) {
	if c.Seq == 0 {
		return 0, Gap{}, nil
	}
	var h journal.Head
	if err := retry(ctx, func() error {
		return t.st.View(ctx, func(v store.View) (err error) {
			h, err = v.Head(t.stream)
			return err
		})
	}); err != nil {
		return 0, Gap{}, err
	}
	switch {
	case c.Epoch != 0 && c.Epoch != h.Epoch:
		return 0, Gap{From: c.Seq + 1, To: c.Seq + 1}, nil
	case c.Seq > h.Seq:
		return h.Seq, Gap{From: h.Seq + 1, To: c.Seq}, nil
	}
	return c.Seq, Gap{}, nil
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
		// Readers hold parts of what is before n; what is behind is nobody's yet.
		t.entries = append(t.entries[max(0, n+len(entries)-keep):], entries...)
	case n == 0 || entries[0].Seq > t.entries[n-1].Seq:
		t.entries = entries
	}
	return entries, nil
}

func (t *tail) load(ctx context.Context, after int64) (entries []journal.Entry, err error) {
	err = retry(ctx, func() error {
		return t.st.View(ctx, func(v store.View) (err error) {
			entries, err = v.Entries(t.stream, after, page)
			return err
		})
	})
	return entries, err
}

// retry asks again what failed and may pass.
func retry(ctx context.Context, read func() error) (err error) {
	for try := range retries {
		if err = read(); err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Duration(1<<try) * 10 * time.Millisecond):
		}
	}
	return err
}
