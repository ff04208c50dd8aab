// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local/internal/files"
	"github.com/outlive-dev/outlive/shell/local/internal/proc"
)

// stopOrder is a request to end the command.
type stopOrder struct {
	cause  shell.Cause
	reason string
	grace  time.Duration
}

// end is how the command's main process ended.
type end struct {
	status unix.WaitStatus
	rusage unix.Rusage
	at     time.Time
}

// sink takes the output of a command.
type sink interface {
	Write(st shell.Stream, p []byte) (total int64)
	WaitRoom(blocked func(bool))
	IgnoreHolds()
}

// endingTime is how long a process may take from closing its output to its end.
const endingTime = 50 * time.Millisecond

// job sees one command through from its execution to the end of its output. The
// supervisor and the plain shell share it.
//
// Concurrency: run is the loop that owns all fields; one goroutine per pipe copies
// output and reports through events and the fields under mu.
type job struct {
	timeout, grace, drain, drainCap time.Duration
	keep                            bool  // leftovers
	limit                           int64 // bytes of output, 0: none
	pid                             int   // leader of its own process group
	tree                            proc.Tree
	pipes                           []pipe
	out                             sink
	// childEvent says that reap may have something to report.
	childEvent <-chan struct{}
	// reap returns how the main process ended, or nil. Until it has, pid is ours.
	reap func() *end
	// stops delivers stop orders; the first one decides the cause.
	stops <-chan stopOrder
	// exited is called once when the main process has been reaped. It may be nil.
	exited func()

	events   chan struct{}
	wg       sync.WaitGroup
	mu       sync.Mutex
	lastData time.Time
	blocked  int // copiers that wait for readers
	open     int // pipes that have not ended
	over     bool
	killAt   time.Time // when a stop turns into a kill
}

// pipe is the reading end of an output of the command, or our end of its terminal.
type pipe struct {
	f      *os.File
	fd     int
	stream shell.Stream
}

// newPipe makes a pipe whose writing end, for the command, blocks and whose reading
// end does not.
func newPipe(st shell.Stream) (p pipe, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return p, nil, err
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return p, nil, err
	}
	return pipe{os.NewFile(uintptr(fds[0]), "output"), fds[0], st}, os.NewFile(uintptr(fds[1]), "output"), nil
}

// outcome is what the job adds to an exit.
type outcome struct {
	end        end
	cause      shell.Cause
	reason     string
	incomplete bool
	stopped    int
	kept       int
}

// run returns when the command has ended, its output is read and its leftovers are
// dealt with:
//
//  1. run: until the main process is reaped. A stop sends TERM to the whole tree,
//     after the grace KILL; the first order decides the cause.
//  2. drain: until every pipe has ended or has been idle, with a cap.
//  3. leftovers: what still lives is stopped, or left alone and counted.
//  4. whatever is still in the pipes is read without waiting.
func (j *job) run() outcome {
	j.events = make(chan struct{}, 1)
	j.lastData = time.Now()
	j.open = len(j.pipes)
	for _, p := range j.pipes {
		j.wg.Go(func() { j.copy(p) })
	}
	o := j.untilExit()
	if j.exited != nil {
		j.exited()
	}
	if o.cause != "" {
		j.out.IgnoreHolds()
		for time.Now().Before(j.killAt) && len(j.tree.Members()) > 0 {
			j.pause()
		}
		_, _ = j.tree.Kill(j.pause)
	} else {
		o.cause = shell.Exited
		j.untilDrained(&o)
	}
	j.closePipes(&o)
	j.wg.Wait()
	return o
}

// untilExit waits for the main process and performs stops meanwhile.
func (j *job) untilExit() (o outcome) {
	var expire, kill <-chan time.Time
	if j.timeout > 0 {
		t := time.NewTimer(j.timeout)
		defer t.Stop()
		expire = t.C
	}
	stop := func(s stopOrder) {
		if s.grace == 0 {
			s.grace = j.grace
		}
		first := o.cause == ""
		if first {
			o.cause, o.reason = s.cause, s.reason
		}
		at := time.Now().Add(max(0, s.grace))
		if !first && !at.Before(j.killAt) {
			return
		}
		j.killAt = at
		kill = time.After(time.Until(at))
		if first && s.grace > 0 {
			j.signalGroup(unix.SIGTERM)
			j.tree.SignalAll(unix.SIGTERM)
			j.signalGroup(unix.SIGCONT)
		}
	}
	for {
		if e := j.reap(); e != nil {
			o.end = *e
			return o
		}
		if j.overLimit() && o.cause == "" {
			stop(stopOrder{cause: shell.OutputLimited})
		}
		select {
		case <-j.childEvent:
		case <-j.events:
		case s := <-j.stops:
			if e := j.reap(); e != nil { // it had ended before we were asked
				o.end = *e
				return o
			}
			stop(s)
		case <-expire:
			expire = nil
			if e := j.reap(); e != nil {
				o.end = *e
				return o
			}
			stop(stopOrder{cause: shell.TimedOut})
		case <-kill:
			j.signalGroup(unix.SIGKILL)
			j.tree.SignalAll(unix.SIGKILL)
			kill = time.After(20 * time.Millisecond) // until the leader is reaped
		}
	}
}

// signalGroup signals the command's process group. It is only called while the
// leader is not reaped, so the number is still its own.
func (j *job) signalGroup(sig unix.Signal) { _ = unix.Kill(-j.pid, sig) }

// untilDrained waits for the output after a natural end and then deals with what the
// command left behind.
func (j *job) untilDrained(o *outcome) {
	capAt := time.Now().Add(j.drainCap)
	tick := time.NewTicker(max(10*time.Millisecond, min(50*time.Millisecond, j.drain/4)))
	defer tick.Stop()
	grace := j.grace
	hurry := false
	for !hurry {
		j.mu.Lock()
		open, blocked, idle := j.open, j.blocked > 0, time.Since(j.lastData)
		j.mu.Unlock()
		if blocked {
			capAt = time.Now().Add(j.drainCap)
		}
		if open == 0 || !blocked && (idle >= j.drain || time.Now().After(capAt)) {
			break
		}
		select {
		case <-j.events:
		case <-tick.C:
		case <-j.childEvent:
			_ = j.reap()
		case s := <-j.stops: // the command has ended: only its leftovers can be stopped
			hurry = true
			if s.grace != 0 {
				grace = min(grace, s.grace)
			}
			j.out.IgnoreHolds()
		}
	}
	if j.keep {
		o.kept = len(j.tree.Members())
		return
	}
	o.stopped = j.stopLeftovers(grace)
}

// stopLeftovers ends what the command left behind and returns how many there were.
func (j *job) stopLeftovers(grace time.Duration) int {
	seen := map[proc.Proc]bool{}
	note := func(ps []proc.Proc) {
		for _, p := range ps {
			seen[proc.Proc{Pid: p.Pid, Start: p.Start}] = true
		}
	}
	// What is just ending, as the end of a pipeline often is, was not left behind.
	for deadline := time.Now().Add(endingTime); len(j.tree.Members()) > 0; j.pause() {
		if time.Now().After(deadline) {
			break
		}
	}
	if len(j.tree.Members()) == 0 {
		return 0
	}
	if grace > 0 {
		note(j.tree.SignalAll(unix.SIGTERM))
		for deadline := time.Now().Add(grace); time.Now().Before(deadline); {
			ps := j.tree.Members()
			if len(ps) == 0 {
				return len(seen)
			}
			note(ps)
			j.pause()
		}
	}
	note(j.tree.Members())
	_, _ = j.tree.Kill(j.pause)
	return len(seen)
}

// pause lets ended processes go away, and reaps them.
func (j *job) pause() {
	select {
	case <-j.childEvent:
	case <-time.After(10 * time.Millisecond):
	}
	_ = j.reap()
}

// closePipes ends the reading: at once where a pipe has ended, else after what is in
// it has been taken.
func (j *job) closePipes(o *outcome) {
	deadline := time.Now().Add(100 * time.Millisecond)
	for j.openPipes() > 0 && !o.keptLeftovers() && time.Now().Before(deadline) {
		j.pause()
	}
	for _, p := range j.pipes {
		_ = p.f.SetReadDeadline(time.Now())
	}
	j.out.IgnoreHolds()
	j.wg.Wait()
	o.incomplete = j.openPipes() > 0
	for _, p := range j.pipes {
		p.f.Close()
	}
}

func (o *outcome) keptLeftovers() bool { return o.kept > 0 }

func (j *job) openPipes() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.open
}

func (j *job) overLimit() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.over
}

// outputLimit returns after how many bytes a command is stopped, 0: never.
func outputLimit(o shell.Output) int64 {
	if o.OnLimit == shell.StopAtLimit {
		return o.Limit
	}
	return 0
}

func (j *job) poke() {
	select {
	case j.events <- struct{}{}:
	default:
	}
}

// copy moves output from a pipe to the sink until the pipe ends or its deadline
// passes; then it takes what is still in it without waiting.
func (j *job) copy(p pipe) {
	buf := make([]byte, 64<<10)
	blocked := func(b bool) {
		j.mu.Lock()
		defer j.mu.Unlock()
		if b {
			j.blocked++
		} else {
			j.blocked--
			j.lastData = time.Now()
		}
	}
	for {
		j.out.WaitRoom(blocked)
		n, err := p.f.Read(buf)
		if n > 0 {
			j.took(p, buf[:n])
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF), errors.Is(err, unix.EIO): // the second is how a terminal ends
			j.closed()
			return
		}
		break
	}
	// One pipe's worth at most: a process that goes on writing must not keep us here.
	room, err := unix.FcntlInt(uintptr(p.fd), unix.F_GETPIPE_SZ, 0)
	if err != nil {
		room = 1 << 20
	}
	for room > 0 {
		n, err := unix.Read(p.fd, buf)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case n == 0 && err == nil, errors.Is(err, unix.EIO):
			j.closed()
			return
		case n <= 0:
			return
		}
		j.took(p, buf[:n])
		room -= n
	}
}

func (j *job) took(p pipe, b []byte) {
	total := j.out.Write(p.stream, b)
	j.mu.Lock()
	j.lastData = time.Now()
	if j.limit > 0 && total > j.limit {
		j.over = true
	}
	over := j.over
	j.mu.Unlock()
	if over {
		j.poke()
	}
}

func (j *job) closed() {
	j.mu.Lock()
	j.open--
	j.mu.Unlock()
	j.poke()
}

// exitOf turns an outcome into an exit without output counts.
func exitOf(o outcome, startedAt time.Time) shell.Exit {
	e := shell.Exit{
		Cause: o.cause, Reason: files.Cut(o.reason), Started: true, Incomplete: o.incomplete,
		TimedOut: o.cause == shell.TimedOut, Canceled: o.cause == shell.Canceled,
		LeftoversStopped: o.stopped, LeftoversKept: o.kept,
		StartedAt: startedAt, EndedAt: o.end.at,
		Rusage: shell.Rusage{
			User:   time.Duration(o.end.rusage.Utime.Nano()),
			System: time.Duration(o.end.rusage.Stime.Nano()),
			MaxRSS: o.end.rusage.Maxrss * 1024,
		},
	}
	code := o.end.status.ExitStatus()
	if o.end.status.Signaled() {
		code = 128 + int(o.end.status.Signal())
		e.Signal = unix.SignalName(o.end.status.Signal())
	}
	e.Code = &code
	return e
}
