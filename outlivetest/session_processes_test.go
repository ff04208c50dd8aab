// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlivetest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/apply"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/outlivetest"
	"github.com/outlive-dev/outlive/session"
	"github.com/outlive-dev/outlive/store/sqlite"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

var sessionRounds = flag.Int("session.rounds", 8, "rounds of each policy that two processes play on one session")

// starterEnv names the store of a process that starts turns.
const starterEnv = "OUTLIVE_TEST_STARTER"

// order asks a starter for a turn at an instant; answer is what became of it.
type order struct {
	Session task.SessionID
	Policy  session.Policy
	Message string
	At      time.Time
}

type answer struct {
	Task       task.ID
	Kind, Text string // of the error
	Began      time.Time
	Ended      time.Time
}

// turns is the executor: a turn reads until it is told to finish, so that it has not
// ended when the other process comes.
func turns() work.Executor {
	return work.Executor{
		Key: "turn.v1", ReadsInput: true, OnLeaseLoss: task.LoseRetry,
		Run: func(ctx context.Context, a *work.Attempt) work.Result {
			for in, err := range a.Inputs(ctx) {
				if err != nil {
					break
				}
				if string(in.Data) == "finish" {
					done := work.Done(task.Payload{})
					done.Cursor = in.Seq
					return done
				}
			}
			if _, ok := work.Canceled(ctx); ok {
				return work.Stopped()
			}
			return work.Yield(nil)
		},
	}
}

// TestSessionStarter is the process that starts turns: orders in, answers out.
func TestSessionStarter(t *testing.T) {
	path := os.Getenv(starterEnv)
	if path == "" {
		t.Skip("it is a process of TestSessionByTwoProcesses")
	}
	rt, stop := opened(t, path, nil)
	defer stop()
	out := json.NewEncoder(os.Stderr) // stdout is the test's
	for d := json.NewDecoder(os.Stdin); ; {
		var o order
		switch err := d.Decode(&o); {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			t.Fatal(err)
		}
		<-time.After(time.Until(o.At) - time.Millisecond)
		for time.Now().Before(o.At) { // to the instant, and not to the next tick
		}
		a := answer{Began: time.Now()}
		rec, err := rt.Submit(t.Context(), outlive.Spec{
			Executor: "turn.v1", Session: o.Session, Busy: o.Policy, Input: task.Payload{Media: "text/plain", Data: []byte(o.Message)},
		})
		a.Ended, a.Task = time.Now(), rec.ID
		if err != nil {
			a.Kind, a.Text = fault.KindOf(err).String(), err.Error()
		}
		if err := out.Encode(a); err != nil {
			t.Fatal(err)
		}
	}
}

func opened(t *testing.T, path string, o *outlive.Options) (rt *outlive.Runtime, stop func()) {
	t.Helper()
	st, err := sqlite.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	rt = outlive.New(st, o)
	rt.Register(turns())
	if err := rt.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return rt, func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(rt.Stop(ctx), st.Close()); err != nil {
			t.Error(err)
		}
	}
}

// starter is one such process.
type starter struct {
	in  *json.Encoder
	out *json.Decoder
}

func newStarter(t *testing.T, path string) *starter {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "-test.run=^TestSessionStarter$", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), starterEnv+"="+path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stdout = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("a starter: %v\n%s", err, said.String())
		}
	})
	return &starter{in: json.NewEncoder(in), out: json.NewDecoder(bufio.NewReader(out))}
}

// TestSessionByTwoProcesses has two processes start a turn of one session at the same
// instant, on one file. The outcome is that of the policy, there are never two
// unfinished turns, and the session's stream tells them one after another.
//
//	go test ./outlivetest -run TestSessionByTwoProcesses -session.rounds 200 -v
func TestSessionByTwoProcesses(t *testing.T) {
	t.Parallel()
	if *sessionRounds < 1 {
		t.Fatal("no rounds prove nothing")
	}
	path := filepath.Join(t.TempDir(), "sessions.db")
	rt, stop := opened(t, path, &outlive.Options{Passive: true})
	defer stop()
	var both [2]*starter
	for i := range both {
		both[i] = newStarter(t, path)
	}
	for _, p := range []session.Policy{session.Reject, session.Enqueue, session.Steer, session.Interrupt, session.Rollback} {
		var won [2]int
		overlapped := 0
		for n := range *sessionRounds {
			d := duel{t: t, rt: rt, policy: p, id: task.SessionID(fmt.Sprintf("%s-%d", p, n))}
			at := time.Now().Add(5 * time.Millisecond)
			for i, s := range both {
				if err := s.in.Encode(order{Session: d.id, Policy: p, Message: fmt.Sprint("message ", i), At: at}); err != nil {
					t.Fatal(err)
				}
			}
			for i, s := range both {
				if err := s.out.Decode(&d.answers[i]); err != nil {
					t.Fatalf("starter %d: %v", i, err)
				}
			}
			won[d.judge()]++
			if d.answers[0].Began.Before(d.answers[1].Ended) && d.answers[1].Began.Before(d.answers[0].Ended) {
				overlapped++
			}
			if t.Failed() {
				return
			}
		}
		t.Logf("%-9s %d rounds, %d at the same time, won %d to %d", p, *sessionRounds, overlapped, won[0], won[1])
		if 2*overlapped < *sessionRounds {
			t.Errorf("%s: %d of %d rounds met: too few to prove anything", p, overlapped, *sessionRounds)
		}
		if *sessionRounds >= 50 && min(won[0], won[1]) < *sessionRounds/20 {
			t.Errorf("%s: won %d to %d: one is never first, which proves too little", p, won[0], won[1])
		}
	}
	st, err := sqlite.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	problems, err := outlivetest.Audit(t.Context(), st)
	if err != nil || len(problems) > 0 {
		t.Errorf("%d problems, %v: %s", len(problems), err, strings.Join(problems, "\n"))
	}
}

// duel is one round.
type duel struct {
	t       *testing.T
	rt      *outlive.Runtime
	policy  session.Policy
	id      task.SessionID
	answers [2]answer
}

func (d *duel) fail(format string, args ...any) {
	d.t.Helper()
	story := ""
	for e, err := range d.rt.SessionEvents(d.t.Context(), d.id, &outlive.EventsOptions{NoFollow: true}) {
		if err != nil {
			break
		}
		story += fmt.Sprintf("%d %s %s %s\n", e.Seq, e.Task, e.Kind, e.Data)
	}
	d.t.Errorf("session %s: %s\nanswers %+v\n%s", d.id, fmt.Sprintf(format, args...), d.answers, story)
}

// judge returns who was first.
func (d *duel) judge() (first int) {
	one := d.turn(1)
	first = 0
	if string(one.Spec.Data) == "message 1" {
		first = 1
	}
	a, b := d.answers[first], d.answers[1-first]
	late := fmt.Sprint("message ", 1-first)
	if a.Task != one.ID || a.Kind != "" {
		d.fail("the first was answered %+v, its turn is %s", a, one.ID)
	}
	switch d.policy {
	case session.Reject:
		if b.Kind != fault.Conflict.String() || b.Text != "create task: "+session.ErrBusy.Error()+": "+string(one.ID) {
			d.fail("the second was answered %q %q", b.Kind, b.Text)
		}
		d.finish(one.ID, 1)
	case session.Enqueue, session.Steer:
		want := map[session.Policy]mail.Delivery{session.Enqueue: mail.Queue, session.Steer: mail.Steer}[d.policy]
		ins, err := d.rt.Inputs(d.t.Context(), one.ID, 0, 0)
		if b.Kind != "" || b.Task != one.ID || err != nil || len(ins) != 1 || string(ins[0].Data) != late || ins[0].Delivery != want {
			d.fail("the second was answered %+v, the input is %+v, %v", b, ins, err)
		}
		d.finish(one.ID, 1)
	case session.Interrupt, session.Rollback:
		if b.Kind != "" || b.Task != one.ID {
			d.fail("the second was answered %+v", b)
		}
		two := d.turn(2)
		if string(two.Spec.Data) != late {
			d.fail("the second turn's message is %q", two.Spec.Data)
		}
		if r, err := d.rt.Get(d.t.Context(), one.ID); err != nil || r.State != task.Canceled {
			d.fail("the first turn is %s, %v", r.State, err)
		}
		d.finish(two.ID, 2)
	}
	return first
}

// turn waits for the session's nth turn and returns it.
func (d *duel) turn(n int64) task.Record {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 30*time.Second)
	defer cancel()
	created := int64(0)
	for e, err := range d.rt.SessionEvents(ctx, d.id, nil) {
		if err != nil {
			d.fail("no turn %d: %v", n, err)
			d.t.FailNow()
		}
		if e.Kind != journal.KindCreated {
			continue
		}
		if created++; created == n {
			r, err := d.rt.Get(ctx, task.ID(e.Task))
			if err != nil {
				d.t.Fatal(err)
			}
			return r
		}
	}
	return task.Record{}
}

// finish ends the last turn and looks at the whole stream: dense, the turns one after
// another, as many as there must be.
func (d *duel) finish(last task.ID, want int) {
	ctx, cancel := context.WithTimeout(d.t.Context(), 30*time.Second)
	defer cancel()
	if _, err := d.rt.Send(ctx, last, mail.Input{Data: []byte("finish")}); err != nil {
		d.fail("Send() = %v", err)
	}
	if r, err := d.rt.Wait(ctx, last, outlive.Terminal); err != nil || r.State != task.Completed {
		d.fail("the last turn is %s, %v", r.State, err)
	}
	seq, ended, unfinished := int64(0), 0, ""
	var withdrawn []apply.Withdrawn
	for e, err := range d.rt.SessionEvents(ctx, d.id, &outlive.EventsOptions{NoFollow: true}) {
		if err != nil {
			d.fail("events: %v", err)
			return
		}
		if seq++; e.Seq != seq {
			d.fail("entry %d has seq %d", seq, e.Seq)
		}
		switch {
		case e.Kind == journal.KindCreated:
			if unfinished != "" {
				d.fail("%s began before %s ended", e.Task, unfinished)
			}
			unfinished = e.Task
		case journal.Terminal(e.Kind):
			unfinished, ended = "", ended+1
		case e.Kind == journal.KindTurnWithdrawn:
			var w apply.Withdrawn
			if err := json.Unmarshal(e.Data, &w); err != nil || w.From != 1 || w.To != e.Seq-1 {
				d.fail("withdrawn %s at %d", e.Data, e.Seq)
			}
			withdrawn = append(withdrawn, w)
		}
	}
	s, err := d.rt.Session(ctx, d.id)
	if err != nil || s.Turns != int64(want) || ended != want || unfinished != "" || s.Active != "" || s.Waiting != 0 {
		d.fail("%d turns ended, want %d; the session is %+v, %v", ended, want, s, err)
	}
	if (len(withdrawn) == 1) != (d.policy == session.Rollback) {
		d.fail("%d turns are withdrawn", len(withdrawn))
	}
}
