// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local/internal/files"
)

// Read reads kept output at the logical offset from. total is the end of the
// stream if it is known, else -1. It looks at the gap again after the data, since the
// gap is written before data goes.
func Read(dir string, split bool, from int64, maxBytes int, total int64) (c shell.Chunk, err error) {
	for {
		c, again, err := readOnce(dir, split, from, maxBytes, total)
		if err != nil || !again {
			return c, err
		}
	}
}

func readOnce(dir string, split bool, from int64, maxBytes int, total int64) (c shell.Chunk, again bool, err error) {
	g, err := readGap(dir)
	if err != nil {
		return c, false, err
	}
	c.Next = from
	if from >= g.From && from < g.To {
		c.Omitted = append(c.Omitted, shell.Range{From: from, To: g.To})
		c.Next = g.To
	}
	suffix, base := g.file(c.Next)
	out, err := os.OpenFile(filepath.Join(dir, nameOut+suffix), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if files.NotThere(err) {
		now, err := readGap(dir)
		return omitTail(c, total), now != g, err
	}
	if err != nil {
		return c, false, err
	}
	defer out.Close()
	st, err := out.Stat()
	if err != nil {
		return c, false, err
	}
	end := base + st.Size()
	if total >= 0 {
		end = min(end, total)
	}
	if c.Next >= end {
		now, err := readGap(dir) // the next bytes may be in a new file
		return omitTail(c, total), now != g, err
	}
	if c.Next < g.From {
		end = min(end, g.From)
	}
	buf := make([]byte, min(int64(maxBytes), end-c.Next))
	n, err := out.ReadAt(buf, c.Next-base)
	if err != nil && !errors.Is(err, io.EOF) {
		return c, false, err
	}
	buf = buf[:n]
	c.Frames = []shell.Frame{{Off: c.Next, Data: buf}}
	if split {
		if c.Frames, err = splitFrames(filepath.Join(dir, nameIndex+suffix), g, c.Next, buf); err != nil {
			if files.NotThere(err) {
				now, gerr := readGap(dir)
				return c, now != g, errors.Join(gerr, onlyIf(now == g, err))
			}
			return c, false, err
		}
	}
	now, err := readGap(dir)
	if err != nil {
		return c, false, err
	}
	if now != g && now.To > c.Next && now.From < c.Next+int64(n) {
		return c, true, nil // it went while we read
	}
	c.Next += int64(n)
	return c, false, nil
}

func onlyIf(cond bool, err error) error {
	if cond {
		return err
	}
	return nil
}

// End returns the offset after the last byte that is kept.
func End(dir string) int64 {
	g, err := readGap(dir)
	if err != nil || g.Seg == 0 {
		return fileSize(filepath.Join(dir, nameOut))
	}
	end := g.To
	for {
		suffix, base := g.file(end)
		size := fileSize(filepath.Join(dir, nameOut+suffix))
		end = max(end, base+size)
		if size < g.SegSize {
			return end
		}
	}
}

func fileSize(path string) int64 {
	st, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	return st.Size()
}

// omitTail reports what was counted but not kept at the end.
func omitTail(c shell.Chunk, total int64) shell.Chunk {
	if total > c.Next {
		c.Omitted = append(c.Omitted, shell.Range{From: c.Next, To: total})
		c.Next = total
	}
	return c
}

// Omitted returns how many bytes were dropped in the middle, as far as it is known.
func Omitted(dir string) int64 {
	g, err := readGap(dir)
	if err != nil {
		return 0
	}
	return g.To - g.From
}

// DropTail drops what is kept of an ended run's output behind the first head bytes. What
// reads it finds that it is omitted.
func DropTail(dir string, head int64) error {
	head = roundUp(head)
	g, err := readGap(dir)
	if err != nil {
		return err
	}
	if path := filepath.Join(dir, nameOut); fileSize(path) > head {
		if err := os.Truncate(path, head); err != nil {
			return err
		}
	}
	if g.Seg == 0 {
		return nil
	}
	for off := g.To; ; off += g.SegSize {
		suffix, _ := g.file(off)
		err := os.Remove(filepath.Join(dir, nameOut+suffix))
		if ierr := os.Remove(filepath.Join(dir, nameIndex+suffix)); err == nil && ierr != nil && !files.NotThere(ierr) {
			err = ierr
		}
		if files.NotThere(err) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func readGap(dir string) (g gap, err error) {
	for range 100 {
		var b []byte
		b, err = files.Slurp(filepath.Join(dir, nameGap))
		if files.NotThere(err) {
			return gap{}, nil
		}
		if err != nil {
			return g, err
		}
		if g, err = decodeGap(b); err == nil {
			return g, nil
		}
	}
	return g, fmt.Errorf("%s: %w", nameGap, err)
}

// splitFrames cuts data, which begins at off, where the index says that the stream
// changes.
func splitFrames(path string, g gap, off int64, data []byte) ([]shell.Frame, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	at := func(i int64) (int64, shell.Stream, error) {
		var e [8]byte
		if _, err := f.ReadAt(e[:], i*8); err != nil {
			return 0, 0, err
		}
		v := binary.LittleEndian.Uint64(e[:])
		return int64(v >> 2), shell.Stream(v & 3), nil
	}
	if g.Seg > 0 {
		g = gap{} // files are dropped whole: none has a gap inside
	}
	lo, hi := int64(0), st.Size()/8
	if off < g.From && g.IFrom > 0 {
		hi = min(hi, g.IFrom/8)
	} else if off >= g.To && g.To > 0 {
		lo = g.ITo / 8
	}
	// The last entry at or before off says which stream off belongs to.
	for lo+1 < hi {
		mid := (lo + hi) / 2
		o, _, err := at(mid)
		if err != nil {
			return nil, err
		}
		if o <= off {
			lo = mid
		} else {
			hi = mid
		}
	}
	var frames []shell.Frame
	_, stream, err := at(lo)
	if err != nil {
		return nil, err
	}
	end := off + int64(len(data))
	for i := lo + 1; off < end; i++ {
		next, nextStream := end, stream
		if i*8+8 <= st.Size() && (off >= g.From || g.IFrom == 0 || i*8 < g.IFrom) {
			if next, nextStream, err = at(i); err != nil {
				return nil, err
			}
			next = min(next, end)
		}
		if next > off {
			d := data[:next-off]
			data = data[next-off:]
			if k := len(frames); k > 0 && frames[k-1].Stream == stream {
				frames[k-1].Data = frames[k-1].Data[:len(frames[k-1].Data)+len(d)]
			} else {
				frames = append(frames, shell.Frame{Stream: stream, Off: off, Data: d})
			}
		}
		off, stream = next, nextStream
	}
	return frames, nil
}
