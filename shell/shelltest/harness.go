// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package shelltest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/shell"
)

const (
	patience = 30 * time.Second
	markEnv  = "SHELLTEST_MARK" // in the environment of every command of one test
	ranFile  = ".ran"           // in the directory of a command: a line for each execution
)

func fence1() shell.Fence { return shell.Fence{Generation: 1, Attempt: 1} }

// harness is one test's view of its backend.
//
// Concurrency: ids and dirs are under mu, the rest does not change.
type harness struct {
	*testing.T
	f     Factory
	b     *Backend
	setup Setup
	mark  string

	mu   sync.Mutex
	ids  []shell.RunID
	dirs []string
}

func newHarness(t *testing.T, f Factory, b *Backend, s Setup) *harness {
	t.Helper()
	return &harness{T: t, f: f, b: b, setup: s, mark: token()}
}

func token() string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// delay is how long this backend provisions.
func (h *harness) delay() time.Duration {
	if h.b.Provisions {
		return h.setup.Delay
	}
	return 0
}

func (h *harness) capabilities() shell.Capabilities {
	if h.b.Recoverable != nil {
		return h.b.Recoverable.Capabilities()
	}
	return h.b.Shell.Capabilities()
}

// splits skips the test when the backend has one stream for both outputs; that it
// refuses to split them is another test's.
func (h *harness) splits() {
	h.Helper()
	if !h.capabilities().Split {
		h.Skip("the backend does not keep the streams apart, and says so")
	}
}

// newID returns a run id that no other test uses.
func (h *harness) newID() shell.RunID {
	id := shell.RunID("st-" + token() + "-r1")
	h.know(id)
	return id
}

func (h *harness) know(id shell.RunID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ids = append(h.ids, id)
}

// sh returns a request for shell text, in a directory of its own, that counts its
// executions.
func (h *harness) sh(text string) shell.Request {
	r := h.bare()
	r.Command = "echo x >> " + ranFile + "\n" + text
	return r
}

// argv returns a request for a program.
func (h *harness) argv(argv ...string) shell.Request {
	r := h.bare()
	r.Argv = argv
	return r
}

func (h *harness) bare() shell.Request {
	dir := h.TempDir()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dirs = append(h.dirs, dir)
	return shell.Request{Dir: dir, Env: map[string]string{markEnv: h.mark}}
}

// result is how an execution ended.
type result struct {
	exit    shell.Exit
	out     string
	omitted []shell.Range
	took    time.Duration
}

func (r result) code() int { return code(r.exit) }

func code(e shell.Exit) int {
	if e.Code == nil {
		return -1
	}
	return *e.Code
}

// run executes a request in the backend's way and fails the test if it does not get
// to its exit.
func (h *harness) run(r shell.Request) result {
	h.Helper()
	began := time.Now()
	if h.b.Recoverable == nil {
		resp, err := h.b.Shell.Execute(h.Context(), r)
		if err != nil {
			h.Fatalf("Execute = %v", err)
		}
		return result{resp.Exit, string(resp.Output), resp.Omitted, time.Since(began)}
	}
	id := h.start(r)
	e := h.wait(id)
	took := time.Since(began)
	out, omitted := h.read(h.b.Recoverable, id)
	return result{e, string(out), omitted, took}
}

func (h *harness) start(r shell.Request) shell.RunID {
	h.Helper()
	id := h.newID()
	if err := h.b.Recoverable.Start(h.Context(), id, fence1(), r); err != nil {
		h.Fatalf("Start(%s) = %v", id, err)
	}
	return id
}

func (h *harness) wait(id shell.RunID) shell.Exit {
	h.Helper()
	return h.waitOn(h.b.Recoverable, id)
}

func (h *harness) waitOn(b shell.Recoverable, id shell.RunID) shell.Exit {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), patience)
	defer cancel()
	e, err := b.Wait(ctx, id)
	if err != nil {
		st, rerr := b.Recover(h.Context(), id)
		h.Fatalf("Wait(%s) = %v; state %+v, %v", id, err, st, rerr)
	}
	return e
}

// read reads a run to its end.
func (h *harness) read(b shell.Recoverable, id shell.RunID) (data []byte, omitted []shell.Range) {
	h.Helper()
	for from := int64(0); ; {
		c, err := b.Read(h.Context(), id, from, 1<<20, patience)
		if err != nil {
			h.Errorf("Read(%s, %d) = %v", id, from, err)
			return data, omitted
		}
		data = append(data, c.Bytes()...)
		omitted = append(omitted, c.Omitted...)
		if c.End {
			return data, omitted
		}
		if c.Next == from {
			h.Errorf("Read(%s, %d) gave nothing in %v", id, from, patience)
			return data, omitted
		}
		from = c.Next
	}
}

func (h *harness) recover(id shell.RunID) shell.State {
	h.Helper()
	st, err := h.b.Recoverable.Recover(h.Context(), id)
	if err != nil {
		h.Fatalf("Recover(%s) = %v", id, err)
	}
	return st
}

func (h *harness) stop(id shell.RunID, s shell.StopRequest) {
	h.Helper()
	if err := h.b.Recoverable.Stop(h.Context(), id, fence1(), s); err != nil {
		h.Fatalf("Stop(%s) = %v", id, err)
	}
}

// peers returns the backend as n other processes would see it.
func (h *harness) peers(n int) []shell.Recoverable {
	h.Helper()
	bs := make([]shell.Recoverable, n)
	for i := range bs {
		if bs[i] = h.b.Recoverable; h.b.Peer != nil {
			bs[i] = h.b.Peer(h.T)
		}
	}
	return bs
}

func poll(limit time.Duration, ok func() bool) bool {
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			return false
		}
		<-tick.C
	}
	return true
}

// eventually polls until ok returns true.
func (h *harness) eventually(what string, ok func() bool) {
	h.Helper()
	if !poll(patience, ok) {
		h.Fatalf("not within %v: %s", patience, what)
	}
}

// ready waits for the file "ready" that a command makes.
func (h *harness) ready(r shell.Request) {
	h.Helper()
	h.eventually("the command is ready", func() bool { return there(r, "ready") })
}

// pause waits, for the sake of what must not happen meanwhile.
func pause(d time.Duration) { <-time.After(d) }

func there(r shell.Request, name string) bool {
	_, err := os.Lstat(filepath.Join(r.Dir, name))
	return err == nil
}

func (h *harness) touch(r shell.Request, name string) {
	h.Helper()
	if err := os.WriteFile(filepath.Join(r.Dir, name), nil, 0o600); err != nil {
		h.Fatal(err)
	}
}

func slurp(r shell.Request, name string) string {
	b, _ := os.ReadFile(filepath.Join(r.Dir, name))
	return string(b)
}

// executions counts how often the command of a request was executed.
func executions(dir string) int {
	b, _ := os.ReadFile(filepath.Join(dir, ranFile))
	return bytes.Count(b, []byte("x"))
}

// notStarted checks that an error says that nothing was executed.
func (h *harness) notStarted(op string, err error, step shell.Step) {
	h.Helper()
	var x *shell.ExecError
	if !errors.As(err, &x) || x.Started != shell.No || step != "" && x.Phase != step {
		h.Errorf("%s = %v, want an ExecError in phase %s, not started", op, err, step)
	}
}

// carriers returns the live processes whose environment has one of the entries.
func carriers(entries ...string) (pids []int) {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		env, err := os.ReadFile("/proc/" + d.Name() + "/environ")
		if err != nil {
			continue
		}
		for kv := range bytes.SplitSeq(env, []byte{0}) {
			for _, e := range entries {
				if string(kv) == e {
					pids = append(pids, pid)
				}
			}
		}
	}
	return pids
}

// noneLeft waits until no process of the test's commands is left, supervisors
// included.
func (h *harness) noneLeft() {
	h.Helper()
	entries := []string{markEnv + "=" + h.mark}
	h.mu.Lock()
	for _, id := range h.ids {
		entries = append(entries, shell.Cookie+"="+string(id))
	}
	h.mu.Unlock()
	empty := 0 // in the middle of an exec a process has no environment for a moment
	var pids []int
	if !poll(patience, func() bool {
		if pids = carriers(entries...); len(pids) > 0 {
			empty = -1
		}
		empty++
		return empty > 1
	}) {
		var b strings.Builder
		for _, p := range pids {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p))
			fmt.Fprintf(&b, "\n%d %q", p, line)
		}
		h.Errorf("processes are left:%s", b.String())
	}
}

// check is what must hold after every test.
func (h *harness) check() {
	h.Helper()
	h.noneLeft()
	for _, dir := range h.dirs {
		if n := executions(dir); n > 1 {
			h.Errorf("a command was executed %d times", n)
		}
	}
	if h.b.Recoverable == nil || h.setup.Runs != "" {
		return
	}
	// The test's context has ended: this is a later process's look.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.Context()), patience)
	defer cancel()
	for _, id := range h.ids {
		h.agree(ctx, id)
	}
}

// agree checks that what the records of a run say does not depend on who asks, or how.
func (h *harness) agree(ctx context.Context, id shell.RunID) {
	h.Helper()
	r := h.b.Recoverable
	a, aerr := r.Recover(ctx, id)
	b, berr := r.Recover(ctx, id)
	if aerr != nil || berr != nil {
		return // the test took the backend away
	}
	if a.Phase == shell.Live {
		h.Errorf("run %s is still live: %+v", id, a)
		return
	}
	if a.Phase != b.Phase || (a.Exit == nil) != (b.Exit == nil) || a.Exit != nil && a.Exit.Cause != b.Exit.Cause {
		h.Errorf("run %s: %+v, then %+v", id, a, b)
	}
	if (a.Phase == shell.Finished || a.Phase == shell.RunLost) != (a.Exit != nil) {
		h.Errorf("run %s: phase %s, exit %+v", id, a.Phase, a.Exit)
	}
	if a.Exit == nil {
		return
	}
	e, err := r.Wait(ctx, id)
	if err != nil || e.Cause != a.Exit.Cause || e.TotalBytes != a.Exit.TotalBytes || code(e) != code(*a.Exit) {
		h.Errorf("run %s: Wait = %+v, %v, Recover says %+v", id, e, err, a.Exit)
	}
	if e.TimedOut && e.Cause != shell.TimedOut && e.Cause != shell.Lost || e.Cause == shell.TimedOut && !e.TimedOut {
		h.Errorf("run %s: cause %s, timed out %v", id, e.Cause, e.TimedOut)
	}
}
