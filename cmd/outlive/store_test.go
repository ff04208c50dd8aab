// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// onDisk mounts a small disk of its own and returns a box on it.
func onDisk(t *testing.T, options string) (b *box, disk string) {
	t.Helper()
	disk = t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, options); err != nil {
		t.Skipf("cannot mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return boxAt(t, t.TempDir(), filepath.Join(disk, "s.db")), disk
}

// fill takes what is left of a disk.
func fill(t *testing.T, disk string) (file string) {
	t.Helper()
	file = filepath.Join(disk, "ballast")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 64<<10); len(block) > 0; {
		if _, err := f.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
	return file
}

func warnings(r result) int { return strings.Count(r.err, "outlive: warning: ") }

func TestFullDiskBeforeTheStart(t *testing.T) {
	t.Parallel()
	b, disk := onDisk(t, "size=8m")
	b.must("run", "--", "true")
	file := fill(t, disk)
	marker := filepath.Join(b.dir, "ran")
	r := b.run("run", "--", "touch", marker)
	if _, err := os.Stat(marker); err == nil || r.code != exitOwn && r.code != exitFailed {
		t.Errorf("run on a full disk = %+v; it ran: %v", r, err == nil)
	}
	if !strings.Contains(r.err, "full") && !strings.Contains(r.err, "space") {
		t.Errorf("run says %q, want that the disk is full", r.err)
	}
	if got := b.run("ps", "-a"); got.code != 0 || !strings.Contains(got.out, "completed") {
		t.Errorf("ps on a full disk = %+v", got)
	}
	if got := b.run("doctor"); got.code != exitError || !strings.Contains(got.out, "fail  disk") {
		t.Errorf("doctor on a full disk = %+v", got)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	b.must("run", "--", "true")
}

func TestFullDiskAfterTheStart(t *testing.T) {
	t.Parallel()
	b, disk := onDisk(t, "size=8m")
	text, open := b.gate()
	p := b.start(b.cmd("run", "--", "sh", "-c", text+"exit 9"))
	pid := pidIn(t, p.out.String)
	id := b.only()
	file := fill(t, disk)
	open()
	r := b.wait(p)
	if r.code != 9 || r.out != fmt.Sprintf("pid %d\n", pid) || warnings(r) != 1 {
		t.Errorf("run = %+v, want exit 9 and one warning", r)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	b.want(b.run("wait", id), 9, "")
	b.once(id, "task.started", "task.completed")
}

// hog keeps the store's write lock until release.
func (b *box) hog() (release func()) {
	b.t.Helper()
	f, err := os.OpenFile(b.store+".turn", os.O_RDWR, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	until(b.t, "the write lock is ours", func() bool {
		l := unix.Flock_t{Type: unix.F_WRLCK, Start: 100, Len: 1}
		return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &l) == nil
	})
	return func() { f.Close() }
}

func TestStoreFailsAfterTheStart(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		signal syscall.Signal
		code   int
		flags  []string
		warns  int
	}{
		"own code":   {0, 9, nil, 1},
		"json":       {0, 9, []string{"--json"}, 1},
		"terminated": {syscall.SIGTERM, 143, nil, 1},
		"left":       {syscall.SIGHUP, exitRunning, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			text, open := b.gate()
			p := b.start(b.cmd(append(append([]string{}, tt.flags...), "run", "--", "sh", "-c", text+"echo end; exit 9")...))
			pid := pidIn(t, func() string { return p.out.String() + p.err.String() })
			id := b.only()
			release := b.hog()
			defer release()
			if tt.signal != 0 {
				_ = p.Process.Signal(tt.signal)
			} else {
				open()
			}
			r := b.wait(p)
			if r.code != tt.code || warnings(r) != tt.warns {
				t.Errorf("run = %+v, want exit %d and one warning", r, tt.code)
			}
			if tt.code == exitRunning {
				open()
			}
			if tt.signal == 0 && !strings.Contains(r.out+r.err, fmt.Sprintf("pid %d\nend\n", pid)) {
				t.Errorf("run printed %q", r.out)
			}
			if tt.flags != nil && !strings.Contains(r.out, `"exit_code":9`) {
				t.Errorf("run --json printed %q", r.out)
			}
			release()
			if got := b.run("wait", id); tt.signal != syscall.SIGTERM && got.code != 9 || got.code == 0 {
				t.Errorf("a later wait = %+v", got)
			}
			b.once(id, "task.started")
			b.noProcess(id)
		})
	}
}

// readOnly takes the right to write to the store away: from the disk when root, who
// may write whatever the permissions say, else from the directory and the files.
func readOnly(t *testing.T) (b *box) {
	t.Helper()
	if os.Getuid() == 0 {
		b, disk := onDisk(t, "size=64m")
		id := b.must("run", "-d", "--name", "kept", "--", "true")
		b.must("wait", id)
		b.noProcess(id)
		var err error
		until(t, "the disk is read-only", func() bool {
			err = unix.Mount("tmpfs", disk, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, "")
			return !errors.Is(err, unix.EBUSY)
		})
		if err != nil {
			t.Skip("cannot make it read-only: ", err)
		}
		return b
	}
	b = newBox(t)
	id := b.must("run", "-d", "--name", "kept", "--", "true")
	b.must("wait", id)
	b.noProcess(id)
	dir := filepath.Dir(b.store)
	files, err := filepath.Glob(b.store + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range append(files, dir) {
		fi, err := os.Stat(f)
		if err == nil {
			err = os.Chmod(f, fi.Mode().Perm()&^0o222)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(f, fi.Mode().Perm()) })
	}
	return b
}

func TestReadOnlyStoreStillLists(t *testing.T) {
	t.Parallel()
	b := readOnly(t)
	for _, args := range [][]string{{"ps", "-a"}, {"show", "kept"}, {"logs", "kept"}, {"events", "kept"}, {"why", "kept"}, {"wait", "kept"}, {"doctor"}, {"ps", "--orphans"}} {
		if r := b.run(args...); r.code != 0 {
			t.Errorf("%v on a read-only store = %+v", args, r)
		}
	}
	if r := b.run("ps", "-a"); !strings.Contains(r.out, "kept") {
		t.Errorf("ps = %+v", r)
	}
	b.want(b.run("run", "--", "true"), exitOwn, "read-only")
}

func TestNewerStoreIsRefused(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.must("migrate")
	db, err := sql.Open("sqlite", b.store)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`INSERT INTO outlive_migrations VALUES (99, 'later', '', 0)`); err != nil {
		t.Fatal(err)
	}
	b.want(b.run("ps"), exitError, "newer schema")
	b.want(b.run("ps"), exitError, "\nhint: ")
	b.want(b.run("run", "--", "true"), exitOwn, "newer schema")
	if r := b.run("doctor"); r.code != exitError || !strings.Contains(r.out, "fail  store") {
		t.Errorf("doctor = %+v", r)
	}
}

func TestUnreadableStore(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	b := newBox(t)
	b.must("migrate")
	if err := os.Chmod(b.store, 0); err != nil {
		t.Fatal(err)
	}
	b.want(b.run("ps"), exitError, "outlive: ps: open store")
}

func TestDoctorFindsBrokenRecords(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.must("run", "-d", "--", "true")
	b.must("wait", id)
	db, err := sql.Open("sqlite", b.store)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`DELETE FROM outlive_entry WHERE kind = 'task.completed'`); err != nil {
		t.Fatal(err)
	}
	if r := b.run("doctor"); r.code != exitError || !strings.Contains(r.out, "has 0 ends in its journal") {
		t.Errorf("doctor = %+v", r)
	}
}
