// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package remote_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
