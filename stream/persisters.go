// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/lifecycle"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/work"
)

// Bounds of what Bytes gathers into one part.
const (
	flushWindow = 10 * time.Millisecond
	flushBytes  = 32 << 10
)

// partEnd is the id of the empty part that closes an event.
const partEnd = "end"

// Bytes is the persister of output that is addressed by its offset. The value is the
// offset at which the chunks begin: 0 for a source that starts anew, or the size that
// [work.Attempt.Tail] told for one that can continue; what is there already is skipped. A
// part's id is its offset. Chunks that arrive within 10 ms, up to 32 KiB, become one
// part.
func Bytes(ctx context.Context, w *Writer, from int64, chunks iter.Seq2[[]byte, error]) error {
	tail := w.Tail()
	switch {
	case tail.Final:
		return nil
	case from > tail.Bytes:
		return fault.Newf(fault.Invalid, "the output begins at byte %d, and the log ends at %d", from, tail.Bytes)
	}
	skip := tail.Bytes - from
	for b, err := range gather(ctx, chunks) {
		if n := min(skip, int64(len(b))); n > 0 {
			b, skip = b[n:], skip-n
		}
		for len(b) > 0 {
			n := min(len(b), flushBytes)
			if _, werr := w.Append(ctx, work.Part{ID: strconv.FormatInt(w.Tail().Bytes, 10), Data: b[:n]}); werr != nil {
				return werr
			}
			b = b[n:]
		}
		if err != nil {
			return err
		}
	}
	_, err := w.Append(ctx, work.Part{ID: partEnd, Final: true})
	return err
}

// gather makes one chunk of those that arrive within the window. An error comes with
// the bytes before it.
func gather(ctx context.Context, chunks iter.Seq2[[]byte, error]) iter.Seq2[[]byte, error] {
	type chunk struct {
		data []byte
		err  error
	}
	return func(yield func([]byte, error) bool) {
		arrived := make(chan chunk)
		left := make(chan struct{})
		defer close(left)
		lifecycle.New(ctx).Go("gather", func(context.Context) {
			defer close(arrived)
			err := guard("source", func() error {
				for b, err := range chunks {
					select {
					case arrived <- chunk{b, err}:
					case <-left:
						return nil
					}
				}
				return nil
			})
			if err != nil {
				select {
				case arrived <- chunk{err: err}:
				case <-left:
				}
			}
		})
		for {
			c, ok := <-arrived
			if !ok {
				return
			}
			all := append([]byte(nil), c.data...)
			window := time.NewTimer(flushWindow)
			for c.err == nil && len(all) < flushBytes {
				select {
				case c, ok = <-arrived:
				case <-window.C:
					ok = false
				}
				if !ok {
					break
				}
				all = append(all, c.data...)
			}
			window.Stop()
			if !yield(all, c.err) || c.err != nil {
				return
			}
		}
	}
}

// Messages is the persister of agents: the value is the part "0" and each chunk the
// part with its number, from 1, as JSON. An empty part "end" is the last one. The ids
// are stable for a source that repeats itself; for one that does not, as a model, the
// event is a Once.
func Messages[E, C any](ctx context.Context, w *Writer, value E, chunks iter.Seq2[C, error]) error {
	put := func(id string, v any) error {
		data, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("encode part %s: %w", id, err)
		}
		_, err = w.Append(ctx, work.Part{ID: id, Kind: journal.KindMessage, Media: "application/json", Data: data})
		return err
	}
	if err := put("0", value); err != nil {
		return err
	}
	n := 0
	for c, err := range chunks {
		if err != nil {
			return err
		}
		n++
		if err := put(strconv.Itoa(n), c); err != nil {
			return err
		}
	}
	_, err := w.Append(ctx, work.Part{ID: partEnd, Kind: journal.KindMessage, Final: true})
	return err
}
