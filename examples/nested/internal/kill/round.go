// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/outlive-dev/outlive/shell/local"
	"github.com/outlive-dev/outlive/store/sqlite"
)

// patience is when a process that should have ended counts as hung.
const patience = 30 * time.Second

// round is one parent and what is done to the processes that work on it.
type round struct {
	n      int
	plan   plan
	bin    string
	dir    string
	report *report

	lastKill time.Time
}

func (r *round) bad(format string, args ...any) {
	var done []string
	for _, s := range r.plan.strikes {
		done = append(done, s.String())
	}
	r.report.violate(r.n, "%s (%s)", fmt.Sprintf(format, args...), strings.Join(done, ", "))
}

func (r *round) db() string          { return filepath.Join(r.dir, fmt.Sprintf("%d.db", r.n)) }
func (r *round) trace() string       { return filepath.Join(r.dir, fmt.Sprintf("%d.trace", r.n)) }
func (r *round) marker(i int) string { return filepath.Join(r.dir, fmt.Sprintf("%d.ran%d", r.n, i)) }

// perform does the round and checks what is left of it.
func (r *round) perform(ctx context.Context) {
	for _, s := range r.plan.strikes {
		killed, err := r.process(ctx, s)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.bad("%s: %v", s, err)
			return
		case !killed: // it got through before that came about
			r.judge(ctx)
			return
		}
		if !r.between(ctx) {
			return
		}
	}
	if _, err := r.process(ctx, strike{}); err != nil {
		if ctx.Err() == nil {
			r.bad("the last process: %v", err)
		}
		return
	}
	r.judge(ctx)
}

// process runs the program once, and reports whether it was killed. An error is an end
// that is neither that nor success.
func (r *round) process(ctx context.Context, s strike) (killed bool, err error) {
	args := []string{"-db", r.db(), "-trace", r.trace()}
	for i, pause := range r.plan.pauses {
		args = append(args, fmt.Sprintf("echo ran >> %s; sleep %.3f; exit %d", r.marker(i), pause.Seconds(), i))
	}
	limit, stop := context.WithTimeout(ctx, patience)
	defer stop()
	if s.point == "" && s.after > 0 {
		limit, stop = context.WithTimeout(ctx, s.after)
		defer stop()
	}
	var said bytes.Buffer
	c := exec.CommandContext(limit, r.bin, args...) // kills it when the time is over
	c.Env = append(os.Environ(), local.FailpointEnv+"="+s.spec())
	c.Stdout, c.Stderr = &said, &said
	c.WaitDelay = 5 * time.Second
	err = c.Run()
	var x *exec.ExitError
	switch {
	case err == nil, c.ProcessState != nil && c.ProcessState.Success(): // in the instant in which it was to be killed
		return false, nil
	case errors.As(err, &x) && x.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL: //nolint:errcheck,forcetypeassert // what Linux has
		where := s.point
		if where == "" {
			where = instant
		}
		if limit.Err() != nil && (s.point != "" || s.after == 0) {
			return false, fmt.Errorf("still running after %v: %s", patience, said.String())
		}
		r.lastKill = time.Now()
		r.report.do(func(rep *report) { rep.kills[where]++ })
		return true, nil
	}
	return false, fmt.Errorf("%w: %s", err, said.String())
}

// between looks at what a killed process left, before the next one: what a later turn
// reads must begin behind what was consumed then.
func (r *round) between(ctx context.Context) bool {
	st, err := sqlite.Open(ctx, r.db(), nil)
	if err != nil {
		if ctx.Err() == nil {
			r.bad("open the store: %v", err)
		}
		return false
	}
	defer st.Close()
	w, err := look(ctx, st)
	if err != nil {
		if ctx.Err() == nil {
			r.bad("read the store: %v", err)
		}
		return false
	}
	return r.note(fmt.Sprintf("0 killed %d", w.parent.ConsumedInput))
}

// note adds a line to the trace, as the program does.
func (r *round) note(line string) bool {
	f, err := os.OpenFile(r.trace(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, line)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		r.bad("write the trace: %v", err)
	}
	return err == nil
}

// step is a line of the trace: what a turn did, or after a kill how much was consumed.
type step struct {
	attempt int64
	what    string
	seqs    []int64
}

func (r *round) steps() (list []step, err error) {
	text, err := os.ReadFile(r.trace())
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			return nil, fmt.Errorf("trace line %q", line)
		}
		s := step{what: f[1]}
		for i, word := range append([]string{f[0]}, f[2:]...) {
			n, err := strconv.ParseInt(word, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("trace line %q: %w", line, err)
			}
			if i == 0 {
				s.attempt = n
			} else {
				s.seqs = append(s.seqs, n)
			}
		}
		list = append(list, s)
	}
	return list, nil
}
