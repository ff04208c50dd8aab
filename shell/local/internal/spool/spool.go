// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package spool keeps the output of a run: bounded, counted in full, and read by
// offset, also while it is written.
package spool

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local/internal/files"
)

// The spool of a run is the file "out", whose file offsets are the logical offsets.
// With Split, "out.idx" says where the stream changes: 8 bytes each, the offset
// shifted left by two and the stream. When the middle is dropped, "out.gap" says so
// before the bytes go, so that nobody takes a hole for output.

// Window is how many unacknowledged bytes an attached reader may have before it holds
// the command back.
const Window = 4 << 20

// Names of the files.
const (
	nameOut   = "out"
	nameIndex = "out.idx"
	nameGap   = "out.gap"
)

const (
	blockSize = 4096
	gapSize   = 128 // of the file
	gapSum    = 48  // where its checksum is
	maxStep   = int64(1 << 20)
)

// gap is what was dropped: logical offsets, and the part of the index that went
// with them. Where the file system cannot give the space of a part of a file back,
// output from Seg on is in the files "out.0", "out.1", ... of SegSize bytes each, with
// an index each, and whole files are dropped.
type gap struct {
	From, To, IFrom, ITo int64
	Seg, SegSize         int64
}

func (g *gap) numbers() []*int64 {
	return []*int64{&g.From, &g.To, &g.IFrom, &g.ITo, &g.Seg, &g.SegSize}
}

// file returns the name suffix of the file that holds off, and its first offset.
func (g gap) file(off int64) (suffix string, base int64) {
	if g.Seg == 0 || off < g.Seg {
		return "", 0
	}
	k := (off - g.Seg) / g.SegSize
	return "." + strconv.FormatInt(k, 10), g.Seg + k*g.SegSize
}

func (g gap) encode() []byte {
	b := make([]byte, gapSize)
	for i, v := range g.numbers() {
		binary.LittleEndian.PutUint64(b[8*i:], uint64(*v))
	}
	binary.LittleEndian.PutUint32(b[gapSum:], crc32.Checksum(b[:gapSum], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func decodeGap(b []byte) (g gap, err error) {
	if len(b) < gapSize || binary.LittleEndian.Uint32(b[gapSum:]) != crc32.Checksum(b[:gapSum], crc32.MakeTable(crc32.Castagnoli)) {
		return g, files.ErrCorrupt
	}
	for i, p := range g.numbers() {
		*p = int64(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return g, nil
}

// mark is a place where output may be cut: from off on, the index begins at ipos.
type mark struct{ off, ipos int64 }

// Spool keeps output, within its bounds, and counts all of it. It never blocks its
// writer for want of disk.
//
// Concurrency: all fields are under mu; changed is signalled when output or holds
// change.
type Spool struct {
	dir              string
	head, tail, step int64
	split            bool

	mu      sync.Mutex
	changed *sync.Cond
	out     *os.File
	base    int64 // offset of out's first byte
	idx     *os.File
	ipos    int64
	last    shell.Stream // stream of the last index entry
	marks   []mark
	imark   int64 // index position at the end of the head, or -1
	gap     gap
	noPunch bool // drop whole files instead
	total   int64
	kept    int64 // bytes written before an error
	per     [3]int64
	err     error
	holds   map[*Hold]struct{}
	open    bool // output does not wait for holds
	onWrite func(total int64)
}

// Hold is one attached reader's acknowledged offset.
type Hold struct{ acked int64 }

// New returns the spool of the run in dir. It makes no file yet.
func New(dir string, o shell.Output, split bool) *Spool {
	s := &Spool{
		dir: dir, head: roundUp(o.SpoolHead), tail: o.SpoolTail, split: split, imark: -1,
		last: math.MaxUint8, holds: map[*Hold]struct{}{},
	}
	s.step = min(maxStep, max(64<<10, o.SpoolTail/16))
	s.changed = sync.NewCond(&s.mu)
	return s
}

func roundUp(n int64) int64 { return (n + blockSize - 1) / blockSize * blockSize }

// Write keeps p as the next output. Errors of the disk end the keeping, not the
// counting.
func (s *Spool) Write(st shell.Stream, p []byte) (total int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		if s.err = s.keepLocked(st, p); s.err == nil {
			s.kept += int64(len(p))
		} else {
			s.kept = max(s.kept, End(s.dir)) // a part of p, perhaps
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

// keepLocked writes p, cut where a new file begins.
func (s *Spool) keepLocked(st shell.Stream, p []byte) error {
	for off := s.total; len(p) > 0; {
		n := int64(len(p))
		if s.gap.Seg > 0 {
			end := s.gap.Seg
			if _, base := s.gap.file(off); off >= end {
				end = base + s.gap.SegSize
			}
			n = min(n, end-off)
		}
		if err := s.putLocked(st, off, p[:n]); err != nil {
			return err
		}
		off, p = off+n, p[n:]
	}
	return nil
}

func (s *Spool) putLocked(st shell.Stream, off int64, p []byte) error {
	suffix, base := s.gap.file(off)
	if s.out == nil || base != s.base {
		if err := s.nextFileLocked(suffix, base); err != nil {
			return err
		}
	}
	if base == 0 && (len(s.marks) == 0 || off-s.marks[len(s.marks)-1].off >= s.step) {
		if s.imark < 0 && off >= s.head {
			s.imark = s.ipos
		}
		s.marks = append(s.marks, mark{off, s.ipos})
		s.last = math.MaxUint8 // a place to cut begins with an index entry
	}
	if s.split && st != s.last {
		if err := s.indexLocked(st, off, suffix); err != nil {
			return err
		}
	}
	_, err := s.out.WriteAt(p, off-base)
	return err
}

func (s *Spool) nextFileLocked(suffix string, base int64) error {
	if err := s.closeLocked(); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(s.dir, nameOut+suffix), os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	s.out, s.base, s.ipos, s.last = f, base, 0, math.MaxUint8
	return nil
}

// closeLocked makes the current files durable and closes them.
func (s *Spool) closeLocked() (err error) {
	for _, f := range []**os.File{&s.idx, &s.out} {
		if *f == nil {
			continue
		}
		if serr := unix.Fdatasync(int((*f).Fd())); err == nil && serr != nil {
			err = serr
		}
		if cerr := (*f).Close(); err == nil {
			err = cerr
		}
		*f = nil
	}
	return err
}

func (s *Spool) indexLocked(st shell.Stream, off int64, suffix string) error {
	if s.idx == nil {
		f, err := os.OpenFile(filepath.Join(s.dir, nameIndex+suffix), os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return err
		}
		s.idx = f
	}
	var e [8]byte
	binary.LittleEndian.PutUint64(e[:], uint64(off)<<2|uint64(st))
	if _, err := s.idx.WriteAt(e[:], s.ipos); err != nil {
		return err
	}
	s.ipos += 8
	s.last = st
	return nil
}

// trimLocked drops what lies between head and tail, as far as no reader holds it.
func (s *Spool) trimLocked() {
	to := s.total - s.tail
	if m, ok := s.heldLocked(); ok {
		to = min(to, m)
	}
	if s.noPunch {
		s.err = s.dropFilesLocked(to)
		return
	}
	i := -1
	for i+1 < len(s.marks) && s.marks[i+1].off <= to {
		i++
	}
	if i < 0 || s.imark < 0 {
		return
	}
	g := gap{From: s.head, To: s.marks[i].off, IFrom: s.imark, ITo: s.marks[i].ipos}
	if g.To <= max(g.From, s.gap.To) {
		return
	}
	if s.gap.To == 0 && punch(s.out, s.total+blockSize*2, s.total+blockSize*3) != nil {
		s.noPunch = true
		s.err = s.dropFilesLocked(to)
		return
	}
	if s.err = s.dropLocked(g); s.err == nil {
		s.marks = s.marks[i:]
	}
}

// dropLocked drops a part of the one file.
func (s *Spool) dropLocked(g gap) error {
	from := max(s.gap.To, g.From)
	if err := s.writeGapLocked(g); err != nil {
		return err
	}
	if err := punch(s.out, from, g.To); err != nil {
		return err
	}
	if s.idx != nil {
		return punch(s.idx, g.IFrom, g.ITo)
	}
	return nil
}

func (s *Spool) writeGapLocked(g gap) error {
	f, err := os.OpenFile(filepath.Join(s.dir, nameGap), os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(g.encode(), 0)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		s.gap = g
	}
	return err
}

// dropFilesLocked drops the files that end before to. The first time, what there is
// becomes the head, and files begin here.
func (s *Spool) dropFilesLocked(to int64) error {
	if s.gap.Seg == 0 {
		if s.total < s.head+s.step || to <= 0 {
			return nil
		}
		return s.writeGapLocked(gap{From: s.total, To: s.total, Seg: s.total, SegSize: max(64<<10, s.tail/4)})
	}
	for s.gap.To+s.gap.SegSize <= to {
		g := s.gap
		suffix, _ := g.file(g.To)
		g.To += g.SegSize
		if err := s.writeGapLocked(g); err != nil {
			return err
		}
		for _, name := range []string{nameOut, nameIndex} {
			if err := os.Remove(filepath.Join(s.dir, name+suffix)); err != nil && !files.NotThere(err) {
				return err
			}
		}
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

func (s *Spool) heldLocked() (minAcked int64, ok bool) {
	minAcked = math.MaxInt64
	for h := range s.holds {
		minAcked = min(minAcked, h.acked)
	}
	return minAcked, len(s.holds) > 0
}

// WaitRoom waits until the attached readers leave room. wait is called when it has
// to wait, and again when that is over.
func (s *Spool) WaitRoom(blocked func(bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	waited := false
	for {
		m, ok := s.heldLocked()
		if !ok || s.open || s.total-m < Window {
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

// OnWrite has fn called after every write; it must not call the spool.
func (s *Spool) OnWrite(fn func(total int64)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onWrite = fn
}

// AddHold makes a reader's hold known.
func (s *Spool) AddHold(from int64) *Hold {
	h := &Hold{acked: from}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds[h] = struct{}{}
	return h
}

// Ack raises a hold's offset and returns how much output there is.
func (s *Spool) Ack(h *Hold, off int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.acked = max(h.acked, min(off, s.total))
	s.changed.Broadcast()
	return s.total
}

// Drop ends a hold and returns how many are left.
func (s *Spool) Drop(h *Hold) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.holds, h)
	s.changed.Broadcast()
	return len(s.holds)
}

// IgnoreHolds lets output pass without waiting for readers, for the end of a run
// that is being stopped. What is not acknowledged is not dropped all the same.
func (s *Spool) IgnoreHolds() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = true
	s.changed.Broadcast()
}

// Finish makes the output durable and puts the counts into e.
func (s *Spool) Finish(e *shell.Exit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.closeLocked(); s.err == nil {
		s.err = err
	}
	e.TotalBytes, e.StdoutBytes, e.StderrBytes = s.total, s.per[shell.Stdout], s.per[shell.Stderr]
	e.OmittedBytes = max(0, s.gap.To-s.gap.From) + s.total - s.kept
	if s.err != nil {
		e.SpoolError = files.Cut(s.err.Error())
	}
}
