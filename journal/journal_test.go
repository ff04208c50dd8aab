// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package journal_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/journal"
)

func TestCursorText(t *testing.T) {
	t.Parallel()
	for _, c := range []journal.Cursor{{}, {Epoch: 1, Seq: 42}, {Epoch: math.MaxInt64, Seq: math.MaxInt64}} {
		back, err := journal.ParseCursor(c.String())
		if err != nil || back != c {
			t.Errorf("ParseCursor(%q) = %v, %v, want %v", c.String(), back, err, c)
		}
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var j journal.Cursor
		if err := json.Unmarshal(b, &j); err != nil || j != c {
			t.Errorf("JSON %s = %v, %v, want %v", b, j, err, c)
		}
	}
	for _, s := range []string{
		"", "-", "1", "1-", "-1", "1--2", "-1-2", "+1-2", "01-2", "1-02", " 1-2", "1-2 ", "1-2-3", "1_0-2",
		"9223372036854775808-1", "1-9223372036854775808", "a-b", "٣-٣",
	} {
		if c, err := journal.ParseCursor(s); !errors.Is(err, journal.ErrCursor) {
			t.Errorf("ParseCursor(%q) = %v, %v, want ErrCursor", s, c, err)
		}
	}
	var c journal.Cursor
	if err := json.Unmarshal([]byte(`"nonsense"`), &c); err == nil {
		t.Error("JSON nonsense is accepted")
	}
}

func FuzzParseCursor(f *testing.F) {
	for _, s := range []string{"0-0", "1-42", "", "-", "01-2", "9223372036854775807-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := journal.ParseCursor(s)
		if err != nil {
			return
		}
		if got := c.String(); got != s {
			t.Errorf("ParseCursor(%q).String() = %q", s, got)
		}
		if c.Epoch < 0 || c.Seq < 0 {
			t.Errorf("ParseCursor(%q) = %+v, negative", s, c)
		}
	})
}

func TestNewerThan(t *testing.T) {
	t.Parallel()
	order := []journal.Cursor{{}, {Epoch: 0, Seq: 1}, {Epoch: 1, Seq: 0}, {Epoch: 1, Seq: 9}, {Epoch: 2, Seq: 1}}
	for i, a := range order {
		for j, b := range order {
			if got, want := a.NewerThan(b), i > j; got != want {
				t.Errorf("%v.NewerThan(%v) = %v, want %v", a, b, got, want)
			}
		}
	}
}

func TestPositions(t *testing.T) {
	t.Parallel()
	head := journal.Head{Epoch: 2, Seq: 10}
	at := func(e, s int64) journal.Cursor { return journal.Cursor{Epoch: e, Seq: s} }
	tests := []struct {
		name string
		pos  journal.Position
		at   journal.Cursor
		gap  *journal.Gap
	}{
		{"start", journal.Start, at(2, 0), nil},
		{"live", journal.Live, at(2, 10), nil},
		{"from 2-4", journal.From(at(2, 4)), at(2, 3), nil},
		{"from 2-11", journal.From(at(2, 11)), at(2, 10), nil},
		{"from 2-0", journal.From(at(2, 0)), at(2, 0), nil},
		{"after 2-4", journal.After(at(2, 4)), at(2, 4), nil},
		{"after 2-10", journal.After(at(2, 10)), at(2, 10), nil},
		{"after 2-15", journal.After(at(2, 15)), at(2, 10), &journal.Gap{From: 11, To: 15, Head: at(2, 10)}},
		{"after 1-4", journal.After(at(1, 4)), at(2, 0), &journal.Gap{From: 5, To: 5, Head: at(2, 10)}},
		{"start", journal.After(journal.Cursor{}), at(2, 0), nil},
	}
	for _, tt := range tests {
		if got := tt.pos.String(); got != tt.name {
			t.Errorf("String = %q, want %q", got, tt.name)
		}
		r, gap := journal.Join(tt.pos, head)
		if r.At() != tt.at {
			t.Errorf("Join(%s).At() = %v, want %v", tt.name, r.At(), tt.at)
		}
		if diff := cmp.Diff(tt.gap, gap); diff != "" {
			t.Errorf("Join(%s) gap (-want +got):\n%s", tt.name, diff)
		}
	}
	for s, want := range map[string]journal.Position{
		"": journal.Start, "start": journal.Start, "live": journal.Live, "2-4": journal.After(at(2, 4)),
	} {
		if got, err := journal.ParsePosition(s); err != nil || got != want {
			t.Errorf("ParsePosition(%q) = %v, %v, want %v", s, got, err, want)
		}
	}
	if _, err := journal.ParsePosition("yesterday"); !fault.Is(err, fault.Invalid) {
		t.Errorf("ParsePosition(yesterday) = %v, want Invalid", err)
	}
}

func part(id, data string, final bool) journal.Entry {
	return journal.Entry{Stream: "s", Kind: "output", Event: "e", Part: id, Data: []byte(data), Final: final}
}

// A replayed prefix is a no-op, whoever replays it and also after the end; other
// bytes under an id conflict; a closed event takes nothing new.
func TestAccept(t *testing.T) {
	t.Parallel()
	one, last := part("0", "abc", false), part("3", "d", true)
	open := journal.Tail{}.Add(one)
	closed := open.Add(last)
	tests := []struct {
		name     string
		tail     journal.Tail
		existing *journal.Entry
		e        journal.Entry
		insert   bool
		kind     fault.Kind
	}{
		{"first part", journal.Tail{}, nil, one, true, 0},
		{"next part", open, nil, last, true, 0},
		{"replay", open, &one, one, false, 0},
		{"replay after final", closed, &one, one, false, 0},
		{"replay of final", closed, &last, last, false, 0},
		{"other bytes", open, &one, part("0", "abd", false), false, fault.Conflict},
		{"other flag", open, &one, part("0", "abc", true), false, fault.Conflict},
		{"other bytes after final", closed, &one, part("0", "x", false), false, fault.Conflict},
		{"new part after final", closed, nil, part("4", "e", false), false, fault.Closed},
		{"second final", closed, nil, part("4", "e", true), false, fault.Closed},
		{"whole event", journal.Tail{}, nil, journal.Entry{Stream: "s", Kind: "x.y"}, true, 0},
		{"whole event with id", closed, nil, journal.Entry{Stream: "s", Kind: "x.y", Event: "e"}, true, 0},
		{"part without event", open, nil, journal.Entry{Stream: "s", Kind: "k", Part: "1"}, false, fault.Invalid},
		{"final without part", open, nil, journal.Entry{Stream: "s", Kind: "k", Final: true}, false, fault.Invalid},
		{"no kind", open, nil, journal.Entry{Stream: "s"}, false, fault.Invalid},
		{"no stream", open, nil, journal.Entry{Kind: "k"}, false, fault.Invalid},
	}
	for _, tt := range tests {
		insert, err := journal.Accept(tt.tail, tt.existing, tt.e)
		if insert != tt.insert || fault.KindOf(err) != tt.kind {
			t.Errorf("%s: Accept = %v, %v, want %v, %v", tt.name, insert, err, tt.insert, tt.kind)
		}
	}
	want := journal.Tail{Part: "3", Bytes: 4, Final: true, Parts: 2}
	if diff := cmp.Diff(want, closed); diff != "" {
		t.Errorf("tail (-want +got):\n%s", diff)
	}
}

func TestEntryLimits(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		limit int
		set   func(*journal.Entry, string)
	}{
		{"part", journal.MaxPart, func(e *journal.Entry, s string) { e.Data = []byte(s) }},
		{"event id", journal.MaxID, func(e *journal.Entry, s string) { e.Event = s }},
		{"part id", journal.MaxID, func(e *journal.Entry, s string) { e.Part = s }},
		{"kind", journal.MaxID, func(e *journal.Entry, s string) { e.Kind = s }},
	}
	for _, tt := range tests {
		e := part("1", "x", false)
		tt.set(&e, strings.Repeat("x", tt.limit))
		if err := e.Validate(); err != nil {
			t.Errorf("%s at the limit: %v", tt.name, err)
		}
		tt.set(&e, strings.Repeat("x", tt.limit+1))
		want := fmt.Sprintf("entry: %s is %d bytes, the limit is %d", tt.name, tt.limit+1, tt.limit)
		if err := e.Validate(); !fault.Is(err, fault.Invalid) || err.Error() != want {
			t.Errorf("%s past the limit: %v, want %q", tt.name, err, want)
		}
	}
}

func TestTerminalKinds(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]bool{
		journal.KindCompleted: true, journal.KindFailed: true, journal.KindCanceled: true,
		journal.KindStarted: false, journal.KindOutput: false, "": false,
	} {
		if got := journal.Terminal(kind); got != want {
			t.Errorf("Terminal(%q) = %v, want %v", kind, got, want)
		}
	}
}

// A log that is written while it is read, a tail that loses what it likes: every
// reader still sees each retained entry once and in order, and is told of the rest.
func TestReaderSeesEachEntryOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var log []journal.Entry
		cut := 0 // entries [0, cut) are gone
		write := func(n int) {
			for range n {
				log = append(log, journal.Entry{Epoch: 1, Seq: int64(len(log) + 1)})
			}
		}
		write(rapid.IntRange(0, 20).Draw(t, "written before"))
		joined := len(log) // the tail starts here
		write(rapid.IntRange(0, 3).Draw(t, "between join and head"))
		head := journal.Head{Epoch: 1, Seq: int64(len(log))}
		after := rapid.Int64Range(0, int64(len(log))).Draw(t, "after")
		r, gap := journal.Join(journal.After(journal.Cursor{Epoch: 1, Seq: after}), head)
		if gap != nil {
			t.Fatalf("Join(after %d, head %v) has a gap %v", after, head, *gap)
		}
		next := after + 1
		got := func(v journal.Verdict, g journal.Gap, e *journal.Entry) {
			if v == journal.Drop {
				return
			}
			if v == journal.DeliverAfterGap {
				if g.From != next || g.To < g.From || g.To >= int64(cut)+1 {
					t.Fatalf("gap %v at %d, cut %d", g, next, cut)
				}
				next = g.To + 1
			}
			if e.Seq != next {
				t.Fatalf("got seq %d, want %d", e.Seq, next)
			}
			next++
		}
		catchUp := func() {
			for r.Behind() {
				size := rapid.IntRange(1, 7).Draw(t, "page")
				from := max(int(r.At().Seq), cut)
				page := log[min(from, len(log)):min(from+size, len(log))]
				for i := range page {
					v, g := r.Stored(&page[i])
					got(v, g, &page[i])
				}
				if len(page) == 0 {
					if g, ok := r.Empty(); ok {
						if g.From != next {
							t.Fatalf("gap %v at %d", g, next)
						}
						next = g.To + 1
					}
				}
			}
		}
		tail := joined
		for range rapid.IntRange(0, 30).Draw(t, "rounds") {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				write(rapid.IntRange(1, 5).Draw(t, "write"))
			case 1:
				cut = rapid.IntRange(cut, len(log)).Draw(t, "retention")
			case 2:
				catchUp()
			case 3: // the tail delivers, or loses
				for ; tail < len(log); tail++ {
					if rapid.Bool().Draw(t, "lost") {
						continue
					}
					got(r.Tail(&log[tail]), journal.Gap{}, &log[tail])
				}
			}
		}
		write(1)
		r.Tail(&log[len(log)-1])
		if r.At().Seq == int64(len(log)) {
			next++
		}
		catchUp()
		if next != int64(len(log))+1 {
			t.Fatalf("ended before %d, the log has %d", next, len(log))
		}
	})
}

func TestReaderAcrossEpochs(t *testing.T) {
	t.Parallel()
	r, _ := journal.Join(journal.Live, journal.Head{Epoch: 1, Seq: 5})
	e := journal.Entry{Epoch: 2, Seq: 1}
	if v := r.Tail(&e); v != journal.Drop || !r.Behind() {
		t.Errorf("an entry of a new epoch: verdict %v, behind %v, want a look at the store", v, r.Behind())
	}
	v, gap := r.Stored(&e)
	if v != journal.DeliverAfterGap || gap.From != 6 || gap.Head != e.Cursor() {
		t.Errorf("Stored = %v, %v", v, gap)
	}
	if r.Behind() || r.At() != e.Cursor() {
		t.Errorf("at %v, behind %v", r.At(), r.Behind())
	}
	old := journal.Entry{Epoch: 1, Seq: 9}
	if v, _ := r.Stored(&old); v != journal.Drop {
		t.Errorf("an entry of an old epoch: %v", v)
	}
	if v := r.Tail(&old); v != journal.Drop || r.Behind() {
		t.Errorf("an entry of an old epoch on the tail: %v, behind %v", v, r.Behind())
	}
}

func TestReaderEmptyStoreDeclaresTheLoss(t *testing.T) {
	t.Parallel()
	r, _ := journal.Join(journal.Start, journal.Head{Epoch: 1, Seq: 5})
	gap, ok := r.Empty()
	want := journal.Gap{From: 1, To: 5, Head: journal.Cursor{Epoch: 1, Seq: 5}}
	if !ok || gap != want {
		t.Errorf("Empty = %v, %v, want %v", gap, ok, want)
	}
	if _, ok := r.Empty(); ok {
		t.Error("the loss is declared twice")
	}
}

func TestAppendJSONEqualsEncodingJSON(t *testing.T) {
	t.Parallel()
	for _, e := range []journal.Entry{
		{},
		{
			Stream: "sh-1", Epoch: 1, Seq: 2, Task: "t", Attempt: 3, Event: "e", Part: "p", Final: true, Kind: "k", Media: "m",
			Data: []byte{0, 1, 255}, At: time.Date(2026, 1, 2, 3, 4, 5, 600, time.FixedZone("x", 3600)),
		},
		{Stream: "<&>\u2028\u2029\x7f", Kind: "\x00\x1f\b\f\n\r\t\"\\/", Event: "\xff\xc0a\xe2\x80", Part: "ü€😀", At: time.Unix(0, 0).UTC()},
	} {
		equalJSON(t, e)
	}
}

func equalJSON(t *testing.T, e journal.Entry) {
	t.Helper()
	want, err := json.Marshal(e)
	if err != nil {
		return // a time that JSON cannot tell
	}
	if diff := cmp.Diff(string(want), string(journal.AppendJSON([]byte{}, &e))); diff != "" {
		t.Errorf("AppendJSON (-encoding/json +got):\n%s", diff)
	}
}

func TestAppendJSONImpossibleTime(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Time{
		time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		var back journal.Entry
		if err := json.Unmarshal(journal.AppendJSON(nil, &journal.Entry{At: at}), &back); err != nil || !back.At.IsZero() {
			t.Errorf("%v: %v, %v, want the zero time", at, back.At, err)
		}
	}
}

func FuzzAppendJSON(f *testing.F) {
	f.Add("s", int64(1), int64(2), "t", "e", "p", true, "k", []byte("x"), int64(5), int64(6))
	f.Add("<\u2028>", int64(-1), int64(0), "\xff", "", "\\", false, "\n", []byte(nil), int64(-1), int64(0))
	f.Fuzz(func(t *testing.T, stream string, epoch, seq int64, task, event, part string, final bool, kind string, data []byte, sec, nsec int64) {
		equalJSON(t, journal.Entry{
			Stream: journal.StreamID(stream), Epoch: epoch, Seq: seq, Task: task, Attempt: epoch, Event: event, Part: part,
			Final: final, Kind: kind, Media: task, Data: slices.Clone(data), At: time.Unix(sec, nsec).UTC(),
		})
	})
}

func BenchmarkAppendJSON(b *testing.B) {
	e := journal.Entry{
		Stream: "sh-01jz3k5m8qabcdefghjkmnpqrs", Epoch: 1, Seq: 123456, Task: "sh-01jz3k5m8qabcdefghjkmnpqrs", Attempt: 1,
		Event: "stdout", Part: "4096", Kind: "output", Data: []byte(strings.Repeat("hello world ", 20)), At: time.Unix(1, 2).UTC(),
	}
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = journal.AppendJSON(dst[:0], &e)
	}
}

func ExampleParseCursor() {
	c, err := journal.ParseCursor("1-42")
	fmt.Println(c.Epoch, c.Seq, err)
	fmt.Println(c.NewerThan(journal.Cursor{Epoch: 1, Seq: 41}))
	fmt.Println(journal.After(c))
	// Output:
	// 1 42 <nil>
	// true
	// after 1-42
}

func ExampleAccept() {
	first := journal.Entry{Stream: "sh-1", Kind: "output", Event: "stdout", Part: "0", Data: []byte("hello")}
	fmt.Println(journal.Accept(journal.Tail{}, nil, first))

	tail := journal.Tail{}.Add(first)
	fmt.Println(journal.Accept(tail, &first, first)) // a later attempt replays it

	other := first
	other.Data = []byte("help!")
	fmt.Println(journal.Accept(tail, &first, other))
	// Output:
	// true <nil>
	// false <nil>
	// false the part is there with other content
}

func ExampleJoin() {
	// Five entries are stored; the tail delivers from the fourth on.
	r, _ := journal.Join(journal.After(journal.Cursor{Epoch: 1, Seq: 2}), journal.Head{Epoch: 1, Seq: 5})
	for r.Behind() {
		e := journal.Entry{Epoch: 1, Seq: r.At().Seq + 1} // read from the store
		v, _ := r.Stored(&e)
		fmt.Println("store", e.Seq, v == journal.Deliver)
	}
	for seq := int64(4); seq <= 6; seq++ {
		e := journal.Entry{Epoch: 1, Seq: seq}
		fmt.Println("tail", e.Seq, r.Tail(&e) == journal.Deliver)
	}
	// Output:
	// store 3 true
	// store 4 true
	// store 5 true
	// tail 4 false
	// tail 5 false
	// tail 6 true
}
