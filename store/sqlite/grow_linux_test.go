// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/store"
)

// A disk that is nearly full belongs to the commands' output and records, too.
func TestNoGrowthOnASmallDisk(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("cannot mount a small disk: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	path := filepath.Join(disk, "s.db")
	s, err := Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Update(t.Context(), []store.Key{store.QueueKey("q")}, func(tx store.Tx) error {
		tx.PutQueue(store.Queue{Name: "q", Limit: 1})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(path + "-wal"); err != nil || fi.Size() > 1<<20 {
		t.Errorf("the log of a store on a disk of 8 MiB: %v bytes, %v", fi.Size(), err)
	}
}
