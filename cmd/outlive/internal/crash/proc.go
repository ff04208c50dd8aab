// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/outlive-dev/outlive/shell/local"
)

// sink gathers what a process prints and can be read meanwhile.
type sink struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *sink) bytes() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.b.Bytes())
}

// proc is one process of the binary under test.
//
// Concurrency: code and signal are read after done; sent is under mu.
type proc struct {
	args   []string
	cmd    *exec.Cmd
	out    sink
	err    sink
	done   chan struct{}
	code   int            // exit code, -1 after a signal
	signal syscall.Signal // that ended it

	mu   sync.Mutex
	sent bool // we killed it
}

// spawn starts the binary. point, when set, is the failpoint of the process.
func (w *world) spawn(point string, env []string, args ...string) (*proc, error) {
	p := &proc{args: args, cmd: exec.Command(w.bin, args...), done: make(chan struct{})}
	p.cmd.Env = append(append([]string{}, w.env...), env...)
	if point != "" {
		p.cmd.Env = append(p.cmd.Env, local.FailpointEnv+"="+point)
	}
	p.cmd.Dir = w.dir
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.WaitDelay = 5 * time.Second
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	w.group.Go("process", func(context.Context) {
		defer close(p.done)
		err := p.cmd.Wait()
		var x *exec.ExitError
		switch {
		case p.cmd.ProcessState == nil:
			p.code = -1
		default:
			p.code = p.cmd.ProcessState.ExitCode()
		}
		if errors.As(err, &x) {
			if ws, ok := x.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
				p.signal = ws.Signal()
			}
		}
	})
	return p, nil
}

// finish runs the binary to its end, for at most the given time.
func (w *world) finish(ctx context.Context, limit time.Duration, env []string, args ...string) *proc {
	p, err := w.spawn("", env, args...)
	if err != nil {
		p = &proc{args: args, code: -1, done: make(chan struct{})}
		_, _ = p.err.Write([]byte(err.Error()))
		close(p.done)
		return p
	}
	if !p.wait(ctx, limit) {
		p.kill()
		<-p.done
		_, _ = p.err.Write([]byte("(killed: it did not end within " + limit.String() + ")"))
	}
	return p
}

// wait waits for the process's end and reports whether it came in time.
func (p *proc) wait(ctx context.Context, limit time.Duration) bool {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-p.done:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}

func (p *proc) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *proc) pid() int { return p.cmd.Process.Pid }

// kill ends the process as a power cut would.
func (p *proc) kill() {
	p.mu.Lock()
	p.sent = true
	p.mu.Unlock()
	_ = p.cmd.Process.Kill()
}

func (p *proc) pause()  { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *proc) resume() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

// dead reports whether SIGKILL ended it, by whoever; call it after done.
func (p *proc) dead() bool { return p.signal == syscall.SIGKILL }

// byItself reports whether a failpoint killed it.
func (p *proc) byItself() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead() && !p.sent
}

func (p *proc) String() string { return "outlive " + strings.Join(p.args, " ") }

// entry is a line of the process table.
type entry struct {
	pid, parent int
	state       byte
	run         string // the cookie it carries
	shim        bool
}

// processes lists the processes that carry a run's cookie.
func processes() []entry {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	var list []entry
	for _, dir := range dirs {
		env, err := os.ReadFile(dir + "/environ")
		if err != nil {
			continue
		}
		i := bytes.Index(append([]byte{0}, env...), []byte("\x00"+cookie))
		if i < 0 {
			continue
		}
		e := entry{}
		e.run, _, _ = strings.Cut(string(env[i+len(cookie):]), "\x00")
		cmd, _ := os.ReadFile(dir + "/cmdline")
		e.shim = bytes.Contains(cmd, []byte("\x00__shim\x00"))
		e.pid, _ = strconv.Atoi(filepath.Base(dir))
		e.state, e.parent = stat(e.pid)
		if e.state != 0 && e.state != 'Z' {
			list = append(list, e)
		}
	}
	return list
}

// stat returns a process's state letter, 0 when it is gone, and its parent.
func stat(pid int) (state byte, parent int) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0
	}
	i := bytes.LastIndexByte(b, ')')
	f := strings.Fields(string(b[i+1:]))
	if len(f) < 2 {
		return 0, 0
	}
	parent, _ = strconv.Atoi(f[1])
	return f[0][0], parent
}

func stopped(pid int) bool {
	s, _ := stat(pid)
	return s == 'T'
}

// poll looks every few milliseconds until ok, and reports whether it came in time.
func poll(ctx context.Context, limit time.Duration, ok func() bool) bool {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	pause := 2 * time.Millisecond
	next := time.NewTimer(pause)
	defer next.Stop()
	for !ok() {
		select {
		case <-next.C:
			pause = min(pause*3/2, 20*time.Millisecond) // a look at all processes is not cheap
			next.Reset(pause)
		case <-deadline.C:
			return ok()
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// sleep waits unless ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
