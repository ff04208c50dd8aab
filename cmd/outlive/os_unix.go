// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/cmd/outlive/internal/host"
)

// hintStdin says once that a command without -i reads nothing, if there is something
// to read.
func (a *app) hintStdin() {
	fi, err := a.in.Stat()
	if err != nil {
		return
	}
	waiting := false
	if fi.Mode().IsRegular() {
		at, err := a.in.Seek(0, io.SeekCurrent)
		waiting = err == nil && at < fi.Size()
	}
	if fi.Mode()&os.ModeNamedPipe != 0 {
		fds := []unix.PollFd{{Fd: int32(a.in.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		waiting = err == nil && n > 0 && fds[0].Revents&unix.POLLIN != 0
	}
	if waiting && !a.quiet {
		fmt.Fprintln(a.err, "hint: -i passes standard input to the command; now it is not read")
	}
}

// heedStop makes Ctrl-Z stop only the watching: the store's write lock and the
// command's output are let go before the process stops.
func (a *app) heedStop() {
	stop, cont := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTSTP)
	a.group.Go("stop", func(ctx context.Context) {
		for {
			select {
			case <-ctx.Done():
				return
			case <-stop:
			}
			if !host.Continuable() {
				continue
			}
			a.mu.Lock()
			pause := a.pause
			a.mu.Unlock()
			resume := func() {}
			if pause != nil {
				resume = pause()
			}
			release := a.st.Hold()
			signal.Notify(cont, syscall.SIGCONT)
			_ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
			select {
			case <-cont:
			case <-time.After(stopPatience): // it goes on already
			}
			signal.Stop(cont)
			release()
			resume()
		}
	})
}
