// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/shell"
)

// umask reads this process's file mode creation mask.
func umask() (shell.Umask, error) {
	old := syscall.Umask(0o077)
	syscall.Umask(old)
	return shell.UmaskOf(uint32(old)), nil
}

// sameFile reports whether two descriptors are one file, so that one merged pipe
// keeps the order exact.
func sameFile(a, b *os.File) bool {
	x, err := a.Stat()
	if err != nil {
		return false
	}
	y, err := b.Stat()
	return err == nil && os.SameFile(x, y)
}

func isPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }

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

// continuable reports whether somebody is there who could continue this process: a
// parent of the same session that does job control. The kernel stops no other.
func continuable() bool {
	parent := os.Getppid()
	theirs, err := unix.Getsid(parent)
	ours, oerr := unix.Getsid(0)
	group, gerr := unix.Getpgid(parent)
	return err == nil && oerr == nil && gerr == nil && theirs == ours && group != unix.Getpgrp()
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
			if !continuable() {
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

// freeSpace returns the bytes that this user may still write below dir.
func freeSpace(dir string) (free, total int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), int64(st.Blocks) * int64(st.Bsize), nil
}

// diskUse is what the files of a directory take on the disk.
func diskUse(dir string) (n int64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		var st unix.Stat_t
		if unix.Lstat(dir+"/"+e.Name(), &st) == nil {
			n += st.Blocks * 512
		}
	}
	return n
}

func writable(dir string) bool { return unix.Access(dir, unix.W_OK) == nil }
