// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"bytes"
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
)

func attach(t *testing.T, r *Recoverable, id shell.RunID, from int64) shell.Attachment {
	t.Helper()
	a, err := r.Attach(t.Context(), id, from)
	if err != nil {
		t.Fatalf("Attach = %v", err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

// drain reads an attachment to its end, acknowledging everything, and returns the
// number of bytes and whether any were missing.
func drain(t *testing.T, a shell.Attachment, w io.Writer, each func(n int64)) (n int64, omitted bool) {
	t.Helper()
	for {
		c, err := a.Read(t.Context(), 1<<20)
		if err != nil {
			t.Errorf("Read = %v", err)
			return n, omitted
		}
		omitted = omitted || len(c.Omitted) > 0
		for _, f := range c.Frames {
			n += int64(len(f.Data))
			if _, err := w.Write(f.Data); err != nil {
				t.Error(err)
			}
		}
		if each != nil {
			each(n)
		}
		if err := a.Ack(c.Next); err != nil {
			t.Errorf("Ack = %v", err)
		}
		if c.End {
			return n, omitted
		}
	}
}

func TestAttachedReaderLosesNothing(t *testing.T) {
	t.Parallel()
	const size = 200_000_000
	r := open(t)
	req := sh(t, "head -c 200000000 /dev/zero | tr '\\0' 'x'; echo end")
	req.Attached = true
	req.Output = shell.Output{SpoolHead: 1 << 20, SpoolTail: 1 << 20}
	id := start(t, r, req)
	a := attach(t, r, id, 0)
	// While nobody reads, the command is held back.
	eventually(t, "the window is full", func() bool { return spoolEnd(r.dir(id)) >= window })
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	peak := int64(0)
	n, omitted := drain(t, a, io.Discard, func(n int64) {
		if n%(64<<20) < 1<<20 {
			<-tick.C // a slow reader, now and then
		}
		peak = max(peak, diskUse(r.dir(id)))
	})
	if n != size+4 || omitted {
		t.Errorf("read %d bytes, omitted %v, want %d, nothing omitted", n, omitted, size+4)
	}
	if peak > 12<<20 {
		t.Errorf("the spool took %d bytes", peak)
	}
	if e := waitFor(t, r, id); !e.Succeeded() || e.TotalBytes != size+4 {
		t.Errorf("exit = %+v", e)
	}
}

func TestDetachLetsTheCommandGo(t *testing.T) {
	t.Parallel()
	r := open(t)
	req := sh(t, "head -c 50000000 /dev/zero; touch done")
	req.Attached = true
	id := start(t, r, req)
	a := attach(t, r, id, 0)
	eventually(t, "the window is full", func() bool { return spoolEnd(r.dir(id)) >= window })
	if exists(filepath.Join(req.Dir, "done")) {
		t.Error("the command was not held back")
	}
	if err := a.Close(); err != nil {
		t.Fatalf("Close = %v", err)
	}
	if e := waitFor(t, r, id); !e.Succeeded() || e.TotalBytes != 50000000 {
		t.Errorf("exit = %+v", e)
	}
}

func TestStopWhileHeldBack(t *testing.T) {
	t.Parallel()
	r := open(t)
	req := sh(t, "yes")
	req.Attached = true
	id := start(t, r, req)
	a := attach(t, r, id, 0)
	eventually(t, "the window is full", func() bool { return spoolEnd(r.dir(id)) >= window })
	if err := r.Stop(t.Context(), id, fence1, shell.StopRequest{}); err != nil {
		t.Fatalf("Stop = %v", err)
	}
	e := waitFor(t, r, id)
	if e.Cause != shell.Canceled || e.Incomplete {
		t.Errorf("exit = %+v, want canceled", e)
	}
	if n, omitted := drain(t, a, io.Discard, nil); n != e.TotalBytes || omitted {
		t.Errorf("read %d of %d bytes, omitted %v", n, e.TotalBytes, omitted)
	}
}

func TestLateAttach(t *testing.T) {
	t.Parallel()
	r := open(t)
	req := sh(t, "echo one; while ! test -e go; do sleep 0.02; done; echo two")
	id := start(t, r, req)
	other := openDir(t, r.Dir())
	a := attach(t, other, id, 0)
	if c, err := a.Read(t.Context(), 0); err != nil || string(c.Bytes()) != "one\n" {
		t.Fatalf("Read = %+v, %v", c, err)
	}
	if _, err := a.WriteStdin(t.Context(), []byte("x")); err != nil && fault.KindOf(err) != fault.Closed {
		t.Errorf("WriteStdin = %v", err)
	}
	if err := os.WriteFile(filepath.Join(req.Dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if drain(t, a, &b, nil); b.String() != "two\n" {
		t.Errorf("then read %q", b.String())
	}
	waitFor(t, r, id)
	b.Reset()
	if drain(t, attach(t, r, id, 4), &b, nil); b.String() != "two\n" {
		t.Errorf("attached after the end, read %q", b.String())
	}
	if _, err := r.Attach(t.Context(), "nothing-r1", 0); fault.KindOf(err) != fault.NotFound {
		t.Errorf("Attach to no run = %v, want NotFound", err)
	}
}

func TestStdin(t *testing.T) {
	t.Parallel()
	r := open(t)
	req := sh(t, "cat")
	req.StdinOpen = true
	id := start(t, r, req)
	a := attach(t, r, id, 0)
	in := bytes.Repeat([]byte("0123456789abcde\n"), 2<<20/2) // 16 MiB
	var wg sync.WaitGroup
	wg.Go(func() {
		if n, err := a.WriteStdin(t.Context(), in); err != nil || n != len(in) {
			t.Errorf("WriteStdin = %d, %v", n, err)
		}
		if err := a.CloseStdin(); err != nil {
			t.Errorf("CloseStdin = %v", err)
		}
	})
	h := sha256.New()
	n, omitted := drain(t, a, h, nil)
	wg.Wait()
	want := sha256.Sum256(in)
	if n != int64(len(in)) || omitted || !bytes.Equal(h.Sum(nil), want[:]) {
		t.Errorf("got %d bytes back, omitted %v, want the same %d", n, omitted, len(in))
	}
	if e := waitFor(t, r, id); !e.Succeeded() {
		t.Errorf("exit = %+v", e)
	}
	if _, err := a.WriteStdin(t.Context(), []byte("x")); fault.KindOf(err) != fault.Closed {
		t.Errorf("WriteStdin after the end = %v, want Closed", err)
	}
}

func TestB12_DetachClosesStdin(t *testing.T) {
	t.Parallel()
	r := open(t)
	req := sh(t, "cat; echo over")
	req.StdinOpen = true
	id := start(t, r, req)
	a := attach(t, r, id, 0)
	if _, err := a.WriteStdin(t.Context(), []byte("in ")); err != nil {
		t.Fatalf("WriteStdin = %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatalf("Close = %v", err)
	}
	waitFor(t, r, id)
	if got, _ := readAll(t, r, id); string(got) != "in over\n" {
		t.Errorf("output = %q", got)
	}
}

func TestStdinOfCommandThatDoesNotRead(t *testing.T) {
	t.Parallel()
	r := open(t)
	req := sh(t, "exec <&-; sleep 0.2")
	req.StdinOpen = true
	id := start(t, r, req)
	a := attach(t, r, id, 0)
	eventually(t, "the input is refused", func() bool {
		_, err := a.WriteStdin(t.Context(), bytes.Repeat([]byte("x"), 1<<20))
		return fault.KindOf(err) == fault.Closed
	})
	waitFor(t, r, id)
}

// TestSelf uses the test binary as supervisor, which under the race detector looks at
// the supervisor's own concurrency.
func TestSelf(t *testing.T) {
	t.Parallel()
	r, err := Open(filepath.Join(t.TempDir(), "runs"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	req := sh(t, "cat; seq 1 500000; setsid sleep 100 & sleep 100")
	req.StdinOpen, req.Split, req.Timeout = true, true, 3*time.Second
	req.Output = shell.Output{SpoolHead: 4096, SpoolTail: 100_000}
	id := start(t, r, req)
	a := attach(t, r, id, 0)
	if _, err := a.WriteStdin(t.Context(), []byte("in\n")); err != nil {
		t.Errorf("WriteStdin = %v", err)
	}
	if err := a.CloseStdin(); err != nil {
		t.Errorf("CloseStdin = %v", err)
	}
	late := attach(t, r, id, 0)
	var wg sync.WaitGroup
	wg.Go(func() { drain(t, late, io.Discard, nil) })
	n, omitted := drain(t, a, io.Discard, nil)
	wg.Wait()
	e := waitFor(t, r, id)
	if e.Cause != shell.TimedOut || n != e.TotalBytes || omitted {
		t.Errorf("exit = %+v, read %d bytes, omitted %v", e, n, omitted)
	}
	if log := slurp(filepath.Join(r.dir(id), nameLog)); log != "" {
		t.Errorf("the supervisor said %s", log)
	}
}
