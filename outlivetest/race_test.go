// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlivetest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/foreground"
	"github.com/outlive-dev/outlive/internal/apply"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/outlivetest"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/store/sqlite"
	"github.com/outlive-dev/outlive/task"
)

var (
	seed   = flag.Uint64("seed", 0, "replay the races with this seed; 0 takes a new one")
	rounds = flag.Int("rounds", 100, "rounds of each race")
	driver = flag.String("store", "memory", "the store of the races: memory or sqlite")
)

// atOnce is how many rounds of a race run at the same time, over one store: each is
// noise to the others.
const atOnce = 20

// short are options of a process that runs only what it is asked to, under a lease
// that runs out while a test waits.
func short() outlive.Options {
	lease := 300 * time.Millisecond
	if *driver == "sqlite" { // a commit is a flush of a disk, and a hundred rounds wait for it
		lease = 3 * time.Second
	}
	return outlive.Options{Passive: true, Lease: lease, Renew: lease / 4, Probe: 40 * time.Millisecond, Poll: 20 * time.Millisecond}
}

// quick are options with a lease that lasts, and short looks at everything else.
func quick() outlive.Options {
	return outlive.Options{Probe: 20 * time.Millisecond, Poll: 20 * time.Millisecond, Slots: 256}
}

// round is one round of a race: real goroutines that start after random delays.
type round struct {
	t   *testing.T
	env *outlivetest.Env
	ctx context.Context
	n   int

	mu   sync.Mutex
	rng  *rand.Rand
	mine []*outlivetest.Instance
}

// fresh starts an instance of this round's own. It ends with the round.
func (r *round) fresh(name string, o outlive.Options) *outlivetest.Instance {
	i := r.env.Start(fmt.Sprintf("%s%d", name, r.n), &o)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mine = append(r.mine, i)
	return i
}

// passive are options of a process that runs only what it is asked to.
func passive(o outlive.Options) outlive.Options {
	o.Passive = true
	return o
}

// over ends what the round has started. A process that has crashed stays as it is.
func (r *round) over() {
	for _, i := range r.mine {
		if !i.Crashed() {
			if err := i.Stop(context.WithoutCancel(r.ctx)); err != nil {
				r.t.Errorf("round %d: stop %s: %v", r.n, i.Name(), err)
			}
		}
	}
}

// race plays the rounds of one race, and at the end checks the whole store.
func race(t *testing.T, o outlive.Options, play func(r *round)) {
	t.Helper()
	t.Parallel()
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	defer func() {
		if t.Failed() {
			t.Logf("repeat with: go test -race -run '^%s$' ./outlivetest -store %s -seed %d -rounds %d", t.Name(), *driver, s, *rounds)
		}
	}()
	env := outlivetest.New(t, &outlivetest.Options{Runtime: o, Store: raceStore(t)})
	executors(env)
	env.Runtime()
	patience := time.Minute
	if *driver == "sqlite" { // each commit is a flush of a disk that others may use, too
		patience = 5 * time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var wg sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for n := range *rounds {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			r := &round{t: t, env: env, ctx: ctx, n: n, rng: rand.New(rand.NewPCG(s, uint64(n)))}
			defer r.over()
			play(r)
		})
	}
	wg.Wait()
	env.Check()
}

// raceStore opens the store that -store names; nil is the default of an Env.
func raceStore(t *testing.T) store.Store {
	t.Helper()
	if *driver != "sqlite" {
		return nil
	}
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "races.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	return st
}

func (r *round) id(name string) task.ID { return task.ID(fmt.Sprintf("%s-%d", name, r.n)) }

func (r *round) chance(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rng.IntN(n)
}

// pause lets a random, short time pass: nothing, a few turns, or up to most.
func (r *round) pause(most time.Duration) {
	switch r.chance(4) {
	case 0:
	case 1:
		for range r.chance(20) {
			runtime.Gosched()
		}
	default:
		<-time.After(time.Duration(r.chance(int(most))))
	}
}

// all runs the functions at once, each after a pause, and waits for them.
func (r *round) all(most time.Duration, fns ...func()) {
	var wg sync.WaitGroup
	for _, fn := range fns {
		wg.Go(func() {
			r.pause(most)
			fn()
		})
	}
	wg.Wait()
}

func (r *round) main() *outlive.Runtime { return r.env.Runtime() }

// spec is a task with a script, whose signals end in the number of the round.
func (r *round) spec(name, executor, script string) outlive.Spec {
	script = strings.ReplaceAll(script, "@", fmt.Sprint(r.n))
	return outlive.Spec{ID: r.id(name), Executor: executor + ".v1", Input: task.Payload{Media: "text/plain", Data: []byte(script)}}
}

func (r *round) signal(name string) { r.env.Signal(fmt.Sprintf("%s%d", name, r.n)) }

func (r *round) submit(rt *outlive.Runtime, s outlive.Spec) task.ID {
	if _, err := rt.Submit(r.ctx, s); err != nil {
		r.fail(s.ID, "Submit() = %v", err)
	}
	return s.ID
}

// watch begins a foreground call whose end the returned function waits for.
func (r *round) watch(ctx context.Context, rt *outlive.Runtime, s outlive.Spec, p foreground.Policy) func() (outlive.Outcome, error) {
	w, err := rt.Watch(ctx, s, p)
	if err != nil {
		r.fail(s.ID, "Watch() = %v", err)
		return func() (outlive.Outcome, error) { return outlive.Outcome{}, err }
	}
	done := make(chan struct{})
	var out outlive.Outcome
	go func() {
		defer close(done)
		out, err = w.Wait(ctx)
	}()
	return func() (outlive.Outcome, error) {
		<-done
		return out, err
	}
}

func (r *round) get(id task.ID) task.Record { return r.env.Get(id) }

// end waits for the task's end.
func (r *round) end(id task.ID) task.Record {
	rec, err := r.main().Wait(r.ctx, id, outlive.Terminal)
	if err != nil {
		r.fail(id, "Wait() = %v", err)
	}
	return rec
}

// eventually waits until ok.
func (r *round) eventually(id task.ID, what string, ok func() bool) {
	for !ok() {
		select {
		case <-r.ctx.Done():
			r.fail(id, "never: %s", what)
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// state waits until the task is in one of the states.
func (r *round) state(id task.ID, states ...task.State) task.Record {
	var rec task.Record
	r.eventually(id, fmt.Sprint("in ", states), func() bool {
		rec = r.get(id)
		for _, s := range states {
			if rec.State == s {
				return true
			}
		}
		return false
	})
	return rec
}

// visible waits until no claim is left on the task: its outcome was taken, or it is
// public.
func (r *round) visible(id task.ID) {
	r.eventually(id, "taken or revealed", func() bool {
		n := 0
		r.view(func(v store.View) error {
			list, err := v.Observers(id)
			n = len(list)
			return err
		})
		return n == 0
	})
}

func (r *round) view(fn func(store.View) error) {
	if err := r.env.Store().View(context.WithoutCancel(r.ctx), fn); err != nil {
		r.t.Errorf("round %d: view: %v", r.n, err)
	}
}

// count counts the task's entries of a kind.
func (r *round) count(id task.ID, kind string) (n int) {
	r.view(func(v store.View) error {
		list, err := v.Entries(journal.StreamID(id), 0, store.MaxPage)
		for _, e := range list {
			if e.Kind == kind {
				n++
			}
		}
		return err
	})
	return n
}

// step applies a command to the store, as an engine of another process would.
func (r *round) step(id task.ID, c task.Command) (rec task.Record, err error) {
	err = r.env.Store().Update(r.ctx, apply.Keys(id), func(tx store.Tx) error {
		out, err := apply.Step(tx, id, c)
		rec = out.Record
		return err
	})
	return rec, err
}

// fail reports what must not be, with the task's story.
func (r *round) fail(id task.ID, format string, args ...any) {
	r.t.Helper()
	story := "no such task"
	r.view(func(v store.View) error {
		if rec, ok, err := v.Task(id); ok {
			story = outlivetest.Line(rec)
			return err
		}
		return nil
	})
	if story != "no such task" {
		story += "\n" + r.env.Journal(id)
	}
	r.t.Errorf("round %d, task %s: %s\n%s", r.n, id, fmt.Sprintf(format, args...), story)
}

// want fails unless ok.
func (r *round) want(id task.ID, ok bool, format string, args ...any) {
	r.t.Helper()
	if !ok {
		r.fail(id, format, args...)
	}
}

// oneOf wants nil or an error of one of the kinds.
func (r *round) oneOf(id task.ID, what string, err error, kinds ...fault.Kind) {
	r.t.Helper()
	if err == nil {
		return
	}
	for _, k := range kinds {
		if fault.Is(err, k) {
			return
		}
	}
	r.fail(id, "%s = %v", what, err)
}

func timedOut(err error) bool {
	var te *foreground.TimeoutError
	return errors.As(err, &te)
}
