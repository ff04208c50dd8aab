// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlivetest_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/foreground"
	"github.com/outlive-dev/outlive/internal/apply"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/outlivetest"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

var (
	simSeeds = flag.Int("sim.seeds", 60, "how many seeds the simulator plays")
	simFirst = flag.Uint64("sim.first", 0, "the first seed; 0 takes a random one")
)

// TestSim plays histories: several instances over one store on fake time, random
// commands, crashes, processes that hang, answers that are lost. After every step
// the store is audited; when the faults stop, everything must end within a bound. It
// also wants a minimum of things to have happened, so that an idle history proves
// nothing.
func TestSim(t *testing.T) {
	t.Parallel()
	first := *simFirst
	if first == 0 {
		first = rand.Uint64N(1 << 40)
	}
	total := map[string]int{}
	for n := range uint64(*simSeeds) {
		seed := first + n
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSim(t, seed)
				s.play()
				for k, n := range s.did {
					total[k] += n
				}
			})
		}) {
			t.Fatalf("repeat with: go test ./outlivetest -run TestSim -sim.seeds 1 -sim.first %d", seed)
		}
	}
	t.Logf("seeds %d to %d: %v", first, first+uint64(*simSeeds)-1, total)
	if *simSeeds < 50 {
		return
	}
	for _, k := range []string{"submit", "watch", "crash", "hang", "lose", "cancel", "publish", "stop", "send", "stale write refused", "completed", "failed", "canceled", "retried", "recovered"} {
		if total[k] < *simSeeds/10 {
			t.Errorf("%s happened %d times in %d seeds: too little to prove anything", k, total[k], *simSeeds)
		}
	}
}

// sim is one history.
type sim struct {
	t     *testing.T
	env   *outlivetest.Env
	rng   *rand.Rand
	names []string
	tasks []task.ID
	calls []*call
	old   []task.Record // running, as they were seen some time: what a stale owner knows
	did   map[string]int
	story []string
}

func newSim(t *testing.T, seed uint64) *sim {
	s := &sim{t: t, rng: rand.New(rand.NewPCG(seed, 1)), did: map[string]int{}}
	t.Cleanup(func() {
		for _, c := range s.calls {
			<-c.done
		}
		if t.Failed() {
			t.Logf("seed %d:\n%s", seed, strings.Join(s.story, "\n"))
		}
	})
	s.env = outlivetest.New(t, nil)
	executors(s.env)
	for n := range 3 {
		s.start(fmt.Sprintf("i%d", n))
	}
	return s
}

func (s *sim) start(name string) {
	s.env.Start(name, &outlive.Options{Slots: 1 + s.rng.IntN(4), Passive: name != "i0" && s.rng.IntN(4) == 0, Probe: 3 * time.Second})
	s.names = append(s.names, name)
}

func (s *sim) note(what, format string, args ...any) {
	s.did[what]++
	s.story = append(s.story, what+" "+fmt.Sprintf(format, args...))
}

func (s *sim) instance() (string, *outlivetest.Instance) {
	name := s.names[s.rng.IntN(len(s.names))]
	return name, s.env.Instance(name)
}

func (s *sim) task() task.ID {
	if len(s.tasks) == 0 {
		return "none"
	}
	return s.tasks[s.rng.IntN(len(s.tasks))]
}

func pick[T any](s *sim, list ...T) T { return list[s.rng.IntN(len(list))] }

// spec makes a task with a random script.
func (s *sim) spec() outlive.Spec {
	kind := pick(s, "script", "script", "fragile", "reads", "outside", "command", "command", "nodrain")
	var steps []string
	if kind == "outside" || kind == "command" {
		steps = append(steps, "start", pick(s, "sleep 30s", "mark m"))
	}
	for range s.rng.IntN(4) {
		steps = append(steps, pick(s, "emit a", "emit b", "save c", fmt.Sprintf("sleep %ds", 1+s.rng.IntN(20)), "sleep 10ms", "mark m"))
	}
	if kind == "reads" {
		steps = append(steps, pick(s, "input 1", "input 1; commit r", "sleep 1s"))
	}
	if s.rng.IntN(6) == 0 {
		steps = append([]string{"ignore"}, steps...)
	}
	end := pick(s, "complete ok", "complete ok", "complete ok", "retry busy", "fail bad", "panic oops")
	if kind != "command" {
		end = pick(s, end, end, "yield y", "ask q", "suspend operator p", "suspend idle p")
	}
	script := strings.Join(append(steps, end), "; ") + " | " + strings.Join(append(steps, "complete again"), "; ") + " ! " + pick(s, "stopped", "retry busy | stopped", "sleep 1s; stopped")
	sp := outlive.Spec{
		ID: task.ID(fmt.Sprintf("t%d", len(s.tasks))), Executor: kind + ".v1", Input: task.Payload{Media: "text/plain", Data: []byte(script)},
		MaxAttempts: pick(s, 0, 0, 3), Queue: pick(s, "", "", "q"), ConcurrencyKey: pick(s, "", "", "", "k"), Priority: pick(s, 0, 0, -1, 2),
		Here: s.rng.IntN(3) == 0, Liveness: task.Liveness{Policy: pick(s, task.LiveContinue, task.LiveCancel)},
	}
	if s.rng.IntN(8) == 0 {
		sp.Timeout = time.Duration(1+s.rng.IntN(60)) * time.Second
	}
	if s.rng.IntN(4) == 0 && len(s.tasks) > 0 {
		sp.Parent = s.task()
	}
	return sp
}

// later runs what may hang on a goroutine of its own.
func (s *sim) later(fn func(ctx context.Context)) {
	c := &call{done: make(chan struct{})}
	var ctx context.Context
	ctx, c.leave = context.WithTimeout(s.t.Context(), time.Duration(1+s.rng.IntN(60))*time.Second)
	s.calls = append(s.calls, c)
	go func() {
		defer close(c.done)
		defer c.leave()
		fn(ctx)
	}()
}

// act does one random thing.
func (s *sim) act() {
	name, i := s.instance()
	rt, id := i.Runtime(), s.task()
	switch s.rng.IntN(20) {
	case 0, 1, 2, 3:
		sp := s.spec()
		s.tasks = append(s.tasks, sp.ID)
		s.note("submit", "%s on %s: %s %s here=%v", sp.ID, name, sp.Executor, sp.Input.Data, sp.Here)
		s.later(func(ctx context.Context) { _, _ = rt.Submit(ctx, sp) })
	case 4, 5, 6:
		sp := s.spec()
		s.tasks = append(s.tasks, sp.ID)
		p := foreground.Policy{
			DetachAfter: time.Duration(s.rng.IntN(10)) * time.Second, OnTimeout: foreground.Choice(s.rng.IntN(2)), OnGone: foreground.Choice(s.rng.IntN(2)),
		}
		s.note("watch", "%s on %s: %s %s here=%v %+v", sp.ID, name, sp.Executor, sp.Input.Data, sp.Here, p)
		s.later(func(ctx context.Context) { _, _ = rt.Run(ctx, sp, p) })
	case 7:
		s.note("cancel", "%s on %s", id, name)
		s.later(func(ctx context.Context) { _, _ = rt.Cancel(ctx, id, nil) })
	case 8:
		s.note("publish", "%s on %s", id, name)
		s.later(func(ctx context.Context) { _, _ = rt.Publish(ctx, id) })
	case 9:
		s.note("send", "%s on %s", id, name)
		in := mail.Input{ID: fmt.Sprint("in", s.rng.IntN(5)), Delivery: pick(s, mail.Queue, mail.Steer)}
		s.later(func(ctx context.Context) { _, _ = rt.Send(ctx, id, in) })
	case 10:
		s.note("release", "%s on %s", id, name)
		s.later(func(ctx context.Context) { _, _ = rt.Release(ctx, id) })
	case 11:
		s.note("decide", "%s", id)
		s.apply(id, task.Decide{Ticket: "q"})
	case 12:
		s.note("wait", "%s on %s", id, name)
		s.later(func(ctx context.Context) { _, _ = rt.Wait(ctx, id, outlive.Terminal) })
	case 13:
		s.note("crash", "%s", name)
		i.Crash()
		s.start(name)
		s.names = s.names[:len(s.names)-1]
	case 14:
		s.note("hang", "%s", name)
		i.Hang()
	case 15, 16:
		s.note("resume", "%s", name)
		i.Resume()
	case 17:
		s.note("lose", "%s", name)
		i.Lose(1 + s.rng.IntN(3))
	case 18:
		s.note("refuse", "%s", name)
		i.Refuse(1+s.rng.IntN(3), fault.New(fault.Unavailable, "refused by the test"))
	case 19:
		s.note("stop", "%s", name)
		i.Resume()
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Duration(1+s.rng.IntN(10))*time.Second)
		_ = i.Stop(ctx)
		cancel()
		s.start(name)
		s.names = s.names[:len(s.names)-1]
	}
}

func (s *sim) apply(id task.ID, c task.Command) {
	_ = s.env.Store().Update(s.t.Context(), apply.Keys(id), func(tx store.Tx) error {
		_, err := apply.Step(tx, id, c)
		return err
	})
}

// stale writes as an owner that was replaced would, with a fence seen earlier.
func (s *sim) stale() {
	if len(s.old) == 0 {
		return
	}
	old := s.old[s.rng.IntN(len(s.old))]
	now := s.env.Get(old.ID)
	if now.State == task.Running && now.Attempt == old.Attempt && now.Lease == old.Lease {
		return // it still is the owner
	}
	f := task.Fence{Attempt: old.Attempt, Lease: old.Lease}
	e := journal.Entry{Stream: journal.StreamID(old.Stream()), Event: "stale", Part: fmt.Sprint(s.rng.IntN(1 << 30)), Kind: journal.KindOutput, Data: []byte("stale")}
	err := s.env.Store().Update(s.t.Context(), append(apply.PartKeys(old.ID, e), store.WorkerKey(old.Lease.Worker)), func(tx store.Tx) error {
		if err := apply.Live(tx, old.Lease); err != nil {
			return err
		}
		_, _, err := apply.Part(tx, old.ID, f, e, apply.PartOptions{})
		return err
	})
	if err == nil {
		s.t.Errorf("a part of attempt %d of %s was accepted: %s", old.Attempt, old.ID, outlivetest.Line(now))
	}
	s.did["stale write refused"]++
}

func (s *sim) watchRows() {
	err := s.env.Store().View(s.t.Context(), func(v store.View) error {
		list, err := v.Tasks(store.Filter{States: []task.State{task.Running}})
		for _, r := range list {
			if !r.Lease.IsZero() && s.rng.IntN(3) == 0 {
				s.old = append(s.old, r)
			}
		}
		return err
	})
	if err != nil {
		s.t.Errorf("list tasks: %v", err)
	}
}

func (s *sim) play() {
	if err := s.env.Instance("i0").Runtime().SetQueue(s.t.Context(), store.Queue{Name: "q", Limit: 2}); err != nil {
		s.t.Fatal(err)
	}
	for range 40 + s.rng.IntN(40) {
		s.act()
		s.pass(pick(s, 0, time.Millisecond, time.Second, 5*time.Second, 20*time.Second))
		s.watchRows()
		s.stale()
		if p := s.env.Problems(); len(p) > 0 {
			s.t.Errorf("after %q:\n%s", s.story[len(s.story)-1], strings.Join(p, "\n"))
			return
		}
	}
	s.settle()
}

func (s *sim) pass(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
	s.env.Idle()
}

// settle ends the faults: within a bound everything ends, or visibly waits.
func (s *sim) settle() {
	for _, name := range s.names {
		i := s.env.Instance(name)
		i.Lose(0)
		i.Refuse(0, nil)
		i.Resume()
	}
	s.env.Start("last", &outlive.Options{Slots: 64, Probe: 3 * time.Second})
	s.pass(90 * time.Second) // also the callers have gone by now
	for round := range 12 {
		for _, id := range s.tasks {
			s.apply(id, task.Decide{Ticket: "q"})
			s.apply(id, task.Release{})
			if round == 3 || round == 6 { // what still waits for input gets some
				_, _ = s.env.Instance("last").Runtime().Send(s.t.Context(), id, mail.Input{ID: fmt.Sprint("last", round)})
			}
		}
		s.pass(30 * time.Second)
	}
	for _, id := range s.tasks {
		var r task.Record
		var ok bool
		var claims []store.Observer
		if err := s.env.Store().View(s.t.Context(), func(v store.View) (err error) {
			if r, ok, err = v.Task(id); err != nil {
				return err
			}
			claims, err = v.Observers(id)
			return err
		}); err != nil {
			s.t.Error(err)
		}
		switch {
		case !ok: // its creation was refused
			continue
		case !r.State.Terminal():
			s.t.Errorf("task %s has not ended: %s\n%s", id, outlivetest.Line(r), s.env.Journal(id))
		case len(claims) > 0:
			s.t.Errorf("task %s has ended, and nobody took or revealed it: %s", id, outlivetest.Line(r))
		default:
			s.did[string(r.State)]++
			story := s.env.Journal(id)
			if strings.Contains(story, journal.KindRetrying) {
				s.did["retried"]++
			}
			if strings.Contains(story, journal.KindRecovered) {
				s.did["recovered"]++
			}
		}
		if most := 1 + strings.Count(s.env.Journal(id), journal.KindRetrying); ok && s.env.Started(id) > most {
			s.t.Errorf("task %s was started %d times outside, and may have been %d times", id, s.env.Started(id), most)
		}
	}
}
