// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package remote_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local"
	"github.com/outlive-dev/outlive/shell/remote"
)

// sandboxExe is supervisor, server and client in processes of their own.
var sandboxExe string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "outlive-shell-remote-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	sandboxExe = filepath.Join(dir, "sandbox")
	if out, err := exec.Command("go", "build", "-o", sandboxExe, "./testdata/sandbox").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s\nbuild the sandbox: %v\n", out, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

const (
	token    = "test-token"
	patience = 30 * time.Second
)

func fence1() shell.Fence { return shell.Fence{Generation: 1, Attempt: 1} }

func openRuns(t *testing.T, dir string) *local.Recoverable {
	t.Helper()
	r, err := local.Open(dir, &local.Options{Exe: sandboxExe})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		settle(t, dir)
	})
	return r
}

// settle waits for the supervisors of the runs in a directory, which write into it.
func settle(t *testing.T, runs string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		left := 0
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, f := range files {
			if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), "__shim\x00"+runs+"/") {
				left++
			}
		}
		if left == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%d supervisors are left", left)
			return
		}
	}
}

// serve puts a backend behind HTTP on the loopback and returns its address.
func serve(t *testing.T, b shell.Recoverable, o remote.ServerOptions) string {
	t.Helper()
	if o.Token == "" {
		o.Token = token
	}
	s := remote.NewServer(b, &o)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Errorf("Stop = %v", err)
		}
	})
	return h.Listener.Addr().String()
}

func dial(t *testing.T, addr string, o remote.Options) *remote.Client {
	t.Helper()
	if o.Token == "" {
		o.Token = token
	}
	c, err := remote.Dial("http://"+addr, &o)
	if err != nil {
		t.Fatalf("Dial(%s) = %v", addr, err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return c
}

// process is a server in a process of its own.
type process struct {
	addr string
	cmd  *exec.Cmd
}

// serveElsewhere starts one at the address, "" for any.
func serveElsewhere(t *testing.T, runs, state, addr, lease string, env ...string) *process {
	t.Helper()
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	c := exec.Command(sandboxExe, "serve", runs, state, addr, lease)
	c.Env = append(append(os.Environ(), remote.TokenEnv+"="+token), env...)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: c}
	t.Cleanup(func() {
		p.kill()
		settle(t, runs)
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server said %q, %v", line, err)
	}
	p.addr = strings.TrimSpace(line)
	return p
}

// kill kills the process and reports whether it had died before.
func (p *process) kill() (died bool) {
	died = errors.Is(p.cmd.Process.Kill(), os.ErrProcessDone)
	err := p.cmd.Wait()
	var x *exec.ExitError
	return died || errors.As(err, &x) && p.cmd.ProcessState.Exited()
}

// link is a proxy between client and server that can delay and cut.
type link struct {
	l       net.Listener
	to      string
	latency time.Duration

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	down  bool
	cuts  int
	wg    sync.WaitGroup
}

func newLink(t *testing.T, to string, latency time.Duration) *link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &link{l: l, to: to, latency: latency, conns: map[net.Conn]struct{}{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.Cut()
		p.wg.Wait()
	})
	return p
}

func (p *link) addr() string { return p.l.Addr().String() }

func (p *link) accept() {
	for {
		a, err := p.l.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.join(a) })
	}
}

func (p *link) join(a net.Conn) {
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
func (p *link) pass(from, to net.Conn) {
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
func (p *link) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cuts++
	for c := range p.conns {
		c.Close()
	}
}

// Down breaks every connection and lets no other through.
func (p *link) Down() {
	p.mu.Lock()
	p.down = true
	p.mu.Unlock()
	p.Cut()
}

// halfClose ends the direction to the client of every connection and leaves the other
// open, as some proxies do.
func (p *link) halfClose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.CloseWrite()
		}
	}
}
