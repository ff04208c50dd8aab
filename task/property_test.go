// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outlive-dev/outlive/journal"
)

var allOps = Ops()

// A chooser returns a number below n.
type chooser func(n int) int

func (c chooser) yes() bool { return c(2) == 1 }

// draw returns some command that makes sense now and then: mostly with the fence
// that holds r, sometimes with another.
func draw(choose chooser, r Record) Command {
	f := fence(r)
	switch choose(12) {
	case 0:
		f.Attempt--
	case 1:
		f.Lease = other
	case 2:
		f.Held = choose(2)
	}
	g := r.Generation
	if choose(10) == 0 {
		g--
	}
	version := []int64{0, 0, r.Version, r.Version + 1}[choose(4)]
	lease := []Lease{worker, other, {}}[[]int{0, 0, 1, 1, 2}[choose(5)]]
	cursor := []int64{r.ConsumedInput, r.LatestInput, r.ConsumedInput + 1, r.ConsumedInput - 1, r.LatestInput + 1}[[]int{0, 0, 1, 1, 2, 3, 4}[choose(7)]]
	var cp *Checkpoint
	if choose(3) == 0 {
		cp = &point
	}
	var tickets, decided []TicketID
	for _, id := range []TicketID{"a", "b", "c"}[:choose(4)] {
		tickets = append(tickets, id)
		if choose(4) == 0 {
			decided = append(decided, id)
		}
	}
	switch allOps[choose(len(allOps))] {
	case OpCreate:
		return create()
	case OpStart:
		return Start{Lease: lease, Outside: choose(4) == 0}
	case OpAdopt:
		return Adopt{Lease: lease, Dead: choose.yes()}
	case OpCommitStart:
		return CommitStart{Fence: f, Checkpoint: cp, Outside: choose.yes()}
	case OpSave:
		return Save{Fence: f, Checkpoint: point}
	case OpCommitInput:
		return CommitInput{Fence: f, Cursor: cursor, Checkpoint: cp}
	case OpProgress:
		return Progress{Fence: f}
	case OpComplete:
		return Complete{Fence: f, Cursor: cursor, Checkpoint: cp, EndedAt: at(time.Duration(choose(100)) * time.Second)}
	case OpWait:
		return Wait{Fence: f, Tickets: tickets, Decided: decided, All: choose.yes(), Cursor: cursor, Checkpoint: cp, Answered: choose(2)}
	case OpSuspend:
		c := Suspend{Fence: f, Reason: []string{SuspendParked, SuspendOperator, SuspendIdle, "bored"}[choose(4)]}
		if cp != nil {
			c.Checkpoint = *cp
		}
		return c
	case OpYield:
		return Yield{Fence: f, Checkpoint: cp}
	case OpDetachWorker:
		return DetachWorker{Fence: f}
	case OpFail:
		return Fail{Fence: f, Failure: Failure{Code: []string{"bad", "bad", "bad", ""}[choose(4)]}, Retryable: choose.yes()}
	case OpAckCancel:
		return AckCancel{Fence: f, Outcome: []Outcome{"", OutcomeUnknown}[choose(2)]}
	case OpRequestCancel:
		return RequestCancel{Reason: []string{"one", "two"}[choose(2)], IfVersion: version, WorkerGone: choose.yes(), Force: choose(4) == 0}
	case OpSend:
		return Send{Wakes: choose.yes()}
	case OpDecide:
		return Decide{Ticket: []TicketID{"a", "b", "c", "z"}[choose(4)], Satisfied: choose(4) == 0}
	case OpRelease:
		return Release{IfVersion: version}
	case OpPublish:
		return Publish{}
	case OpReveal:
		return Reveal{Policy: []LivenessPolicy{LiveContinue, LiveCancel}[choose(2)], WorkerGone: choose.yes()}
	case OpExpire:
		return Expire{Fence: f}
	case OpOrphan:
		return Orphan{Generation: g}
	case OpRetake:
		return Retake{Hold: Hold{Parent: "p", Attempt: r.Hold.Attempt + int64(choose(3)), Lease: lease}}
	case OpHandOff:
		return HandOff{Generation: g, Tickets: tickets, Decided: decided, All: choose.yes(), Suspend: choose(4) == 0, Checkpoint: cp, Cursor: cursor}
	case OpOffer:
		return Offer{Generation: g, Cursor: cursor}
	case OpSeal:
		return Seal{Generation: g}
	default:
		return Deadline{WorkerGone: choose.yes()}
	}
}

// play makes a task, throws commands at it and judges every step: errors change
// nothing, records stay whole, counters move as the table says, the first cancel
// reason stays. Over the whole life it has one terminal entry and one notice of its
// end at most, and consumed input never comes back.
func play(t testing.TB, choose chooser, steps int) {
	t.Helper()
	opts := []func(*Record){}
	for _, o := range []func(*Record){reads, recoverable, deferred, retries, limited, parents} {
		if choose(3) == 0 {
			opts = append(opts, o)
		}
	}
	now := at(0)
	var r Record
	terminal, ends := 0, 0
	step := func(c Command) {
		before := r.Clone()
		next, effects, err := Apply(r, c, now)
		judge(t, before, r, c, next, effects, err)
		for _, e := range effects {
			switch e := e.(type) {
			case Journal:
				if journal.Terminal(e.Kind) {
					terminal++
				}
			case Notify:
				if e.Kind == NoticeCompleted || e.Kind == NoticeFailed || e.Kind == NoticeCanceled {
					ends++
				}
			case Alarm, Tell:
			}
		}
		if next.ConsumedInput < r.ConsumedInput || next.Attempt < r.Attempt || next.Generation < r.Generation {
			t.Fatalf("%s: a fence went back", c.Op())
		}
		r = next
	}
	step(create(opts...))
	for range steps {
		now = now.Add(time.Duration(choose(40)) * time.Second)
		c := draw(choose, r)
		step(c)
	}
	want := 0
	if r.State.Terminal() {
		want = 1
	}
	if terminal != want {
		t.Fatalf("%s after %d terminal entries", r.State, terminal)
	}
	if r.Publication == Deferred {
		want = 0
	}
	if ends != want {
		t.Fatalf("%s, %s after %d notices of an end", r.State, r.Publication, ends)
	}
}

func TestApplyProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		choose := func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "choice") }
		play(rapidT{TB: t, rt: rt}, choose, 40)
	})
}

// rapidT lets rapid see failures of helpers that want a testing.TB.
type rapidT struct {
	testing.TB
	rt *rapid.T
}

func (r rapidT) Helper()                        {}
func (r rapidT) Fatalf(format string, a ...any) { r.rt.Fatalf(format, a...) }

func FuzzApply(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("a task that is started, fails, is retried and completes"))
	f.Add([]byte{255, 254, 3, 2, 1, 0, 7, 7, 7, 99, 98, 97, 1, 1, 1, 1, 30, 31, 32, 33, 34})
	f.Fuzz(func(t *testing.T, data []byte) {
		i := 0
		choose := func(n int) int {
			if i >= len(data) {
				return 0
			}
			i++
			return int(data[i-1]) % n
		}
		play(t, choose, min(len(data)/8, 200))
	})
}

// Every state that the table allows from a state is reached by play: the properties
// above are not about a corner of the machine.
func TestPlayCoversTheTable(t *testing.T) {
	t.Parallel()
	type move struct {
		op       Op
		from, to State
	}
	seen := map[move]bool{}
	for _, v := range variants(t) {
		for _, c := range commands(v.r) {
			if next, _, err := Apply(v.r, c.c, at(10*time.Minute)); err == nil {
				seen[move{c.c.Op(), v.r.State, next.State}] = true
			}
		}
	}
	seed := uint64(1)
	choose := chooser(func(n int) int {
		seed = seed*6364136223846793005 + 1442695040888963407
		return int(seed>>33) % n
	})
	for range 3000 {
		r, now := Record{}, at(0)
		var opts []func(*Record)
		for _, o := range []func(*Record){reads, recoverable, deferred, retries, limited, parents} {
			if choose(3) == 0 {
				opts = append(opts, o)
			}
		}
		c := Command(create(opts...))
		for range 25 {
			now = now.Add(time.Duration(choose(40)) * time.Second)
			if next, _, err := Apply(r, c, now); err == nil {
				seen[move{c.Op(), r.State, next.State}] = true
				r = next
			}
			c = draw(choose, r)
		}
	}
	for _, tr := range transitions() {
		for _, from := range tr.from {
			for _, to := range tr.to {
				if !seen[move{tr.op, from, to}] {
					t.Errorf("%s from %s to %s is in the table and never happens", tr.op, orDash(string(from)), to)
				}
			}
		}
	}
}
