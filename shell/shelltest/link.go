// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package shelltest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Link is a proxy between a client and a server that can delay and cut.
//
// Concurrency: safe for concurrent use; what is below mu is under it.
type Link struct {
	l       net.Listener
	to      string
	latency time.Duration

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	down  bool
	wg    sync.WaitGroup
}

// NewLink returns a link to a server, which adds the latency to every packet in each
// direction. The test's cleanup ends it.
func NewLink(t *testing.T, to string, latency time.Duration) *Link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Link{l: l, to: to, latency: latency, conns: map[net.Conn]struct{}{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// Addr returns where clients connect to.
func (p *Link) Addr() string { return p.l.Addr().String() }

func (p *Link) accept() {
	for {
		a, err := p.l.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.join(a) })
	}
}

func (p *Link) join(a net.Conn) {
	defer a.Close()
	b, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer b.Close()
	p.mu.Lock()
	if p.down {
		p.mu.Unlock()
		return
	}
	p.conns[a], p.conns[b] = struct{}{}, struct{}{}
	p.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { p.pass(a, b) })
	wg.Go(func() { p.pass(b, a) })
	wg.Wait()
	p.mu.Lock()
	delete(p.conns, a)
	delete(p.conns, b)
	p.mu.Unlock()
}

// pass copies with the latency, in order, and passes a half-close on.
func (p *Link) pass(from, to net.Conn) {
	type packet struct {
		data []byte
		due  time.Time
	}
	ch := make(chan packet, 1024)
	var wg sync.WaitGroup
	wg.Go(func() {
		for q := range ch {
			if d := time.Until(q.due); d > 0 {
				<-time.After(d)
			}
			if _, err := to.Write(q.data); err != nil {
				from.Close()
			}
		}
		if t, ok := to.(*net.TCPConn); ok {
			_ = t.CloseWrite()
		}
	})
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			ch <- packet{append([]byte(nil), buf[:n]...), time.Now().Add(p.latency)}
		}
		if err != nil {
			break
		}
	}
	close(ch)
	wg.Wait()
}

// Cut breaks every connection.
func (p *Link) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// Down breaks every connection and lets no other through.
func (p *Link) Down() {
	p.mu.Lock()
	p.down = true
	p.mu.Unlock()
	p.Cut()
}

// HalfClose ends the direction to the client of every connection and leaves the other
// open, as some proxies do.
func (p *Link) HalfClose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.CloseWrite()
		}
	}
}
