// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package keep holds the output of a command that nobody keeps on a disk: its head and
// its tail, counted in full, followed by any number of readers.
package keep

import (
	"sync"

	"github.com/outlive-dev/outlive/shell"
)

// Output is the head and the tail of a command's output.
//
// Concurrency: all fields are under mu.
type Output struct {
	headMax, tailMax int64

	mu     sync.Mutex
	frames []shell.Frame // in order; those between head and tail are dropped
	total  int64
	per    [3]int64
	gap    shell.Range
	notify chan struct{}
}

// New returns one that is empty.
func New(o shell.Output) *Output {
	return &Output{headMax: o.SpoolHead, tailMax: o.SpoolTail, notify: make(chan struct{})}
}

// Write takes output and returns how much there has been. It keeps no reference to p.
func (m *Output) Write(st shell.Stream, p []byte) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.per[st] += int64(len(p))
	for len(p) > 0 {
		n := len(p)
		if m.total < m.headMax {
			n = int(min(int64(n), m.headMax-m.total))
		}
		m.frames = append(m.frames, shell.Frame{Stream: st, Off: m.total, Data: append([]byte(nil), p[:n]...)})
		m.total += int64(n)
		p = p[n:]
	}
	m.trimLocked()
	close(m.notify)
	m.notify = make(chan struct{})
	return m.total
}

// trimLocked drops whole frames after the head while more than the tail is left.
func (m *Output) trimLocked() {
	first := 0
	for first < len(m.frames) && m.frames[first].Off < m.headMax {
		first++
	}
	i := first
	for i < len(m.frames) && m.total-m.frames[i].Off-int64(len(m.frames[i].Data)) >= m.tailMax {
		i++
	}
	if i == first {
		return
	}
	m.gap = shell.Range{From: m.headMax, To: m.frames[i-1].Off + int64(len(m.frames[i-1].Data))}
	m.frames = append(m.frames[:first], m.frames[i:]...)
}

// more returns a channel that is closed at the next write.
func (m *Output) more() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.notify
}

// read returns what is kept from the offset at on.
func (m *Output) read(at int64) (p shell.Part, next int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.frames {
		end := f.Off + int64(len(f.Data))
		if end <= at {
			continue
		}
		if f.Off > at {
			p.Omitted = append(p.Omitted, shell.Range{From: at, To: f.Off})
			at = f.Off
		}
		p.Frames = append(p.Frames, shell.Frame{Stream: f.Stream, Off: at, Data: f.Data[at-f.Off:]})
		at = end
	}
	return p, at
}

// Follow passes on what is kept, and what comes, until done is closed and everything was
// passed on. It returns false when yield did.
func (m *Output) Follow(done <-chan struct{}, yield func(shell.Part) bool) bool {
	for at, ended := int64(0), false; ; {
		more := m.more()
		part, next := m.read(at)
		if next > at && !yield(part) {
			return false
		}
		switch {
		case next > at:
			at = next
			continue
		case ended:
			return true
		}
		select {
		case <-more:
		case <-done:
			ended = true
		}
	}
}

// Response returns what is kept, with the exit of the command.
func (m *Output) Response(e shell.Exit) *shell.Response {
	r := &shell.Response{Exit: e}
	part, _ := m.read(0)
	r.Omitted = part.Omitted
	for _, f := range part.Frames {
		r.Output = append(r.Output, f.Data...)
		switch f.Stream {
		case shell.Stdout:
			r.Stdout = append(r.Stdout, f.Data...)
		case shell.Stderr:
			r.Stderr = append(r.Stderr, f.Data...)
		case shell.Merged: // in Output alone
		}
	}
	return r
}

// Count fills in the exit's numbers.
func (m *Output) Count(e *shell.Exit) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.TotalBytes, e.StdoutBytes, e.StderrBytes = m.total, m.per[shell.Stdout], m.per[shell.Stderr]
	e.OmittedBytes = m.gap.Len()
}
