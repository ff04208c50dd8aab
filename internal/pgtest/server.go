// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package pgtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/outlive-dev/outlive/internal/lifecycle"
)

// ready is what a server says when it takes connections.
const ready = "database system is ready to accept connections"

// server is one running postmaster.
//
// Concurrency: the goroutine that waits for it owns cmd from the start on; ended is
// closed when it has ended.
type server struct {
	cmd   *exec.Cmd
	ended chan struct{}
	group lifecycle.Group
}

// Run starts the server of a cluster that was stopped, and returns when it takes
// connections.
func (c *Cluster) Run() error {
	s := &server{ended: make(chan struct{})}
	s.cmd = exec.Command(filepath.Join(c.bin, "postgres"), append([]string{"-c", "log_min_messages=log"}, c.opts...)...) //nolint:noctx // it is stopped by name
	if err := as(s.cmd); err != nil {
		return err
	}
	log, err := s.cmd.StderrPipe()
	if err != nil {
		return err
	}
	started := make(chan error, 1) // one answer
	s.group.Go("postgres", func(context.Context) {
		// The kernel ends the server with the thread that started it.
		runtime.LockOSThread()
		defer close(s.ended)
		if err := s.cmd.Start(); err != nil {
			started <- err
			return
		}
		s.heed(log, started)
		_ = s.cmd.Wait() // how it ended is of no interest
	})
	c.server = s
	timeout := time.NewTimer(time.Minute)
	defer timeout.Stop()
	select {
	case err := <-started:
		return err
	case <-timeout.C:
		return fmt.Errorf("postgres did not start within a minute")
	}
}

// heed reads the log to its end and answers when the server is ready or has failed.
func (s *server) heed(log io.Reader, started chan<- error) {
	var said []string
	answered := false
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if answered {
			continue
		}
		said = append(said, lines.Text())
		if strings.Contains(lines.Text(), ready) {
			started <- nil
			answered = true
		}
	}
	if !answered {
		started <- fmt.Errorf("postgres ended while it started:\n%s", strings.Join(said, "\n"))
	}
}

// Kill kills the server as a crash of its host would end it: all processes at once, no
// last words. It returns when they are gone.
func (c *Cluster) Kill() error { return c.signal(os.Kill) }

// Stop makes the server stop at once, without a checkpoint, telling its clients.
func (c *Cluster) Stop() error { return c.signal(quit) }

// Shutdown makes the server stop in order, ending the connections of its clients.
func (c *Cluster) Shutdown() error { return c.signal(os.Interrupt) }

func (c *Cluster) signal(sig os.Signal) error {
	s := c.server
	if s == nil || s.cmd.Process == nil {
		return nil
	}
	children := childrenOf(s.cmd.Process.Pid)
	if err := s.cmd.Process.Signal(sig); err != nil {
		return err
	}
	if sig == os.Kill {
		// They would see that their parent is gone, but maybe only after another commit.
		for _, pid := range children {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
		}
	}
	<-s.ended
	c.server = nil
	return nil
}

func (c *Cluster) close() {
	if c.bin == "" {
		return
	}
	_ = c.signal(quit) // it may be stopped already
	_ = os.RemoveAll(c.dir)
}
