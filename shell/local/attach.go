// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
)

const (
	dialPatience = 2 * time.Second
	inFlight     = 64 // packets of input on their way: their answers fit a socket buffer
)

// attachment is the reader's end of a control socket, or of none when the run has
// ended or has no socket.
//
// Concurrency: next belongs to the one reading goroutine, the rest is under mu. A
// goroutine of its own reads packets until close.
type attachment struct {
	r    *Recoverable
	id   shell.RunID
	f    *os.File // nil: no connection
	w    *watch
	wg   sync.WaitGroup
	next int64

	wake chan struct{} // output or the end, from the socket
	room chan struct{} // input was passed on

	mu      sync.Mutex
	acked   int64
	sent    int // bytes of input on their way
	packets int
	noInput bool
	closed  bool
}

// Attach implements [shell.Recoverable].
func (r *Recoverable) Attach(ctx context.Context, id shell.RunID, from int64) (shell.Attachment, error) {
	if err := id.Valid(); err != nil {
		return nil, err
	}
	a := &attachment{
		r: r, id: id, next: from, acked: from,
		wake: make(chan struct{}, 1), room: make(chan struct{}, 1),
	}
	a.f = r.takeHold(id).f
	if a.f == nil {
		if err := a.dial(ctx, from); err != nil {
			return nil, err
		}
	}
	if a.f == nil {
		a.noInput = true
	} else {
		a.wg.Go(a.receive)
		a.send(number(msgAck, from))
	}
	a.w = r.hub.watch(r.dir(id), nameExit)
	return a, nil
}

// dial connects to the supervisor, which may be just starting. A run that has ended
// has none.
func (a *attachment) dial(ctx context.Context, from int64) error {
	dir := a.r.dir(a.id)
	for deadline := time.Now().Add(dialPatience); ; {
		st, err := a.r.Recover(ctx, a.id)
		if err != nil {
			return err
		}
		switch st.Phase {
		case shell.UnknownRun:
			return shell.ErrNoRun
		case shell.Live:
		default:
			return nil
		}
		f, err := dial(dir)
		if err == nil {
			if _, err = f.Write(number(msgAttach, from)); err == nil {
				a.f = f
				return nil
			}
			f.Close()
		}
		if time.Now().After(deadline) {
			return nil // a run without a socket can be read, not held
		}
		if err := a.r.hub.sleep(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

func (a *attachment) receive() {
	buf := make([]byte, 64)
	for {
		n, err := a.f.Read(buf)
		if err != nil || n == 0 {
			a.mu.Lock()
			a.noInput = true
			a.mu.Unlock()
			signalOn(a.wake)
			signalOn(a.room)
			return
		}
		switch buf[0] {
		case msgOutput, msgEnd:
			signalOn(a.wake)
		case msgRoom:
			a.mu.Lock()
			a.sent -= int(numberOf(buf[:n]))
			a.packets--
			a.mu.Unlock()
			signalOn(a.room)
		case msgNoIn:
			a.mu.Lock()
			a.noInput = true
			a.mu.Unlock()
			signalOn(a.room)
		}
	}
}

func signalOn(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Read implements [shell.Attachment].
func (a *attachment) Read(ctx context.Context, maxBytes int) (shell.Chunk, error) {
	for {
		c, ok, err := a.r.readOnce(ctx, a.id, a.next, maxBytes)
		if err != nil {
			return c, err
		}
		if ok {
			a.next = c.Next
			return c, nil
		}
		// From here on the supervisor tells once when there is more than this.
		a.send(number(msgSeen, a.next))
		t := time.NewTimer(a.r.opt.Poll)
		select {
		case <-a.wake:
		case <-a.w.c:
		case <-t.C:
		case <-ctx.Done():
			err = ctx.Err()
		}
		t.Stop()
		if err != nil {
			return c, err
		}
	}
}

// Ack implements [shell.Attachment].
func (a *attachment) Ack(off int64) error {
	a.mu.Lock()
	if off <= a.acked || a.closed {
		a.mu.Unlock()
		return nil
	}
	a.acked = off
	a.mu.Unlock()
	a.send(number(msgAck, off))
	return nil
}

// send writes a packet. A connection that has ended means that the run has ended or
// its supervisor is gone: the records tell.
func (a *attachment) send(p []byte) {
	if a.f != nil {
		_, _ = a.f.Write(p)
	}
}

// WriteStdin implements [shell.Attachment].
func (a *attachment) WriteStdin(ctx context.Context, p []byte) (n int, err error) {
	for len(p) > 0 {
		chunk := p[:min(len(p), stdinChunk)]
		a.mu.Lock()
		noInput := a.noInput || a.closed
		full := a.packets >= inFlight || a.sent > 0 && a.sent+len(chunk) > stdinCredit
		if !noInput && !full {
			a.sent += len(chunk)
			a.packets++
		}
		a.mu.Unlock()
		switch {
		case noInput:
			return n, shell.ErrNoStdin
		case full:
			select {
			case <-a.room:
			case <-ctx.Done():
				return n, ctx.Err()
			}
			continue
		}
		if _, err := a.f.Write(append([]byte{msgStdin}, chunk...)); err != nil {
			if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, os.ErrClosed) {
				err = shell.ErrNoStdin
			}
			return n, err
		}
		n += len(chunk)
		p = p[len(chunk):]
	}
	return n, nil
}

// CloseStdin implements [shell.Attachment].
func (a *attachment) CloseStdin() error {
	a.mu.Lock()
	a.noInput = true
	a.mu.Unlock()
	a.send([]byte{msgEOF})
	return nil
}

// Resize implements [shell.Attachment].
func (a *attachment) Resize(size shell.TTY) error {
	if size.Cols == 0 || size.Rows == 0 {
		return fault.Newf(fault.Invalid, "terminal of %d x %d", size.Cols, size.Rows)
	}
	p := binary.LittleEndian.AppendUint16([]byte{msgSize}, size.Cols)
	a.send(binary.LittleEndian.AppendUint16(p, size.Rows))
	return nil
}

// Close implements [shell.Attachment].
func (a *attachment) Close() error {
	a.mu.Lock()
	was := a.closed
	a.closed = true
	a.mu.Unlock()
	if was {
		return nil
	}
	if a.f != nil {
		a.f.Close()
	}
	a.wg.Wait()
	a.w.close()
	return nil
}
