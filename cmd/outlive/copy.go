// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool/command"
)

// errCallerGone is the cause when nobody reads what run prints any more.
var errCallerGone = errors.New("nobody reads the output any more")

// copier prints a command's output from its spool, and feeds its standard input.
//
// Concurrency: one goroutine copies output, one input. lost is read after drain or
// abandon, which wait for the first; the second ends with the process, since a read
// of standard input cannot be interrupted.
type copier struct {
	app  *app
	id   task.ID
	gone context.CancelCauseFunc
	lost int64

	stop context.CancelFunc
	done chan struct{}
}

func (c *copier) start(ctx context.Context, loan *command.Loan, stdin bool) {
	ctx, c.stop = context.WithCancel(ctx)
	c.done = make(chan struct{})
	c.app.group.Go("output", func(context.Context) {
		defer close(c.done)
		select {
		case <-loan.Ready:
		case <-ctx.Done():
			return
		}
		b, err := c.app.commands.Backend(&task.Record{ID: c.id})
		if err != nil {
			return
		}
		at, err := b.Attach(ctx, command.RunID(c.id), 0)
		if err != nil {
			return // it never started; the task says why
		}
		defer at.Close()
		if stdin {
			c.app.group.Go("stdin", func(context.Context) { c.feed(ctx, at) })
		}
		c.copy(ctx, at)
	})
}

func (c *copier) copy(ctx context.Context, at shell.Attachment) {
	for {
		ch, err := at.Read(ctx, 0)
		if err != nil {
			return
		}
		for _, o := range ch.Omitted {
			c.lost += o.Len()
		}
		for _, f := range ch.Frames {
			w := c.app.out
			if f.Stream == shell.Stderr || c.app.json {
				w = c.app.err
			}
			if _, err := w.Write(f.Data); err != nil {
				c.gone(errCallerGone)
				return
			}
		}
		if err := at.Ack(ch.Next); err != nil && !ch.End {
			return
		}
		if ch.End {
			return
		}
	}
}

// feed copies standard input until its end.
func (c *copier) feed(ctx context.Context, at shell.Attachment) {
	buf := make([]byte, 64<<10)
	for {
		n, err := c.app.in.Read(buf)
		if n > 0 {
			if _, werr := at.WriteStdin(ctx, buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			_ = at.CloseStdin()
			return
		}
	}
}

// drain waits until everything is printed.
func (c *copier) drain() {
	<-c.done
	c.stop()
}

// abandon stops printing: the task goes on without this reader.
func (c *copier) abandon() {
	c.stop()
	<-c.done
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
		if errors.Is(err, os.ErrClosed) || isPipe(err) {
			return &coded{code: exitOK}
		}
		if err != nil {
			return fault.Newf(fault.Unavailable, "write output: %v", err)
		}
		return nil
	}
}
