// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/outlive-dev/outlive/cmd/outlive/internal/host"
	"github.com/outlive-dev/outlive/shell"
)

// TestBigOutput has a detached command write much more than is kept: the disk holds the
// bound and little else, every byte is counted, and what is kept is the beginning and the
// end. BIG_OUTPUT is how many bytes.
func TestBigOutput(t *testing.T) {
	t.Parallel()
	size := int64(100_000_000)
	if n, err := strconv.ParseInt(os.Getenv("BIG_OUTPUT"), 10, 64); err == nil {
		size = n
	}
	b := newBox(t)
	id := b.must("run", "-d", "--", "head", "-c", strconv.FormatInt(size, 10), "/dev/zero")
	b.must("wait", id)
	var exit shell.Exit
	for line := range strings.Lines(b.must("events", id)) {
		var e entryView
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Kind == "command.exited" {
			if err := json.Unmarshal(e.Data, &exit); err != nil {
				t.Fatal(err)
			}
		}
	}
	kept := int64(len(b.must("logs", "-q", id)))
	if exit.TotalBytes != size || exit.SpoolError != "" || exit.OmittedBytes != size-kept {
		t.Errorf("exit %+v, %d bytes kept of %d", exit, kept, size)
	}
	const bound = shell.DefaultSpoolHead + shell.DefaultSpoolTail
	if kept < bound || kept > bound+2<<20 {
		t.Errorf("%d bytes are kept, want %d and at most 2 MiB more", kept, bound)
	}
	use := int64(0)
	dirs, _ := filepath.Glob(b.store + ".runs/*/*")
	for _, dir := range dirs {
		use += host.DiskUse(dir)
	}
	if use > bound+3<<20 {
		t.Errorf("%d bytes on the disk", use)
	}
	t.Logf("%d bytes written, %d kept, %d on the disk", size, kept, use)
}
