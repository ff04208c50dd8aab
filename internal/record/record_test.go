// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlive-dev/outlive/internal/record"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/store/memory"
)

const stream = journal.StreamID("s")

// lens is a store seen through what a test wants to happen to its views.
type lens struct {
	store.Store
	before func() error // of each view
	see    func(list []journal.Entry) []journal.Entry
	loaded atomic.Int64 // entries handed out
}

func (l *lens) View(ctx context.Context, fn func(store.View) error) error {
	if l.before != nil {
		if err := l.before(); err != nil {
			return err
		}
	}
	return l.Store.View(ctx, func(v store.View) error { return fn(&lensView{View: v, l: l}) })
}

type lensView struct {
	store.View
	l *lens
}

func (v *lensView) Entries(s journal.StreamID, after int64, limit int) ([]journal.Entry, error) {
	list, err := v.View.Entries(s, after, limit)
	if v.l.see != nil {
		list = v.l.see(list)
	}
	v.l.loaded.Add(int64(len(list)))
	return list, err
}

// open returns a hub over a memory store, running until the test ends.
func open(t *testing.T) (*lens, *record.Hub) {
	t.Helper()
	l := &lens{Store: memory.New(nil)}
	h := record.NewHub(l)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l, h
}

// write appends n entries of a task, and the terminal one if asked.
func write(t *testing.T, st store.Store, n int, end bool) {
	t.Helper()
	err := st.Update(context.WithoutCancel(t.Context()), []store.Key{store.StreamKey(stream)}, func(tx store.Tx) error {
		for range n {
			tx.Append(journal.Entry{Stream: stream, Task: "t", Kind: journal.KindOutput, Data: []byte("x")})
		}
		if end {
			tx.Append(journal.Entry{Stream: stream, Task: "t", Kind: journal.KindCompleted})
		}
		return nil
	})
	if err != nil {
		t.Errorf("Update() = %v", err)
	}
}

// read returns what a reader sees: sequence numbers, gaps as -FROM..TO.
func read(ctx context.Context, h *record.Hub, q record.Query) (seen []string, err error) {
	for e, err := range h.Read(ctx, stream, q) {
		if err != nil {
			return seen, err
		}
		if e.Kind == journal.KindGap {
			var g record.Gap
			if err := json.Unmarshal(e.Data, &g); err != nil {
				return seen, err
			}
			seen = append(seen, fmt.Sprintf("gap %d-%d", g.From, g.To))
			continue
		}
		seen = append(seen, fmt.Sprint(e.Seq))
	}
	return seen, nil
}

// Readers that come during a burst see each entry once, in order, to the end.
func TestLateAttachDuringABurst(t *testing.T) {
	t.Parallel()
	l, h := open(t)
	const total = 3000
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; n < total; n += 10 {
			write(t, l, 10, n+10 == total)
		}
	})
	for range 50 {
		wg.Go(func() {
			<-time.After(time.Duration(rand.IntN(int(20 * time.Millisecond))))
			want := int64(0)
			for e, err := range h.Read(t.Context(), stream, record.Query{Task: "t", Follow: true}) {
				if err != nil {
					t.Errorf("Read() = %v", err)
					return
				}
				if want++; e.Seq != want {
					t.Errorf("entry %d, want %d", e.Seq, want)
					return
				}
			}
			if want != total+1 {
				t.Errorf("the reader saw %d entries of %d", want, total+1)
			}
		})
	}
	wg.Wait()
}

func TestReadersShareWhatIsLoaded(t *testing.T) {
	t.Parallel()
	l, h := open(t)
	const total, readers = 1000, 1000
	write(t, l, total-1, false)
	var at, over sync.WaitGroup
	at.Add(readers)
	for range readers {
		over.Go(func() {
			n := 0
			for _, err := range h.Read(t.Context(), stream, record.Query{Task: "t", Follow: true}) {
				if err != nil {
					t.Errorf("Read() = %v", err)
				}
				if n++; n == total-1 {
					at.Done()
				}
			}
			if n != total {
				t.Errorf("a reader saw %d entries of %d", n, total)
			}
		})
	}
	at.Wait()
	write(t, l, 0, true)
	over.Wait()
	if n := l.loaded.Load(); n > 3*total {
		t.Errorf("%d readers of %d entries loaded %d, want about one load of each", readers, total, n)
	}
}

func TestGaps(t *testing.T) {
	t.Parallel()
	l, h := open(t)
	write(t, l, 9, true)
	l.see = func(list []journal.Entry) (kept []journal.Entry) {
		for _, e := range list {
			if e.Seq != 1 && e.Seq != 2 && e.Seq != 6 { // retention and compaction took these
				kept = append(kept, e)
			}
		}
		return kept
	}
	tests := []struct {
		name  string
		after journal.Cursor
		want  []string
	}{
		{"from the start", journal.Cursor{}, []string{"gap 1-2", "3", "4", "5", "gap 6-6", "7", "8", "9", "10"}},
		{"behind the hole", journal.Cursor{Epoch: 1, Seq: 4}, []string{"5", "gap 6-6", "7", "8", "9", "10"}},
		{"in the hole", journal.Cursor{Epoch: 1, Seq: 6}, []string{"7", "8", "9", "10"}},
		{"another epoch", journal.Cursor{Epoch: 7, Seq: 8}, []string{"gap 9-9", "gap 1-2", "3", "4", "5", "gap 6-6", "7", "8", "9", "10"}},
		{"another epoch, past the head", journal.Cursor{Epoch: 7, Seq: 80}, []string{"gap 81-81", "gap 1-2", "3", "4", "5", "gap 6-6", "7", "8", "9", "10"}},
		{"past the head", journal.Cursor{Epoch: 1, Seq: 80}, []string{"gap 11-80"}},
		{"at the head", journal.Cursor{Epoch: 1, Seq: 10}, nil},
	}
	for _, tt := range tests {
		got, err := read(t.Context(), h, record.Query{After: tt.after, Task: "t"})
		if err != nil {
			t.Errorf("%s: Read() = %v", tt.name, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// A reader that fails to read says so, and never that something is missing.
func TestTransientErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, h := open(t)
		write(t, l, 2, true)
		boom := errors.New("disk on fire")
		left := 3
		l.before = func() error {
			if left--; left >= 0 {
				return boom
			}
			return nil
		}
		got, err := read(t.Context(), h, record.Query{Task: "t"})
		if diff := cmp.Diff([]string{"1", "2", "3"}, got); diff != "" || err != nil {
			t.Errorf("Read() = %v (-want +got):\n%s", err, diff)
		}
		l.before = func() error { return boom }
		if got, err := read(t.Context(), h, record.Query{Task: "t", After: journal.Cursor{Epoch: 1, Seq: 1}}); !errors.Is(err, boom) || len(got) > 0 {
			t.Errorf("Read() = %v, %v, want the error alone", got, err)
		}
	})
}

func TestAReaderFollows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, h := open(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() {
			for n := range 3 {
				<-time.After(time.Second)
				write(t, l, 1, n == 2)
			}
		}()
		began := time.Now()
		got, err := read(ctx, h, record.Query{Task: "t", Follow: true})
		if diff := cmp.Diff([]string{"1", "2", "3", "4"}, got); diff != "" || err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("Read() = %v after %v (-want +got):\n%s", err, time.Since(began), diff)
		}
		if _, err := read(ctx, h, record.Query{Task: "other", Follow: true}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a reader of nothing ends with %v", err)
		}
	})
}
