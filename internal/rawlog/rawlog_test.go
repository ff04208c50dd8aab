// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package rawlog_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/outlive-dev/outlive/internal/rawlog"
)

func TestAppend(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := rawlog.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if err := l.Append([]byte("record")); err != nil {
				t.Errorf("Append = %v", err)
			}
		})
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(nil); err == nil {
		t.Error("Append after Close = nil, want an error")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for at := 0; binary.LittleEndian.Uint32(data[at:]) != 0; n++ {
		at += 8 + int(binary.LittleEndian.Uint32(data[at:]))
	}
	if n != 100 {
		t.Errorf("the log holds %d records, want 100", n)
	}
}
