// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// hub wakes those who wait for files of runs. It has one watcher for all, since the
// number of watchers a user may have is small. A wake-up is only a hint: whoever
// waits looks again after poll in any case.
//
// Concurrency: all fields are under mu; one goroutine passes events on until close.
type hub struct {
	poll time.Duration

	mu     sync.Mutex
	closed bool
	w      *fsnotify.Watcher
	dirs   map[string]map[*watch]struct{}
	wg     sync.WaitGroup
}

// watch is one waiter's interest in a directory.
type watch struct {
	h    *hub
	dir  string
	name string // of the file of interest, or "" for all
	c    chan struct{}
}

func newHub(poll time.Duration) *hub {
	return &hub{poll: poll, dirs: map[string]map[*watch]struct{}{}}
}

// watch registers interest in the file name of dir, or in all when name is "".
func (h *hub) watch(dir, name string) *watch {
	w := &watch{h: h, dir: dir, name: name, c: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return w
	}
	if h.w == nil {
		fw, err := fsnotify.NewWatcher()
		if err != nil {
			return w // no more watchers to be had: poll
		}
		h.w = fw
		h.wg.Go(func() { h.pass(fw) })
	}
	if h.dirs[dir] == nil {
		h.dirs[dir] = map[*watch]struct{}{}
		_ = h.w.Add(dir)
	}
	h.dirs[dir][w] = struct{}{}
	return w
}

func (w *watch) close() {
	h := w.h
	h.mu.Lock()
	defer h.mu.Unlock()
	ws := h.dirs[w.dir]
	delete(ws, w)
	if ws != nil && len(ws) == 0 {
		delete(h.dirs, w.dir)
		if h.w != nil && !h.closed {
			_ = h.w.Remove(w.dir)
		}
	}
}

// wait returns after an event, after limit or poll, or with ctx's error.
func (w *watch) wait(ctx context.Context, limit time.Duration) error {
	t := time.NewTimer(min(limit, w.h.poll))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-w.c:
	case <-t.C:
	}
	return nil
}

func (h *hub) pass(fw *fsnotify.Watcher) {
	for {
		select {
		case e, ok := <-fw.Events:
			if !ok {
				return
			}
			h.wake(filepath.Dir(e.Name), filepath.Base(e.Name))
		case _, ok := <-fw.Errors: // an overflow: polling covers it
			if !ok {
				return
			}
		}
	}
}

func (h *hub) wake(dir, name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.dirs[dir] {
		if w.name != "" && w.name != name {
			continue
		}
		select {
		case w.c <- struct{}{}:
		default:
		}
	}
}

func (h *hub) close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	fw := h.w
	h.mu.Unlock()
	var err error
	if fw != nil {
		err = fw.Close()
	}
	h.wg.Wait()
	return err
}

// sleep waits for d or ctx's end.
func (h *hub) sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
