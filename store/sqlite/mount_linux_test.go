// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/store/sqlite"
)

// tmpfs mounts a small file system, or skips the test.
func tmpfs(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("a tmpfs cannot be mounted here (it takes root): %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

func appendTo(t *testing.T, st store.Store, s journal.StreamID, data []byte) error {
	return st.Update(t.Context(), []store.Key{store.StreamKey(s)}, func(tx store.Tx) error {
		tx.Append(journal.Entry{Stream: s, Kind: "k", Data: data})
		return nil
	})
}

func countEntries(t *testing.T, st store.Store, s journal.StreamID) (n int64) {
	t.Helper()
	err := st.View(t.Context(), func(v store.View) error {
		h, err := v.Head(s)
		if err != nil {
			return err
		}
		for after := int64(0); ; {
			list, err := v.Entries(s, after, store.MaxPage)
			if err != nil {
				return err
			}
			if len(list) == 0 {
				break
			}
			n += int64(len(list))
			after = list[len(list)-1].Seq
		}
		if h.Seq != n {
			t.Errorf("Head says %d, but there are %d entries", h.Seq, n)
		}
		return nil
	})
	if err != nil {
		t.Errorf("View = %v", err)
	}
	return n
}

func TestDiskFull(t *testing.T) {
	dir := tmpfs(t, "4m")
	path := filepath.Join(dir, "outlive.db")
	st := openAt(t, path, sqlite.Options{})
	data := make([]byte, 8192)
	acked := int64(0)
	var err error
	for acked < 10000 {
		if err = appendTo(t, st, "s", data); err != nil {
			break
		}
		acked++
	}
	if !fault.Is(err, fault.Unavailable) || acked == 0 {
		t.Fatalf("Update on a full disk after %d = %v (kind %v), want Unavailable", acked, err, fault.KindOf(err))
	}
	t.Logf("after %d updates: %v", acked, err)
	if n := countEntries(t, st, "s"); n != acked {
		t.Errorf("%d entries, %d acknowledged: the failed update is there in part", n, acked)
	}
	st.Close()
	st = openAt(t, path, sqlite.Options{})
	if n := countEntries(t, st, "s"); n != acked {
		t.Errorf("reopened on the full disk: %d entries, %d acknowledged", n, acked)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=16m"); err != nil {
		t.Fatal(err)
	}
	if err := appendTo(t, st, "s", data); err != nil {
		t.Errorf("Update after space was freed = %v", err)
	}
}

func TestReadOnlyMount(t *testing.T) {
	for _, clean := range []bool{true, false} {
		t.Run(fmt.Sprintf("closed=%v", clean), func(t *testing.T) {
			dir := tmpfs(t, "32m")
			path := filepath.Join(dir, "outlive.db")
			st := openAt(t, path, sqlite.Options{})
			if err := appendTo(t, st, "s", nil); err != nil {
				t.Fatal(err)
			}
			if clean {
				st.Close()
			}
			if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
				if clean {
					t.Fatal(err)
				}
				t.Skipf("the mount is busy: %v", err)
			}
			st, err := sqlite.Open(t.Context(), path, nil)
			if err != nil {
				t.Fatalf("Open on a read-only disk = %v", err)
			}
			defer st.Close()
			if n := countEntries(t, st, "s"); n != 1 {
				t.Errorf("%d entries, want 1", n)
			}
			if err := appendTo(t, st, "s", nil); !fault.Is(err, fault.Unavailable) || fault.Hint(err) == "" {
				t.Errorf("Update on a read-only disk = %v, want Unavailable and a hint", err)
			}
			if _, err := sqlite.Open(t.Context(), filepath.Join(dir, "other.db"), nil); !fault.Is(err, fault.Unavailable) {
				t.Errorf("Open of a new store on a read-only disk = %v, want Unavailable", err)
			}
		})
	}
}

func TestUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read everything")
	}
	path := filepath.Join(t.TempDir(), "outlive.db")
	openAt(t, path, sqlite.Options{}).Close()
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), path, nil); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Open of an unreadable file = %v, want Unavailable", err)
	}
}
