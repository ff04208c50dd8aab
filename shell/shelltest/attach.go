// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package shelltest

import (
	"bytes"
	"crypto/sha256"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
)

func attachTests() []test {
	return []test{
		{name: "nothing is lost", fn: testHeldOutput, recoverable: true},
		{name: "detach lets the command go", fn: testDetach, recoverable: true},
		{name: "late", fn: testLateAttach, recoverable: true},
		{name: "stdin", fn: testStdin, recoverable: true},
		{name: "B12_detach closes stdin", fn: testDetachStdin, recoverable: true},
		{name: "stdin of a command that does not read", fn: testUnreadStdin, recoverable: true},
	}
}

func (h *harness) attach(b shell.Recoverable, id shell.RunID, from int64) shell.Attachment {
	h.Helper()
	a, err := b.Attach(h.Context(), id, from)
	if err != nil {
		h.Fatalf("Attach = %v", err)
	}
	h.Cleanup(func() { a.Close() })
	return a
}

// drain reads an attachment to its end and acknowledges everything.
func (h *harness) drain(a shell.Attachment, w io.Writer) (n int64, omitted bool) {
	h.Helper()
	for {
		c, err := a.Read(h.Context(), 1<<20)
		if err != nil {
			h.Errorf("Read = %v", err)
			return n, omitted
		}
		omitted = omitted || len(c.Omitted) > 0
		for _, f := range c.Frames {
			n += int64(len(f.Data))
			_, _ = w.Write(f.Data)
		}
		if err := a.Ack(c.Next); err != nil {
			h.Errorf("Ack = %v", err)
		}
		if c.End {
			return n, omitted
		}
	}
}

// heldBack waits until a command that writes without end writes no more.
func (h *harness) heldBack(id shell.RunID) int64 {
	h.Helper()
	last, same := int64(-1), time.Now()
	h.eventually("the command is held back", func() bool {
		st := h.recover(id)
		if st.Bytes != last {
			last, same = st.Bytes, time.Now()
		}
		return last > 0 && time.Since(same) > 300*time.Millisecond
	})
	return last
}

func testHeldOutput(h *harness) {
	const size = 60_000_000
	r := h.sh("head -c 60000000 /dev/zero; touch done; echo end")
	r.Attached = true
	r.Output = shell.Output{SpoolHead: 1 << 20, SpoolTail: 1 << 20}
	id := h.start(r)
	a := h.attach(h.b.Recoverable, id, 0)
	if got := h.heldBack(id); got >= size || there(r, "done") {
		h.Errorf("%d bytes were taken although nobody reads", got)
	}
	if n, omitted := h.drain(a, io.Discard); n != size+4 || omitted {
		h.Errorf("read %d bytes, omitted %v, want %d, nothing omitted", n, omitted, size+4)
	}
	if e := h.wait(id); !e.Succeeded() || e.TotalBytes != size+4 {
		h.Errorf("exit = %+v", e)
	}
}

func testDetach(h *harness) {
	r := h.sh("head -c 50000000 /dev/zero; touch done")
	r.Attached = true
	id := h.start(r)
	a := h.attach(h.b.Recoverable, id, 0)
	h.heldBack(id)
	if there(r, "done") {
		h.Error("the command was not held back")
	}
	if err := a.Close(); err != nil {
		h.Fatalf("Close = %v", err)
	}
	if e := h.wait(id); !e.Succeeded() || e.TotalBytes != 50000000 {
		h.Errorf("exit = %+v", e)
	}
}

func testLateAttach(h *harness) {
	r := h.sh("echo one; while ! test -e go; do sleep 0.02; done; echo two")
	id := h.start(r)
	a := h.attach(h.peers(1)[0], id, 0)
	if c, err := a.Read(h.Context(), 0); err != nil || string(c.Bytes()) != "one\n" {
		h.Fatalf("Read = %+v, %v", c, err)
	}
	h.touch(r, "go")
	var b bytes.Buffer
	if h.drain(a, &b); b.String() != "two\n" {
		h.Errorf("then read %q", b.String())
	}
	h.wait(id)
	b.Reset()
	if h.drain(h.attach(h.b.Recoverable, id, 4), &b); b.String() != "two\n" {
		h.Errorf("attached after the end, read %q", b.String())
	}
	if _, err := h.b.Recoverable.Attach(h.Context(), "nothing-r1", 0); fault.KindOf(err) != fault.NotFound {
		h.Errorf("Attach to no run = %v, want NotFound", err)
	}
}

// openInput reports whether the backend offers open input; what it does not offer is
// refused by another test.
func (h *harness) openInput() bool {
	if !h.capabilities().Stdin {
		h.Skip("the backend has no open input, and refuses it")
	}
	return true
}

func testStdin(h *harness) {
	h.openInput()
	r := h.sh("cat")
	r.StdinOpen = true
	id := h.start(r)
	a := h.attach(h.b.Recoverable, id, 0)
	in := bytes.Repeat([]byte("0123456789abcde\n"), 1<<18) // 4 MiB
	var wg sync.WaitGroup
	wg.Go(func() {
		if n, err := a.WriteStdin(h.Context(), in); err != nil || n != len(in) {
			h.Errorf("WriteStdin = %d, %v", n, err)
		}
		if err := a.CloseStdin(); err != nil {
			h.Errorf("CloseStdin = %v", err)
		}
	})
	sum := sha256.New()
	n, omitted := h.drain(a, sum)
	wg.Wait()
	want := sha256.Sum256(in)
	if n != int64(len(in)) || omitted || !bytes.Equal(sum.Sum(nil), want[:]) {
		h.Errorf("got %d bytes back, omitted %v, want the same %d", n, omitted, len(in))
	}
	if e := h.wait(id); !e.Succeeded() {
		h.Errorf("exit = %+v", e)
	}
	if _, err := a.WriteStdin(h.Context(), []byte("x")); fault.KindOf(err) != fault.Closed {
		h.Errorf("WriteStdin after the end = %v, want Closed", err)
	}
}

func testDetachStdin(h *harness) {
	h.openInput()
	r := h.sh("cat; echo over")
	r.StdinOpen = true
	id := h.start(r)
	a := h.attach(h.b.Recoverable, id, 0)
	if _, err := a.WriteStdin(h.Context(), []byte("in ")); err != nil {
		h.Fatalf("WriteStdin = %v", err)
	}
	if err := a.Close(); err != nil {
		h.Fatalf("Close = %v", err)
	}
	h.wait(id)
	if got, _ := h.read(h.b.Recoverable, id); string(got) != "in over\n" {
		h.Errorf("output = %q", got)
	}
}

func testUnreadStdin(h *harness) {
	h.openInput()
	r := h.sh("exec <&-; sleep 0.2")
	r.StdinOpen = true
	id := h.start(r)
	a := h.attach(h.b.Recoverable, id, 0)
	h.eventually("the input is refused", func() bool {
		_, err := a.WriteStdin(h.Context(), []byte(strings.Repeat("x", 1<<20)))
		return fault.KindOf(err) == fault.Closed
	})
	h.wait(id)
}
