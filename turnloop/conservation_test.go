// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package turnloop_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outlive-dev/outlive/turnloop"
)

var (
	rounds = flag.Int("rounds", 3000, "rounds of TestConservation")
	seed   = flag.Uint64("seed", 0, "seed of the first round of TestConservation; 0: by chance")
)

// TestConservation has loops live through random schedules: pushes from several
// goroutines, preemptions, stops, contexts that end, callbacks that fail, panic and
// return early, agents that end, are cut, wait and fail, and a second loop that goes on
// from the checkpoint of the first. Each item must be in exactly one place afterwards.
// Time is that of a bubble, so that a seed repeats its round.
func TestConservation(t *testing.T) {
	first := *seed
	if first == 0 {
		first = rand.Uint64N(1 << 40)
	}
	n := *rounds
	if testing.Short() {
		n = min(n, 300)
	}
	var sum tally
	for i := range uint64(n) {
		ok := true
		var r *round
		synctest.Test(t, func(t *testing.T) {
			r = newRound(t, first+i)
			r.play()
			if len(r.problems) > 0 {
				ok = false
				t.Errorf("%s\nschedule:\n%s\nagain: go test ./turnloop -run TestConservation -rounds 1 -seed %d",
					strings.Join(r.problems, "\n"), strings.Join(r.notes, "\n"), first+i)
			}
		})
		if !ok {
			return
		}
		sum.add(r.tally)
	}
	t.Logf("seeds from %d: %d rounds, %+v: 0 lost, 0 doubled", first, n, sum)
	// A run in which nothing happens proves nothing.
	if least := n / 50; sum.Pushed < 5*n || min(sum.Consumed, sum.Dropped, sum.Unhandled, sum.Interrupted, sum.Late, sum.Cut, sum.Resumed) < least {
		t.Errorf("too little happened: %+v", sum)
	}
}

type tally struct{ Pushed, Turns, Cut, Consumed, Dropped, Unhandled, Interrupted, Late, Resumed int }

func (s *tally) add(o tally) {
	s.Pushed += o.Pushed
	s.Turns += o.Turns
	s.Cut += o.Cut
	s.Consumed += o.Consumed
	s.Dropped += o.Dropped
	s.Unhandled += o.Unhandled
	s.Interrupted += o.Interrupted
	s.Late += o.Late
	s.Resumed += o.Resumed
}

// round is one schedule and what was seen of it.
type round struct {
	t   *testing.T
	rng *rand.Rand

	mu       sync.Mutex
	notes    []string
	problems []string
	tally    tally
	accepted map[int]bool
	refused  map[int]bool
	next     int
	inTurn   map[int]bool // its last turn has begun and nothing was seen of it since
	ended    map[int]bool // its turn ended well: it must not be seen again
	owed     map[int]bool // its turn did not end well: it must be seen again
	dropped  map[int]bool // a plan wanted it gone and it was not seen since
	saved    *turnloop.Checkpoint[int]
}

func newRound(t *testing.T, seed uint64) *round {
	return &round{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), accepted: map[int]bool{}, refused: map[int]bool{},
		inTurn: map[int]bool{}, owed: map[int]bool{}, ended: map[int]bool{}, dropped: map[int]bool{},
	}
}

func (r *round) chance(percent int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rng.IntN(100) < percent
}

func (r *round) upTo(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rng.IntN(n + 1)
}

// while lets some time pass.
func (r *round) while(most time.Duration) {
	pass(time.Duration(r.upTo(int(most/time.Microsecond)))*time.Microsecond + time.Duration(r.upTo(999)))
}

func (r *round) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, time.Now().Format("05.000000000 ")+fmt.Sprintf(format, args...))
}

func (r *round) problem(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// Load, Save and Delete implement turnloop.Checkpoints.
func (r *round) Load(context.Context) (*turnloop.Checkpoint[int], error) { return r.saved, nil }

func (r *round) Save(_ context.Context, c turnloop.Checkpoint[int]) error {
	r.saved = &c
	return nil
}

func (r *round) Delete(context.Context) error {
	r.saved = nil
	return nil
}

func (r *round) play() {
	exit := r.loop()
	if exit.Checkpointed {
		r.tally.Resumed++
		r.note("the next loop")
		for _, v := range slices.Concat(values(exit.Interrupted), values(exit.Unhandled)) {
			r.seen(v, "left by the first loop") // and in the second loop's account from now on
		}
		exit = r.loop()
	}
	r.judge(exit)
}

func values(items []turnloop.Item[int]) (vs []int) {
	for _, i := range items {
		vs = append(vs, i.Value)
	}
	return vs
}

// loop runs one loop to its end.
func (r *round) loop() turnloop.Exit[int] {
	l, err := turnloop.New(turnloop.Config[int]{
		GenInput: r.genInput, PrepareAgent: r.prepare, OnEvents: r.onEvents, GenResume: r.genResume,
		Checkpoints: r, DrainTimeout: time.Minute,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for range 1 + r.upTo(2) {
		wg.Go(func() {
			for range r.upTo(5) {
				r.while(120 * time.Microsecond)
				r.push(l)
			}
		})
	}
	for range r.upTo(2) {
		wg.Go(func() {
			r.while(900 * time.Microsecond)
			o := &turnloop.StopOptions{SkipCheckpoint: r.chance(10)}
			if r.chance(40) {
				o.At = turnloop.Points(1 + r.upTo(2))
			}
			o.Immediate = r.chance(20)
			if r.chance(20) {
				o.Timeout = time.Duration(r.upTo(100)) * time.Microsecond
			}
			if r.chance(30) {
				o.Idle = time.Duration(1+r.upTo(80)) * time.Microsecond
			}
			r.note("stop %+v", *o)
			l.Stop(o)
		})
	}
	if r.chance(15) {
		wg.Go(func() {
			r.while(400 * time.Microsecond)
			r.note("the context ends")
			cancel()
		})
	}
	wg.Go(func() {
		pass(2 * time.Millisecond)
		r.note("the last stop")
		l.Stop(&turnloop.StopOptions{Immediate: true})
	})
	if r.chance(70) {
		r.while(20 * time.Microsecond)
	}
	if err := l.Run(ctx); err != nil {
		r.t.Fatal(err)
	}
	exit, err := l.Wait(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	r.note("exit %s, %v: unhandled %v, interrupted %v, checkpointed %v", exit.Reason, exit.Err, values(exit.Unhandled), values(exit.Interrupted), exit.Checkpointed)
	wg.Wait()
	r.push(l) // certainly late
	late := l.TakeLate()
	if !slices.EqualFunc(late, l.TakeLate(), func(a, b turnloop.Item[int]) bool { return a == b }) {
		r.problem("TakeLate gave something else the second time")
	}
	if _, err := l.Push(-1, nil); !errors.Is(err, turnloop.ErrTaken) {
		r.problem("Push after TakeLate = %v", err)
	}
	r.tally.Late += len(late)
	for _, v := range values(late) {
		if !r.refused[v] {
			r.problem("%d is late and was not refused", v)
		}
		delete(r.refused, v)
	}
	for v := range r.refused {
		r.problem("LOST: %d was refused and is not late", v)
	}
	return exit
}

func (r *round) push(l *turnloop.Loop[int]) {
	var p *turnloop.Preempt[int]
	if r.chance(40) {
		p = &turnloop.Preempt[int]{Immediate: r.chance(20), At: turnloop.Points(r.upTo(3))}
		if r.chance(20) {
			p.Delay = time.Duration(r.upTo(60)) * time.Microsecond
		}
		if r.chance(20) {
			p.Timeout = time.Duration(r.upTo(60)) * time.Microsecond
		}
		if r.chance(25) {
			inner, fails, d := p, r.chance(20), time.Duration(r.upTo(40))*time.Microsecond
			p = &turnloop.Preempt[int]{Decide: func(*turnloop.Turn[int]) *turnloop.Preempt[int] {
				pass(d)
				if fails {
					panic("decide")
				}
				return inner
			}}
		}
	}
	r.mu.Lock()
	v := r.next
	r.next++
	r.tally.Pushed++
	r.accepted[v] = true // before anybody can see it
	r.mu.Unlock()
	ack, err := l.Push(v, p)
	r.note("push %d: %v", v, err)
	if err != nil {
		r.mu.Lock()
		delete(r.accepted, v)
		r.refused[v] = true
		r.mu.Unlock()
		if !errors.Is(err, turnloop.ErrClosed) {
			r.problem("Push = %v", err)
		}
	}
	n := 0
	for range ack { // it is closed, or this bubble never ends
		n++
	}
	if n > 1 {
		r.problem("%d outcomes of one preemption", n)
	}
}

// seen says that an item is somewhere else than in its last turn or plan.
func (r *round) seen(v int, where string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended[v] {
		r.problems = append(r.problems, fmt.Sprintf("DOUBLED: %d is %s after its turn ended", v, where))
	}
	delete(r.inTurn, v)
	delete(r.owed, v)
	delete(r.dropped, v)
}

func (r *round) genInput(_ context.Context, items []turnloop.Item[int]) (p turnloop.Plan[int], err error) {
	r.note("plan %v", values(items))
	for _, i := range items {
		r.seen(i.Value, "planned")
	}
	if !slices.IsSortedFunc(items, func(a, b turnloop.Item[int]) int { return int(a.Seq - b.Seq) }) {
		r.problem("not in their order: %v", items)
	}
	r.while(10 * time.Microsecond)
	switch {
	case r.chance(2):
		return p, errors.New("genInput")
	case r.chance(1):
		panic("genInput")
	}
	p = r.choose(items)
	return p, nil
}

func (r *round) choose(items []turnloop.Item[int]) (p turnloop.Plan[int]) {
	for _, i := range items {
		switch n := r.upTo(99); {
		case n < 65:
			p.Consume = append(p.Consume, i)
		case n < 75:
			p.Drop = append(p.Drop, i)
			r.mu.Lock()
			r.dropped[i.Value] = true
			r.mu.Unlock()
		}
	}
	return p
}

func (r *round) genResume(_ context.Context, in turnloop.Resume[int]) (p turnloop.ResumePlan[int], err error) {
	r.note("resume %v, unhandled %v, new %v", values(in.Interrupted), values(in.Unhandled), values(in.New))
	for _, v := range slices.Concat(values(in.Interrupted), values(in.Unhandled), values(in.New)) {
		r.seen(v, "resumed")
	}
	r.while(10 * time.Microsecond)
	switch {
	case r.chance(5):
		return p, errors.New("genResume")
	case r.chance(50):
		p.Resume = true
		p.Plan = r.choose(slices.Concat(in.Unhandled, in.New))
	default:
		p.Plan = r.choose(slices.Concat(in.Interrupted, in.Unhandled, in.New))
	}
	return p, nil
}

func (r *round) prepare(_ context.Context, turn *turnloop.Turn[int]) (turnloop.Agent, error) {
	r.note("prepare turn %d: %v", turn.ID, values(turn.Items))
	r.while(10 * time.Microsecond)
	switch {
	case r.chance(2):
		return nil, errors.New("prepare")
	case r.chance(1):
		panic("prepare")
	}
	return func(ctx context.Context, at turnloop.SafePoint) iter.Seq2[turnloop.Event, error] {
		return func(yield func(turnloop.Event, error) bool) { r.agent(ctx, at, yield) }
	}, nil
}

func (r *round) agent(ctx context.Context, at turnloop.SafePoint, yield func(turnloop.Event, error) bool) {
	for step := range r.upTo(4) {
		select {
		case <-time.After(time.Duration(r.upTo(40))*time.Microsecond + time.Duration(r.upTo(999))):
		case <-ctx.Done():
			yield(nil, ctx.Err())
			return
		}
		switch {
		case r.chance(3):
			yield(nil, &turnloop.InterruptError{State: []byte("asks")})
			return
		case r.chance(2):
			yield(nil, errors.New("agent"))
			return
		case r.chance(1):
			panic("agent")
		}
		if !yield(step, nil) {
			return
		}
		if err := at(turnloop.Points(1 << (step % 2))); err != nil {
			yield(nil, err)
			return
		}
	}
}

func (r *round) onEvents(_ context.Context, turn *turnloop.Turn[int], events iter.Seq2[turnloop.Event, error]) (err error) {
	r.mu.Lock()
	r.tally.Turns++
	for _, v := range values(turn.Items) {
		r.inTurn[v] = true
	}
	r.mu.Unlock()
	fate := r.upTo(99)
	stopAt := r.upTo(3)
	var said error
	n := 0
	bad := true // also when the agent panics
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, v := range values(turn.Items) {
			if bad {
				r.owed[v] = true
			}
		}
	}()
	for _, err := range events {
		if said = err; err != nil {
			break
		}
		if n++; n > stopAt {
			switch {
			case fate < 4:
				return errors.New("onEvents")
			case fate < 6:
				panic("onEvents")
			case fate < 12:
				bad = false
				return nil // what becomes of the turn depends on what the agent still says
			}
		}
	}
	var canceled *turnloop.CancelError
	var interrupt *turnloop.InterruptError
	switch {
	case said == nil:
		bad = false
		r.mu.Lock()
		for _, v := range values(turn.Items) {
			r.ended[v] = true
		}
		r.mu.Unlock()
	case errors.As(said, &canceled), errors.Is(said, context.Canceled):
		r.mu.Lock()
		r.tally.Cut++
		r.mu.Unlock()
		return said
	case errors.As(said, &interrupt):
		return nil
	case fate < 50:
		bad = false
		return nil // it is the callback's to forgive
	}
	return said
}

// judge looks where each item is.
func (r *round) judge(exit turnloop.Exit[int]) {
	places := map[int]int{}
	for _, i := range exit.Unhandled {
		r.seen(i.Value, "unhandled")
		places[i.Value]++
	}
	for _, i := range exit.Interrupted {
		r.seen(i.Value, "interrupted")
		places[i.Value]++
	}
	r.tally.Unhandled += len(exit.Unhandled)
	r.tally.Interrupted += len(exit.Interrupted)
	for v := range r.accepted {
		switch {
		case r.owed[v]:
			r.problem("LOST: %d was in a turn that did not end well", v)
		case r.inTurn[v]:
			places[v]++
			r.tally.Consumed++
		case r.dropped[v]:
			places[v]++
			r.tally.Dropped++
		case r.ended[v]:
			places[v]++
		}
	}
	for v := range r.accepted {
		if places[v] == 0 {
			r.problem("LOST: %d", v)
		}
		if places[v] > 1 {
			r.problem("DOUBLED: %d is in %d places", v, places[v])
		}
	}
	for v := range places {
		if !r.accepted[v] {
			r.problem("%d is somewhere and was not accepted", v)
		}
	}
}
