// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/internal/keep"
	"github.com/outlive-dev/outlive/shell/local/internal/files"
	"github.com/outlive-dev/outlive/shell/local/internal/proc"
)

// Shell runs commands in the calling process, which owns clock, output and stop: when
// it dies, so does the control over its commands. Unlike [Recoverable] it cannot set
// the command's umask or reset signals that the process ignores. The zero value is
// ready to use and safe for concurrent use.
type Shell struct {
	wall func() time.Time // what records are dated by; nil is time.Now
}

// Capabilities implements [shell.Shell].
func (*Shell) Capabilities() shell.Capabilities {
	return shell.Capabilities{Streaming: true, OwnsTimeout: true, Split: true, Signals: true, Leftovers: true}
}

// Execute implements [shell.Shell].
func (s *Shell) Execute(ctx context.Context, req shell.Request) (*shell.Response, error) {
	p, err := s.start(ctx, req)
	if err != nil {
		return nil, err
	}
	<-p.done
	return p.out.Response(p.exit), p.err(ctx)
}

// Stream implements [shell.StreamingShell].
func (s *Shell) Stream(ctx context.Context, req shell.Request) iter.Seq2[shell.Part, error] {
	return func(yield func(shell.Part, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		p, err := s.start(ctx, req)
		if err != nil {
			yield(shell.Part{}, err)
			return
		}
		defer func() {
			cancel()
			<-p.done
		}()
		if !p.out.Follow(p.done, func(part shell.Part) bool { return yield(part, nil) }) {
			return
		}
		if err := p.err(ctx); err != nil {
			yield(shell.Part{}, err)
			return
		}
		yield(shell.Part{Exit: &p.exit}, nil)
	}
}

// plainRun is one command of a Shell. exit is set when done is closed.
type plainRun struct {
	out   memory
	split bool
	wall  func() time.Time
	done  chan struct{}
	exit  shell.Exit
	wg    sync.WaitGroup
}

// err returns ctx's error as an ExecError when that is what ended the command.
func (p *plainRun) err(ctx context.Context) error {
	if p.exit.Cause != shell.Canceled {
		return nil
	}
	return &shell.ExecError{Phase: shell.StepRun, Started: shell.Yes, Cause: ctx.Err(), Partial: p.out.Response(p.exit)}
}

func (s *Shell) start(ctx context.Context, req shell.Request) (*plainRun, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	if req.TTY != nil || req.Umask != 0 || req.StdinOpen {
		return nil, fault.New(fault.Unsupported, "execute: this backend has no terminals, umask or open input")
	}
	if err := s.Capabilities().Honours(req.Limits); err != nil {
		return nil, fmt.Errorf("execute: %w", err)
	}
	no := func(step shell.Step, err error) error {
		return &shell.ExecError{Phase: step, Started: shell.No, Cause: err}
	}
	if err := ctx.Err(); err != nil {
		return nil, no(shell.StepProvision, err)
	}
	req = req.WithDefaults()
	id := shell.RunID(fmt.Sprintf("plain-%d-%d", os.Getpid(), time.Now().UnixNano()))
	p := &plainRun{out: memory{keep.New(req.Output)}, split: req.Split, wall: s.wall, done: make(chan struct{})}
	if p.wall == nil {
		p.wall = time.Now
	}
	tmp, err := os.MkdirTemp("", "outlive-")
	if err != nil {
		return nil, no(shell.StepProvision, err)
	}
	j, startedAt, err := p.spawn(tmp, id, req)
	if err != nil {
		os.RemoveAll(tmp)
		var f *startFailure
		if errors.As(err, &f) {
			p.exit = shell.Exit{Cause: shell.StartFailed, Code: &f.code, Reason: files.Cut(f.text), StartedAt: startedAt, EndedAt: p.wall()}
			close(p.done)
			return p, nil
		}
		return nil, no(shell.StepStart, err)
	}
	stops := make(chan stopOrder, 1)
	j.stops = stops
	unhook := context.AfterFunc(ctx, func() {
		stops <- stopOrder{cause: shell.Canceled, reason: context.Cause(ctx).Error()}
	})
	p.wg.Go(func() {
		defer close(p.done)
		defer os.RemoveAll(tmp)
		o := j.run()
		unhook()
		p.exit = exitOf(o, startedAt)
		p.out.Count(&p.exit)
	})
	return p, nil
}

// Error makes a start failure an error.
func (f *startFailure) Error() string { return f.text }

func (p *plainRun) spawn(tmp string, id shell.RunID, req shell.Request) (*job, time.Time, error) {
	env := environment(id, req)
	argv := req.Argv
	if req.Command != "" {
		script := filepath.Join(tmp, nameCmd)
		if err := writeScript(script, req.Command); err != nil {
			return nil, time.Time{}, err
		}
		argv = []string{"bash", script}
		if _, f := lookPath("bash", req.Dir, env); f != nil {
			argv[0] = "sh"
		}
	}
	path, fail := lookPath(argv[0], req.Dir, env)
	if fail != nil {
		return nil, p.wall(), fail
	}
	stdin, err := os.Open(os.DevNull)
	if len(req.Stdin) > 0 {
		stdin, err = memfile("outlive-stdin", req.Stdin)
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	defer stdin.Close()
	first := shell.Merged
	if req.Split {
		first = shell.Stdout
	}
	o, stdout, err := newPipe(first)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer stdout.Close()
	pipes, stderr := []pipe{o}, stdout
	if req.Split {
		if o, stderr, err = newPipe(shell.Stderr); err != nil {
			return nil, time.Time{}, err
		}
		defer stderr.Close()
		pipes = append(pipes, o)
	}
	startedAt := p.wall()
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Dir: req.Dir, Env: env, Files: []uintptr{stdin.Fd(), stdout.Fd(), stderr.Fd()},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		for _, p := range pipes {
			p.f.Close()
		}
		return nil, startedAt, &startFailure{126, fmt.Sprintf("%s: %v", argv[0], err)}
	}
	child := make(chan struct{}, 1)
	j := &job{
		timeout: req.Timeout, grace: req.Grace, drain: req.Drain, drainCap: req.DrainCap,
		keep: req.Leftovers == shell.KeepLeftovers, limit: outputLimit(req.Output), pid: pid,
		tree:  proc.Tree{Run: string(id), Root: pid, ByCookie: true, WithRoot: true},
		pipes: pipes, out: p.out, childEvent: child, reap: reaper(pid, p.wall),
	}
	j.wg.Go(func() { awaitChild(pid, child) })
	return j, startedAt, nil
}

// awaitChild waits until the child has ended and leaves it unreaped, so that its
// number stays its own until the job's loop reaps it.
func awaitChild(pid int, ended chan<- struct{}) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	ended <- struct{}{}
}

func reaper(pid int, wall func() time.Time) func() *end {
	var e *end
	return func() *end {
		if e != nil {
			return e
		}
		var ws unix.WaitStatus
		var ru unix.Rusage
		got, err := unix.Wait4(pid, &ws, unix.WNOHANG, &ru)
		if err == nil && got == pid {
			e = &end{ws, ru, wall()}
		}
		return e
	}
}

// lookPath finds a program the way execvp does.
func lookPath(name, dir string, env []string) (string, *startFailure) {
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return "", &startFailure{126, fmt.Sprintf("directory %s: no such directory", dir)}
	}
	paths := []string{name}
	if !strings.Contains(name, "/") {
		paths = searchPath(name, env)
	}
	code, text := 127, name+": not found"
	for _, p := range paths {
		abs := p
		if !filepath.IsAbs(p) {
			abs = filepath.Join(dir, p)
		}
		st, err := os.Stat(abs)
		if err != nil {
			continue
		}
		if !st.IsDir() && unix.Access(abs, unix.X_OK) == nil {
			return abs, nil
		}
		code, text = 126, name+": permission denied"
	}
	return "", &startFailure{code, text}
}
