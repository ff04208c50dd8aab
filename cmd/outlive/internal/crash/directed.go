// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// directed are the rounds that bring about one race each, whatever the seed.
func directed() []struct {
	round string
	do    func(w *world, ctx context.Context, round string)
} {
	return []struct {
		round string
		do    func(w *world, ctx context.Context, round string)
	}{{"late", (*world).late}, {"hung", (*world).hung}, {"stale", (*world).stale}}
}

// scene is a directed round under way; after the first thing that does not happen it
// does no more.
type scene struct {
	w      *world
	round  string
	procs  []*proc
	seen   string // what the last look showed
	failed bool
}

// until waits for something that must happen.
func (s *scene) until(ctx context.Context, what string, ok func() bool) {
	if s.failed {
		return
	}
	if !poll(ctx, patience, ok) {
		s.failed = true
		var b strings.Builder
		for _, p := range s.procs {
			state, _ := stat(p.pid())
			fmt.Fprintf(&b, "\n  %s: process %d, state %q, ended %v, said %q %q", p, p.pid(), state, p.ended(), tail(p.out.bytes()), tail(p.err.bytes()))
		}
		s.w.report.violate(s.round, "did not happen within %v: %s, but %s%s", patience, what, s.seen, b.String())
	}
}

// start starts a detached run whose environment anybody can make again.
func (s *scene) start(ctx context.Context, n int, point string, steps []step) *run {
	r := &run{w: s.w, started: make(chan struct{}), start: &start{
		name: fmt.Sprintf("%s.%d", s.round, n), mode: modeDetached, script: script{clean: true, code: 7, steps: steps},
	}}
	close(r.started)
	env, args := s.w.args(r.start)
	r.proc = s.spawn(point, env, args...)
	return r
}

func (s *scene) spawn(point string, env []string, args ...string) *proc {
	p, err := s.w.spawn(point, env, args...)
	if err != nil {
		s.failed = true
		s.w.report.violate(s.round, "start outlive: %v", err)
		p = s.w.finish(context.Background(), 0, nil)
	}
	s.procs = append(s.procs, p)
	return p
}

// endLease lets the lease of a stopped process be over. One that stopped while it had
// the store locked goes on for a moment first.
func (s *scene) endLease(ctx context.Context, p *proc) {
	var err error
	again := false
	s.until(ctx, "the lease of "+p.String()+" is over", func() bool {
		if err = s.w.endLease(ctx, p.pid()); !fault.Is(err, fault.Unavailable) {
			if again && errors.Is(err, errNoWorker) {
				err = nil // it was over the first time
			}
			return true
		}
		again = true
		p.resume()
		sleep(ctx, 20*time.Millisecond)
		p.pause()
		// Until it has stopped it may take the lock again, and keep it.
		poll(ctx, patience, func() bool { return stopped(p.pid()) })
		return false
	})
	if err != nil && !s.failed {
		s.failed = true
		s.w.report.violate(s.round, "end the lease of %s: %v", p, err)
	}
}

// over ends what is left of a scene that failed, and judges one that did not.
func (s *scene) over(ctx context.Context, runs []*run, others ...*proc) {
	for _, r := range runs {
		others = append(others, r.proc)
	}
	for _, p := range others {
		if !s.failed {
			s.w.end(ctx, s.round, p, strike{})
			continue
		}
		p.kill()
		<-p.done
	}
	if ctx.Err() == nil {
		s.w.check(ctx, s.round, runs, nil)
	}
}

// record reads the task of a run.
func (s *scene) record(ctx context.Context, r *run) (rec task.Record, ok bool) {
	recs, err := s.w.tasks(ctx, r.name)
	if err != nil || len(recs) == 0 {
		return rec, false
	}
	return recs[0], true
}

// late has two processes that both decided to start one run. The second gets on only
// after the first one's run has finished: it must look again once it holds the lock.
func (w *world) late(ctx context.Context, round string) {
	s := &scene{w: w, round: round}
	const point = "daemon.before_lock:stop"
	r := s.start(ctx, 1, point, []step{{piece: 2}})
	s.until(ctx, "the starter stops before it takes the lock", func() bool { return stopped(r.proc.pid()) })
	rec, ok := s.record(ctx, r)
	s.until(ctx, "the task is in the store", func() bool { return ok })
	s.endLease(ctx, r.proc)
	second := s.spawn(point, nil, "wait", string(rec.ID))
	s.until(ctx, "a follower that takes over stops before it takes the lock", func() bool { return stopped(second.pid()) })
	r.proc.resume()
	quiet := 0 // a process that ends loses its environment before its locks
	s.until(ctx, "the command has ended", func() bool {
		_, ends := r.marks()
		if quiet++; ends == 0 || !r.proc.ended() || slices.ContainsFunc(processes(), func(e entry) bool { return e.run == runOf(rec.ID) }) {
			quiet = 0
		}
		return quiet > 10
	})
	second.resume()
	s.over(ctx, []*run{r}, second)
}

// hung has a supervisor that hangs just before the record "started" can be seen, and
// dies there. Until then the command must not run: whoever finds the run starts it.
func (w *world) hung(ctx context.Context, round string) {
	s := &scene{w: w, round: round}
	const point = "shim.started_tmp"
	r := s.start(ctx, 1, point+":stop", []step{{piece: 2}})
	var shim entry
	s.until(ctx, "the supervisor stops", func() bool {
		for _, e := range processes() {
			id, known := r.task()
			if e.shim && e.state == 'T' && (e.parent == r.proc.pid() || known && e.run == runOf(id)) {
				shim = e
				return true
			}
		}
		return false
	})
	if !s.failed {
		// Time enough for a command that could run.
		poll(ctx, 300*time.Millisecond, func() bool {
			starts, _ := r.marks()
			return len(starts) > 0
		})
		r.killShim(shim, point)
	}
	s.over(ctx, []*run{r})
}

// stale has a follower that journals several tasks and is stopped until its lease is
// over, and another follower has taken them over and got ahead. Then it goes on: what
// it still wants to write, at once and a lot, must be refused.
func (w *world) stale(ctx context.Context, round string) {
	s := &scene{w: w, round: round}
	var runs []*run
	args := []string{"wait"}
	gates := []string{w.dir + "/gate.1", w.dir + "/gate.2", w.dir + "/gate.3"}
	open := func(gate string) {
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			s.failed = true
			w.report.violate(round, "%v", err)
		}
	}
	for n := range 6 {
		steps := slices.Repeat([]step{{piece: 2}}, 4)
		steps = append(steps, step{gate: gates[0]}, step{piece: 2}, step{gate: gates[1]})
		steps = append(steps, slices.Repeat([]step{{piece: 2}, {pause: 5 * time.Millisecond}}, 40)...) // in parts of all sizes
		steps = append(steps, step{gate: gates[2]})
		steps = append(steps, slices.Repeat([]step{{piece: 2}, {pause: 20 * time.Millisecond}}, 10)...)
		r := s.start(ctx, n+1, "", steps)
		runs = append(runs, r)
		s.until(ctx, "the starter prints an id", r.proc.ended)
		id, ok := r.task()
		s.until(ctx, "the starter has printed an id", func() bool { return ok })
		args = append(args, string(id))
	}
	// writes reports whether the process's worker has every task, and has journaled that
	// much of each.
	writes := func(p *proc, size int) bool {
		all := true
		err := w.view(ctx, func(v store.View) error {
			s.seen = ""
			for _, id := range args[1:] {
				rec, ok, err := v.Task(task.ID(id))
				if err != nil || !ok {
					return err
				}
				h, _, err := v.Worker(rec.Lease.Worker)
				if err != nil {
					return err
				}
				es, err := entries(v, rec.ID)
				if err != nil {
					return err
				}
				got := 0
				for _, e := range es {
					if e.Kind == journal.KindOutput && e.Attempt == rec.Attempt {
						got += len(e.Data)
					}
				}
				all = all && h.PID == p.pid() && got >= size
				s.seen += fmt.Sprintf("%s attempt %d of process %d has %d bytes; ", rec.State, rec.Attempt, h.PID, got)
			}
			return nil
		})
		return err == nil && all
	}
	first := s.spawn("", nil, args...)
	// What there was to journal before the gate, a starter may have journaled already.
	s.until(ctx, "a follower has all tasks", func() bool { return writes(first, 0) })
	open(gates[0])
	s.until(ctx, "it journals them", func() bool { return writes(first, 1) })
	first.pause()
	s.until(ctx, "it stops", func() bool { return stopped(first.pid()) })
	s.endLease(ctx, first)
	second := s.spawn("", nil, args...)
	s.until(ctx, "another follower takes them over", func() bool { return writes(second, 0) })
	open(gates[1])
	s.until(ctx, "it gets ahead", func() bool { return writes(second, 64<<10) })
	first.resume()
	open(gates[2])
	s.over(ctx, runs, first, second)
}
