// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package spool

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local/internal/files"
)

// TestSpool writes random pieces and reads back from random places, with holes and
// with files, whole and split, and checks every byte, stream and omitted range.
func TestSpool(t *testing.T) {
	t.Parallel()
	for _, noPunch := range []bool{false, true} {
		for _, split := range []bool{false, true} {
			t.Run(fmt.Sprintf("noPunch=%v,split=%v", noPunch, split), func(t *testing.T) {
				t.Parallel()
				testSpool(t, noPunch, split)
			})
		}
	}
}

func testSpool(t *testing.T, noPunch, split bool) {
	t.Helper()
	dir := t.TempDir()
	rnd, bytesOf := rand.New(rand.NewPCG(1, 2)), rand.NewChaCha8([32]byte{})
	s := New(dir, shell.Output{SpoolHead: 10_000, SpoolTail: 300_000}, split)
	s.noPunch = noPunch
	var all, streams []byte
	check := func(from int64, total int64) {
		t.Helper()
		c, err := Read(dir, split, from, 1+rnd.IntN(200_000), total)
		if err != nil {
			t.Fatalf("Read(%d) = %v", from, err)
		}
		at := from
		for _, o := range c.Omitted {
			if o.From != at || o.From < 10_000 && o.Len() > 0 || o.To > int64(len(all))-300_000 {
				t.Fatalf("Read(%d): omitted %v of %d", from, o, len(all))
			}
			at = o.To
		}
		for _, f := range c.Frames {
			if f.Off != at || !bytes.Equal(f.Data, all[at:at+int64(len(f.Data))]) {
				t.Fatalf("Read(%d): frame at %d, want %d, or data differs", from, f.Off, at)
			}
			if n := bytes.Count(streams[at:at+int64(len(f.Data))], []byte{byte(f.Stream)}); n != len(f.Data) {
				t.Fatalf("Read(%d): frame at %d of %d bytes is %v, %d of them are", from, at, len(f.Data), f.Stream, n)
			}
			at += int64(len(f.Data))
		}
		if at != c.Next || at == from && from < int64(len(all)) {
			t.Fatalf("Read(%d): Next = %d, covered up to %d of %d", from, c.Next, at, len(all))
		}
	}
	h := s.AddHold(0)
	for i := range 3000 {
		st := shell.Merged
		if split {
			st = shell.Stdout + shell.Stream(rnd.IntN(2))
		}
		p := make([]byte, 1+rnd.IntN(3000))
		_, _ = bytesOf.Read(p)
		s.Write(st, p)
		all = append(all, p...)
		streams = append(streams, bytes.Repeat([]byte{byte(st)}, len(p))...)
		check(rnd.Int64N(int64(len(all))), -1)
		switch {
		case i == 500 && s.gap.To > s.gap.From:
			t.Errorf("dropped %+v in spite of a hold", s.gap)
		case i == 500:
			s.Drop(h)
		}
	}
	var e shell.Exit
	s.Finish(&e)
	if e.SpoolError != "" || e.TotalBytes != int64(len(all)) || e.OmittedBytes == 0 || End(dir) != e.TotalBytes {
		t.Errorf("exit = %+v, want %d bytes, some omitted; end %d", e, len(all), End(dir))
	}
	if use := files.Use(dir); use > 1_300_000 {
		t.Errorf("%d bytes on the disk", use)
	}
	for range 300 {
		check(rnd.Int64N(int64(len(all))), e.TotalBytes)
	}
	check(e.TotalBytes, e.TotalBytes)
}
