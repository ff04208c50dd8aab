// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"sync"

	"github.com/outlive-dev/outlive/shell"
)

// memory is the sink of a plain shell: the head and the tail of the output.
//
// Concurrency: all fields are under mu.
type memory struct {
	headMax, tailMax int64

	mu     sync.Mutex
	frames []shell.Frame // in order; those between head and tail are dropped
	total  int64
	per    [3]int64
	gap    shell.Range
	notify chan struct{}
}

func newMemory(o shell.Output) *memory {
	return &memory{headMax: o.SpoolHead, tailMax: o.SpoolTail, notify: make(chan struct{})}
}

func (m *memory) Write(st shell.Stream, p []byte) int64 {
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
func (m *memory) trimLocked() {
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

func (*memory) WaitRoom(func(bool)) {}

func (*memory) IgnoreHolds() {}

// more returns a channel that is closed at the next write.
func (m *memory) more() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.notify
}

// read returns what is kept from the offset at on.
func (m *memory) read(at int64) (p shell.Part, next int64) {
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

func (m *memory) finish(e *shell.Exit) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.TotalBytes, e.StdoutBytes, e.StderrBytes = m.total, m.per[shell.Stdout], m.per[shell.Stderr]
	e.OmittedBytes = m.gap.Len()
}
