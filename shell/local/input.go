// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/shell"
)

// input is the command's standard input: a queue that one goroutine writes out. The
// end closes a pipe; on a terminal it is a key, and more may follow.
//
// Concurrency: queue and ending are under mu, midLine belongs to loop.
type input struct {
	w       *os.File
	tty     bool
	more    chan struct{}
	midLine bool // the last byte was no end of a line

	mu     sync.Mutex
	queue  []inputPiece
	ending bool
}

// inputPiece is data of a reader, or the end without any.
type inputPiece struct {
	from *reader
	data []byte
}

func newInput(w *os.File, tty bool) *input {
	return &input{w: w, tty: tty, more: make(chan struct{}, 1)}
}

func (in *input) put(from *reader, p []byte) {
	in.mu.Lock()
	if in.ending {
		in.mu.Unlock()
		from.send([]byte{msgNoIn})
		return
	}
	in.queue = append(in.queue, inputPiece{from, p})
	in.mu.Unlock()
	in.wake()
}

// end ends the input: a reader asked for it.
func (in *input) end() {
	in.mu.Lock()
	if in.tty && !in.ending {
		in.queue = append(in.queue, inputPiece{})
	} else {
		in.ending = true
	}
	in.mu.Unlock()
	in.wake()
}

// abandon ends the input when its last reader has gone. A terminal waits for another.
func (in *input) abandon() {
	if !in.tty {
		in.end()
	}
}

func (in *input) wake() {
	select {
	case in.more <- struct{}{}:
	default:
	}
}

func (in *input) loop() {
	for {
		in.mu.Lock()
		if len(in.queue) == 0 {
			ending := in.ending
			in.mu.Unlock()
			if ending {
				in.w.Close()
				return
			}
			<-in.more
			continue
		}
		p := in.queue[0]
		in.queue = in.queue[1:]
		in.mu.Unlock()
		if err := in.write(p); err != nil {
			in.fail(p.from)
			return
		}
		if p.from != nil {
			p.from.send(number(msgRoom, int64(len(p.data))))
		}
	}
}

func (in *input) write(p inputPiece) error {
	if p.from == nil {
		p.data = in.endKeys()
	} else if n := len(p.data); n > 0 {
		in.midLine = p.data[n-1] != '\n' && p.data[n-1] != '\r'
	}
	_, err := in.w.Write(p.data)
	return err
}

// fail ends the input because the command takes no more.
func (in *input) fail(from *reader) {
	in.mu.Lock()
	in.ending, in.queue = true, nil
	in.mu.Unlock()
	if !in.tty { // the output comes from there, too
		in.w.Close()
	}
	if from != nil {
		from.send([]byte{msgNoIn})
	}
}

// endKeys is what somebody would type to end the input: the end-of-file key, twice
// when there is a line that the first one only sends off.
func (in *input) endKeys() []byte {
	key, lines := byte('D'-'@'), true
	if t, err := control(in.w, func(fd int) (*unix.Termios, error) { return unix.IoctlGetTermios(fd, unix.TCGETS) }); err == nil {
		key, lines = t.Cc[unix.VEOF], t.Lflag&unix.ICANON != 0
	}
	keys := []byte{key}
	if in.midLine && lines {
		keys = append(keys, key)
	}
	in.midLine = false
	return keys
}

// openTerminal makes a terminal: our end of it, and the one for the command.
func openTerminal(size shell.TTY) (master pipe, slave *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return master, nil, os.NewSyscallError("open a terminal", err)
	}
	master = pipe{os.NewFile(uintptr(fd), "terminal"), fd, shell.Merged}
	peer, err := unlocked(fd)
	if err == nil {
		slave = os.NewFile(uintptr(peer), "terminal")
		if err = resize(master.f, size); err == nil {
			return master, slave, nil
		}
		slave.Close()
	}
	master.f.Close()
	return pipe{}, nil, os.NewSyscallError("open a terminal", err)
}

// unlocked opens the command's end.
func unlocked(master int) (int, error) {
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return -1, err
	}
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return -1, errno
	}
	return int(peer), nil
}

// resize sets the size of a terminal; whoever has it in the foreground gets SIGWINCH.
func resize(master *os.File, size shell.TTY) error {
	_, err := control(master, func(fd int) (struct{}, error) {
		return struct{}{}, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
	})
	return err
}

// control calls fn with the descriptor of f, which stays non-blocking.
func control[T any](f *os.File, fn func(fd int) (T, error)) (v T, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return v, err
	}
	if cerr := raw.Control(func(fd uintptr) { v, err = fn(int(fd)) }); cerr != nil {
		return v, cerr
	}
	return v, err
}
