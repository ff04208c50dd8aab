// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package mail_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/mail"
)

func noon(d time.Duration) time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).Add(d) }

// Given an id that was used, the same content again is accepted without effect,
// whatever the seal; any other content conflicts.
func TestE41_InputIDReuse(t *testing.T) {
	t.Parallel()
	in := mail.Input{Task: "t", ID: "i", Kind: "user", Data: []byte("hi"), From: "ann"}
	stored := in
	stored.Seq, stored.At = 7, noon(0)
	if insert, err := mail.Accept(nil, in); !insert || err != nil {
		t.Errorf("new: %v, %v", insert, err)
	}
	queued := in
	queued.Delivery = mail.Queue // says what the empty delivery means
	for _, same := range []mail.Input{in, stored, queued} {
		if insert, err := mail.Accept(&stored, same); insert || err != nil {
			t.Errorf("replay: %v, %v", insert, err)
		}
	}
	for name, change := range map[string]func(*mail.Input){
		"data": func(i *mail.Input) { i.Data = []byte("ho") }, "kind": func(i *mail.Input) { i.Kind = "x" },
		"media": func(i *mail.Input) { i.Media = "x" }, "delivery": func(i *mail.Input) { i.Delivery = mail.Steer },
		"from": func(i *mail.Input) { i.From = "bob" },
		"ticket": func(i *mail.Input) {
			i.Delivery, i.Ticket = mail.Answer, "q"
		},
	} {
		other := in
		change(&other)
		if insert, err := mail.Accept(&stored, other); insert || !fault.Is(err, fault.Conflict) {
			t.Errorf("other %s: %v, %v, want Conflict", name, insert, err)
		}
	}
}

func TestInputValidate(t *testing.T) {
	t.Parallel()
	for _, in := range []mail.Input{{}, {ID: "i", Delivery: "shout"}, {ID: "i", Delivery: mail.Answer}, {ID: "i", Ticket: "q"}} {
		if _, err := mail.Accept(nil, in); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v, want Invalid", in, err)
		}
	}
	for d, want := range map[mail.Delivery]bool{"": false, mail.Queue: false, mail.Steer: true, mail.Interrupt: true, mail.Answer: false} {
		if got := d.Wakes(); got != want {
			t.Errorf("%q wakes: %v, want %v", d, got, want)
		}
	}
}

func TestDecideOnce(t *testing.T) {
	t.Parallel()
	q := mail.Ticket{ID: "q", Kind: mail.Question, Options: []string{"yes", "no"}, ExpiresAt: noon(time.Minute)}
	yes := mail.Decision{Verdict: mail.Answered, Value: []byte("yes"), By: "ann"}
	decided, first, err := q.Decide(yes, noon(0))
	if err != nil || !first || !q.Open() || decided.Open() {
		t.Fatalf("first: %v, %v", first, err)
	}
	later, first, err := decided.Decide(mail.Decision{Verdict: mail.Answered, Value: []byte("no"), By: "bob"}, noon(time.Hour))
	if err != nil || first {
		t.Fatalf("second: %v, %v", first, err)
	}
	want := yes
	want.At = noon(0)
	if diff := cmp.Diff(&want, later.Decision); diff != "" {
		t.Errorf("the stored decision (-want +got):\n%s", diff)
	}
	for _, d := range []mail.Decision{{}, {Verdict: mail.Approved}, {Verdict: mail.Answered, Value: []byte("maybe")}, {Verdict: mail.Expired}} {
		if got, first, err := q.Decide(d, noon(0)); !fault.Is(err, fault.Invalid) || first || !got.Open() {
			t.Errorf("%+v: %v, %v, want Invalid", d, first, err)
		}
	}
}

func TestExpiryIsADecision(t *testing.T) {
	t.Parallel()
	a := mail.Ticket{ID: "a", Kind: mail.Approval, ArgsDigest: "d1", ExpiresAt: noon(time.Minute)}
	if a.Overdue(noon(time.Minute-1)) || !a.Overdue(noon(time.Minute)) || (&mail.Ticket{}).Overdue(noon(time.Hour)) {
		t.Error("overdue at the wrong instant")
	}
	late, first, err := a.Decide(mail.Decision{Verdict: mail.Approved}, noon(time.Minute))
	if err != nil || !first || late.Decision.Verdict != mail.Expired || late.Approves("d1") {
		t.Errorf("too late: %+v, %v, %v", late.Decision, first, err)
	}
}

func TestApprovalIsForItsArguments(t *testing.T) {
	t.Parallel()
	a := mail.Ticket{ID: "a", Kind: mail.Approval, ArgsDigest: "d1"}
	if a.Approves("d1") {
		t.Error("an open ticket approves")
	}
	yes, _, _ := a.Decide(mail.Decision{Verdict: mail.Approved}, noon(0))
	no, _, _ := a.Decide(mail.Decision{Verdict: mail.Denied}, noon(0))
	if !yes.Approves("d1") || yes.Approves("d2") || no.Approves("d1") {
		t.Error("approval and arguments do not agree")
	}
}

func TestTasksTicket(t *testing.T) {
	t.Parallel()
	ended := func(ids ...string) func(string) bool {
		return func(id string) bool { return slices.Contains(ids, id) }
	}
	tests := []struct {
		t     mail.Ticket
		ended func(string) bool
		want  bool
	}{
		{mail.Ticket{Kind: mail.Tasks, IDs: []string{"a", "b"}}, ended(), false},
		{mail.Ticket{Kind: mail.Tasks, IDs: []string{"a", "b"}}, ended("b"), true},
		{mail.Ticket{Kind: mail.Tasks, IDs: []string{"a", "b"}, All: true}, ended("b"), false},
		{mail.Ticket{Kind: mail.Tasks, IDs: []string{"a", "b"}, All: true}, ended("a", "b"), true},
		{mail.Ticket{Kind: mail.Tasks, All: true}, ended(), false},
		{mail.Ticket{Kind: mail.Question, IDs: []string{"a"}}, ended("a"), false},
	}
	for _, tt := range tests {
		if got := tt.t.EndedEnough(tt.ended); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.t, got, tt.want)
		}
	}
}

func TestEnough(t *testing.T) {
	t.Parallel()
	open, done := mail.Ticket{}, mail.Ticket{Decision: &mail.Decision{}}
	tests := []struct {
		tickets  []mail.Ticket
		any, all bool
	}{
		{nil, false, false},
		{[]mail.Ticket{open}, false, false},
		{[]mail.Ticket{open, done}, true, false},
		{[]mail.Ticket{done, done}, true, true},
	}
	for _, tt := range tests {
		if got := mail.Enough(tt.tickets, false); got != tt.any {
			t.Errorf("any of %d: %v, want %v", len(tt.tickets), got, tt.any)
		}
		if got := mail.Enough(tt.tickets, true); got != tt.all {
			t.Errorf("all of %d: %v, want %v", len(tt.tickets), got, tt.all)
		}
	}
}

// A message without a ticket answers only when there is no doubt what.
func TestAddressee(t *testing.T) {
	t.Parallel()
	q1, q2 := mail.Ticket{ID: "q1", Kind: mail.Question}, mail.Ticket{ID: "q2", Kind: mail.Question}
	a := mail.Ticket{ID: "a", Kind: mail.Approval}
	done := mail.Ticket{ID: "d", Kind: mail.Question, Decision: &mail.Decision{}}
	tests := []struct {
		tickets []mail.Ticket
		want    string
	}{
		{nil, ""},
		{[]mail.Ticket{a, done}, ""},
		{[]mail.Ticket{q1, q2}, ""},
		{[]mail.Ticket{a, done, q1}, "q1"},
	}
	for _, tt := range tests {
		got, ok := mail.Addressee(tt.tickets)
		if got.ID != tt.want || ok != (tt.want != "") {
			t.Errorf("Addressee(%d tickets) = %q, %v, want %q", len(tt.tickets), got.ID, ok, tt.want)
		}
	}
}

func ExampleTicket_Decide() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	q := mail.Ticket{ID: "q-1", Kind: mail.Question, Prompt: "Deploy?", Options: []string{"yes", "no"}}

	q, first, _ := q.Decide(mail.Decision{Verdict: mail.Answered, Value: []byte("yes"), By: "ann"}, now)
	fmt.Println(first, string(q.Decision.Value))

	q, first, _ = q.Decide(mail.Decision{Verdict: mail.Answered, Value: []byte("no"), By: "bob"}, now)
	fmt.Println(first, string(q.Decision.Value), "by", q.Decision.By)
	// Output:
	// true yes
	// false yes by ann
}
