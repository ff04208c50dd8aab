// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/journal"
)

// refuse checks that c is refused with the sentinel and changes nothing.
func refuse(t *testing.T, r Record, c Command, want error) {
	t.Helper()
	before := r.Clone()
	next, effects, err := Apply(r, c, r.UpdatedAt.Add(time.Second))
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", c.Op(), err, want)
	}
	if diff := cmp.Diff(before, next); diff != "" || effects != nil {
		t.Errorf("%s is refused and changes:\n%s", c.Op(), diff)
	}
}

// apply is must with the effects of one command.
func apply(t *testing.T, r Record, c Command) (Record, []Effect) {
	t.Helper()
	next, effects, err := Apply(r, c, r.UpdatedAt.Add(time.Second))
	if err != nil {
		t.Fatalf("%s: %v", c.Op(), err)
	}
	if err := Check(next); err != nil {
		t.Fatalf("%s: %v", c.Op(), err)
	}
	return next, effects
}

func entry[T any](t *testing.T, effects []Effect, kind string) T {
	t.Helper()
	for _, e := range effects {
		if j, ok := e.(Journal); ok && j.Kind == kind {
			if data, ok := j.Data.(T); ok {
				return data
			}
			t.Fatalf("%s holds a %T", kind, j.Data)
		}
	}
	t.Fatalf("no %s in %s", kind, show(effects))
	panic("unreachable")
}

func TestCreateDefaultsAndStrips(t *testing.T) {
	t.Parallel()
	in := Record{
		ID: "t", Executor: "echo.v1", State: Completed, Version: 9, Attempt: 9, Generation: 9, Result: &Payload{}, Failures: 3,
		LatestInput: 4, Lease: worker, CancelReason: "x", MailSealed: true, DoneAt: at(0),
	}
	got := must(t, Record{}, Create{Record: in})
	want := Record{
		ID: "t", Executor: "echo.v1", Root: "t", Owner: OwnerManager, Generation: 1, OnLeaseLoss: LoseFail, Publication: OnCreate,
		State: Pending, Version: 1, Revision: 1, DueAt: at(0), Liveness: Liveness{Policy: LiveContinue}, CreatedAt: at(0), UpdatedAt: at(0),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Create (-want +got):\n%s", diff)
	}
}

func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Record){
		"id":          func(r *Record) { r.ID = "" },
		"executor":    func(r *Record) { r.Executor = "" },
		"publication": func(r *Record) { r.Publication = OnBackground },
		"lease loss":  func(r *Record) { r.OnLeaseLoss = "shrug" },
		"owner":       func(r *Record) { r.Owner = "nobody" },
		"no hold":     func(r *Record) { r.Owner, r.Parent = OwnerParent, "p" },
		"other hold":  func(r *Record) { r.Owner, r.Parent, r.Hold = OwnerParent, "q", hold },
	} {
		_, _, err := Apply(Record{}, create(spoil), at(0))
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("Create without %s: %v, want Invalid", name, err)
		}
	}
	if _, _, err := Apply(must(t, Record{}, create()), nil, at(0)); !fault.Is(err, fault.Invalid) {
		t.Errorf("Apply(nil): %v, want Invalid", err)
	}
}

func TestAttemptCommandsNeverLookAtVersion(t *testing.T) {
	t.Parallel()
	r := must(t, Record{}, create(deferred), start())
	r = must(t, r, Save{Fence: first, Checkpoint: point}, Publish{}, Save{Fence: first, Checkpoint: point}, Complete{Fence: first})
	if r.State != Completed {
		t.Errorf("state %s", r.State)
	}
}

func TestBudget(t *testing.T) {
	t.Parallel()
	bad := Failure{Code: "bad", Message: "it broke"}
	fail := func(n int64) Command {
		return Fail{Fence: Fence{Attempt: n, Lease: worker}, Failure: bad, Retryable: true}
	}
	expire := func(n int64) Command { return Expire{Fence: Fence{Attempt: n, Lease: worker}} }
	retry := func(r *Record) { r.OnLeaseLoss = LoseRetry }
	most := func(n int) func(*Record) { return func(r *Record) { r.MaxAttempts = n } }
	save := func(n int64) Command { return Save{Fence: Fence{Attempt: n, Lease: worker}, Checkpoint: point} }
	progress := func(n int64) Command { return Progress{Fence: Fence{Attempt: n, Lease: worker}} }
	tests := []struct {
		name  string
		cs    []Command
		state State
		code  string
		count int
	}{
		{"no retries by default", []Command{create(), start(), fail(1)}, Failed, "bad", 1},
		{"terminal failure ignores the budget", []Command{create(most(3)), start(), Fail{Fence: first, Failure: bad}}, Failed, "bad", 0},
		{"retried", []Command{create(most(3)), start(), fail(1), start(), fail(2)}, Pending, "", 2},
		{"used up", []Command{create(most(2)), start(), fail(1), start(), fail(2)}, Failed, CodePoison, 2},
		{"a checkpoint resets", []Command{create(most(2)), start(), fail(1), start(), save(2), fail(2)}, Pending, "", 1},
		{"yield does not count", []Command{create(most(2)), start(), Yield{Fence: first}, start(), fail(2)}, Pending, "", 1},
		{"loss fails", []Command{create(), start(), expire(1)}, Failed, CodeWorkerLost, 0},
		{"loss retries", []Command{create(retry), start(), expire(1)}, Pending, "", 1},
		{"loss with progress does not count", []Command{create(retry), start(), progress(1), expire(1)}, Pending, "", 0},
		{"one attempt, lost", []Command{create(retry, most(1)), start(), expire(1)}, Failed, CodeWorkerLost, 1},
		{"lost too often", []Command{create(retry, most(2)), start(), expire(1), start(), expire(2)}, Failed, CodePoison, 2},
		{
			"lost too often by default",
			[]Command{create(retry), start(), expire(1), start(), expire(2), start(), expire(3), start(), expire(4), start(), expire(5)},
			Failed, CodePoison, LostAttempts,
		},
	}
	for _, tt := range tests {
		r := must(t, Record{}, tt.cs...)
		code := ""
		if r.Failure != nil {
			code = r.Failure.Code
		}
		if r.State != tt.state || code != tt.code || r.Failures != tt.count {
			t.Errorf("%s: %s %q, %d failures, want %s %q, %d", tt.name, r.State, code, r.Failures, tt.state, tt.code, tt.count)
		}
	}
}

func TestBackoffDelay(t *testing.T) {
	t.Parallel()
	tests := []struct {
		b    Backoff
		n    int
		want time.Duration
	}{
		{Backoff{}, 0, 0},
		{Backoff{}, 1, time.Second},
		{Backoff{}, 4, 8 * time.Second},
		{Backoff{}, 100, 5 * time.Minute},
		{Backoff{Initial: time.Hour}, 1, 5 * time.Minute},
		{Backoff{Initial: time.Minute, Max: 90 * time.Second}, 2, 90 * time.Second},
		{Backoff{Initial: 1, Max: 1<<63 - 1}, 200, 1<<63 - 1},
	}
	for _, tt := range tests {
		if got := tt.b.Delay(tt.n); got != tt.want {
			t.Errorf("%+v.Delay(%d) = %v, want %v", tt.b, tt.n, got, tt.want)
		}
	}
}

// A retried task starts anew; a lost one that lives outside never does.
func TestStartIsCommittedOnce(t *testing.T) {
	t.Parallel()
	commit := CommitStart{Fence: first, Outside: true}
	r := must(t, Record{}, create(retries), start(), commit, Fail{Fence: first, Failure: Failure{Code: "bad"}, Retryable: true}, start())
	must(t, r, CommitStart{Fence: fence(r)})

	r = must(t, Record{}, create(recoverable, retries), start(), commit, Expire{Fence: first})
	if !r.Unattended() {
		t.Fatalf("lost recoverable task is %s, want unattended", r.State)
	}
	refuse(t, r, start(), ErrIllegal)
	r, effects := apply(t, r, Adopt{Lease: other})
	if got := entry[Started](t, effects, journal.KindRecovered); got != (Started{Attempt: 2, Worker: "x"}) {
		t.Errorf("recovered %+v", got)
	}
	refuse(t, r, CommitStart{Fence: fence(r)}, ErrStarted)
	refuse(t, r, Adopt{Lease: worker}, ErrIllegal)
	must(t, r, Complete{Fence: fence(r)})
}

func TestTwoAdoptersOneWins(t *testing.T) {
	t.Parallel()
	r := must(t, Record{}, create(recoverable), start(), CommitStart{Fence: first}, DetachWorker{Fence: first}, Adopt{Lease: other})
	refuse(t, r, Adopt{Lease: Lease{Worker: "y", Epoch: 1}}, ErrIllegal)
	refuse(t, r, Complete{Fence: first}, ErrFenced)
}

func TestEndedAtIsBelievedWithinReason(t *testing.T) {
	t.Parallel()
	r := must(t, Record{}, create(), start())
	for _, tt := range []struct{ ended, want time.Time }{
		{time.Time{}, at(2 * time.Second)},
		{at(1500 * time.Millisecond), at(1500 * time.Millisecond)},
		{at(time.Hour), at(2 * time.Second)},
		{at(-time.Hour), at(0)},
	} {
		got := must(t, r, Complete{Fence: first, EndedAt: tt.ended})
		if !got.DoneAt.Equal(tt.want) {
			t.Errorf("ended at %v: done at %v, want %v", tt.ended, got.DoneAt, tt.want)
		}
	}
}

func TestUpdatedAtNeverGoesBack(t *testing.T) {
	t.Parallel()
	r := must(t, Record{}, create(), start())
	r, _, err := Apply(r, Complete{Fence: first}, at(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if !r.UpdatedAt.Equal(at(time.Second)) || !r.DoneAt.Equal(at(time.Second)) {
		t.Errorf("updated at %v, done at %v", r.UpdatedAt, r.DoneAt)
	}
	if err := Check(r); err != nil {
		t.Error(err)
	}
}

// Unread input sends a completion back once; the cursor must move before it does so
// again, and what is left at the end is told.
func TestBounce(t *testing.T) {
	t.Parallel()
	r := must(t, Record{}, create(reads), start(), Send{}, Complete{Fence: first, Result: Payload{Data: []byte("one")}})
	if r.State != Pending || r.Candidate == nil || string(r.Candidate.Result.Data) != "one" {
		t.Fatalf("%s with candidate %v, want pending with the result kept", r.State, r.Candidate)
	}
	r = must(t, r, start(), Send{})
	second := fence(r)

	ended, effects := apply(t, r, Complete{Fence: second})
	if ended.State != Completed || ended.Unread() != 2 {
		t.Errorf("cursor unmoved: %s with %d unread, want completed with 2", ended.State, ended.Unread())
	}
	if got := entry[InputUnread](t, effects, journal.KindInputUnread); got != (InputUnread{After: 0, Latest: 2}) {
		t.Errorf("unread entry %+v", got)
	}
	if got := entry[Ended](t, effects, journal.KindCompleted); got.Unread != 2 {
		t.Errorf("terminal entry %+v, want 2 unread", got)
	}

	moved := must(t, r, Complete{Fence: second, Cursor: 1})
	if moved.State != Pending || moved.ConsumedInput != 1 {
		t.Errorf("cursor moved: %s at %d, want pending at 1", moved.State, moved.ConsumedInput)
	}
	moved = must(t, r, CommitInput{Fence: second, Cursor: 1}, Complete{Fence: second, Cursor: 1})
	if moved.State != Pending {
		t.Errorf("cursor moved before the end: %s, want pending", moved.State)
	}
	all := must(t, r, Complete{Fence: second, Cursor: 2})
	if all.State != Completed || all.Unread() != 0 {
		t.Errorf("all read: %s with %d unread", all.State, all.Unread())
	}
}

func TestSecondConsumerConflicts(t *testing.T) {
	t.Parallel()
	r := must(t, Record{}, create(reads), start(), Send{}, Send{}, CommitInput{Fence: first, Cursor: 2})
	refuse(t, r, CommitInput{Fence: first, Cursor: 1}, ErrConsumed)
	refuse(t, r, Complete{Fence: first, Cursor: 1}, ErrConsumed)
	if _, _, err := Apply(r, CommitInput{Fence: first, Cursor: 3}, at(time.Hour)); !fault.Is(err, fault.Invalid) {
		t.Errorf("a cursor past the latest: %v, want Invalid", err)
	}
	must(t, r, CommitInput{Fence: first, Cursor: 2})
}

// A steer sent just before a wait wakes as one sent just after it does.
func TestSteerBeforeAndAfterWait(t *testing.T) {
	t.Parallel()
	wait := Wait{Fence: first, Tickets: []TicketID{"a"}}
	before := must(t, Record{}, create(reads), start(), Send{Wakes: true}, wait)
	after := must(t, Record{}, create(reads), start(), wait, Send{Wakes: true})
	for name, r := range map[string]Record{"before": before, "after": after} {
		if r.State != Pending || len(r.Tickets) != 1 {
			t.Errorf("%s: %s with tickets %v, want pending with the ticket open", name, r.State, r.Tickets)
		}
		// The next attempt has seen the steer and may wait for good.
		r = must(t, r, start())
		if r = must(t, r, Wait{Fence: fence(r), Tickets: []TicketID{"a"}}); r.State != Waiting {
			t.Errorf("%s: the second wait is %s", name, r.State)
		}
	}
}

func TestTickets(t *testing.T) {
	t.Parallel()
	wait := func(all bool, decided ...TicketID) Wait {
		return Wait{Fence: first, Tickets: []TicketID{"a", "b", "c"}, Decided: decided, All: all}
	}
	r := must(t, Record{}, create(), start())
	tests := []struct {
		name    string
		cs      []Command
		state   State
		tickets []TicketID
	}{
		{"any, none decided", []Command{wait(false)}, Waiting, []TicketID{"a", "b", "c"}},
		{"any, one decided before", []Command{wait(false, "b")}, Pending, []TicketID{"a", "c"}},
		{"any, one decided after", []Command{wait(false), Decide{Ticket: "b"}}, Pending, []TicketID{"a", "c"}},
		{"all, one decided before", []Command{wait(true, "b")}, Waiting, []TicketID{"a", "c"}},
		{"all, two decided", []Command{wait(true, "b"), Decide{Ticket: "a"}}, Waiting, []TicketID{"c"}},
		{"all decided after", []Command{wait(true, "b"), Decide{Ticket: "a"}, Decide{Ticket: "c"}}, Pending, nil},
		{"all decided before", []Command{wait(true, "a", "b", "c")}, Pending, nil},
		{"satisfied by the rows", []Command{wait(true), Decide{Satisfied: true}}, Pending, []TicketID{"a", "b", "c"}},
		{"unknown ticket", []Command{wait(false), Decide{Ticket: "z"}}, Waiting, []TicketID{"a", "b", "c"}},
		{"counted", []Command{Wait{Fence: first, Tickets: []TicketID{"a"}, Answered: 1}}, Pending, nil},
		{"counted, not enough", []Command{Wait{Fence: first, Tickets: []TicketID{"a", "b"}, Answered: 1, All: true}}, Waiting, []TicketID{"a", "b"}},
	}
	for _, tt := range tests {
		got := must(t, r, tt.cs...)
		if got.State != tt.state || !cmp.Equal(got.Tickets, tt.tickets) {
			t.Errorf("%s: %s %v, want %s %v", tt.name, got.State, got.Tickets, tt.state, tt.tickets)
		}
	}
	for _, bad := range [][]TicketID{nil, {""}, {"a", "a"}} {
		if _, _, err := Apply(r, Wait{Fence: first, Tickets: bad}, at(time.Hour)); !fault.Is(err, fault.Invalid) {
			t.Errorf("Wait(%q): %v, want Invalid", bad, err)
		}
	}
}

func TestStopOnlyStart(t *testing.T) {
	t.Parallel()
	r := must(t, Record{}, create(func(r *Record) { r.MaxAttempts, r.Backoff.Initial = 2, time.Minute }),
		Start{Lease: worker, Outside: true},
		Fail{Fence: first, Failure: Failure{Code: "bad"}, Retryable: true})
	refuse(t, r, start(), ErrNotDue)
	r = must(t, r, RequestCancel{Reason: "enough"})
	if !r.StopOnly() {
		t.Fatalf("%s is not to be stopped", r.State)
	}
	r, effects := apply(t, r, start())
	if got := entry[Started](t, effects, journal.KindStarted); !got.StopOnly {
		t.Errorf("started %+v, want a stop only", got)
	}
	if !r.StopOnly() {
		t.Error("the attempt does not know that it is to stop only")
	}
	if plain := must(t, Record{}, create(), start(), RequestCancel{}); plain.StopOnly() {
		t.Error("an attempt that is canceled while it runs was not started to stop")
	}
	refuse(t, r, CommitStart{Fence: fence(r)}, ErrCancelRequested)
	refuse(t, r, Complete{Fence: fence(r)}, ErrCancelRequested)
	// The hook fails with its worker: once more.
	r = must(t, r, Expire{Fence: fence(r)})
	if !r.StopOnly() || r.Failures != 1 {
		t.Fatalf("after a lost stop: %s, %d failures", r.State, r.Failures)
	}
	r = must(t, r, start())
	r = must(t, r, AckCancel{Fence: fence(r)})
	if r.State != Canceled || r.Outside || r.Failure.Message != "enough" || r.Failure.Outcome != OutcomeKnown {
		t.Errorf("%s, outside %v, %+v", r.State, r.Outside, r.Failure)
	}
}

func TestForcedCancelSaysUnknown(t *testing.T) {
	t.Parallel()
	r := must(t, Record{}, create(), Start{Lease: worker, Outside: true}, RequestCancel{Reason: "x"}, RequestCancel{Force: true})
	if r.State != Canceled || r.Failure.Outcome != OutcomeUnknown || !r.Outside {
		t.Errorf("%s %+v, outside %v; want canceled, unknown, still outside", r.State, r.Failure, r.Outside)
	}
}

func TestCancelKeepsWhatWasProduced(t *testing.T) {
	t.Parallel()
	part := Payload{Data: []byte("half")}
	r := must(t, Record{}, create(), start(), RequestCancel{Reason: "x"}, AckCancel{Fence: first, Result: &part, EndedAt: at(1500 * time.Millisecond)})
	want := &Failure{Code: CodeCanceled, Message: "x", Detail: part, Outcome: OutcomeKnown}
	if diff := cmp.Diff(want, r.Failure); diff != "" || !r.DoneAt.Equal(at(1500*time.Millisecond)) {
		t.Errorf("done at %v, failure (-want +got):\n%s", r.DoneAt, diff)
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	late := at(2 * time.Minute)
	r := must(t, Record{}, create(limited), start())
	refuse(t, r, Deadline{}, ErrNotDue)
	refuse(t, must(t, Record{}, create(), start()), Deadline{}, ErrNotDue)

	r, _, err := Apply(r, Deadline{}, late)
	if err != nil || r.State != Running || r.CancelCode != CodeDeadline {
		t.Fatalf("%s, code %q, %v", r.State, r.CancelCode, err)
	}
	if again, _, err := Apply(r, Deadline{}, late); err != nil || again.Revision != r.Revision {
		t.Errorf("a second deadline moves: %v", err)
	}
	ended := must(t, r, AckCancel{Fence: first})
	if ended.State != Failed || ended.Failure.Code != CodeDeadline {
		t.Errorf("%s %+v, want failed(deadline)", ended.State, ended.Failure)
	}

	r = must(t, Record{}, create(limited), start(), RequestCancel{Reason: "mine"})
	if r, _, err = Apply(r, Deadline{}, late); err != nil {
		t.Fatal(err)
	}
	if r = must(t, r, AckCancel{Fence: first}); r.State != Canceled || r.Failure.Message != "mine" {
		t.Errorf("%s %+v, want canceled for the first reason", r.State, r.Failure)
	}
	r, _, err = Apply(must(t, Record{}, create(limited)), Deadline{}, late)
	if err != nil || r.State != Failed || r.Failure.Code != CodeDeadline {
		t.Errorf("pending: %s, %v, want failed(deadline)", r.State, err)
	}
}

func TestHeldChildrenRefuseTheEndOfAnAttempt(t *testing.T) {
	t.Parallel()
	f := first
	f.Held = 1
	r := must(t, Record{}, create(reads), start())
	for _, c := range []Command{
		Complete{Fence: f},
		Yield{Fence: f},
		Wait{Fence: f, Tickets: []TicketID{"a"}},
		Suspend{Fence: f, Reason: SuspendParked, Checkpoint: point},
	} {
		refuse(t, r, c, ErrHolding)
	}
	must(t, r, Fail{Fence: f, Failure: Failure{Code: "bad"}})
}

func TestParentOwned(t *testing.T) {
	t.Parallel()
	r := must(t, Record{}, create(parents, reads))
	own := fence(r)

	// Stored first, sealed second; input in between withdraws.
	r = must(t, r, Offer{Generation: 1, Result: Payload{Data: []byte("one")}}, Send{}, Seal{Generation: 1})
	if r.State != Running || r.Candidate != nil || r.Generation != 1 {
		t.Fatalf("%s, candidate %v, generation %d", r.State, r.Candidate, r.Generation)
	}
	r = must(t, r, CommitInput{Fence: own, Cursor: 1}, Offer{Generation: 1, Cursor: 1, Result: Payload{Data: []byte("two")}})
	sealed := must(t, r, Seal{Generation: 1})
	if sealed.State != Completed || string(sealed.Result.Data) != "two" || sealed.Generation != 2 {
		t.Errorf("%s %v, generation %d", sealed.State, sealed.Result, sealed.Generation)
	}

	// After the handoff the old owner is fenced, whatever it tries.
	moved := must(t, r, HandOff{Generation: 1, Cursor: 1, Checkpoint: &point, Tickets: []TicketID{"child"}})
	if moved.State != Waiting || moved.Owner != OwnerManager || moved.Generation != 2 || moved.Publication != OnBackground {
		t.Errorf("%s of %s, generation %d, %s", moved.State, moved.Owner, moved.Generation, moved.Publication)
	}
	for _, c := range []Command{
		Offer{Generation: 1}, Seal{Generation: 1}, HandOff{Generation: 1}, Orphan{Generation: 1}, Retake{Hold: Hold{Parent: "p", Attempt: 9, Lease: other}},
	} {
		refuse(t, moved, c, ErrOwner)
	}
	for _, c := range []Command{Save{Fence: own}, Fail{Fence: own, Failure: Failure{Code: "x"}}, Complete{Fence: own}, AckCancel{Fence: own}} {
		refuse(t, moved, c, ErrFenced)
	}

	// The parent's next attempt takes it again; the attempt before it is fenced.
	taken := must(t, r, Retake{Hold: Hold{Parent: "p", Attempt: 4, Lease: other}})
	refuse(t, taken, Seal{Generation: 1}, ErrOwner)
	refuse(t, taken, Save{Fence: own}, ErrOwner)
	must(t, taken, Seal{Generation: 2})
	refuse(t, r, Retake{Hold: Hold{Parent: "q", Attempt: 4, Lease: other}}, ErrFenced)
}

func TestOrphan(t *testing.T) {
	t.Parallel()
	r := must(t, Record{}, create(parents, reads))
	if got := must(t, r, Orphan{Generation: 1}); got.State != Failed || got.Failure.Code != CodeOrphaned || got.Failure.Outcome != OutcomeUnknown {
		t.Errorf("%s %+v", got.State, got.Failure)
	}
	if got := must(t, r, Offer{Generation: 1}, Orphan{Generation: 1}); got.State != Completed {
		t.Errorf("with its result offered: %s", got.State)
	}
	if got := must(t, r, Offer{Generation: 1}, Send{}, Orphan{Generation: 1}); got.State != Failed {
		t.Errorf("with input after its result: %s", got.State)
	}
	r = must(t, Record{}, create(parents, recoverable))
	if got := must(t, r, Orphan{Generation: 1}); got.State != Pending || got.Owner != OwnerManager || got.Publication != OnBackground {
		t.Errorf("recoverable: %s of %s, %s", got.State, got.Owner, got.Publication)
	}
	r = must(t, r, CommitStart{Fence: fence(r), Outside: true}, RequestCancel{Reason: "x"}, Orphan{Generation: 1})
	if !r.StopOnly() {
		t.Errorf("to be canceled with something outside: %s", r.State)
	}
}

func TestFinishedCarriesTheSnapshot(t *testing.T) {
	t.Parallel()
	r := must(t, Record{}, create(), start(), Complete{Fence: first, Result: Payload{Data: []byte("out")}})
	_, _, err := Apply(r, RequestCancel{Reason: "late"}, at(time.Hour))
	var fin *FinishedError
	if !errors.As(err, &fin) || !errors.Is(err, ErrFinished) || !fault.Is(err, fault.Finished) {
		t.Fatalf("err = %v, want a FinishedError", err)
	}
	if diff := cmp.Diff(r, fin.Record); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
	if want := "request_cancel task t: the task has ended: completed"; err.Error() != want {
		t.Errorf("text %q, want %q", err, want)
	}
}

func TestReasonsAreCutAtARune(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", MaxText-1) + "é" + "tail"
	r := must(t, Record{}, create(), RequestCancel{Reason: long})
	if want := strings.Repeat("x", MaxText-1); r.CancelReason != want || r.Failure.Message != want {
		t.Errorf("reason of %d bytes, want %d", len(r.CancelReason), len(want))
	}
	for _, n := range []int{0, 1, MaxText} {
		if s := strings.Repeat("x", n); CutText(s) != s {
			t.Errorf("a text of %d bytes is cut", n)
		}
	}
	if got := CutText(strings.Repeat("\x80", MaxText+9)); len(got) > MaxText || len(got) < MaxText-4 {
		t.Errorf("a text that is no UTF-8 is cut to %d bytes", len(got))
	}
}

// The task's own first attempt may have the number of its parent's, under the same
// lease: what tells the two apart is the generation.
func TestFormerOwnerIsFencedByGeneration(t *testing.T) {
	h := Hold{Parent: "p", Attempt: 1, Lease: worker}
	r := must(t, Record{}, create(reads, func(r *Record) { r.Owner, r.Parent, r.Hold, r.Publication = OwnerParent, "p", h, Deferred }))
	own := fence(r)
	r = must(t, r, HandOff{Generation: 1}, start())
	if r.Attempt != own.Attempt || r.Lease != own.Lease {
		t.Fatalf("attempt %d under %v, want the parent's", r.Attempt, r.Lease)
	}
	for _, c := range []Command{
		Save{Fence: own},
		CommitInput{Fence: own},
		Progress{Fence: own},
		Complete{Fence: own},
		Yield{Fence: own},
		Fail{Fence: own, Failure: Failure{Code: "x"}},
	} {
		refuse(t, r, c, ErrFenced)
	}
	must(t, r, Complete{Fence: fence(r)})
}
