// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local/internal/cgroup"
	"github.com/outlive-dev/outlive/shell/local/internal/failpoint"
	"github.com/outlive-dev/outlive/shell/local/internal/files"
	"github.com/outlive-dev/outlive/shell/local/internal/proc"
	"github.com/outlive-dev/outlive/shell/local/internal/spool"
)

// Descriptors of the supervisor beyond the three standard ones. Those a run does not
// use are /dev/null.
const (
	shimLock    = 3
	shimPayload = 4
	shimStdin   = 5
	shimHold    = 6
)

const (
	exitReserve = 4096
	stopPoll    = 250 * time.Millisecond
)

// self is the running program itself, also when its file has been replaced.
const self = "/proc/self/exe"

// shim is the supervisor of one run.
//
// Concurrency: the main goroutine, locked to its thread because the command dies
// with that thread, owns all fields. ctl has goroutines of its own.
type shim struct {
	dir    string
	spec   spec
	null   *os.File
	spool  *spool.Spool
	ctl    *ctl
	child  chan struct{}
	stops  chan stopOrder
	status *os.File // stage2's report
	gate   *os.File
	pid    int
	end    *end
	stdinW *os.File
	term   *os.File // the terminal's other end, or nil
	cgroup string   // directory of the command's own group, or ""
	// stopSeen is the inode of the stop record that was passed on.
	stopSeen atomic.Uint64
	opened   bool   // the gate may have been opened
	text     []span // see shrink
}

// shimMain supervises the run in dir and returns the process's exit status.
//
//  1. It takes over the lock, which is held already, and reads the spec.
//  2. It reserves the exit record, opens the control socket and makes the pipes.
//  3. It starts stage2, which waits at the gate.
//  4. It writes "started" and opens the gate: the clock starts.
//  5. It copies output, waits, and obeys stops.
//  6. It writes the exit record and ends, which frees the lock.
func shimMain(dir string, scope bool) int {
	runtime.LockOSThread()
	debug.SetGCPercent(25)
	for fd := shimLock; fd <= shimHold; fd++ {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil {
			fmt.Fprintln(os.Stderr, "outlive: this is an internal command")
			return 2
		}
	}
	if scope {
		sayBegun()
	}
	closeInherited()
	failpoint.Hit(failpoint.Entry)
	s := &shim{dir: dir, child: make(chan struct{}, 1), stops: make(chan stopOrder, 4)}
	if err := s.supervise(); err != nil {
		fmt.Fprintf(os.Stderr, "supervisor: %v\n", err)
		if s.opened {
			return 1
		}
		// Nothing was executed and nothing will be: say so, in the space kept for it.
		e := shell.Exit{Cause: shell.StartFailed, Reason: files.Cut("supervisor: " + err.Error()), EndedAt: time.Now()}
		if err := s.writeExit(e); err != nil {
			fmt.Fprintf(os.Stderr, "supervisor: %v\n", err)
			return 1
		}
	}
	return 0
}

// closeInherited closes what the starter happened to pass on: a supervisor must not keep
// a lock or a pipe of a script that it outlives. Everything that was inherited lacks
// the close-on-exec flag, and everything that this program has opened has it.
func closeInherited() {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= shimHold {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
}

func (s *shim) supervise() error {
	inheritedUmask := unix.Umask(0o077)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	s.watchSignals()
	if err := files.Read(filepath.Join(s.dir, nameSpec), &s.spec); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	if s.spec.Proto != protoMajor {
		return fmt.Errorf("spec: version %d, want %d", s.spec.Proto, protoMajor)
	}
	if err := files.Reserve(s.dir, nameExit, exitReserve); err != nil {
		return err
	}
	s.spool = spool.New(s.dir, s.spec.Output, s.spec.Split)
	if m, ok := s.spec.Umask.Bits(); ok {
		inheritedUmask = int(m)
	}
	pipes, err := s.spawn(inheritedUmask)
	if err != nil {
		return s.writeExit(shell.Exit{
			Cause: shell.StartFailed, Code: ptr(126), Reason: files.Cut(err.Error()), EndedAt: time.Now(),
		})
	}
	failpoint.Hit(failpoint.Stage2Spawned)
	s.ctl = openCtl(s.dir, s.spool, s.input(), s.pokeStop)
	s.text = programText()
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	return s.see(pipes)
}

// see takes the command from the gate to the exit record.
func (s *shim) see(pipes []pipe) error {
	if startedBeforeGate {
		if err := s.writeStarted(); err != nil {
			_ = unix.Kill(s.pid, unix.SIGKILL)
			return fmt.Errorf("started: %w", err)
		}
	}
	s.readStop()
	select {
	case o := <-s.stops: // stopped before it ran: it never will
		_ = s.gate.Close()
		_ = unix.Kill(s.pid, unix.SIGKILL)
		return s.writeExit(shell.Exit{
			Cause: o.cause, Reason: files.Cut(o.reason), Canceled: o.cause == shell.Canceled,
			TimedOut: o.cause == shell.TimedOut, EndedAt: time.Now(),
		})
	default:
	}
	s.opened = true
	startedAt := time.Now()
	if _, err := s.gate.Write([]byte{1}); err != nil {
		return err
	}
	s.gate.Close()
	if !startedBeforeGate {
		if err := s.writeStarted(); err != nil {
			return err
		}
	}
	var failure atomic.Pointer[startFailure]
	j := &job{
		timeout: s.spec.Timeout, grace: s.spec.Grace, drain: s.spec.Drain, drainCap: s.spec.DrainCap,
		keep: s.spec.Leftovers == shell.KeepLeftovers, limit: outputLimit(s.spec.Output), pid: s.pid,
		tree:  proc.Tree{Run: string(s.spec.Run), Root: os.Getpid(), Cgroup: s.cgroup},
		pipes: pipes, out: s.spool, childEvent: s.child, reap: s.reap, stops: s.stops,
		exited: func() { failpoint.Hit(failpoint.Exited) },
	}
	j.wg.Go(func() { failure.Store(readStatus(s.status)) })
	spawnLoop(s.pollStop)
	o := j.run()
	e := exitOf(o, startedAt)
	switch f := failure.Load(); {
	case f != nil && o.cause == shell.Exited:
		e = shell.Exit{
			Cause: shell.StartFailed, Code: &f.code, Reason: files.Cut(f.text),
			StartedAt: startedAt, EndedAt: o.end.at,
		}
	case f != nil: // it was stopped before it became the command
		e.Started = false
	}
	blame(&e, s.cgroup)
	s.spool.Finish(&e)
	return s.writeExit(e)
}

// readStatus returns what stage2 reports, or nil when it became the command: then it
// has said that it was about to, and nothing else.
func readStatus(f *os.File) *startFailure {
	b, _ := io.ReadAll(io.LimitReader(f, 4096))
	f.Close()
	report, about := strings.CutPrefix(string(b), aboutToExec)
	switch {
	case about && report == "":
		failpoint.Hit(failpoint.Running)
		return nil
	case report == "":
		return &startFailure{126, "the process ended before it could execute the command"}
	}
	code, text, _ := strings.Cut(report, " ")
	n, _ := strconv.Atoi(code)
	return &startFailure{n, text}
}

// spawn starts stage2 with the command's standard streams.
func (s *shim) spawn(umask int) ([]pipe, error) {
	var err error
	if s.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return nil, err
	}
	streams, pipes, err := s.streams()
	if err != nil {
		return nil, err
	}
	gateR, gateW, err := rawPipe()
	if err != nil {
		return nil, err
	}
	statusR, statusW, err := rawPipe()
	if err != nil {
		return nil, err
	}
	if len(cgroup.Needs(s.spec.Limits)) > 0 {
		if s.cgroup, err = cgroup.Make(cgroup.Here(), string(s.spec.Run), s.spec.Limits); err != nil {
			return nil, err
		}
	}
	s.pid, err = syscall.ForkExec(self, []string{"outlive", argStage2, strconv.FormatInt(int64(umask), 8), rlimits(s.spec.Limits)}, &syscall.ProcAttr{
		Dir: "/", Env: os.Environ(),
		Files: []uintptr{streams[0].Fd(), streams[1].Fd(), streams[2].Fd(), gateR.Fd(), statusW.Fd(), shimPayload},
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: s.term != nil, Ctty: 0, Pdeathsig: syscall.SIGKILL},
	})
	for _, f := range append(streams[:], gateR, statusW, os.NewFile(shimPayload, "payload")) {
		f.Close()
	}
	s.gate, s.status = gateW, statusR
	if err == nil && s.cgroup != "" { // it waits at the gate, and has made no other
		if err = cgroup.Add(s.cgroup, s.pid); err != nil {
			_ = unix.Kill(s.pid, unix.SIGKILL)
		}
	}
	return pipes, err
}

// streams makes the command's standard streams, and returns with them our ends of its
// output.
func (s *shim) streams() (std [3]*os.File, pipes []pipe, err error) {
	stdin := os.NewFile(shimStdin, "stdin")
	if s.spec.TTY != nil {
		master, slave, err := openTerminal(*s.spec.TTY)
		if err != nil {
			return std, nil, err
		}
		stdin.Close()
		s.term = master.f
		return [3]*os.File{slave, slave, slave}, []pipe{master}, nil
	}
	if s.spec.StdinOpen {
		r, w, err := stdinPipe()
		if err != nil {
			return std, nil, err
		}
		stdin.Close()
		stdin, s.stdinW = r, w
	}
	first := shell.Merged
	if s.spec.Split {
		first = shell.Stdout
	}
	p, stdout, err := newPipe(first)
	if err != nil {
		return std, nil, err
	}
	pipes, stderr := []pipe{p}, stdout
	if s.spec.Split {
		if p, stderr, err = newPipe(shell.Stderr); err != nil {
			return std, nil, err
		}
		pipes = append(pipes, p)
	}
	return [3]*os.File{stdin, stdout, stderr}, pipes, nil
}

// input returns what feeds the command, or nil.
func (s *shim) input() *input {
	switch {
	case s.term != nil:
		return newInput(s.term, true)
	case s.stdinW != nil:
		return newInput(s.stdinW, false)
	default:
		return nil
	}
}

func rawPipe() (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe"), nil
}

// stdinPipe makes a pipe whose writing end, ours, does not block.
func stdinPipe() (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, err
	}
	if err := unix.SetNonblock(fds[1], true); err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "stdin"), os.NewFile(uintptr(fds[1]), "stdin"), nil
}

func (s *shim) writeStarted() error {
	st := started{Ident: proc.Identify(s.pid), Shim: proc.Identify(os.Getpid()), StartedAt: time.Now(), Cgroup: s.cgroup}
	return files.Write(s.dir, nameStarted, st, files.Durability{Sync: true, Tmp: failpoint.StartedTmp, Renamed: failpoint.StartedRenamed, Durable: failpoint.StartedDurable})
}

// writeExit writes the last record. The directory may have been removed by somebody:
// then it is made again.
func (s *shim) writeExit(e shell.Exit) error {
	d := files.Durability{Sync: true, Tmp: failpoint.ExitTmp, Renamed: failpoint.ExitRenamed, Durable: failpoint.ExitDurable}
	err := files.Write(s.dir, nameExit, e, d)
	if files.NotThere(err) && os.MkdirAll(s.dir, 0o700) == nil {
		err = files.Write(s.dir, nameExit, e, d)
	}
	if err != nil {
		return fmt.Errorf("exit record: %w", err)
	}
	if s.ctl != nil {
		s.ctl.announceEnd()
	}
	if s.cgroup != "" {
		_ = cgroup.Remove(s.cgroup) // what was left alone keeps its limits
	}
	_ = os.Remove(filepath.Join(s.dir, nameCmd))
	_ = os.Remove(filepath.Join(s.dir, nameCtl))
	if st, err := os.Stat(filepath.Join(s.dir, nameLog)); err == nil && st.Size() == 0 {
		_ = os.Remove(filepath.Join(s.dir, nameLog))
	}
	return nil
}

// watchSignals takes the signals that others may send. HUP has no effect; TERM and
// INT stop the command, the second time at once.
func (s *shim) watchSignals() {
	c := make(chan os.Signal, 16)
	signal.Notify(c, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGCHLD)
	spawnLoop(func() {
		asked := false
		for sig := range c {
			switch sig {
			case unix.SIGCHLD:
				select {
				case s.child <- struct{}{}:
				default:
				}
			case unix.SIGTERM, unix.SIGINT:
				o := stopOrder{cause: shell.Canceled, reason: "the supervisor received " + unix.SignalName(sig.(syscall.Signal))}
				if asked {
					o.grace = shell.AtOnce
				}
				asked = true
				s.order(o)
			}
		}
	})
}

// spawnLoop runs fn until the process ends. Only the supervisor uses it: its owner
// is the process.
func spawnLoop(fn func()) { go fn() }

func (s *shim) order(o stopOrder) {
	select {
	case s.stops <- o:
	default:
	}
}

// reap takes the status of everything that has ended; as a sub-reaper the supervisor
// inherits orphans. It returns how the main process ended, or nil.
func (s *shim) reap() *end {
	for {
		var ws unix.WaitStatus
		var ru unix.Rusage
		pid, err := unix.Wait4(-1, &ws, unix.WNOHANG, &ru)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return s.end
		}
		if pid == s.pid && s.end == nil {
			s.end = &end{ws, ru, time.Now()}
		}
	}
}

func ptr[T any](v T) *T { return &v }
