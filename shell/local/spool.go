// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/shell"
)

// The spool of a run is the file "out", whose file offsets are the logical offsets.
// With Split, "out.idx" says where the stream changes: 8 bytes each, the offset
// shifted left by two and the stream. When the middle is dropped, "out.gap" says so
// before the bytes go, so that nobody takes a hole for output.

const (
	window    = 4 << 20 // unacknowledged bytes after which an attached reader holds the command back
	copySize  = 64 << 10
	blockSize = 4096
	gapSize   = 128
	maxStep   = int64(1 << 20)
)

// gap is what was dropped: logical offsets, and the part of the index that went
// with them.
type gap struct {
	From, To, IFrom, ITo int64
}

func (g gap) encode() []byte {
	b := make([]byte, gapSize)
	for i, v := range []int64{g.From, g.To, g.IFrom, g.ITo} {
		binary.LittleEndian.PutUint64(b[8*i:], uint64(v))
	}
	binary.LittleEndian.PutUint32(b[32:], crc32.Checksum(b[:32], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func decodeGap(b []byte) (g gap, err error) {
	if len(b) < gapSize || binary.LittleEndian.Uint32(b[32:]) != crc32.Checksum(b[:32], crc32.MakeTable(crc32.Castagnoli)) {
		return g, errCorrupt
	}
	for i, p := range []*int64{&g.From, &g.To, &g.IFrom, &g.ITo} {
		*p = int64(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return g, nil
}

// mark is a place where output may be cut: from off on, the index begins at ipos.
type mark struct{ off, ipos int64 }

// spool keeps output, within its bounds, and counts all of it. It never blocks its
// writer for want of disk.
//
// Concurrency: all fields are under mu; changed is signalled when output or holds
// change.
type spool struct {
	dir              string
	head, tail, step int64
	split            bool
	limit            int64 // 0: none

	mu      sync.Mutex
	changed *sync.Cond
	out     *os.File
	idx     *os.File
	ipos    int64
	last    shell.Stream // stream of the last index entry
	marks   []mark
	imark   int64 // index position at the end of the head, or -1
	gap     gap
	noPunch bool
	total   int64
	kept    int64 // bytes written before an error
	per     [3]int64
	err     error
	holds   map[*hold]struct{}
	open    bool // holds are ignored
	onWrite func(total int64)
}

// hold is one attached reader's acknowledged offset.
type hold struct{ acked int64 }

func newSpool(dir string, o shell.Output, split bool) *spool {
	s := &spool{
		dir: dir, head: roundUp(o.SpoolHead), tail: o.SpoolTail, split: split, imark: -1,
		last: math.MaxUint8, holds: map[*hold]struct{}{},
	}
	s.step = min(maxStep, max(64<<10, o.SpoolTail/16))
	if o.OnLimit == shell.StopAtLimit {
		s.limit = o.Limit
	}
	s.changed = sync.NewCond(&s.mu)
	return s
}

func roundUp(n int64) int64 { return (n + blockSize - 1) / blockSize * blockSize }

// write keeps p as the next output. Errors of the disk end the keeping, not the
// counting.
func (s *spool) write(st shell.Stream, p []byte) (total int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		if s.err = s.keepLocked(st, p); s.err == nil {
			s.kept += int64(len(p))
		} else {
			s.kept = max(s.kept, outSize(s.dir)) // a part of p, perhaps
		}
	}
	s.total += int64(len(p))
	s.per[st] += int64(len(p))
	if s.err == nil {
		s.trimLocked()
	}
	s.changed.Broadcast()
	if s.onWrite != nil {
		s.onWrite(s.total)
	}
	return s.total
}

func (s *spool) keepLocked(st shell.Stream, p []byte) error {
	if s.out == nil {
		f, err := os.OpenFile(filepath.Join(s.dir, nameOut), os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return err
		}
		s.out = f
	}
	if len(s.marks) == 0 || s.total-s.marks[len(s.marks)-1].off >= s.step {
		if s.imark < 0 && s.total >= s.head {
			s.imark = s.ipos
		}
		s.marks = append(s.marks, mark{s.total, s.ipos})
		s.last = math.MaxUint8 // a place to cut begins with an index entry
	}
	if s.split && st != s.last {
		if err := s.indexLocked(st); err != nil {
			return err
		}
	}
	_, err := s.out.WriteAt(p, s.total)
	return err
}

func (s *spool) indexLocked(st shell.Stream) error {
	if s.idx == nil {
		f, err := os.OpenFile(filepath.Join(s.dir, nameIndex), os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return err
		}
		s.idx = f
	}
	var e [8]byte
	binary.LittleEndian.PutUint64(e[:], uint64(s.total)<<2|uint64(st))
	if _, err := s.idx.WriteAt(e[:], s.ipos); err != nil {
		return err
	}
	s.ipos += 8
	s.last = st
	return nil
}

// trimLocked drops what lies between head and tail, as far as no reader holds it.
func (s *spool) trimLocked() {
	to := s.total - s.tail
	if m, ok := s.heldLocked(); ok {
		to = min(to, m)
	}
	i := -1
	for i+1 < len(s.marks) && s.marks[i+1].off <= to {
		i++
	}
	if i < 0 || s.noPunch || s.imark < 0 {
		return
	}
	g := gap{From: s.head, To: s.marks[i].off, IFrom: s.imark, ITo: s.marks[i].ipos}
	if g.To <= max(g.From, s.gap.To) {
		return
	}
	if err := s.dropLocked(g); err != nil {
		s.noPunch = errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS)
		if !s.noPunch {
			s.err = err
		}
		return
	}
	s.marks = s.marks[i:]
}

func (s *spool) dropLocked(g gap) error {
	if s.gap.To == 0 && punch(s.out, s.total+blockSize*2, s.total+blockSize*3) != nil {
		return unix.EOPNOTSUPP
	}
	f, err := os.OpenFile(filepath.Join(s.dir, nameGap), os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(g.encode(), 0)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	from := max(s.gap.To, g.From)
	s.gap = g
	if err := punch(s.out, from, g.To); err != nil {
		return err
	}
	if s.idx != nil {
		return punch(s.idx, g.IFrom, g.ITo)
	}
	return nil
}

// punch gives the space of the whole blocks in [from, to) back.
func punch(f *os.File, from, to int64) error {
	from, to = roundUp(from), to/blockSize*blockSize
	if to <= from {
		return nil
	}
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from)
}

func (s *spool) heldLocked() (minAcked int64, ok bool) {
	if s.open {
		return 0, false
	}
	minAcked = math.MaxInt64
	for h := range s.holds {
		minAcked = min(minAcked, h.acked)
	}
	return minAcked, len(s.holds) > 0
}

// waitRoom waits until the attached readers leave room. wait is called when it has
// to wait, and again when that is over.
func (s *spool) waitRoom(blocked func(bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	waited := false
	for {
		m, ok := s.heldLocked()
		if !ok || s.total-m < window {
			break
		}
		if !waited {
			waited = true
			blocked(true)
		}
		s.changed.Wait()
	}
	if waited {
		blocked(false)
	}
}

// addHold makes a reader's hold known.
func (s *spool) addHold(from int64) *hold {
	h := &hold{acked: from}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds[h] = struct{}{}
	return h
}

// ack raises a hold's offset and returns how much output there is.
func (s *spool) ack(h *hold, off int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.acked = max(h.acked, min(off, s.total))
	s.changed.Broadcast()
	return s.total
}

// drop ends a hold and returns how many are left.
func (s *spool) drop(h *hold) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.holds, h)
	s.changed.Broadcast()
	return len(s.holds)
}

// ignoreHolds lets output pass without waiting for readers, for the end of a run
// that is being stopped. What is not acknowledged is still not dropped by then, since
// a pipe holds little.
func (s *spool) ignoreHolds() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = true
	s.changed.Broadcast()
}

// finish makes the output durable and puts the counts into e.
func (s *spool) finish(e *shell.Exit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range []*os.File{s.idx, s.out} {
		if f == nil {
			continue
		}
		err := unix.Fdatasync(int(f.Fd()))
		if s.err == nil && err != nil {
			s.err = err
		}
	}
	e.TotalBytes, e.StdoutBytes, e.StderrBytes = s.total, s.per[shell.Stdout], s.per[shell.Stderr]
	e.OmittedBytes = max(0, s.gap.To-s.gap.From) + s.total - s.kept
	if s.err != nil {
		e.SpoolError = cut(s.err.Error())
	}
}

// cut bounds a text that goes into a record of limited size.
func cut(s string) string {
	const limit = 500
	if len(s) > limit {
		return s[:limit] + "..."
	}
	return s
}

// readSpool reads kept output at the logical offset from. total is the end of the
// stream if it is known, else -1. It looks at the gap after the data, since the gap
// is written before data goes.
func readSpool(dir string, split bool, from int64, maxBytes int, total int64) (c shell.Chunk, err error) {
	c.Next = from
	out, err := os.OpenFile(filepath.Join(dir, nameOut), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if isNotExist(err) {
		return omitTail(c, total), nil
	}
	if err != nil {
		return c, err
	}
	defer out.Close()
	st, err := out.Stat()
	if err != nil {
		return c, err
	}
	size := st.Size()
	if total >= 0 {
		size = min(size, total)
	}
	if c.Next >= size {
		return omitTail(c, total), nil
	}
	g, err := readGap(dir)
	if err != nil {
		return c, err
	}
	if c.Next >= g.From && c.Next < g.To {
		c.Omitted = append(c.Omitted, shell.Range{From: c.Next, To: g.To})
		c.Next = g.To
	}
	end := size
	if c.Next < g.From {
		end = min(end, g.From)
	}
	buf := make([]byte, min(int64(maxBytes), end-c.Next))
	n, err := out.ReadAt(buf, c.Next)
	if err != nil && !errors.Is(err, io.EOF) {
		return c, err
	}
	buf = buf[:n]
	frames := []shell.Frame{{Off: c.Next, Data: buf}}
	if split {
		if frames, err = splitFrames(dir, g, c.Next, buf); err != nil {
			return c, err
		}
	}
	again, err := readGap(dir)
	if err != nil {
		return c, err
	}
	if again.To > c.Next && again.From < c.Next+int64(n) && again.To != g.To {
		return readSpool(dir, split, from, maxBytes, total) // it went while we read
	}
	c.Frames, c.Next = frames, c.Next+int64(n)
	return c, nil
}

// omitTail reports what was counted but not kept at the end.
func omitTail(c shell.Chunk, total int64) shell.Chunk {
	if total > c.Next {
		c.Omitted = append(c.Omitted, shell.Range{From: c.Next, To: total})
		c.Next = total
	}
	return c
}

func readGap(dir string) (g gap, err error) {
	for range 100 {
		var b []byte
		b, err = readFile(filepath.Join(dir, nameGap))
		if isNotExist(err) {
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
func splitFrames(dir string, g gap, off int64, data []byte) ([]shell.Frame, error) {
	f, err := os.OpenFile(filepath.Join(dir, nameIndex), os.O_RDONLY|unix.O_NOFOLLOW, 0)
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
