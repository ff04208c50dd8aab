// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package rawlog is the yardstick: the fastest durable log that a program can
// write by hand. One writer gathers what waits, writes it at once, syncs once and
// answers everybody; the file is grown ahead. It reads nothing back, has no index
// and no transaction, so a store can only come near to it.
package rawlog

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/lifecycle"
)

// grow is how far the file is grown ahead, in bytes.
const grow = 64 << 20

// Log is an append-only file. Safe for concurrent use.
//
// Concurrency: mu guards wait and closed; the writer's goroutine owns the rest.
type Log struct {
	f     *os.File
	group lifecycle.Group

	mu     sync.Mutex
	wait   []*record
	bell   chan struct{} // cap 1: a doorbell
	closed bool

	at, size int64
	buf      []byte

	syncs, records atomic.Int64
}

// Stats returns how often the log was synced, and how many records that made
// durable.
func (l *Log) Stats() (syncs, records int64) { return l.syncs.Load(), l.records.Load() }

type record struct {
	data []byte
	done chan error
}

// Create makes a log at path, replacing what is there.
func Create(path string) (*Log, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	l := &Log{f: f, bell: make(chan struct{}, 1)}
	if err := l.extend(); err != nil {
		_ = f.Close()
		return nil, err
	}
	l.group.Go("raw log writer", l.loop)
	return l, nil
}

// Append writes a record and returns when it is durable.
func (l *Log) Append(data []byte) error {
	r := &record{data: data, done: make(chan error, 1)}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return fault.New(fault.Closed, "log is closed")
	}
	l.wait = append(l.wait, r)
	l.mu.Unlock()
	select {
	case l.bell <- struct{}{}:
	default:
	}
	return <-r.done
}

// Close writes what waits and closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	_ = l.group.Stop(context.Background()) //nolint:forbidigo // the writer ends once it is told to
	return l.f.Close()
}

func (l *Log) loop(ctx context.Context) {
	var batch []*record
	for {
		select {
		case <-l.bell:
		case <-ctx.Done():
		}
		runtime.Gosched() // those just answered may come back first
		l.mu.Lock()
		batch, l.wait = l.wait, batch[:0]
		l.mu.Unlock()
		if len(batch) == 0 && ctx.Err() != nil {
			return
		}
		if len(batch) == 0 {
			continue
		}
		err := l.write(batch)
		for _, r := range batch {
			r.done <- err
		}
		clear(batch)
	}
}

func (l *Log) write(batch []*record) error {
	l.buf = l.buf[:0]
	for _, r := range batch {
		l.buf = binary.LittleEndian.AppendUint32(l.buf, uint32(len(r.data)))
		l.buf = binary.LittleEndian.AppendUint32(l.buf, crc32.ChecksumIEEE(r.data))
		l.buf = append(l.buf, r.data...)
	}
	for l.at+int64(len(l.buf)) > l.size {
		if err := l.extend(); err != nil {
			return err
		}
	}
	if _, err := l.f.WriteAt(l.buf, l.at); err != nil {
		return err
	}
	l.at += int64(len(l.buf))
	l.syncs.Add(1)
	l.records.Add(int64(len(batch)))
	return datasync(l.f)
}

// extend writes zeros, so that later writes change no metadata.
func (l *Log) extend() error {
	zeros := make([]byte, 1<<20)
	for end := l.size + grow; l.size < end; l.size += int64(len(zeros)) {
		if _, err := l.f.WriteAt(zeros, l.size); err != nil {
			return err
		}
	}
	return l.f.Sync()
}
