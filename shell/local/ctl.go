// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local/internal/files"
	"github.com/outlive-dev/outlive/shell/local/internal/spool"
)

// The control socket carries packets: one byte that says what it is, and a number or
// bytes. It speeds things up and carries what only a live reader can have, a hold on
// the output and the command's input; every durable fact is in a file.
const (
	msgAttach = 'a' // to the supervisor: hold output from this offset on
	msgAck    = 'k' // everything before this offset was taken
	msgSeen   = 's' // say when there is output past this offset
	msgStdin  = 'i' // bytes for standard input
	msgEOF    = 'c' // end of standard input
	msgSize   = 'z' // size of the terminal: columns and rows
	msgPoke   = 'p' // look at the stop record now

	msgOutput = 'o' // to the reader: there is output up to this offset
	msgRoom   = 'w' // so many bytes of input have been passed on
	msgNoIn   = 'n' // the command takes no more input
	msgEnd    = 'x' // the exit record is there
)

const (
	stdinChunk  = 32 << 10
	stdinCredit = 256 << 10 // bytes of input on their way, per reader
	maxPacket   = stdinChunk + 1
)

func number(kind byte, n int64) []byte {
	return binary.LittleEndian.AppendUint64([]byte{kind}, uint64(n))
}

func numberOf(p []byte) int64 {
	if len(p) < 9 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(p[1:]))
}

// ctl is the supervisor's end of the control socket.
//
// Concurrency: readers is under mu; every connection has a goroutine, and one more
// writes standard input. They end with the process.
type ctl struct {
	spool *spool.Spool
	poke  func()
	input *input

	mu      sync.Mutex
	readers map[*reader]struct{}
}

// reader is one attached connection.
type reader struct {
	f    *os.File
	hold *spool.Hold

	mu   sync.Mutex
	told bool // an msgOutput was sent since the last msgSeen
}

// openCtl listens in the run's directory and takes over the starter's hold, if there
// is one. Without a socket the run works all the same.
func openCtl(dir string, sp *spool.Spool, in *input, poke func()) *ctl {
	c := &ctl{spool: sp, poke: poke, input: in, readers: map[*reader]struct{}{}}
	if in != nil {
		spawnLoop(in.loop)
	}
	sp.OnWrite(c.announce)
	var st unix.Stat_t
	if unix.Fstat(shimHold, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK {
		_ = unix.SetNonblock(shimHold, true)
		r := c.attach(os.NewFile(shimHold, "hold"), 0)
		spawnLoop(func() { c.serve(r) })
	}
	l, err := listen(dir)
	if err != nil {
		fmt.Fprintf(os.Stderr, "control socket: %v\n", err)
		return c
	}
	spawnLoop(func() { c.accept(l) })
	return c
}

// socketPath names the socket through the directory's descriptor, since a path in a
// socket address is limited to 108 bytes.
func socketPath(dir *os.File) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), nameCtl)
}

func listen(dir string) (*os.File, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	_ = os.Remove(filepath.Join(dir, nameCtl))
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: socketPath(d)}); err != nil {
		unix.Close(fd)
		return nil, err
	}
	if err := unix.Listen(fd, 16); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), nameCtl), nil
}

func dial(dir string) (*os.File, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: socketPath(d)}); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), nameCtl), nil
}

func (c *ctl) accept(l *os.File) {
	raw, err := l.SyscallConn()
	if err != nil {
		return
	}
	for {
		fd := -1
		var aerr error
		if err := raw.Read(func(lfd uintptr) bool {
			fd, _, aerr = unix.Accept4(int(lfd), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			return !errors.Is(aerr, unix.EAGAIN)
		}); err != nil {
			return
		}
		if aerr != nil {
			time.Sleep(stopPoll) // out of descriptors, most likely
			continue
		}
		cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil || int(cred.Uid) != os.Getuid() && cred.Uid != 0 {
			unix.Close(fd)
			continue
		}
		f := os.NewFile(uintptr(fd), "reader")
		spawnLoop(func() { c.greet(f) })
	}
}

// greet reads what a new connection wants.
func (c *ctl) greet(f *os.File) {
	buf := make([]byte, 16)
	_ = f.SetReadDeadline(time.Now().Add(10 * time.Second))
	n, err := f.Read(buf)
	_ = f.SetReadDeadline(time.Time{})
	if err != nil || n == 0 {
		f.Close()
		return
	}
	switch buf[0] {
	case msgPoke:
		f.Close()
		c.poke()
	case msgAttach:
		c.serve(c.attach(f, numberOf(buf[:n])))
	default:
		f.Close()
	}
}

func (c *ctl) attach(f *os.File, from int64) *reader {
	r := &reader{f: f, hold: c.spool.AddHold(from)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readers[r] = struct{}{}
	return r
}

// serve takes a reader's packets until it closes the connection or dies. It never
// waits for the command: input has a queue with a credit.
func (c *ctl) serve(r *reader) {
	defer func() {
		c.mu.Lock()
		delete(c.readers, r)
		c.mu.Unlock()
		r.f.Close()
		if left := c.spool.Drop(r.hold); left == 0 && c.input != nil {
			c.input.abandon()
		}
	}()
	if c.input == nil {
		r.send([]byte{msgNoIn})
	}
	buf := make([]byte, maxPacket)
	for {
		n, err := r.f.Read(buf)
		if err != nil || n == 0 {
			return
		}
		switch buf[0] {
		case msgAck:
			c.spool.Ack(r.hold, numberOf(buf[:n]))
		case msgSeen:
			off := numberOf(buf[:n])
			total := c.spool.Ack(r.hold, 0)
			r.mu.Lock()
			r.told = false
			r.mu.Unlock()
			if total > off {
				r.tell(total)
			}
		case msgStdin:
			if c.input != nil {
				c.input.put(r, append([]byte(nil), buf[1:n]...))
			}
		case msgEOF:
			if c.input != nil {
				c.input.end()
			}
		case msgSize:
			if c.input != nil && c.input.tty && n >= 5 {
				size := shell.TTY{Cols: binary.LittleEndian.Uint16(buf[1:]), Rows: binary.LittleEndian.Uint16(buf[3:])}
				_ = resize(c.input.w, size) // it has ended
			}
		}
	}
}

func (r *reader) send(p []byte) {
	raw, err := r.f.SyscallConn()
	if err != nil {
		return
	}
	// A reader that does not take its packets polls instead; nothing waits for it.
	_ = raw.Control(func(fd uintptr) {
		_ = unix.Sendto(int(fd), p, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
	})
}

// tell says how much output there is, unless it was told and has not answered.
func (r *reader) tell(total int64) {
	r.mu.Lock()
	told := r.told
	r.told = true
	r.mu.Unlock()
	if !told {
		r.send(number(msgOutput, total))
	}
}

func (c *ctl) announce(total int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for r := range c.readers {
		r.tell(total)
	}
}

// announceEnd tells every reader that the exit record is there.
func (c *ctl) announceEnd() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for r := range c.readers {
		r.send([]byte{msgEnd})
	}
}

// pollStop looks at the stop record four times a second: the control socket makes it
// faster, an inotify instance for each run would use up what the user may have.
func (s *shim) pollStop() {
	for n := 1; ; n++ {
		time.Sleep(stopPoll)
		s.readStop()
		if n == 2 {
			shrink(s.text) // most runs end before, and need not
		}
	}
}

// pokeStop is called from the control socket.
func (s *shim) pokeStop() { s.readStop() }

// readStop passes the stop record on when it is new.
func (s *shim) readStop() {
	var st unix.Stat_t
	path := filepath.Join(s.dir, nameStop)
	if unix.Lstat(path, &st) != nil || s.stopSeen.Swap(st.Ino) == st.Ino {
		return
	}
	var in stopIntent
	if files.Read(path, &in) != nil {
		return
	}
	if in.Cause == "" {
		in.Cause = shell.Canceled
	}
	s.order(stopOrder{cause: in.Cause, reason: in.Reason, grace: in.Grace})
}
