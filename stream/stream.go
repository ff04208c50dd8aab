// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package stream puts typed events that arrive in chunks into a task's journal while
// they are read: a model's answer, the output of a process, the news of a tool. The
// journal knows bytes, order and fences alone; what a part is, a [Persister] decides.
//
// # Guarantees
//
//  1. A slow store holds no reader up; a reader that is slow, or leaves, does not hold
//     up what is stored.
//  2. What was accepted before an error stays, and both are returned.
//  3. A later attempt goes on where the journal ends, or says the same parts again, which
//     changes nothing. What cannot be continued is closed by the start of that attempt.
package stream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"strconv"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/lifecycle"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// Event is one logical event of a task: what is known of it at once, and the chunks
// that follow.
type Event[E, C any] struct {
	// ID names the event in the task's log. Required.
	ID string
	// Value is what is known at once. Defaults to the zero value.
	Value E
	// Chunks follow. They are read once, in a goroutine of their own, and must end when
	// the attempt's context does. Defaults to none.
	Chunks iter.Seq2[C, error]
	// Once says that the source cannot repeat itself, as a model cannot. The attempt
	// becomes a part of the event's id then, so that another attempt's answer is another
	// event; one that a lost attempt left open is closed by the start of the next.
	Once bool
}

// Persister appends an event to the log, in parts of its own choice. It gets the
// event's value and a copy of its chunks that is its own.
//
// A later attempt calls it again for the same event, unless that is a Once. Where the
// source can continue, it goes on where the log ends, see [Writer.Tail]. Where the
// source repeats itself in the same parts, it appends all of them again under the same
// ids: those that are there change nothing. An error of the chunks is to be returned,
// without a final part.
type Persister[E, C any] func(ctx context.Context, w *Writer, value E, chunks iter.Seq2[C, error]) error

// Writer appends parts to one event of one task for one attempt, and can write nowhere
// else. Every part is authorized anew. After the first error every Append gives that
// error. A Writer is for one goroutine.
type Writer struct {
	a     *work.Attempt
	event string
	once  bool
	flush bool // the task is to be canceled
	tail  journal.Tail
	err   error
}

// Tail is where the event ends in the log: its last part, its size, whether it is
// final.
func (w *Writer) Tail() journal.Tail { return w.tail }

// Append appends a part and reports whether that was new: the same part again is
// accepted and changes nothing. Part.Event and Part.Once are the writer's. What a
// canceled attempt still appends is a flush, within the bounds of one.
func (w *Writer) Append(ctx context.Context, p work.Part) (inserted bool, err error) {
	if w.err != nil {
		return false, w.err
	}
	inserted, w.err = w.append(ctx, p)
	return inserted, w.err
}

func (w *Writer) append(ctx context.Context, p work.Part) (inserted bool, err error) {
	if p.ID == "" {
		return false, fault.Newf(fault.Invalid, "append to event %s: a part without an id", w.event)
	}
	p.Event, p.Once = w.event, w.once
	if _, canceled := work.Canceled(ctx); canceled || w.flush {
		ctx, p.Flush = context.WithoutCancel(ctx), true
	}
	inserted, err = w.a.Emit(ctx, p)
	if fault.Is(err, fault.CancelRequested) && !p.Flush {
		p.Flush, w.flush = true, true // the intent was faster than the news of it
		inserted, err = w.a.Emit(context.WithoutCancel(ctx), p)
	}
	if err != nil {
		return false, fmt.Errorf("append part %s of event %s: %w", p.ID, w.event, err)
	}
	if inserted {
		w.tail = w.tail.Add(journal.Entry{Part: p.ID, Data: p.Data, Final: p.Final})
	}
	return inserted, nil
}

// Persist begins to append an event to the task's log and returns at once: the event
// is live meanwhile.
//
// The persister and every reader of [Live.Chunks] have a copy of the chunks each. None
// waits for another: a slow store holds no reader up, and a reader that leaves, or is
// slow, does not hold up what is stored. The source is read as fast as the fastest of
// them asks.
func Persist[E, C any](ctx context.Context, a *work.Attempt, e Event[E, C], p Persister[E, C]) *Live[C] {
	l := &Live[C]{first: newLink[C](), want: make(chan struct{}, 1), done: make(chan struct{})}
	w := &Writer{a: a, event: e.ID, once: e.Once}
	if e.Once {
		w.event = e.ID + "@" + strconv.FormatInt(a.Number(), 10)
	}
	l.w = w
	group := lifecycle.New(ctx)
	if e.Chunks == nil {
		l.first.close(nil)
	} else {
		group.Go("read event "+w.event, func(ctx context.Context) { l.read(ctx, e.Chunks) })
	}
	group.Go("persist event "+w.event, func(ctx context.Context) {
		defer close(l.done)
		l.err = guard("persister", func() error {
			var err error
			if w.tail, err = a.Tail(ctx, w.event); err != nil {
				return fmt.Errorf("read the end of event %s: %w", w.event, err)
			}
			return p(ctx, w, e.Value, l.Chunks(ctx))
		})
		if w.err != nil && !errors.Is(l.err, w.err) {
			l.err = errors.Join(w.err, l.err) // one that was ignored, too
		}
	})
	return l
}

// Live is an event on its way into the log. Its chunks are kept as long as it is.
type Live[C any] struct {
	first *link[C]
	want  chan struct{} // somebody waits for the next chunk
	done  chan struct{} // the persister has returned: w and err are settled
	w     *Writer
	err   error
}

// Event returns the event's id in the log.
func (l *Live[C]) Event() string { return l.w.event }

// Chunks is a copy of the event's chunks from its beginning; every call makes another.
// It ends with the source, after the source's error, or with the cause of ctx.
func (l *Live[C]) Chunks(ctx context.Context) iter.Seq2[C, error] {
	return func(yield func(C, error) bool) {
		for at := l.first; ; at = at.next {
			select {
			case <-at.ready: // what is there is given, also after ctx has ended
			default:
				select {
				case l.want <- struct{}{}:
				default: // somebody has asked
				}
				select {
				case <-at.ready:
				case <-ctx.Done():
					var none C
					yield(none, context.Cause(ctx))
					return
				}
			}
			if at.next == nil {
				if at.err != nil {
					yield(at.chunk, at.err)
				}
				return
			}
			if !yield(at.chunk, nil) {
				return
			}
		}
	}
}

// Wait waits until the persister has ended and returns where the event ends in the
// log, also with an error: what was accepted before it stays. When ctx ends first its
// cause is returned, and nothing about the log.
func (l *Live[C]) Wait(ctx context.Context) (journal.Tail, error) {
	select {
	case <-l.done:
		return l.w.tail, l.err
	case <-ctx.Done():
		return journal.Tail{}, context.Cause(ctx)
	}
}

// read reads the source as fast as somebody asks for it.
func (l *Live[C]) read(ctx context.Context, chunks iter.Seq2[C, error]) {
	at := l.first
	asked := func() bool {
		select {
		case <-l.want:
			return true
		case <-ctx.Done():
			return false
		}
	}
	err := guard("source", func() error {
		if !asked() {
			return context.Cause(ctx)
		}
		for c, err := range chunks {
			if err != nil {
				return err
			}
			at = at.put(c)
			if !asked() {
				return context.Cause(ctx)
			}
		}
		return nil
	})
	at.close(err)
}

// guard runs code of others in a goroutine of ours: its panic is an error.
func guard(who string, fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the %s of an event panicked: %v\n\n%s", who, p, task.CutText(string(debug.Stack())))
		}
	}()
	return fn()
}

// link is one chunk in a chain that copies walk along. Its fields are settled when
// ready is closed; the last one has no next.
type link[C any] struct {
	ready chan struct{}
	chunk C
	err   error
	next  *link[C]
}

func newLink[C any]() *link[C] { return &link[C]{ready: make(chan struct{})} }

func (l *link[C]) put(c C) *link[C] {
	l.chunk, l.next = c, newLink[C]()
	close(l.ready)
	return l.next
}

func (l *link[C]) close(err error) {
	l.err = err
	close(l.ready)
}
