// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlive-dev/outlive/fault"
)

// Failures seen in the field, by number. The races among them are decided by who
// commits first; here both orders are played, the engines' tests race them.

// notices returns the kinds of notices that the commands send, and the last record.
func notices(t *testing.T, r Record, cs ...Command) ([]string, Record) {
	t.Helper()
	var kinds []string
	for _, c := range cs {
		next, effects, err := Apply(r, c, r.UpdatedAt.Add(time.Second))
		if err != nil {
			t.Fatalf("%s: %v", c.Op(), err)
		}
		for _, e := range effects {
			if n, ok := e.(Notify); ok {
				kinds = append(kinds, n.Kind)
			}
		}
		r = next
	}
	return kinds, r
}

// Given a running deferred task, when publishing and completing race, then it
// completes, and was either published with both notices or stays hidden with none.
func TestE1_PublishRacesComplete(t *testing.T) {
	t.Parallel()
	r := must(t, Record{}, create(deferred), start())
	sent, end := notices(t, r, Publish{}, Complete{Fence: first})
	if !slices.Equal(sent, []string{NoticeBackgrounded, NoticeCompleted}) || end.Publication != OnBackground || end.State != Completed {
		t.Errorf("published first: %v, %s, %s", sent, end.Publication, end.State)
	}
	sent, end = notices(t, r, Complete{Fence: first})
	if sent != nil || end.Publication != Deferred || end.State != Completed {
		t.Errorf("completed first: %v, %s, %s", sent, end.Publication, end.State)
	}
}

// Given the same, when publishing and canceling race, then it ends canceled, with
// both notices or none.
func TestE2_PublishRacesCancel(t *testing.T) {
	t.Parallel()
	r := must(t, Record{}, create(deferred), start())
	cancel, ack := RequestCancel{Reason: "x"}, AckCancel{Fence: first}
	for _, tt := range []struct {
		cs   []Command
		want []string
	}{
		{[]Command{Publish{}, cancel, ack}, []string{NoticeBackgrounded, NoticeCanceled}},
		{[]Command{cancel, Publish{}, ack}, []string{NoticeBackgrounded, NoticeCanceled}},
		{[]Command{cancel, ack}, nil},
	} {
		if sent, end := notices(t, r, tt.cs...); !slices.Equal(sent, tt.want) || end.State != Canceled {
			t.Errorf("%v, %s, want %v, canceled", sent, end.State, tt.want)
		}
	}
}

// Given a deferred task, when it is created and runs, then nobody is told; publishing
// tells once and moves no version.
func TestE5_DeferredTellsNobody(t *testing.T) {
	t.Parallel()
	sent, r := notices(t, Record{}, create(deferred), start())
	if sent != nil {
		t.Errorf("deferred: %v", sent)
	}
	sent, published := notices(t, r, Publish{})
	if !slices.Equal(sent, []string{NoticeBackgrounded}) || published.Version != r.Version {
		t.Errorf("published: %v, version %d, want %d", sent, published.Version, r.Version)
	}
}

// Given a published task, when publishing is replayed, then version and revision
// stay and no second notice is sent; also after the end.
func TestE6_PublishReplayed(t *testing.T) {
	t.Parallel()
	r := must(t, Record{}, create(deferred), start(), Publish{})
	if sent, again := notices(t, r, Publish{}, Publish{}); sent != nil || again.Revision != r.Revision {
		t.Errorf("%v, revision %d, want %d", sent, again.Revision, r.Revision)
	}
	r = must(t, Record{}, create(deferred), start(), Complete{Fence: first})
	if sent, _ := notices(t, r, Publish{}, Publish{}, Reveal{}); !slices.Equal(sent, []string{NoticeCompleted}) {
		t.Errorf("after the end: %v, want its notice once", sent)
	}
}

// Given a running attempt, when the task is published, then the attempt's next
// writes go through as if nothing had happened.
func TestE7_PublishDoesNotDisturbTheAttempt(t *testing.T) {
	t.Parallel()
	r := must(t, Record{}, create(deferred), start())
	published := must(t, r, Publish{})
	if published.Version != r.Version || published.Attempt != r.Attempt || published.Generation != r.Generation || published.Lease != r.Lease {
		t.Errorf("publishing moved a fence")
	}
	must(t, published, Progress{Fence: first}, Save{Fence: first, Checkpoint: point}, Complete{Fence: first})
}

// Given a committed start, when it is committed again, then that is refused; a yield
// without a checkpoint keeps the one there is.
func TestE9_SecondCommitStart(t *testing.T) {
	t.Parallel()
	r := must(t, Record{}, create(), start(), CommitStart{Fence: first, Checkpoint: &point})
	refuse(t, r, CommitStart{Fence: first}, ErrStarted)
	_, _, err := Apply(r, CommitStart{Fence: first}, at(time.Hour))
	if !fault.Is(err, fault.Conflict) {
		t.Errorf("kind %v, want conflict", fault.KindOf(err))
	}
	r = must(t, r, Yield{Fence: first})
	if diff := cmp.Diff(&point, r.Checkpoint); diff != "" {
		t.Errorf("checkpoint after yield (-want +got):\n%s", diff)
	}
}

// Given a command, when the caller changes the structs it passed afterwards, then
// the record does not change. (The bytes belong to the store, which copies them.)
func TestE10_CallersStructsAreNotKept(t *testing.T) {
	t.Parallel()
	cp := point
	tickets := []TicketID{"a", "b"}
	r := must(t, Record{}, create(), start(), CommitStart{Fence: first, Checkpoint: &cp}, Wait{Fence: first, Tickets: tickets})
	cp.Format, tickets[0] = "changed", "changed"
	if r.Checkpoint.Format != "f" || r.Tickets[0] != "a" {
		t.Errorf("checkpoint %q, tickets %v", r.Checkpoint.Format, r.Tickets)
	}
}

// Given a cancel request on a running task, when a second one gives another reason,
// then the first stays; completing is refused; the acknowledgement ends it canceled
// for the first reason.
func TestE11_FirstReasonStays(t *testing.T) {
	t.Parallel()
	r := must(t, Record{}, create(), start(), RequestCancel{Reason: "first"})
	again := must(t, r, RequestCancel{Reason: "second"})
	if diff := cmp.Diff(r, again); diff != "" {
		t.Errorf("a second request moves:\n%s", diff)
	}
	refuse(t, again, Complete{Fence: first}, ErrCancelRequested)
	end := must(t, again, AckCancel{Fence: first})
	if end.State != Canceled || end.Failure.Code != CodeCanceled || end.Failure.Message != "first" {
		t.Errorf("%s %+v, want canceled: first", end.State, end.Failure)
	}
}

// Given a lost worker, then a task that retries is pending again and one that does
// not has failed with an unknown outcome.
func TestE12_LeaseLossPolicies(t *testing.T) {
	t.Parallel()
	expire := Expire{Fence: first}
	if r := must(t, Record{}, create(func(r *Record) { r.OnLeaseLoss = LoseRetry }), start(), expire); r.State != Pending {
		t.Errorf("retry: %s", r.State)
	}
	r := must(t, Record{}, create(), start(), expire)
	if r.State != Failed || r.Failure.Code != CodeWorkerLost || r.Failure.Outcome != OutcomeUnknown {
		t.Errorf("fail: %s %+v", r.State, r.Failure)
	}
}

// Given a cancel whose owner never answers, when it is requested again, then the
// intent is still there, the owner is told again, and an acknowledgement ends it.
func TestE14_RepeatedCancelRingsAgain(t *testing.T) {
	t.Parallel()
	r := must(t, Record{}, create(), start(), RequestCancel{Reason: "x"})
	again, effects := apply(t, r, RequestCancel{Reason: "x"})
	if !again.Canceling() || show(effects) != "tell cancel" {
		t.Errorf("%s, %s", again.State, show(effects))
	}
	if end := must(t, again, AckCancel{Fence: first}); end.State != Canceled {
		t.Errorf("%s", end.State)
	}
}

// Given a suspended task, when input and release race, then it ends pending one
// version on, with the input stored once and unread.
func TestE15_InputRacesRelease(t *testing.T) {
	t.Parallel()
	r := must(t, Record{}, create(reads), start(), Suspend{Fence: first, Reason: SuspendIdle, Checkpoint: point})
	for _, cs := range [][]Command{{Send{}, Release{}}, {Release{}, Send{}}} {
		got := must(t, r, cs...)
		if got.State != Pending || got.Version != r.Version+1 || got.LatestInput != 1 || got.ConsumedInput != 0 {
			t.Errorf("%s, version %d, input %d/%d", got.State, got.Version, got.ConsumedInput, got.LatestInput)
		}
	}
}

// Given a suspended task, when any input arrives, then it stays suspended at the same
// version and the input waits.
func TestE16_InputNeverReleases(t *testing.T) {
	t.Parallel()
	r := must(t, Record{}, create(reads), start(), Suspend{Fence: first, Reason: SuspendParked, Checkpoint: point})
	got := must(t, r, Send{}, Send{Wakes: true})
	if got.State != Suspended || got.Version != r.Version || got.LatestInput != 2 {
		t.Errorf("%s, version %d, %d inputs", got.State, got.Version, got.LatestInput)
	}
}

// Given a waiting task, when the answer arrives, then it is pending one version on.
func TestE17_AnswerWakes(t *testing.T) {
	t.Parallel()
	r := must(t, Record{}, create(reads), start(), Wait{Fence: first, Tickets: []TicketID{"q"}})
	got := must(t, r, Send{}, Decide{Ticket: "q"})
	if got.State != Pending || got.Version != r.Version+1 || got.LatestInput != 1 {
		t.Errorf("%s, version %d, want pending, %d", got.State, got.Version, r.Version+1)
	}
}

// Given an attempt that yielded, then whatever it still tries is fenced, also when
// another attempt runs under the same worker.
func TestE25_YieldedAttemptIsFenced(t *testing.T) {
	t.Parallel()
	r := must(t, Record{}, create(), start(), Yield{Fence: first})
	refuse(t, r, Progress{Fence: first}, ErrFenced)
	refuse(t, must(t, r, start()), Progress{Fence: first}, ErrFenced)
}

// Given a seal racing an input, then exactly one of them wins: sealed, and the sender
// is refused; or the input is stored unread and the seal withdrawn.
func TestE39_SealRacesSend(t *testing.T) {
	t.Parallel()
	r := must(t, Record{}, create(parents, reads), Offer{Generation: 1})
	sealed := must(t, r, Seal{Generation: 1})
	if _, _, err := Apply(sealed, Send{}, at(time.Hour)); !errors.Is(err, ErrFinished) || sealed.Unread() != 0 {
		t.Errorf("sealed first: %v, %d unread", err, sealed.Unread())
	}
	sent := must(t, r, Send{}, Seal{Generation: 1})
	if sent.State != Running || sent.MailSealed || sent.Unread() != 1 {
		t.Errorf("sent first: %s, sealed %v, %d unread", sent.State, sent.MailSealed, sent.Unread())
	}
}

// Given a handoff, then the former owner's proof is worth nothing any more.
func TestE42_OldProofAfterHandoff(t *testing.T) {
	t.Parallel()
	r := must(t, Record{}, create(parents))
	own := fence(r)
	r = must(t, r, HandOff{Generation: 1})
	refuse(t, r, Complete{Fence: own}, ErrFenced)
	refuse(t, r, Offer{Generation: 1}, ErrOwner)
	if fault.Hint(ErrOwner) == "" {
		t.Error("the refusal does not say how to get the task again")
	}
}

// Given a crash between result and seal, when the parent's next attempt takes the
// task again, then the stored result is sealed if no input came, else withdrawn.
func TestE47_CrashBetweenOfferAndSeal(t *testing.T) {
	t.Parallel()
	take := Retake{Hold: Hold{Parent: "p", Attempt: 4, Lease: other}}
	r := must(t, Record{}, create(parents, reads), Offer{Generation: 1, Result: Payload{Data: []byte("out")}})
	if got := must(t, r, take, Seal{Generation: 2}); got.State != Completed || string(got.Result.Data) != "out" {
		t.Errorf("no input: %s", got.State)
	}
	if got := must(t, r, Send{}, take, Seal{Generation: 2}); got.State != Running || got.Candidate != nil {
		t.Errorf("input in between: %s, candidate %v", got.State, got.Candidate)
	}
}

// Given a drain with unread input, then the yielded task is pending with its
// checkpoint, never failed.
func TestE50_DrainKeepsTheTask(t *testing.T) {
	t.Parallel()
	r := must(t, Record{}, create(reads), start(), Send{}, Yield{Fence: first, Checkpoint: &point})
	if r.State != Pending || r.Checkpoint == nil || r.Failures != 0 {
		t.Errorf("%s, checkpoint %v, %d failures", r.State, r.Checkpoint, r.Failures)
	}
}

// Given a foreground success with unread input under a parent, then the task goes on
// with mailbox and input, and the result is the caller's to drop.
func TestE64_UnreadInputKeepsADirectTaskOpen(t *testing.T) {
	t.Parallel()
	r := must(t, Record{}, create(parents, reads), Send{})
	r = must(t, r, Complete{Fence: fence(r)})
	if r.State != Running || r.MailSealed || r.Unread() != 1 {
		t.Errorf("%s, sealed %v, %d unread", r.State, r.MailSealed, r.Unread())
	}
}

// Given a takeover or an end, then the former attempt learns it at once, each by its
// own kind.
func TestE75_TakeoverAndEndFailAtOnce(t *testing.T) {
	t.Parallel()
	r := must(t, Record{}, create(recoverable), start(), CommitStart{Fence: first}, Adopt{Lease: other, Dead: true})
	refuse(t, r, Save{Fence: first}, ErrFenced)
	r = must(t, r, Complete{Fence: fence(r)})
	refuse(t, r, Save{Fence: first}, ErrFinished)
}
