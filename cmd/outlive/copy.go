// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/cmd/outlive/internal/host"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool/command"
)

// stopPatience is how long the kernel may take to stop this process.
const stopPatience = 200 * time.Millisecond

// errCallerGone is the cause when nobody reads what run prints any more.
var errCallerGone = errors.New("nobody reads the output any more")

// copier prints a command's output from its spool, and feeds its standard input.
//
// Concurrency: one goroutine copies output, one input. What it found is read
// after done is closed; the input's goroutine ends with the process, since a read of
// standard input cannot be interrupted. mu guards what a stop (Ctrl-Z) changes.
type copier struct {
	app      *app
	rec      task.Record // as it was when copying began
	gone     context.CancelCauseFunc
	terminal bool // nobody is promised that output waits while this process is stopped

	in    keyboard
	late  bool // it came to what was there: bytes that are not kept are no loss
	loan  *command.Loan
	lost  int64
	next  int64       // what is printed
	ended bool        // everything is printed
	exit  *shell.Exit // how the command ended, by its own record; nil when it did not run
	err   error       // why not everything is printed

	stop context.CancelFunc
	done chan struct{}

	mu     sync.Mutex
	yield  context.CancelFunc // ends the present attachment
	paused chan struct{}      // not nil while stopped: closed to go on
	away   chan struct{}      // closed when the attachment is let go
}

func (c *copier) start(ctx context.Context, loan *command.Loan) {
	ctx, c.stop = context.WithCancel(ctx)
	c.done, c.loan = make(chan struct{}), loan
	c.app.mu.Lock()
	switch {
	case c.in.raw != nil:
		c.app.pause = c.in.raw.Pause
	case c.terminal && !c.in.feed:
		c.app.pause = c.pause
	}
	c.app.mu.Unlock()
	c.app.group.Go("output", func(context.Context) {
		defer close(c.done)
		select {
		case <-loan.Ready:
		case <-ctx.Done():
			return
		}
		c.err = c.all(ctx)
	})
}

// errStopped is why copying ended when it was asked to.
var errStopped = errors.New("copying was stopped")

// all copies to the end, and returns why it did not come to it.
func (c *copier) all(ctx context.Context) error {
	b, err := c.app.commands.Backend(&c.rec)
	if err != nil {
		return err
	}
	if err := c.follow(ctx, b); err != nil {
		return err
	}
	c.ended = true
	x, err := b.Wait(ctx, command.RunID(c.rec.ID))
	if err != nil {
		return nil //nolint:nilerr // it never ran; its record says why
	}
	c.exit = &x
	if !c.late {
		c.lost += max(0, x.TotalBytes-c.next) // none, unless the spool and its record differ
	}
	return nil
}

// unhook lets a stop know that there is nothing to let go any more.
func (c *copier) unhook() {
	c.app.mu.Lock()
	defer c.app.mu.Unlock()
	c.app.pause = nil
}

// follow copies until the end. While the process is stopped it holds nothing back.
func (c *copier) follow(ctx context.Context, b shell.Recoverable) error {
	for {
		at, err := b.Attach(ctx, command.RunID(c.rec.ID), c.next)
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = at.Close()
			}
			return errStopped
		case fault.Is(err, fault.NotFound) && c.next == 0:
			return nil // it never started; its record says why
		case err != nil:
			return err
		}
		one, yield := context.WithCancel(ctx)
		c.mu.Lock()
		c.yield = yield
		paused := c.paused
		c.mu.Unlock()
		err = errStopped
		if paused == nil {
			c.listen(one, at)
			err = c.copy(one, at)
		}
		_ = at.Close()
		yield()
		c.mu.Lock()
		paused, away := c.paused, c.away
		c.mu.Unlock()
		if !errors.Is(err, errStopped) || paused == nil || ctx.Err() != nil {
			return err
		}
		close(away)
		select {
		case <-paused:
		case <-ctx.Done():
			return errStopped
		}
	}
}

// pause lets the output go on without this reader until resume is called.
func (c *copier) pause() (resume func()) {
	c.mu.Lock()
	paused, away, yield := make(chan struct{}), make(chan struct{}), c.yield
	c.paused, c.away = paused, away
	c.mu.Unlock()
	if yield != nil {
		yield()
		select {
		case <-away:
		case <-c.done:
		case <-time.After(stopPatience): // the terminal takes nothing
		}
	}
	return func() {
		c.mu.Lock()
		c.paused = nil
		c.mu.Unlock()
		close(paused)
	}
}

// readTries bounds how often a read of output that fails is repeated, together for
// about two seconds.
const readTries = 8

// copy prints output to its end. A read that fails is repeated on the same
// attachment, so that nothing is dropped meanwhile.
func (c *copier) copy(ctx context.Context, at shell.Attachment) error {
	for tries := 0; ; {
		ch, err := at.Read(ctx, 0)
		if err != nil {
			if tries++; ctx.Err() != nil {
				return errStopped
			}
			if tries > readTries {
				return err
			}
			select {
			case <-time.After(time.Duration(1<<tries) * 4 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		tries = 0
		for _, o := range ch.Omitted {
			if c.late {
				c.app.note("%d bytes omitted here", o.Len())
			} else {
				c.lost += o.Len()
			}
		}
		for _, f := range ch.Frames {
			w := c.app.out
			if f.Stream == shell.Stderr || c.app.json {
				w = c.app.err
			}
			if _, err := w.Write(f.Data); err != nil {
				c.gone(errCallerGone)
				return errStopped
			}
		}
		c.next = ch.Next
		c.in.shown(c.next)
		if ch.End {
			return nil
		}
		if err := at.Ack(ch.Next); err != nil && ctx.Err() == nil {
			return fmt.Errorf("acknowledge output: %w", err)
		}
	}
}

// drain waits until everything is printed of a task that has ended.
func (c *copier) drain() {
	if !c.ran() {
		c.stop() // there is nothing to wait for
	}
	<-c.done
	c.stop()
	c.in.raw.Restore()
}

// ran reports whether the command was started from here, or may have been.
func (c *copier) ran() bool {
	select {
	case <-c.loan.Ready:
	default:
		return false // nobody started it here
	}
	b, err := c.app.commands.Backend(&c.rec)
	if err != nil {
		return false
	}
	st, err := b.Recover(context.Background(), command.RunID(c.rec.ID))
	return err != nil || st.Started || st.Exit != nil || st.Phase == shell.Live || st.Reason == shell.ReasonReleased
}

// abandon stops printing: the task goes on without this reader.
func (c *copier) abandon() {
	c.stop()
	<-c.done
	c.in.raw.Restore()
}

// recorded waits for the store to say what the command's own record says, and helps:
// a run that was away too long has lost its task to whoever came.
func (c *copier) recorded(ctx context.Context) error {
	<-c.done
	if !c.ended {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, recordWait)
	defer cancel()
	_, err := c.app.rt.Wait(ctx, c.rec.ID, outlive.Terminal)
	return err
}

// dump prints what a spool holds from an offset, and follows it when asked to.
func (a *app) dump(ctx context.Context, b shell.Recoverable, id shell.RunID, from int64, follow bool, write func(shell.Frame) error) error {
	wait := readWait
	if !follow {
		wait = 0
	}
	for {
		ch, err := b.Read(ctx, id, from, 256<<10, wait)
		if err != nil {
			return err
		}
		for _, o := range ch.Omitted {
			a.note("%d bytes omitted here", o.Len())
		}
		for _, f := range ch.Frames {
			if err := write(f); err != nil {
				return err
			}
		}
		if ch.End || !follow && ch.Next == from {
			return nil
		}
		from = ch.Next
	}
}

// sink writes frames where they belong.
func (a *app) sink(onlyOut, onlyErr bool) func(shell.Frame) error {
	return func(f shell.Frame) error {
		var w io.Writer = a.out
		switch {
		case f.Stream == shell.Stderr && onlyOut, f.Stream != shell.Stderr && onlyErr:
			return nil
		}
		_, err := w.Write(f.Data)
		if errors.Is(err, os.ErrClosed) || host.BrokenPipe(err) {
			return &coded{code: exitOK}
		}
		if err != nil {
			return fault.Newf(fault.Unavailable, "write output: %v", err)
		}
		return nil
	}
}
