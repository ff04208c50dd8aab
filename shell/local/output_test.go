// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
)

// numbers returns what "seq 1 n" writes.
func numbers(n int) []byte {
	b := make([]byte, 0, 8*n)
	for i := int64(1); i <= int64(n); i++ {
		b = append(strconv.AppendInt(b, i, 10), '\n')
	}
	return b
}

func TestOrder(t *testing.T) {
	t.Parallel()
	e, out := run(t, open(t), sh(t, `for i in $(seq 200); do echo o$i; echo e$i >&2; done`))
	var want strings.Builder
	for i := 1; i <= 200; i++ {
		fmt.Fprintf(&want, "o%d\ne%d\n", i, i)
	}
	if out != want.String() || !e.Succeeded() {
		t.Errorf("output of %d bytes differs, want %d; exit %+v", len(out), want.Len(), e)
	}
}

func TestTenMegabytes(t *testing.T) {
	t.Parallel()
	e, out := run(t, open(t), sh(t, "seq 1 1500000"))
	want := numbers(1500000)
	if sha256.Sum256([]byte(out)) != sha256.Sum256(want) {
		t.Errorf("got %d bytes, want %d, same content", len(out), len(want))
	}
	if e.TotalBytes != int64(len(want)) || e.OmittedBytes != 0 || e.Incomplete {
		t.Errorf("exit = %+v", e)
	}
}

func TestB22_SpoolKeepsHeadAndTailAndCounts(t *testing.T) {
	t.Parallel()
	r := open(t)
	for _, split := range []bool{false, true} {
		t.Run(fmt.Sprintf("split=%v", split), func(t *testing.T) {
			t.Parallel()
			req := sh(t, "seq 1 6000000") // 46,888,896 bytes
			req.Split = split
			req.Output = shell.Output{SpoolHead: 1 << 20, SpoolTail: 2 << 20}
			id := start(t, r, req)
			e := waitFor(t, r, id)
			got, omitted := readAll(t, r, id)
			want := numbers(6000000)
			if e.TotalBytes != int64(len(want)) {
				t.Errorf("total = %d, want %d", e.TotalBytes, len(want))
			}
			if len(omitted) != 1 || omitted[0].Len() != e.OmittedBytes || int64(len(got))+e.OmittedBytes != e.TotalBytes {
				t.Fatalf("%d bytes, omitted %v, exit %+v", len(got), omitted, e)
			}
			om := omitted[0]
			if om.From != 1<<20 || e.TotalBytes-om.To < 2<<20 || e.TotalBytes-om.To > 4<<20 {
				t.Errorf("omitted %v of %d", om, e.TotalBytes)
			}
			if !bytes.Equal(got, append(want[:om.From:om.From], want[om.To:]...)) {
				t.Error("what is kept differs")
			}
			if use := diskUse(r.dir(id)); use > 5<<20 {
				t.Errorf("%d bytes on the disk, want at most 5 MiB", use)
			}
			// A read that starts inside what is dropped says so.
			c, err := r.Read(t.Context(), id, om.From+100, 10, 0)
			if err != nil || len(c.Omitted) != 1 || c.Omitted[0] != (shell.Range{From: om.From + 100, To: om.To}) ||
				!bytes.Equal(c.Bytes(), want[om.To:om.To+10]) {
				t.Errorf("Read inside = %+v, %v", c, err)
			}
		})
	}
}

func TestB20_OutputLimitStops(t *testing.T) {
	t.Parallel()
	req := sh(t, "yes")
	req.Output = shell.Output{OnLimit: shell.StopAtLimit, Limit: 1 << 20}
	e, _ := run(t, open(t), req)
	if e.Cause != shell.OutputLimited || e.TotalBytes < 1<<20 {
		t.Errorf("exit = %+v, want output_limit", e)
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	r := open(t)
	req := sh(t, `for i in 1 2 3; do echo out$i; sleep 0.02; echo err$i >&2; sleep 0.02; done`)
	req.Split = true
	id := start(t, r, req)
	e := waitFor(t, r, id)
	if e.StdoutBytes != 15 || e.StderrBytes != 15 || e.TotalBytes != 30 {
		t.Errorf("exit = %+v", e)
	}
	for from := range int64(30) {
		c, err := r.Read(t.Context(), id, from, 0, 0)
		if err != nil || !c.End || c.Next != 30 {
			t.Fatalf("Read(%d) = %+v, %v", from, c, err)
		}
		want := "out1\nerr1\nout2\nerr2\nout3\nerr3\n"
		for _, f := range c.Frames {
			stream := shell.Stdout
			if want[f.Off/5*5] == 'e' {
				stream = shell.Stderr
			}
			if f.Stream != stream || string(f.Data) != want[f.Off:f.Off+int64(len(f.Data))] {
				t.Errorf("Read(%d): frame %+v", from, f)
			}
		}
	}
}

func TestReadFollows(t *testing.T) {
	t.Parallel()
	r := open(t)
	req := sh(t, "echo one; while ! test -e go; do sleep 0.02; done; echo two")
	id := start(t, r, req)
	c, err := r.Read(t.Context(), id, 0, 0, testTimeout)
	if err != nil || string(c.Bytes()) != "one\n" || c.End {
		t.Fatalf("Read = %+v, %v", c, err)
	}
	if c, err = r.Read(t.Context(), id, c.Next, 0, 0); err != nil || len(c.Frames) != 0 || c.End {
		t.Errorf("Read of nothing = %+v, %v", c, err)
	}
	if out, err := exec.Command("touch", filepath.Join(req.Dir, "go")).CombinedOutput(); err != nil {
		t.Fatal(string(out), err)
	}
	if c, err = r.Read(t.Context(), id, c.Next, 0, testTimeout); err != nil || string(c.Bytes()) != "two\n" {
		t.Errorf("Read = %+v, %v", c, err)
	}
	if _, err := r.Read(t.Context(), "nothing-r1", 0, 0, 0); fault.KindOf(err) != fault.NotFound {
		t.Errorf("Read of no run = %v, want NotFound", err)
	}
	waitFor(t, r, id)
}

func TestB01_GrandchildHoldsThePipe(t *testing.T) {
	t.Parallel()
	r := open(t)
	for _, tt := range []struct {
		name, text string
		stopped    int
	}{
		{"grandchild", "echo done; sleep 100 &", 1},
		{"setsid grandchild", "echo done; setsid sleep 100 & sleep 0.1", 1},
		{"B04_process substitution", "exec > >(cat); echo done", 0},
		{"B05_goes on writing", "echo done; (while :; do echo done; sleep 0.1; done) &", 2},
		{"double fork ignoring TERM", `echo done; (setsid sh -c 'trap "" TERM; sleep 100; sleep 100' &) & sleep 0.2`, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			req := sh(t, tt.text)
			req.Grace, req.Drain, req.DrainCap = 300*time.Millisecond, 200*time.Millisecond, 500*time.Millisecond
			began := time.Now()
			e, out := run(t, r, req)
			if !e.Succeeded() || !strings.HasPrefix(out, "done\n") || e.Incomplete {
				t.Errorf("exit = %+v, output %q", e, out)
			}
			if more := tt.stopped > 0; (e.LeftoversStopped > 0) != more || e.LeftoversStopped > tt.stopped+1 {
				t.Errorf("stopped %d, want %d", e.LeftoversStopped, tt.stopped)
			}
			if d := time.Since(began); d > 5*time.Second {
				t.Errorf("took %v", d)
			}
		})
	}
}

func TestLeftoversKept(t *testing.T) {
	t.Parallel()
	r := open(t)
	req := sh(t, "echo $BASHPID; sleep 100 & echo $! > pid")
	req.Leftovers = shell.KeepLeftovers
	req.Drain = 100 * time.Millisecond
	id := newID(t)
	if err := r.Start(t.Context(), id, fence1, req); err != nil {
		t.Fatal(err)
	}
	e := waitFor(t, r, id)
	if !e.Succeeded() || e.LeftoversKept != 1 || !e.Incomplete {
		t.Errorf("exit = %+v, want one process kept, incomplete", e)
	}
	eventually(t, "one process is left, and the supervisor has gone", func() bool {
		return len(tree{run: string(id), byCookie: true}.members()) == 1
	})
	r.sweep(id)
	noneLeft(t, id)
}

func TestB21_DiskFull(t *testing.T) {
	t.Parallel()
	if unix.Getuid() != 0 {
		t.Skip("needs root to mount a small file system")
	}
	mnt := t.TempDir()
	if err := unix.Mount("tmpfs", mnt, "tmpfs", 0, "size=512k,mode=0700"); err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(mnt, unix.MNT_DETACH) })
	r := openDir(t, mnt)
	id := start(t, r, sh(t, "seq 1 1500000"))
	e := waitFor(t, r, id)
	got, omitted := readAll(t, r, id)
	want := numbers(1500000)
	if !e.Succeeded() || e.SpoolError == "" || e.TotalBytes != int64(len(want)) {
		t.Errorf("exit = %+v, want success, an error of the spool and %d bytes", e, len(want))
	}
	if len(omitted) != 1 || int64(len(got))+omitted[0].Len() != e.TotalBytes || e.OmittedBytes != omitted[0].Len() ||
		!bytes.HasPrefix(want, got) {
		t.Errorf("%d bytes kept, omitted %v, exit %+v", len(got), omitted, e)
	}
	// With no room at all nothing starts, and the error says so.
	req := sh(t, "touch marker")
	var ee *shell.ExecError
	if err := r.Start(t.Context(), newID(t), fence1, req); !errors.As(err, &ee) || ee.Started != shell.No {
		t.Errorf("Start on a full disk = %v, want an ExecError, not started", err)
	}
	if exists(filepath.Join(req.Dir, "marker")) {
		t.Error("the command was executed")
	}
}
