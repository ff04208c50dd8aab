// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package shelltest

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
)

func faultTests() []test {
	return []test{
		{name: "B21_disk full while running", fn: testDiskFull, recoverable: true},
		{name: "disk full before start", fn: testNoRoom, recoverable: true},
		{name: "read-only directory", fn: testReadOnly, recoverable: true},
		{name: "B33_many at once", fn: testMany},
		{name: "no more descriptors", fn: testNoDescriptors, recoverable: true},
		{name: "no proc", fn: testNoProc, recoverable: true},
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
	n := min(200, repeat(40))
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

// crippled starts a run from a process that lacks something, and checks what became of
// it: when the start failed nothing was executed, and nothing keeps it from being started
// properly. It returns why the start failed.
func (h *harness) crippled(wrap ...string) (failure string) {
	h.Helper()
	r := h.sh("echo ok")
	id := h.newID()
	failure = h.b.StartUnder(h.T, wrap, id, fence1(), r)
	if failure != "" && executions(r.Dir) != 0 {
		h.Errorf("the start failed with %q, and it was executed", failure)
	}
	st := h.recover(id)
	for st.Phase == shell.Live { // it gets on, or its supervisor lacks something, too, and dies
		if _, err := h.b.Recoverable.Wait(h.Context(), id); err != nil && !fault.Is(err, fault.NotFound) {
			h.Fatalf("Wait = %v", err)
		}
		st = h.recover(id)
	}
	if failure != "" && st.Phase != shell.NeverStarted && st.Phase != shell.UnknownRun {
		h.Errorf("the start failed with %q: %+v", failure, st)
	}
	if err := h.b.Recoverable.Start(h.Context(), id, fence1(), r); err != nil {
		h.Errorf("Start after that = %v", err)
	}
	e, n := h.wait(id), executions(r.Dir)
	switch {
	case e.Succeeded() && n == 1, e.Cause == shell.StartFailed && n == 0, e.Cause == shell.Lost && n <= 1:
	default:
		h.Errorf("with %v: executed %d times, exit = %+v", wrap, n, e)
	}
	return failure
}

func (h *harness) startUnder() {
	h.Helper()
	if h.b.StartUnder == nil {
		h.Skip("the backend starts nothing in a process of ours")
	}
}

// testNoDescriptors has a starter, and so a supervisor, with fewer descriptors than they
// want, from far too few to nearly enough.
func testNoDescriptors(h *harness) {
	h.startUnder()
	failed, fine := 0, 0
	for n := 4; n <= 24; n += 2 {
		if h.crippled("sh", "-c", "ulimit -n "+strconv.Itoa(n)+"; exec \"$@\"", "sh") != "" {
			failed++
		} else {
			fine++
		}
	}
	if failed == 0 || fine == 0 {
		h.Errorf("%d starts failed and %d did not, want both", failed, fine)
	}
}

// testNoProc has a starter in a mount namespace without /proc.
func testNoProc(h *harness) {
	h.startUnder()
	if unix.Getuid() != 0 {
		h.Skip("needs root to hide /proc")
	}
	if err := exec.Command("unshare", "-m", "true").Run(); err != nil {
		h.Skip("unshare: ", err)
	}
	if h.crippled("unshare", "-m", "sh", "-c", "mount -t tmpfs none /proc && exec \"$@\"", "sh") == "" {
		h.Error("a start without /proc did not fail")
	}
}
