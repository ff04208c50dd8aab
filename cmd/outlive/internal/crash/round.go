// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/outlive-dev/outlive/task"
)

// Bounds after which something that should have ended counts as hung.
const (
	patience = 20 * time.Second
	lookFor  = 5 * time.Second
)

// run is a start as it was performed.
//
// Concurrency: proc is set once before started is closed; the rest is under mu until
// the round has come to rest.
type run struct {
	*start
	w       *world
	started chan struct{}
	proc    *proc

	mu       sync.Mutex
	struck   string // where its supervisor was killed: a point, or "instant"
	canceled bool   // somebody asked for that
}

// seen is a visit as it was performed.
type seen struct {
	visit
	of   *run
	id   task.ID
	proc *proc // nil when there was nothing to visit
}

// together runs functions at once and waits for all.
func (w *world) together(fns ...func(ctx context.Context)) {
	var wg sync.WaitGroup
	for _, fn := range fns {
		wg.Add(1)
		if !w.group.Go("round", func(ctx context.Context) {
			defer wg.Done()
			fn(ctx)
		}) {
			wg.Done()
		}
	}
	wg.Wait()
}

// perform does a round and checks what is left of it.
func (w *world) perform(ctx context.Context, p plan) {
	var fns []func(context.Context)
	runs := make([]*run, len(p.starts))
	for i := range p.starts {
		r := &run{start: &p.starts[i], w: w, started: make(chan struct{})}
		runs[i] = r
		fns = append(fns, func(ctx context.Context) { w.begin(ctx, p.round, r) })
	}
	visits := make([]*seen, len(p.visits))
	for i, v := range p.visits {
		s := &seen{visit: v, of: runs[v.target]}
		visits[i] = s
		fns = append(fns, func(ctx context.Context) { w.visit(ctx, p.round, s) })
	}
	w.together(fns...)
	if ctx.Err() == nil {
		w.check(ctx, p.round, runs, visits)
	}
}

// begin starts a command and does to its process, or its supervisor, what is planned.
func (w *world) begin(ctx context.Context, round string, r *run) {
	env, args := w.args(r.start)
	p, err := w.spawn(r.strike.spec(), env, args...)
	r.proc = p
	close(r.started)
	if err != nil {
		w.report.violate(round, "start outlive: %v", err)
		return
	}
	switch r.strike.kind {
	case atShim:
		if e, ok := r.supervisor(ctx, func(e entry) bool { return e.state == 'T' }); ok {
			sleep(ctx, r.strike.after)
			r.killShim(e, r.strike.point)
		}
	case killSupervisor:
		if e, ok := r.supervisor(ctx, func(entry) bool { return true }); ok {
			sleep(ctx, r.strike.after)
			r.killShim(e, "instant")
		}
	default:
		w.strike(ctx, p, r.strike, "starter")
	}
	w.end(ctx, round, p, r.strike)
}

// spec is the failpoint that a process is started with.
func (s *strike) spec() string {
	switch {
	case s.kind == atShim:
		return s.point + ":stop"
	case s.kind != atPoint:
		return ""
	case s.nth > 1:
		return s.point + "@" + strconv.Itoa(s.nth)
	}
	return s.point
}

// strike does to a process what is planned at an instant.
func (w *world) strike(ctx context.Context, p *proc, s strike, what string) {
	switch s.kind {
	case killed:
		if !p.wait(ctx, s.after) {
			p.kill()
			<-p.done
			if p.dead() {
				w.report.kill(what)
			}
		}
	case paused:
		if !p.wait(ctx, s.after) {
			p.pause()
			sleep(ctx, s.hold)
			p.resume()
			w.report.count("paused processes")
		}
	default:
	}
}

// end waits for a process and counts the point at which it died.
func (w *world) end(ctx context.Context, round string, p *proc, s strike) {
	if !p.wait(ctx, patience) {
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // it says where it hangs
		p.wait(ctx, 2*time.Second)
		p.kill()
		<-p.done
		if ctx.Err() == nil {
			w.report.violate(round, "strike %s, still running after %v: %s: %s", s.describe(), patience, p, p.err.bytes())
		}
		return
	}
	if s.kind == atPoint && p.byItself() {
		w.report.kill(s.point)
	}
}

// supervisor waits for the run's supervisor to be as wanted.
func (r *run) supervisor(ctx context.Context, as func(entry) bool) (found entry, ok bool) {
	poll(ctx, lookFor, func() bool {
		gone := r.proc.ended()
		id, known := r.task()
		for _, e := range processes() {
			if e.shim && (e.parent == r.proc.pid() || known && e.run == runOf(id)) && as(e) {
				found, ok = e, true
				return true
			}
		}
		return gone && !known // it never got so far
	})
	return found, ok
}

func (r *run) killShim(e entry, where string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if state, _ := stat(e.pid); state == 0 || state == 'Z' || syscall.Kill(e.pid, syscall.SIGKILL) != nil {
		return
	}
	r.struck = where
	if where == "instant" {
		where = "supervisor"
	}
	r.w.report.kill(where)
}

// task returns the id, once the starter has printed it or the command has told it.
func (r *run) task() (task.ID, bool) {
	if r.proc == nil {
		return "", false
	}
	if r.mode == modeDetached {
		if line, _, ok := bytes.Cut(r.proc.out.bytes(), []byte("\n")); ok {
			return task.ID(line), true
		}
	}
	if _, after, ok := bytes.Cut(r.proc.err.bytes(), []byte("still running as ")); ok {
		id, _, whole := bytes.Cut(after, []byte("\n"))
		return task.ID(id), whole
	}
	if starts, _ := r.marks(); len(starts) > 0 {
		return taskOf(starts[0].run), true
	}
	return "", false
}

// mark is what a command says at its start.
type mark struct{ run, token string }

// marks returns how often the command says that it has started, and that it has ended.
func (r *run) marks() (starts []mark, ends int) {
	b, err := os.ReadFile(r.w.marker(r.start))
	if err != nil {
		return nil, 0
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0 || !strings.HasSuffix(line, "\n"):
		case f[0] == "end":
			ends++
		default:
			m := mark{}
			if len(f) > 2 {
				m.run = f[2]
			}
			if len(f) > 3 {
				m.token = f[3]
			}
			starts = append(starts, m)
		}
	}
	return starts, ends
}

// acknowledged reports whether somebody was told that the task exists: its id was
// printed, or its first output.
func (r *run) acknowledged() bool {
	if r.proc == nil {
		return false
	}
	out := r.proc.out.bytes()
	if r.mode == modeDetached {
		return bytes.IndexByte(out, '\n') >= 0
	}
	return len(out) > 0 || !r.proc.dead() && r.proc.code == 75
}

// visit lets another process work on a run's task.
func (w *world) visit(ctx context.Context, round string, s *seen) {
	<-s.of.started
	known := false
	if s.of.proc == nil {
		return
	}
	poll(ctx, lookFor, func() bool {
		gone := s.of.proc.ended()
		s.id, known = s.of.task()
		return known || gone
	})
	if !known && s.verb != "ps" {
		return
	}
	sleep(ctx, s.delay)
	args := map[string][]string{
		"wait":   {"wait", string(s.id)},
		"logs":   {"logs", "-f", string(s.id)},
		"events": {"events", "-f", string(s.id)},
		"ps":     {"ps", "-a", "--json"},
		"cancel": {"cancel", "--reason", "crash", string(s.id)},
	}[s.verb]
	if s.verb == "logs" && s.of.mode != modeDetached {
		args = append(args, "--stdout") // between two pipes there is no order
	}
	if s.verb == "cancel" {
		s.of.mu.Lock()
		s.of.canceled = true
		s.of.mu.Unlock()
	}
	p, err := w.spawn(s.strike.spec(), nil, args...)
	if err != nil {
		w.report.violate(round, "start outlive: %v", err)
		return
	}
	s.proc = p
	w.strike(ctx, p, s.strike, "visitor: "+s.verb)
	w.end(ctx, round, p, s.strike)
}
