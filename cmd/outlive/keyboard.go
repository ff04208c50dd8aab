// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"

	"github.com/outlive-dev/outlive/cmd/outlive/internal/console"
	"github.com/outlive-dev/outlive/shell"
)

// keyboard is what a foreground run passes on to its command beside showing output.
type keyboard struct {
	feed bool          // copy standard input until its end
	tty  bool          // the command has a terminal, whose size follows ours
	raw  *console.Raw  // our terminal, when the command's is used by it; else nil
	keys *console.Keys // what is typed to leave; nil for nothing
	quit func()        // leaves the command

	// after is where live output begins: what old output makes the terminal say is not
	// for the command, which is given input only from there on.
	after int64
	once  *sync.Once
	live  chan struct{} // closed when live output begins; nil when there is no other
}

// keyboardOf decides what of standard input a command gets: all of it when asked to,
// and every key when it has a terminal and so have we.
func (a *app) keyboardOf(stdin, tty bool, keys *console.Keys) keyboard {
	k := keyboard{feed: stdin, tty: tty}
	if !tty || a.noInput || !console.IsTerminal(a.in) {
		return k
	}
	raw, err := console.MakeRaw(a.in)
	if err != nil {
		a.note("the keyboard stays here: %v", err)
		return k
	}
	k.feed, k.keys, k.raw = true, keys, raw
	return k
}

// from says that output before off is old.
func (k *keyboard) from(off int64) {
	k.after, k.once, k.live = off, &sync.Once{}, make(chan struct{})
	k.shown(0)
}

// shown says how much output was shown.
func (k *keyboard) shown(off int64) {
	if k.live != nil && off >= k.after {
		k.once.Do(func() {
			k.raw.Discard()
			close(k.live)
		})
	}
}

// listen passes input and sizes on to the attachment.
func (c *copier) listen(ctx context.Context, at shell.Attachment) {
	if c.in.feed {
		c.app.group.Go("stdin", func(context.Context) { c.feed(ctx, at) })
	}
	if c.in.tty {
		c.app.group.Go("size", func(context.Context) { c.resize(ctx, at) })
	}
}

// feed copies standard input until its end, or until somebody types what leaves.
func (c *copier) feed(ctx context.Context, at shell.Attachment) {
	if c.in.live != nil {
		select {
		case <-c.in.live:
		case <-ctx.Done():
			return
		}
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := c.app.in.Read(buf)
		p, leave := c.in.keys.Pass(buf[:n])
		if len(p) > 0 {
			if _, werr := at.WriteStdin(ctx, p); werr != nil {
				return
			}
		}
		switch {
		case leave, err != nil && c.in.raw != nil: // a terminal that closes says nothing to the command
			c.in.quit()
			return
		case err != nil:
			_ = at.CloseStdin()
			return
		}
	}
}

// resize tells the command's terminal the size of ours, now and whenever it changes.
func (c *copier) resize(ctx context.Context, at shell.Attachment) {
	sizes, stop := console.Resizes()
	defer stop()
	for {
		if console.IsTerminal(c.app.in) || console.IsTerminal(c.app.out) {
			_ = at.Resize(console.Size(c.app.out, c.app.in)) // the next change tells
		}
		select {
		case <-sizes:
		case <-ctx.Done():
			return
		}
	}
}
