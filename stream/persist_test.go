// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/stream"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// log is a journal of one stream behind an attempt.
//
// Concurrency: mu guards the rest.
type log struct {
	work.Port
	gate  chan struct{} // nil, or closed to let parts in
	owner string        // whose parts the answers say they are
	fail  error

	mu      sync.Mutex
	entries []journal.Entry
	tails   map[string]journal.Tail
	flushed int
}

func newLog() *log { return &log{owner: "t", tails: map[string]journal.Tail{}} }

func (l *log) attempt() *work.Attempt {
	return work.NewAttempt(task.Record{ID: "t", Attempt: 1}, nil, l)
}

func (l *log) Tail(_ context.Context, event string) (journal.Tail, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tails[event], nil
}

func (l *log) Emit(ctx context.Context, p work.Part) (stored journal.Entry, inserted bool, err error) {
	if l.gate != nil {
		select {
		case <-l.gate:
		case <-ctx.Done():
			return stored, false, context.Cause(ctx)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return stored, false, l.fail
	}
	if p.Flush {
		l.flushed++
	}
	e := journal.Entry{
		Stream: "t", Task: l.owner, Attempt: 1, Event: p.Event, Part: p.ID, Final: p.Final, Kind: "output", Data: p.Data,
	}
	var old *journal.Entry
	for i := range l.entries {
		if l.entries[i].Event == e.Event && l.entries[i].Part == e.Part {
			old = &l.entries[i]
		}
	}
	if inserted, err = journal.Accept(l.tails[e.Event], old, e); err != nil || !inserted {
		return e, false, err
	}
	l.entries, l.tails[e.Event] = append(l.entries, e), l.tails[e.Event].Add(e)
	return e, true, nil
}

// story lists the parts: id and content, and "." after the last.
func (l *log) story() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	for _, e := range l.entries {
		fmt.Fprintf(&b, "%s=%s ", e.Part, e.Data)
		if e.Final {
			b.WriteString(".")
		}
	}
	return strings.TrimSpace(b.String())
}

// of is a source of chunks that then fails, unless err is nil.
func of[C any](err error, chunks ...C) iter.Seq2[C, error] {
	return func(yield func(C, error) bool) {
		for _, c := range chunks {
			if !yield(c, nil) {
				return
			}
		}
		if err != nil {
			var none C
			yield(none, err)
		}
	}
}

func read[C any](t *testing.T, chunks iter.Seq2[C, error]) (got []C) {
	t.Helper()
	for c, err := range chunks {
		if err != nil {
			t.Fatalf("a chunk: %v", err)
		}
		got = append(got, c)
	}
	return got
}

// Given a store that takes nothing, a live reader gets every chunk; given a live reader
// that leaves, or never reads, every chunk is stored.
func TestPersistCopiesAreIndependent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLog()
		l.gate = make(chan struct{})
		chunks := make([]string, 1000)
		for i := range chunks {
			chunks[i] = fmt.Sprint(i)
		}
		live := stream.Persist(t.Context(), l.attempt(), stream.Event[string, string]{ID: "e", Chunks: of(nil, chunks...)}, stream.Messages)
		if got := read(t, live.Chunks(t.Context())); len(got) != 1000 {
			t.Errorf("the live reader got %d chunks", len(got))
		}
		for _, err := range live.Chunks(t.Context()) {
			if err != nil {
				t.Error(err)
			}
			break
		}
		if n := len(l.entries); n != 0 {
			t.Errorf("%d parts are there", n)
		}
		close(l.gate)
		tail, err := live.Wait(t.Context())
		if err != nil || tail.Parts != 1002 || !tail.Final {
			t.Errorf("Wait() = %+v, %v", tail, err)
		}
		if got := read(t, live.Chunks(t.Context())); len(got) != 1000 {
			t.Errorf("a late reader got %d chunks", len(got))
		}
	})
}

// Given nobody who asks, the source is not read ahead.
func TestPersistReadsOnDemand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLog()
		l.gate = make(chan struct{})
		given := 0
		source := func(yield func(int, error) bool) {
			for given < 100 {
				given++
				if !yield(given, nil) {
					return
				}
			}
		}
		live := stream.Persist(t.Context(), l.attempt(), stream.Event[int, int]{ID: "e", Chunks: source}, stream.Messages)
		synctest.Wait()
		if given != 0 { // the value's part is not stored yet
			t.Errorf("%d chunks were read, nobody asked", given)
		}
		next, stop := iter.Pull2(live.Chunks(t.Context()))
		defer stop()
		for range 3 {
			if _, err, ok := next(); err != nil || !ok {
				t.Errorf("a chunk: %v, %v", err, ok)
			}
		}
		synctest.Wait()
		if given != 3 {
			t.Errorf("%d chunks were read, three were asked for", given)
		}
		close(l.gate)
		if tail, err := live.Wait(t.Context()); err != nil || tail.Parts != 102 {
			t.Errorf("Wait() = %+v, %v", tail, err)
		}
	})
}

// Given chunks that come close together, Bytes makes one part of those of 10 ms, at
// most 32 KiB; the ids are offsets.
func TestBytesGathers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLog()
		source := func(yield func([]byte, error) bool) {
			for i, pause := range []time.Duration{0, time.Millisecond, time.Millisecond, 20 * time.Millisecond, time.Millisecond} {
				<-time.After(pause)
				if !yield(fmt.Appendf(nil, "%d", i), nil) {
					return
				}
			}
		}
		live := stream.Persist(t.Context(), l.attempt(), stream.Event[int64, []byte]{ID: "e", Chunks: source}, stream.Bytes)
		tail, err := live.Wait(t.Context())
		if err != nil || l.story() != "0=012 3=34 end= ." || tail.Bytes != 5 {
			t.Errorf("%q, tail %+v, %v", l.story(), tail, err)
		}
	})
	l := newLog()
	big := make([]byte, 80<<10)
	live := stream.Persist(t.Context(), l.attempt(), stream.Event[int64, []byte]{ID: "e", Chunks: of(nil, big)}, stream.Bytes)
	if tail, err := live.Wait(t.Context()); err != nil || tail.Bytes != 80<<10 || tail.Parts != 4 {
		t.Errorf("80 KiB: %+v, %v", tail, err)
	}
}

// Given a part of the output in the log, Bytes goes on after it: whether the source
// begins anew or continues, and however it is cut. A hole is refused.
func TestBytesContinues(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		from   int64
		chunks []string
		want   string
		kind   fault.Kind
	}{
		{"from the beginning", 0, []string{"ab", "cde", "f"}, "0=abcd 4=ef end= .", 0},
		{"continued", 4, []string{"ef"}, "0=abcd 4=ef end= .", 0},
		{"before the end", 2, []string{"c", "def"}, "0=abcd 4=ef end= .", 0},
		{"nothing new", 0, []string{"abcd"}, "0=abcd end= .", 0},
		{"a hole", 5, []string{"f"}, "0=abcd", fault.Invalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLog()
			if _, err := l.attempt().Emit(t.Context(), work.Part{Event: "e", ID: "0", Data: []byte("abcd")}); err != nil {
				t.Fatal(err)
			}
			chunks := make([][]byte, len(tt.chunks))
			for i, c := range tt.chunks {
				chunks[i] = []byte(c)
			}
			live := stream.Persist(t.Context(), l.attempt(), stream.Event[int64, []byte]{ID: "e", Value: tt.from, Chunks: of(nil, chunks...)}, stream.Bytes)
			_, err := live.Wait(t.Context())
			if fault.KindOf(err) != tt.kind || l.story() != tt.want {
				t.Errorf("%q, %v; want %q", l.story(), err, tt.want)
			}
			if tt.kind != 0 {
				return
			}
			again := stream.Persist(t.Context(), l.attempt(), stream.Event[int64, []byte]{ID: "e", Value: tt.from, Chunks: of(nil, chunks...)}, stream.Bytes)
			if _, err := again.Wait(t.Context()); err != nil || l.story() != tt.want {
				t.Errorf("again: %q, %v", l.story(), err)
			}
		})
	}
}

// E27: given a persister that ignores what the writer says, or a store that answers for
// another task's part, the error comes out, and nothing is reported as appended.
func TestE27_IgnoredErrors(t *testing.T) {
	t.Parallel()
	refused := fault.New(fault.Unavailable, "refused by the test")
	for _, tt := range []struct {
		name string
		log  func(*log)
		want string
	}{
		{"a refusal", func(l *log) { l.fail = refused }, "append part 1 of event e: refused by the test"},
		{"a wrong task", func(l *log) { l.owner = "other" }, `append part 1 of event e: emit part 1 of event e: the store answered for part "1" of event "e" of task "other"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLog()
			tt.log(l)
			tries := 0
			deaf := func(ctx context.Context, w *stream.Writer, _ int, chunks iter.Seq2[string, error]) error {
				for c, err := range chunks {
					if err != nil {
						return err
					}
					tries++
					inserted, err := w.Append(ctx, work.Part{ID: c})
					if inserted || err == nil {
						t.Errorf("Append(%s) = %v, %v", c, inserted, err)
					}
				}
				return nil
			}
			tail, err := stream.Persist(t.Context(), l.attempt(), stream.Event[int, string]{ID: "e", Chunks: of(nil, "1", "2")}, deaf).Wait(t.Context())
			if err == nil || err.Error() != tt.want || tail != (journal.Tail{}) || tries != 2 {
				t.Errorf("Wait() = %+v, %v after %d tries; want %s", tail, err, tries, tt.want)
			}
		})
	}
}

// Given a source or a persister that panics, the error says so and the parts before it
// stay; live readers get the source's error.
func TestPersistPanics(t *testing.T) {
	t.Parallel()
	l := newLog()
	source := func(yield func(string, error) bool) {
		yield("a", nil)
		panic("broken source")
	}
	live := stream.Persist(t.Context(), l.attempt(), stream.Event[string, string]{ID: "e", Chunks: source}, stream.Messages)
	tail, err := live.Wait(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the source of an event panicked: broken source") || tail.Parts != 2 || tail.Final {
		t.Errorf("Wait() = %+v, %v", tail, err)
	}
	var last error
	for _, err := range live.Chunks(t.Context()) {
		last = err
	}
	if last == nil {
		t.Error("the live reader was not told")
	}
	broken := func(context.Context, *stream.Writer, int, iter.Seq2[int, error]) error { panic("broken persister") }
	_, err = stream.Persist(t.Context(), l.attempt(), stream.Event[int, int]{ID: "f"}, broken).Wait(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the persister of an event panicked: broken persister") {
		t.Errorf("Wait() = %v", err)
	}
}

// Given a cancel in the middle, what had arrived is flushed, and what comes later is
// not waited for.
func TestPersistFlushesWhenCanceled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLog()
		ctx, cancel := context.WithCancelCause(t.Context())
		source := func(yield func([]byte, error) bool) {
			yield([]byte("had arrived"), nil)
			<-ctx.Done()
			yield(nil, context.Cause(ctx))
		}
		live := stream.Persist(ctx, l.attempt(), stream.Event[int64, []byte]{ID: "e", Chunks: source}, stream.Bytes)
		<-time.After(time.Millisecond)
		cancel(&work.CanceledError{Reason: "enough"})
		tail, err := live.Wait(t.Context())
		var why *work.CanceledError
		if !errors.As(err, &why) || l.story() != "0=had arrived" || l.flushed != 1 || tail.Final {
			t.Errorf("%q, %d flushed, %+v, %v", l.story(), l.flushed, tail, err)
		}
	})
}
