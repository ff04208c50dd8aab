// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
)

const inputSize = 256 << 10

// newName returns a name that nobody else chooses.
func newName() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// readerOf returns the reader whose hold begins with the start of a run.
func (c *Client) readerOf(id shell.RunID) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.readers[id] == "" {
		c.readers[id] = newName()
	}
	return c.readers[id]
}

// attachment is a reader's end of a hold, which the server keeps under its name as long
// as it hears of it.
//
// Concurrency: next belongs to the one reading goroutine, fed and noInput to the one
// that writes input; acked and noInput are under mu. A goroutine of the client tells the
// server that the reader is there, until stop is closed.
type attachment struct {
	c    *Client
	id   shell.RunID
	name string
	next int64
	fed  int64
	stop chan struct{}

	mu      sync.Mutex
	acked   int64
	noInput bool
	closed  bool
}

// Attach implements [shell.Recoverable].
func (c *Client) Attach(ctx context.Context, id shell.RunID, from int64) (shell.Attachment, error) {
	if err := id.Valid(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	name := c.readers[id]
	delete(c.readers, id)
	c.mu.Unlock()
	if name == "" {
		name = newName()
	}
	a := &attachment{c: c, id: id, name: name, next: from, acked: from, stop: make(chan struct{})}
	if err := a.tell(ctx); err != nil {
		if errors.Is(err, shell.ErrReleased) {
			err = shell.ErrNoRun
		}
		return nil, transport(err, shell.Maybe, nil)
	}
	if !c.group.Go("attachment", a.keepAlive) {
		return nil, fault.New(fault.Closed, "attach: the backend is closed")
	}
	return a, nil
}

func (a *attachment) path() string { return runPath(a.id, "/readers/"+a.name) }

// tell says that the reader is there and what it has taken.
func (a *attachment) tell(ctx context.Context) error {
	a.mu.Lock()
	p := position{Off: a.acked}
	a.mu.Unlock()
	_, err := a.c.do(ctx, call{method: http.MethodPut, path: a.path(), body: p}, nil)
	return err
}

func (a *attachment) keepAlive(ctx context.Context) {
	t := time.NewTicker(readerGrace / 3)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-a.stop:
			return
		case <-ctx.Done():
			return
		}
		bounded, cancel := context.WithTimeout(ctx, readerGrace/3)
		_ = a.tell(bounded) // the next one tells
		cancel()
	}
}

// Read implements [shell.Attachment].
func (a *attachment) Read(ctx context.Context, maxBytes int) (shell.Chunk, error) {
	for {
		a.mu.Lock()
		v := url.Values{"reader": {a.name}, "ack": {strconv.FormatInt(a.acked, 10)}}
		if a.closed {
			v = nil
		}
		a.mu.Unlock()
		ch, err := a.c.readChunk(ctx, a.id, a.next, maxBytes, longPoll, v)
		if err != nil {
			return ch, err
		}
		if ch.Next > a.next || ch.End {
			a.next = ch.Next
			return ch, nil
		}
		if err := ctx.Err(); err != nil {
			return ch, err
		}
	}
}

// Ack implements [shell.Attachment]. The server learns it with the next read.
func (a *attachment) Ack(off int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.acked = max(a.acked, off)
	return nil
}

// WriteStdin implements [shell.Attachment].
func (a *attachment) WriteStdin(ctx context.Context, p []byte) (n int, err error) {
	for n < len(p) {
		a.mu.Lock()
		over := a.noInput || a.closed
		a.mu.Unlock()
		if over {
			return n, shell.ErrNoStdin
		}
		took, err := a.feed(ctx, input{Reader: a.name, Off: a.fed, Data: p[n:min(n+inputSize, len(p))]})
		n += took
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

func (a *attachment) feed(ctx context.Context, in input) (n int, err error) {
	var p position
	if _, err := a.c.do(ctx, call{method: http.MethodPost, path: runPath(a.id, "/stdin"), body: in, wait: stdinWait}, &p); err != nil {
		if fault.Is(err, fault.Closed) || fault.Is(err, fault.NotFound) || errors.Is(err, shell.ErrReleased) {
			err = shell.ErrNoStdin
		}
		return 0, transport(err, shell.Maybe, nil)
	}
	n = int(p.Off - a.fed)
	a.fed = p.Off
	return n, nil
}

// CloseStdin implements [shell.Attachment].
func (a *attachment) CloseStdin() error {
	a.mu.Lock()
	was := a.noInput || a.closed
	a.noInput = true
	a.mu.Unlock()
	if was {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), farewell) //nolint:forbidigo // CloseStdin has none
	defer cancel()
	_, err := a.feed(ctx, input{Reader: a.name, Off: a.fed, EOF: true})
	if errors.Is(err, shell.ErrNoStdin) {
		return nil
	}
	return err
}

// Resize implements [shell.Attachment].
func (a *attachment) Resize(size shell.TTY) error {
	if size.Cols == 0 || size.Rows == 0 {
		return fault.Newf(fault.Invalid, "terminal of %d x %d", size.Cols, size.Rows)
	}
	ctx, cancel := context.WithTimeout(context.Background(), farewell) //nolint:forbidigo // Resize has none
	defer cancel()
	_, err := a.c.do(ctx, call{method: http.MethodPost, path: runPath(a.id, "/stdin"), body: input{Reader: a.name, TTY: &size}}, nil)
	if fault.Is(err, fault.Closed) || fault.Is(err, fault.NotFound) || errors.Is(err, shell.ErrReleased) {
		return nil // it has ended
	}
	return transport(err, shell.Maybe, nil)
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
	close(a.stop)
	ctx, cancel := context.WithTimeout(context.Background(), farewell) //nolint:forbidigo // Close has none
	defer cancel()
	// When it cannot be told, the server finds that the reader is not heard of.
	_, _ = a.c.do(ctx, call{method: http.MethodDelete, path: a.path()}, nil)
	return nil
}
