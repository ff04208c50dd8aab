// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/store/sqlite"
	"github.com/outlive-dev/outlive/task"
)

// exe is the example as a user builds it.
var exe string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "outlive-approval-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	exe = filepath.Join(dir, "approval")
	if out, err := exec.Command("go", "build", "-o", exe, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s\nbuild the example: %v\n", out, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// stage is one store with one task, on which processes of the example follow one
// another.
type stage struct {
	t      *testing.T
	db     string
	ledger string // gets a line when the command runs
	pay    string // the command
}

func newStage(t *testing.T) *stage {
	dir := t.TempDir()
	s := &stage{t: t, db: filepath.Join(dir, "s.db"), ledger: filepath.Join(dir, "ledger")}
	s.pay = "echo paid >> " + s.ledger
	return s
}

// process is one process of the example, which starts with the failpoint armed.
func (s *stage) process(failpoint string, words ...string) *exec.Cmd {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	s.t.Cleanup(stop)
	c := exec.CommandContext(ctx, exe, append([]string{"-db", s.db}, words...)...)
	c.Env = append(os.Environ(), "OUTLIVE_FAILPOINT="+failpoint)
	return c
}

// asks starts a process and waits until it asks; dead when it was killed before.
func (s *stage) asks(failpoint string) (c *exec.Cmd, dead bool) {
	s.t.Helper()
	c = s.process(failpoint, "-command", s.pay)
	out, err := c.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	var said bytes.Buffer
	c.Stderr = &said
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil && strings.Contains(line, "asks: Run "+s.pay) {
		return c, false
	}
	if !killed(c.Wait()) {
		s.t.Fatalf("it neither asks nor was killed: %q %s", line, said.String())
	}
	return c, true
}

func (s *stage) kill(c *exec.Cmd) {
	s.t.Helper()
	if err := c.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	_ = c.Wait() // says that it was killed
}

// asked brings the task to where it waits and nothing runs.
func (s *stage) asked() {
	s.t.Helper()
	c, _ := s.asks("")
	s.kill(c)
}

func (s *stage) answer(word string) {
	s.t.Helper()
	if out, err := s.process("", "answer", word).CombinedOutput(); err != nil {
		s.t.Fatalf("answer %s: %v\n%s", word, err, out)
	}
}

// work runs a process to its end.
func (s *stage) work(failpoint, command string) (out string, err error) {
	b, err := s.process(failpoint, "-command", command).CombinedOutput()
	return string(b), err
}

func killed(err error) bool {
	var x *exec.ExitError
	if !errors.As(err, &x) {
		return false
	}
	ws, ok := x.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL
}

// paid counts how often the command ran.
func (s *stage) paid() int {
	b, err := os.ReadFile(s.ledger)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Error(err)
	}
	return strings.Count(string(b), "paid\n")
}

// end reads how the only task and its only ticket are.
func (s *stage) end() (r task.Record, row mail.Ticket) {
	s.t.Helper()
	st, err := sqlite.Open(s.t.Context(), s.db, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer st.Close()
	rt := outlive.New(st, &outlive.Options{Passive: true})
	recs, err := rt.Find(s.t.Context(), "tl-", 9)
	if err != nil || len(recs) != 1 {
		s.t.Fatalf("%d tasks, want 1; %v", len(recs), err)
	}
	rows, err := rt.Tickets(s.t.Context(), recs[0].ID)
	if err != nil || len(rows) != 1 {
		s.t.Fatalf("%d tickets, want 1; %v", len(rows), err)
	}
	return recs[0], rows[0]
}

// unknown fails unless the task ended with outcome unknown, and stays so.
func (s *stage) unknown(ran int) {
	s.t.Helper()
	for range 2 { // another process changes nothing
		if out, err := s.work("", s.pay+" again"); err == nil || !strings.Contains(out, "used before") { // nor do other arguments
			s.t.Fatalf("it goes on: %v\n%s", err, out)
		}
		r, row := s.end()
		if r.State != task.Failed || r.Failure.Outcome != task.OutcomeUnknown || row.ClaimedAt.IsZero() {
			s.t.Errorf("%s, %+v, claimed at %v, want failed with outcome unknown", r.State, r.Failure, row.ClaimedAt)
		}
		if got := s.paid(); got != ran {
			s.t.Errorf("the command ran %d times, want %d", got, ran)
		}
	}
}

// Killed before every write, between it and its commit, and after every commit on the
// way to the question: it asks once, and runs once.
func TestKilledBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	for _, point := range sqlite.Failpoints() {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			for n := 1; ; n++ {
				s := newStage(t)
				c, dead := s.asks(fmt.Sprintf("%s@%d", point, n))
				if !dead {
					s.kill(c)
					if n < 4 {
						t.Errorf("%s came by %d times before it asked, want the worker, the task and the question", point, n-1)
					}
					return
				}
				s.asked()
				s.asked() // and waiting it may die as often as it likes
				s.answer("approve")
				if out, err := s.work("", s.pay); err != nil || s.paid() != 1 {
					t.Errorf("killed the %d. time: it ran %d times, %v\n%s", n, s.paid(), err, out)
				}
				if _, row := s.end(); row.Decision == nil || row.Decision.Verdict != mail.Approved || !row.Settled {
					t.Errorf("killed the %d. time: ticket %+v, want approved and settled", n, row)
				}
			}
		})
	}
}

// Killed at the same places after the answer: it runs at most once, and when that is
// not known it says so.
func TestKilledAfterTheAnswer(t *testing.T) {
	t.Parallel()
	for _, point := range sqlite.Failpoints() {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			ends := map[string]int{}
			for n := 1; ; n++ {
				s := newStage(t)
				s.asked()
				s.answer("approve")
				out, err := s.work(fmt.Sprintf("%s@%d", point, n), s.pay)
				if !killed(err) {
					if err != nil || s.paid() != 1 {
						t.Errorf("unharmed: it ran %d times, %v\n%s", s.paid(), err, out)
					}
					break
				}
				ran := s.paid()
				_, row := s.end()
				if ran == 1 && row.ClaimedAt.IsZero() {
					t.Errorf("killed the %d. time: it ran before it was claimed", n)
				}
				if r, _ := s.end(); r.State == task.Completed || row.ClaimedAt.IsZero() {
					if out, err := s.work("", s.pay); err != nil || s.paid() != 1 {
						t.Errorf("killed the %d. time: it ran %d times, %v\n%s", n, s.paid(), err, out)
					}
					ends["completed"]++
					continue
				}
				s.unknown(ran)
				ends[fmt.Sprintf("unknown, ran %d", ran)]++
			}
			t.Logf("ends %v", ends)
			if ends["completed"] == 0 || ends["unknown, ran 1"] == 0 {
				t.Errorf("ends %v, want some of each", ends)
			}
			if point == sqlite.Failpoints()[2] && ends["unknown, ran 0"] != 1 {
				t.Errorf("ends %v, want one between the claim and the call", ends)
			}
		})
	}
}

// Killed inside the call, before or after what it does.
func TestKilledInsideTheCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		with func(pay string) string
		ran  int
	}{
		"before": {func(string) string { return "kill -9 $PPID" }, 0},
		"after":  {func(pay string) string { return pay + "; kill -9 $PPID" }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.pay = c.with(s.pay)
			s.asked()
			s.answer("approve")
			if out, err := s.work("", s.pay); !killed(err) {
				t.Fatalf("it was not killed: %v\n%s", err, out)
			}
			s.unknown(c.ran)
		})
	}
}

// What was approved is not what is wanted now.
func TestOtherArgumentsAreDenied(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.asked()
	s.answer("approve")
	if out, err := s.work("", s.pay+" twice"); err == nil || !strings.Contains(out, "does not let these arguments through") {
		t.Errorf("other arguments: %v\n%s", err, out)
	}
	r, row := s.end()
	if r.State != task.Failed || r.Failure.Code != "denied" || !row.ClaimedAt.IsZero() || s.paid() != 0 {
		t.Errorf("%s, %+v, claimed at %v, ran %d times, want denied and the approval unused", r.State, r.Failure, row.ClaimedAt, s.paid())
	}
}

func TestDenied(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.asked()
	s.answer("deny")
	if out, err := s.process("", "answer", "approve").CombinedOutput(); err == nil || !strings.Contains(string(out), "decided before") {
		t.Errorf("a later answer: %v\n%s", err, out)
	}
	if out, err := s.work("", s.pay); err == nil || !strings.Contains(out, "denied") || s.paid() != 0 {
		t.Errorf("it ran %d times: %v\n%s", s.paid(), err, out)
	}
}
