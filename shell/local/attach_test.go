// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"io"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local/internal/files"
	"github.com/outlive-dev/outlive/shell/local/internal/spool"
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
	eventually(t, "the window is full", func() bool { return spool.End(r.dir(id)) >= spool.Window })
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	peak := int64(0)
	n, omitted := drain(t, a, io.Discard, func(n int64) {
		if n%(64<<20) < 1<<20 {
			<-tick.C // a slow reader, now and then
		}
		peak = max(peak, files.Use(r.dir(id)))
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

func TestStopWhileHeldBack(t *testing.T) {
	t.Parallel()
	r := open(t)
	req := sh(t, "yes")
	req.Attached = true
	id := start(t, r, req)
	a := attach(t, r, id, 0)
	eventually(t, "the window is full", func() bool { return spool.End(r.dir(id)) >= spool.Window })
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
