// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package shelltest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
)

func outputTests() []test {
	return []test{
		{name: "order", fn: testOrder},
		{name: "10 MiB", fn: func(h *harness) { h.whole(h.sh("seq 1 1500000"), numbers(1500000)) }},
		{name: "B24_one line of 1 MiB", fn: func(h *harness) {
			h.whole(h.sh("head -c 1048576 /dev/zero | tr '\\0' x; echo"), append(bytes.Repeat([]byte("x"), 1<<20), '\n'))
		}},
		{name: "no newline at the end", fn: func(h *harness) { h.whole(h.sh("printf 'a\\nb'"), []byte("a\nb")) }},
		{name: "invalid UTF-8", fn: func(h *harness) { h.whole(h.sh(`printf '\xff\xfe\x80a\xc3'`), []byte("\xff\xfe\x80a\xc3")) }},
		{name: "split runes", fn: func(h *harness) {
			h.whole(h.sh(`printf '\xe2'; sleep 0.1; printf '\x82'; sleep 0.1; printf '\xac'`), []byte("€"))
		}},
		{name: "terminal bytes stay", fn: func(h *harness) {
			h.whole(h.sh(`printf '10%%\r\x1b[31m20%%\x1b[K\r\n\a\b'`), []byte("10%\r\x1b[31m20%\x1b[K\r\n\a\b"))
		}},
		{name: "stderr opened again", fn: func(h *harness) {
			h.whole(h.sh("echo one; echo two > /dev/stderr; echo three"), []byte("one\ntwo\nthree\n"))
		}},
		{name: "B16_tail of a command that ends at once", fn: testTail},
		{name: "B22_head and tail are kept and all is counted", fn: testHeadAndTail},
		{name: "B20_output limit stops", fn: testOutputLimit},
		{name: "split", fn: testSplit},
		{name: "follow", fn: testFollow, recoverable: true},
		{name: "B25_read again from any offset", fn: testAnyOffset, recoverable: true},
		{name: "B53_two observers agree", fn: testTwoObservers, recoverable: true},
		{name: "slow observer", fn: testSlowObserver, recoverable: true},
		{name: "B56_read without a run", fn: testReadNothing, recoverable: true},
	}
}

// numbers returns what "seq 1 n" writes.
func numbers(n int) []byte {
	b := make([]byte, 0, 8*n)
	for i := int64(1); i <= int64(n); i++ {
		b = append(strconv.AppendInt(b, i, 10), '\n')
	}
	return b
}

// whole checks that a command's output arrives byte by byte.
func (h *harness) whole(r shell.Request, want []byte) {
	h.Helper()
	got := h.run(r)
	if sha256.Sum256([]byte(got.out)) != sha256.Sum256(want) {
		h.Errorf("got %d bytes, want %d: %.100q", len(got.out), len(want), got.out)
	}
	if e := got.exit; e.TotalBytes != int64(len(want)) || e.OmittedBytes != 0 || e.Incomplete || len(got.omitted) != 0 || !e.Succeeded() {
		h.Errorf("exit = %+v, omitted %v", e, got.omitted)
	}
}

func testOrder(h *harness) {
	var want strings.Builder
	for i := 1; i <= 200; i++ {
		fmt.Fprintf(&want, "o%d\ne%d\n", i, i)
	}
	h.whole(h.sh(`for i in $(seq 200); do echo o$i; echo e$i >&2; done`), []byte(want.String()))
}

func testTail(h *harness) {
	for range 5 {
		h.whole(h.sh("head -c 60000 /dev/zero"), make([]byte, 60000))
	}
}

func testHeadAndTail(h *harness) {
	for _, split := range []bool{false, true} {
		if split && !h.capabilities().Split {
			break
		}
		r := h.sh("seq 1 6000000") // 46,888,896 bytes
		r.Split = split
		r.Output = shell.Output{SpoolHead: 1 << 20, SpoolTail: 2 << 20}
		got := h.run(r)
		want := numbers(6000000)
		e := got.exit
		if e.TotalBytes != int64(len(want)) {
			h.Errorf("split=%v: total = %d, want %d", split, e.TotalBytes, len(want))
		}
		if len(got.omitted) != 1 || got.omitted[0].Len() != e.OmittedBytes || int64(len(got.out))+e.OmittedBytes != e.TotalBytes {
			h.Fatalf("split=%v: %d bytes, omitted %v, exit %+v", split, len(got.out), got.omitted, e)
		}
		om := got.omitted[0]
		if om.From != 1<<20 || e.TotalBytes-om.To < 2<<20 || e.TotalBytes-om.To > 4<<20 {
			h.Errorf("split=%v: omitted %v of %d", split, om, e.TotalBytes)
		}
		if got.out != string(want[:om.From])+string(want[om.To:]) {
			h.Errorf("split=%v: what is kept differs", split)
		}
		if h.b.Recoverable == nil {
			continue
		}
		// A read that starts inside what was dropped says so.
		h.mu.Lock()
		id := h.ids[len(h.ids)-1]
		h.mu.Unlock()
		c, err := h.b.Recoverable.Read(h.Context(), id, om.From+100, 10, 0)
		if err != nil || len(c.Omitted) != 1 || c.Omitted[0] != (shell.Range{From: om.From + 100, To: om.To}) ||
			!bytes.Equal(c.Bytes(), want[om.To:om.To+10]) {
			h.Errorf("split=%v: Read inside = %+v, %v", split, c, err)
		}
	}
}

func testOutputLimit(h *harness) {
	r := h.sh("yes")
	r.Output = shell.Output{OnLimit: shell.StopAtLimit, Limit: 1 << 20}
	if got := h.run(r); got.exit.Cause != shell.OutputLimited || got.exit.TotalBytes < 1<<20 || got.exit.TimedOut || got.exit.Canceled {
		h.Errorf("exit = %+v, want output_limit", got.exit)
	}
}

// testSplit keeps the streams apart; their order is the one in which bytes came.
func testSplit(h *harness) {
	h.splits()
	r := h.sh(`for i in 1 2 3; do echo out$i; echo err$i >&2; done`)
	r.Split = true
	got := h.run(r)
	if e := got.exit; e.StdoutBytes != 15 || e.StderrBytes != 15 || e.TotalBytes != 30 {
		h.Errorf("exit = %+v, output %q", e, got.out)
	}
	if h.b.Shell != nil {
		resp, err := h.b.Shell.Execute(h.Context(), r)
		if err != nil || string(resp.Stdout) != "out1\nout2\nout3\n" || string(resp.Stderr) != "err1\nerr2\nerr3\n" {
			h.Errorf("Execute = %+v, %v", resp, err)
		}
		h.mu.Lock()
		h.dirs = h.dirs[:len(h.dirs)-1] // it was executed twice on purpose
		h.mu.Unlock()
	}
	if h.b.Recoverable == nil {
		return
	}
	h.mu.Lock()
	id := h.ids[len(h.ids)-1]
	h.mu.Unlock()
	for from := range int64(30) {
		c, err := h.b.Recoverable.Read(h.Context(), id, from, 0, 0)
		if err != nil || !c.End || c.Next != 30 {
			h.Fatalf("Read(%d) = %+v, %v", from, c, err)
		}
		var streams [3]strings.Builder
		for _, f := range c.Frames {
			streams[f.Stream].Write(f.Data)
			if want := got.out[f.Off : f.Off+int64(len(f.Data))]; string(f.Data) != want {
				h.Errorf("Read(%d): frame %+v, want %q", from, f, want)
			}
		}
		out, err2 := streams[shell.Stdout].String(), streams[shell.Stderr].String()
		if streams[shell.Merged].Len() > 0 || !strings.HasSuffix("out1\nout2\nout3\n", out) || !strings.HasSuffix("err1\nerr2\nerr3\n", err2) {
			h.Errorf("Read(%d): stdout %q, stderr %q", from, out, err2)
		}
	}
}

func testFollow(h *harness) {
	b := h.b.Recoverable
	r := h.sh("echo one; while ! test -e go; do sleep 0.02; done; echo two")
	id := h.start(r)
	c, err := b.Read(h.Context(), id, 0, 0, patience)
	if err != nil || string(c.Bytes()) != "one\n" || c.End {
		h.Fatalf("Read = %+v, %v", c, err)
	}
	if c, err = b.Read(h.Context(), id, c.Next, 0, 0); err != nil || len(c.Frames) != 0 || c.End || c.Next != 4 {
		h.Errorf("Read of nothing = %+v, %v", c, err)
	}
	h.touch(r, "go")
	if c, err = b.Read(h.Context(), id, c.Next, 0, patience); err != nil || string(c.Bytes()) != "two\n" {
		h.Errorf("Read = %+v, %v", c, err)
	}
	h.wait(id)
	if c, err = b.Read(h.Context(), id, 8, 0, patience); err != nil || !c.End || c.Next != 8 {
		h.Errorf("Read at the end = %+v, %v", c, err)
	}
}

func testAnyOffset(h *harness) {
	id := h.start(h.sh("seq 1 20000"))
	h.wait(id)
	want := numbers(20000)
	for from := int64(0); from < int64(len(want)); from += 7919 {
		for range 2 {
			c, err := h.b.Recoverable.Read(h.Context(), id, from, 5000, 0)
			end := min(from+5000, int64(len(want)))
			if err != nil || c.Next != end || !bytes.Equal(c.Bytes(), want[from:end]) || c.End != (end == int64(len(want))) {
				h.Fatalf("Read(%d) = %d bytes, next %d, end %v, %v", from, len(c.Bytes()), c.Next, c.End, err)
			}
		}
	}
}

func testTwoObservers(h *harness) {
	id := h.start(h.sh("for i in 1 2 3 4 5; do echo $i; sleep 0.02; done"))
	bs := append(h.peers(1), h.b.Recoverable)
	got, exits := make([]string, 2), make([]shell.Exit, 2)
	var wg sync.WaitGroup
	for i, b := range bs {
		wg.Go(func() {
			out, _ := h.read(b, id)
			got[i] = string(out)
			exits[i], _ = b.Wait(h.Context(), id)
		})
	}
	wg.Wait()
	if want := "1\n2\n3\n4\n5\n"; got[0] != want || got[1] != want {
		h.Errorf("observers saw %q", got)
	}
	if !exits[0].EndedAt.Equal(exits[1].EndedAt) || code(exits[0]) != code(exits[1]) || exits[0].Cause != exits[1].Cause {
		h.Errorf("exits differ: %+v, %+v", exits[0], exits[1])
	}
}

// testSlowObserver has a reader that reads a little and stops: the command goes on.
func testSlowObserver(h *harness) {
	id := h.start(h.sh("head -c 40000000 /dev/zero"))
	if _, err := h.b.Recoverable.Read(h.Context(), id, 0, 100, patience); err != nil {
		h.Fatalf("Read = %v", err)
	}
	if e := h.wait(id); !e.Succeeded() || e.TotalBytes != 40000000 {
		h.Errorf("exit = %+v", e)
	}
}

func testReadNothing(h *harness) {
	b := h.b.Recoverable
	if _, err := b.Read(h.Context(), "nothing-r1", 0, 0, 0); fault.KindOf(err) != fault.NotFound {
		h.Errorf("Read of no run = %v, want NotFound", err)
	}
	if _, err := b.Wait(h.Context(), "nothing-r1"); fault.KindOf(err) != fault.NotFound {
		h.Errorf("Wait for no run = %v, want NotFound", err)
	}
	if st, err := b.Recover(h.Context(), "nothing-r1"); err != nil || st.Phase != shell.UnknownRun || st.Reason != shell.ReasonStateMissing {
		h.Errorf("Recover of no run = %+v, %v", st, err)
	}
	if _, err := b.Read(h.Context(), "nothing-r1", -1, 0, 0); fault.KindOf(err) != fault.Invalid {
		h.Errorf("Read from -1 = %v, want Invalid", err)
	}
}
