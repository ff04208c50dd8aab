// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlive-dev/outlive/fault"
)

// The clock of the tests.
func at(d time.Duration) time.Time {
	return time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC).Add(d)
}

var (
	worker = Lease{Worker: "w", Epoch: 1}
	other  = Lease{Worker: "x", Epoch: 7}
	hold   = Hold{Parent: "p", Attempt: 3, Lease: worker}
	point  = Checkpoint{Format: "f", Version: 1, Data: []byte("cp")}
)

// must applies commands one after another, a second apart, and checks each record.
func must(t testing.TB, r Record, cs ...Command) Record {
	t.Helper()
	for _, c := range cs {
		now := at(0)
		if !r.UpdatedAt.IsZero() {
			now = r.UpdatedAt.Add(time.Second)
		}
		if r.State == Pending && r.DueAt.After(now) {
			now = r.DueAt
		}
		next, _, err := Apply(r, c, now)
		if err != nil {
			t.Fatalf("%s on %s: %v", c.Op(), r.State, err)
		}
		if err := Check(next); err != nil {
			t.Fatalf("%s on %s leaves a bad record: %v", c.Op(), r.State, err)
		}
		r = next
	}
	return r
}

// fence is the fence that holds r now.
func fence(r Record) Fence {
	if r.Owner == OwnerParent {
		return Fence{Attempt: r.Hold.Attempt, Lease: r.Hold.Lease, Generation: r.Generation}
	}
	return Fence{Attempt: r.Attempt, Lease: r.Lease}
}

func create(opts ...func(*Record)) Create {
	r := Record{ID: "t", Executor: "echo.v1", Retention: time.Hour}
	for _, o := range opts {
		o(&r)
	}
	return Create{Record: r}
}

func reads(r *Record)       { r.ReadsInput = true }
func recoverable(r *Record) { r.Recoverable = true }
func deferred(r *Record)    { r.Publication = Deferred }
func retries(r *Record)     { r.MaxAttempts = 3; r.OnLeaseLoss = LoseRetry }
func limited(r *Record)     { r.Deadline = at(time.Minute) }
func parents(r *Record) {
	r.Owner, r.Parent, r.Hold, r.Publication = OwnerParent, "p", hold, Deferred
}

func start() Command { return Start{Lease: worker} }

// first is the fence of the first attempt.
var first = Fence{Attempt: 1, Lease: worker}

type variant struct {
	name string
	r    Record
}

// variants lists a record of every kind that a command can meet.
func variants(t testing.TB) []variant {
	t.Helper()
	v := func(name string, r Record, cs ...Command) variant { return variant{name, must(t, r, cs...)} }
	z := Record{}
	committed := CommitStart{Fence: first, Checkpoint: &point, Outside: true}
	cancel := RequestCancel{Reason: "why"}
	waits := func(all bool) Command { return Wait{Fence: first, Tickets: []TicketID{"a", "b"}, All: all} }
	return []variant{
		v("none", z),
		v("pending", z, create(reads)),
		v("pending, not due", z, create(func(r *Record) { r.DueAt = at(time.Hour) })),
		v("pending, outside", z, create(), start(), CommitStart{Fence: first, Outside: true}, Yield{Fence: first}),
		v("pending, to be stopped", z, create(), start(), CommitStart{Fence: first, Outside: true}, Yield{Fence: first}, cancel),
		v("pending, bounced", z, create(reads), start(), Send{}, Complete{Fence: first}),
		v("running", z, create(reads, retries, limited), start()),
		v("running, unread input", z, create(reads), start(), Send{}, Send{Wakes: true}),
		v("running, bounced once, unread input", z, create(reads), start(), Send{}, Complete{Fence: first}, start()),
		v("running, no input", z, create(), start()),
		v("running, recoverable", z, create(recoverable), start(), committed),
		v("running, to be canceled", z, create(reads, retries), start(), cancel),
		v("running, recoverable, to be canceled", z, create(recoverable), start(), committed, cancel),
		{"running, past its deadline", overdue(t)},
		v("unattended", z, create(recoverable), start(), committed, DetachWorker{Fence: first}),
		v("parent-owned", z, create(parents, reads)),
		v("parent-owned, candidate", z, create(parents, reads), Offer{Generation: 1}),
		v("parent-owned, candidate, late input", z, create(parents, reads), Offer{Generation: 1}, Send{}),
		v("parent-owned, recoverable", z, create(parents, recoverable), CommitStart{Fence: fence(Record{Owner: OwnerParent, Hold: hold, Generation: 1})}),
		v("parent-owned, to be canceled", z, create(parents), cancel),
		v("waiting for any", z, create(reads), start(), waits(false)),
		v("waiting for all, outside", z, create(reads), Start{Lease: worker, Outside: true}, waits(true)),
		v("suspended", z, create(reads), start(), Suspend{Fence: first, Reason: SuspendParked, Checkpoint: point}),
		v("suspended, outside", z, create(), Start{Lease: worker, Outside: true}, Suspend{Fence: first, Reason: SuspendIdle, Checkpoint: point}),
		v("deferred pending", z, create(deferred)),
		v("deferred running", z, create(deferred), start()),
		v("deferred waiting", z, create(deferred, reads), start(), waits(false)),
		v("deferred waiting, outside, deadline", z, create(deferred, limited), Start{Lease: worker, Outside: true}, waits(true)),
		v("deferred suspended", z, create(deferred), start(), Suspend{Fence: first, Reason: SuspendParked, Checkpoint: point}),
		v("deferred suspended, outside, deadline", z, create(deferred, limited), Start{Lease: worker, Outside: true},
			Suspend{Fence: first, Reason: SuspendOperator, Checkpoint: point}),
		v("deferred completed", z, create(deferred), start(), Complete{Fence: first}),
		v("deferred failed", z, create(deferred), start(), Fail{Fence: first, Failure: Failure{Code: "bad"}}),
		v("completed", z, create(), start(), Complete{Fence: first}),
		v("failed", z, create(), start(), Fail{Fence: first, Failure: Failure{Code: "bad"}}),
		v("canceled", z, create(), cancel),
	}
}

// overdue is a running task whose deadline has asked for its end.
func overdue(t testing.TB) Record {
	r := must(t, Record{}, create(limited), start())
	r, _, err := Apply(r, Deadline{}, at(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

type named struct {
	name string
	c    Command
}

// commands lists every op with the variants of its arguments, as somebody would
// give them who holds r, and as somebody who does not.
func commands(r Record) []named {
	f := fence(r)
	stale, stranger := f, f
	stale.Attempt--
	stranger.Lease = other
	holding := f
	holding.Held = 2
	tickets := []TicketID{"c", "d"}
	bad := Failure{Code: "bad", Message: "it broke"}
	g := r.Generation
	return []named{
		{"create", create()},
		{"start", start()},
		{"start, no lease", Start{}},
		{"adopt", Adopt{Lease: other}},
		{"adopt, dead", Adopt{Lease: other, Dead: true}},
		{"commit_start", CommitStart{Fence: f}},
		{"commit_start, stale attempt", CommitStart{Fence: stale}},
		{"checkpoint", Save{Fence: f, Checkpoint: point}},
		{"checkpoint, stranger", Save{Fence: stranger, Checkpoint: point}},
		{"commit_input", CommitInput{Fence: f, Cursor: r.LatestInput}},
		{"commit_input, unchanged", CommitInput{Fence: f, Cursor: r.ConsumedInput}},
		{"commit_input, past latest", CommitInput{Fence: f, Cursor: r.LatestInput + 1}},
		{"commit_input, stale attempt", CommitInput{Fence: stale, Cursor: r.LatestInput}},
		{"progress", Progress{Fence: f}},
		{"progress, stranger", Progress{Fence: stranger}},
		{"complete", Complete{Fence: f, Cursor: r.LatestInput}},
		{"complete, unread", Complete{Fence: f, Cursor: r.ConsumedInput}},
		{"complete, children held", Complete{Fence: holding, Cursor: r.LatestInput}},
		{"complete, stale attempt", Complete{Fence: stale, Cursor: r.LatestInput}},
		{"complete, no fence", Complete{}},
		{"wait", Wait{Fence: f, Tickets: tickets, Cursor: r.LatestInput}},
		{"wait, unread", Wait{Fence: f, Tickets: tickets, Cursor: r.ConsumedInput}},
		{"wait, one decided", Wait{Fence: f, Tickets: tickets, Decided: tickets[:1], Cursor: r.LatestInput}},
		{"wait for all, one decided", Wait{Fence: f, Tickets: tickets, Decided: tickets[:1], All: true, Cursor: r.LatestInput}},
		{"wait, nothing", Wait{Fence: f}},
		{"wait, children held", Wait{Fence: holding, Tickets: tickets, Cursor: r.LatestInput}},
		{"wait, stranger", Wait{Fence: stranger, Tickets: tickets}},
		{"suspend parked", Suspend{Fence: f, Reason: SuspendParked, Checkpoint: point}},
		{"suspend idle", Suspend{Fence: f, Reason: SuspendIdle, Checkpoint: point}},
		{"suspend, no checkpoint", Suspend{Fence: f, Reason: SuspendOperator}},
		{"suspend, stale attempt", Suspend{Fence: stale, Reason: SuspendParked, Checkpoint: point}},
		{"yield", Yield{Fence: f}},
		{"yield, stale attempt", Yield{Fence: stale}},
		{"detach_worker", DetachWorker{Fence: f}},
		{"detach_worker, stranger", DetachWorker{Fence: stranger}},
		{"fail", Fail{Fence: f, Failure: bad}},
		{"fail, retryable", Fail{Fence: f, Failure: bad, Retryable: true}},
		{"fail, stale attempt", Fail{Fence: stale, Failure: bad}},
		{"ack_cancel", AckCancel{Fence: f}},
		{"ack_cancel, stale attempt", AckCancel{Fence: stale}},
		{"request_cancel", RequestCancel{Reason: "because", IfVersion: r.Version}},
		{"request_cancel, worker gone", RequestCancel{Reason: "because", WorkerGone: true}},
		{"request_cancel, force", RequestCancel{Reason: "because", Force: true}},
		{"request_cancel, stale version", RequestCancel{Reason: "because", IfVersion: r.Version + 1}},
		{"send", Send{}},
		{"send, wakes", Send{Wakes: true}},
		{"decide", Decide{Ticket: "a"}},
		{"decide, satisfied", Decide{Ticket: "a", Satisfied: true}},
		{"decide, not open", Decide{Ticket: "z"}},
		{"release", Release{IfVersion: r.Version}},
		{"release, stale version", Release{IfVersion: r.Version + 1}},
		{"publish", Publish{}},
		{"reveal", Reveal{}},
		{"reveal, cancel", Reveal{Policy: LiveCancel}},
		{"expire", Expire{Fence: f}},
		{"expire, stale attempt", Expire{Fence: stale}},
		{"orphan", Orphan{Generation: g}},
		{"orphan, old generation", Orphan{Generation: g - 1}},
		{"retake", Retake{Hold: Hold{Parent: "p", Attempt: 4, Lease: other}}},
		{"retake, same attempt", Retake{Hold: hold}},
		{"hand_off", HandOff{Generation: g, Cursor: r.LatestInput}},
		{"hand_off, tickets", HandOff{Generation: g, Tickets: tickets, Cursor: r.LatestInput}},
		{"hand_off, answered", HandOff{Generation: g, Tickets: tickets, Decided: tickets, All: true, Cursor: r.LatestInput}},
		{"hand_off, suspend", HandOff{Generation: g, Suspend: true, Checkpoint: &point, Cursor: r.LatestInput}},
		{"hand_off, old generation", HandOff{Generation: g - 1}},
		{"offer", Offer{Generation: g, Cursor: r.LatestInput}},
		{"offer, old generation", Offer{Generation: g - 1}},
		{"seal", Seal{Generation: g}},
		{"seal, old generation", Seal{Generation: g - 1}},
		{"deadline", Deadline{}},
		{"deadline, worker gone", Deadline{WorkerGone: true}},
	}
}

// Every command in every state. The golden file is the behaviour to read and to
// review; each cell is also held against the table of transitions.
func TestTransitionsGolden(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("# state / command -> new state, what moves (v version, a attempt, g generation), effects; or the refusal\n")
	for _, v := range variants(t) {
		fmt.Fprintf(&b, "\n[%s] %s\n", v.name, orDash(string(v.r.State)))
		refused := map[string][]string{}
		var order []string
		for _, c := range commands(v.r) {
			got := cell(t, v.r, c)
			if !strings.HasPrefix(got, "! ") {
				fmt.Fprintf(&b, "  %s -> %s\n", c.name, got)
				continue
			}
			if _, ok := refused[got]; !ok {
				order = append(order, got)
			}
			refused[got] = append(refused[got], c.name)
		}
		most := ""
		for _, e := range order {
			if len(refused[e]) > len(refused[most]) {
				most = e
			}
		}
		for _, e := range order {
			if e != most {
				fmt.Fprintf(&b, "  %s: %s\n", e, strings.Join(refused[e], "; "))
			}
		}
		fmt.Fprintf(&b, "  %s: everything else\n", most)
	}
	golden(t, "testdata/transitions.golden", b.String())
}

// cell applies c at a time after every deadline of the tests, and judges.
func cell(t *testing.T, r Record, c named) string {
	t.Helper()
	before := r.Clone()
	next, effects, err := Apply(r, c.c, at(10*time.Minute))
	judge(t, before, r, c.c, next, effects, err)
	if err != nil {
		_, text, _ := strings.Cut(err.Error(), ": ")
		return fmt.Sprintf("! %s (%s)", fault.KindOf(err), text)
	}
	out := orDash(string(next.State))
	if next.Unattended() {
		out += " unattended"
	}
	if next.Canceling() {
		out += " canceling"
	}
	if next.Owner != r.Owner && r.Owner != "" {
		out += " of " + string(next.Owner)
	}
	if next.Publication != r.Publication && r.Publication != "" {
		out += " " + string(next.Publication)
	}
	moves := ""
	for _, m := range []struct {
		name string
		by   int64
	}{
		{"v", next.Version - r.Version}, {"a", next.Attempt - r.Attempt}, {"g", next.Generation - r.Generation},
	} {
		if m.by != 0 {
			moves += fmt.Sprintf(" %s%+d", m.name, m.by)
		}
	}
	if next.Revision == r.Revision {
		moves = " nothing"
	}
	out += moves
	if s := show(effects); s != "" {
		out += " | " + s
	}
	return out
}

func show(effects []Effect) string {
	out := make([]string, len(effects))
	for i, e := range effects {
		switch e := e.(type) {
		case Journal:
			out[i] = e.Kind
		case Notify:
			out[i] = "notify " + e.Kind
		case Alarm:
			out[i] = "alarm " + string(e.Kind)
			if e.At.IsZero() {
				out[i] += " off"
			}
		case Tell:
			out[i] = "tell " + e.Signal
		}
	}
	return strings.Join(out, ", ")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

var table = transitions()

// judge holds one Apply against everything that is true of all of them. before is a
// deep copy of r from before the call.
func judge(t testing.TB, before, r Record, c Command, next Record, effects []Effect, err error) {
	t.Helper()
	fail := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("%s on %s: %s", c.Op(), orDash(string(before.State)), fmt.Sprintf(format, args...))
	}
	if diff := cmp.Diff(before, r); diff != "" {
		fail("the record given was written to:\n%s", diff)
	}
	if err != nil {
		if diff := cmp.Diff(before, next); diff != "" || effects != nil {
			fail("an error and a change:\n%s", diff)
		}
		if k := fault.KindOf(err); k == fault.Unknown {
			fail("an error without kind: %v", err)
		}
		if ended := before.State.Terminal() && c.Op() != OpCreate; ended != fault.Is(err, fault.Finished) {
			fail("ended %v, error %v", ended, err)
		}
		return
	}
	if err := Check(next); err != nil && next.ID != "" {
		fail("leaves a bad record: %v", err)
	}
	if next.Revision == before.Revision {
		if diff := cmp.Diff(before, next); diff != "" {
			fail("a change without a new revision:\n%s", diff)
		}
	}
	if next.Revision > before.Revision+1 {
		fail("revision moved by %d", next.Revision-before.Revision)
	}
	judgeTable(fail, before, c, next)
	judgeEffects(fail, before, next, effects)
}

func judgeTable(fail func(string, ...any), before Record, c Command, next Record) {
	changed := next.Revision != before.Revision
	version := next.Version - before.Version
	intent := before.CancelRequestedAt != next.CancelRequestedAt || before.State != next.State
	for _, tr := range table {
		if tr.op != c.Op() || !slices.Contains(tr.from, before.State) || !slices.Contains(tr.to, next.State) {
			continue
		}
		moved := changed
		if tr.version == once {
			moved = intent
		}
		if tr.version.holds(version, before.State, next.State, moved) &&
			tr.attempt.holds(next.Attempt-before.Attempt, before.State, next.State, changed) &&
			tr.generation.holds(next.Generation-before.Generation, before.State, next.State, changed) {
			return
		}
	}
	fail("to %s, version %+d, attempt %+d, generation %+d: not in the table",
		next.State, version, next.Attempt-before.Attempt, next.Generation-before.Generation)
}

func judgeEffects(fail func(string, ...any), before, next Record, effects []Effect) {
	terminal, last := 0, 0
	for _, e := range effects {
		if rank(e) < last {
			fail("effects out of order: %s", show(effects))
		}
		last = rank(e)
		switch e := e.(type) {
		case Journal:
			if e.Kind == terminalKind(next.State) && next.State.Terminal() {
				terminal++
			} else if terminal > 0 {
				fail("an entry after the terminal one: %s", show(effects))
			}
		case Notify:
			if next.Publication == Deferred {
				fail("a deferred task notifies: %s", show(effects))
			}
		case Alarm, Tell:
		}
	}
	want := 0
	if next.State.Terminal() && !before.State.Terminal() {
		want = 1
	}
	if terminal != want {
		fail("%d terminal entries, want %d: %s", terminal, want, show(effects))
	}
	if before.State.Terminal() && next.State != before.State {
		fail("an end changed")
	}
	if before.Canceling() && next.CancelReason != before.CancelReason {
		fail("the first reason did not stay")
	}
}

func runningForCheck(t *testing.T) Record { return must(t, Record{}, create(), start()) }

// holds reports whether a counter moved as the delta allows.
func (d delta) holds(by int64, before, after State, changed bool) bool {
	switch d {
	case same:
		return by == 0
	case up:
		return by == 1
	case once:
		return by == 0 && !changed || by == 1 && changed
	case moved:
		return by == 0 && before == after || by == 1 && before != after
	case sealing:
		return by == 0 && !after.Terminal() || by == 1 && after.Terminal()
	}
	return false
}
