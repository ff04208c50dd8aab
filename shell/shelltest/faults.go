// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package shelltest

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/shell"
)

func faultTests() []test {
	return []test{
		{name: "B21_disk full while running", fn: testDiskFull, recoverable: true},
		{name: "disk full before start", fn: testNoRoom, recoverable: true},
		{name: "read-only directory", fn: testReadOnly, recoverable: true},
		{name: "B33_many at once", fn: testMany},
	}
}

// smallDisk mounts a file system of that size and returns a backend whose runs lie
// there.
func (h *harness) smallDisk(size string) (shell.Recoverable, string) {
	h.Helper()
	if unix.Getuid() != 0 {
		h.Skip("needs root to mount a small file system")
	}
	mnt := h.TempDir()
	if err := unix.Mount("tmpfs", mnt, "tmpfs", 0, "size="+size+",mode=0700"); err != nil {
		h.Skipf("mount: %v", err)
	}
	h.Cleanup(func() { _ = unix.Unmount(mnt, unix.MNT_DETACH) })
	h.setup.Runs = mnt
	b := h.f.New(h.T, h.setup)
	return b.Recoverable, mnt
}

func testDiskFull(h *harness) {
	b, _ := h.smallDisk("512k")
	id := h.newID()
	r := h.sh("seq 1 1500000")
	if err := b.Start(h.Context(), id, fence1(), r); err != nil {
		h.Fatalf("Start = %v", err)
	}
	e := h.waitOn(b, id)
	got, omitted := h.read(b, id)
	want := numbers(1500000)
	if !e.Succeeded() || e.SpoolError == "" || e.TotalBytes != int64(len(want)) {
		h.Errorf("exit = %+v, want success, an error of the spool and %d bytes", e, len(want))
	}
	if len(omitted) != 1 || int64(len(got))+omitted[0].Len() != e.TotalBytes || e.OmittedBytes != omitted[0].Len() || !bytes.HasPrefix(want, got) {
		h.Errorf("%d bytes kept, omitted %v, exit %+v", len(got), omitted, e)
	}
	h.noneLeft()
}

func testNoRoom(h *harness) {
	b, mnt := h.smallDisk("96k")
	if err := os.WriteFile(mnt+"/filler", make([]byte, 1<<20), 0o600); err == nil {
		h.Fatal("1 MiB fits into 96 KiB")
	}
	r := h.sh("true")
	h.notStarted("Start on a full disk", b.Start(h.Context(), h.newID(), fence1(), r), "")
	if executions(r.Dir) != 0 {
		h.Error("the command was executed")
	}
}

func testReadOnly(h *harness) {
	b, mnt := h.smallDisk("512k")
	if err := unix.Mount("", mnt, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		h.Skipf("remount: %v", err)
	}
	r := h.sh("true")
	h.notStarted("Start in a read-only directory", b.Start(h.Context(), h.newID(), fence1(), r), "")
	if executions(r.Dir) != 0 {
		h.Error("the command was executed")
	}
}

// testMany has more commands at once than there are processors.
func testMany(h *harness) {
	n := 40
	if testing.Short() {
		n = 10
	}
	done := make(chan result, n)
	for range n {
		r := h.sh("sleep 0.2; echo ok")
		go func() { done <- h.tryRun(r) }()
	}
	for range n {
		if got := <-done; !got.exit.Succeeded() || got.out != "ok\n" {
			h.Errorf("exit = %+v, output %q", got.exit, got.out)
		}
	}
}

// tryRun is run for goroutines of a test, which must not end it.
func (h *harness) tryRun(r shell.Request) result {
	if h.b.Recoverable == nil {
		resp, err := h.b.Shell.Execute(h.Context(), r)
		if err != nil {
			h.Errorf("Execute = %v", err)
			return result{}
		}
		return result{exit: resp.Exit, out: string(resp.Output)}
	}
	id := h.newID()
	if err := h.b.Recoverable.Start(h.Context(), id, fence1(), r); err != nil {
		h.Errorf("Start = %v", err)
		return result{}
	}
	e, err := h.b.Recoverable.Wait(h.Context(), id)
	if err != nil {
		h.Errorf("Wait = %v", err)
	}
	out, _ := h.read(h.b.Recoverable, id)
	return result{exit: e, out: string(out)}
}
