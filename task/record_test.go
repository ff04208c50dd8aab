// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The data of entries is protocol.
func TestEntryData(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		data any
		want string
	}{
		{Created{Executor: "echo.v1", Owner: OwnerManager, RetryOf: "t0"}, `{"executor":"echo.v1","owner":"manager","retry_of":"t0"}`},
		{Started{Attempt: 2, Worker: "w", StopOnly: true}, `{"attempt":2,"worker":"w","stop_only":true}`},
		{Started{Attempt: 2, Lost: true}, `{"attempt":2,"lost":true}`},
		{Parked{Attempt: 1, Tickets: []TicketID{"a"}, All: true}, `{"attempt":1,"tickets":["a"],"all":true}`},
		{Parked{Attempt: 1, Reason: "idle"}, `{"attempt":1,"reason":"idle"}`},
		{Resumed{Reason: "decided", Ticket: "a"}, `{"reason":"decided","ticket":"a"}`},
		{Yielded{Attempt: 1, Reason: "yield"}, `{"attempt":1,"reason":"yield"}`},
		{
			Retrying{Attempt: 1, Failures: 1, DueAt: at(0), Code: "bad"},
			`{"attempt":1,"failures":1,"due_at":"2026-05-04T03:02:01Z","code":"bad"}`,
		},
		{CancelRequested{Reason: "x", Code: "deadline"}, `{"reason":"x","code":"deadline"}`},
		{HandedOff{Generation: 2}, `{"generation":2}`},
		{
			Ended{Attempt: 1, Generation: 2, Code: "bad", Message: "m", Outcome: OutcomeKnown, Unread: 3, EndedAt: at(0)},
			`{"attempt":1,"generation":2,"code":"bad","message":"m","outcome":"known","unread":3,"ended_at":"2026-05-04T03:02:01Z"}`,
		},
		{InputNote{Seq: 1, ID: "i", Delivery: "steer"}, `{"seq":1,"id":"i","delivery":"steer"}`},
		{InputUnread{After: 1, Latest: 2}, `{"after":1,"latest":2}`},
	} {
		got, err := json.Marshal(tt.data)
		if err != nil || string(got) != tt.want {
			t.Errorf("%T: %s, %v, want %s", tt.data, got, err, tt.want)
		}
	}
}

func TestRecordSurvivesJSON(t *testing.T) {
	t.Parallel()
	for _, v := range variants(t) {
		b, err := json.Marshal(v.r)
		if err != nil {
			t.Fatal(err)
		}
		var back Record
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(v.r, back); diff != "" {
			t.Errorf("%s (-want +got):\n%s", v.name, diff)
		}
	}
}

func TestCloneSharesNothing(t *testing.T) {
	t.Parallel()
	r := Record{
		Spec: Payload{Data: []byte("a")}, Labels: map[string]string{"k": "v"}, Tickets: []TicketID{"t"},
		Checkpoint: &Checkpoint{Data: []byte("a")}, Candidate: &Candidate{Result: Payload{Data: []byte("a")}},
		Result: &Payload{Data: []byte("a")}, Failure: &Failure{Detail: Payload{Data: []byte("a")}},
	}
	c := r.Clone()
	if diff := cmp.Diff(r, c); diff != "" {
		t.Fatalf("Clone (-want +got):\n%s", diff)
	}
	c.Spec.Data[0], c.Checkpoint.Data[0], c.Candidate.Result.Data[0], c.Result.Data[0], c.Failure.Detail.Data[0] = 'b', 'b', 'b', 'b', 'b'
	c.Labels["k"], c.Tickets[0] = "w", "u"
	for _, s := range []string{
		string(r.Spec.Data), string(r.Checkpoint.Data), string(r.Candidate.Result.Data), string(r.Result.Data), string(r.Failure.Detail.Data),
	} {
		if s != "a" {
			t.Errorf("the original holds %q", s)
		}
	}
	if r.Labels["k"] != "v" || r.Tickets[0] != "t" {
		t.Error("labels or tickets are shared")
	}
	if r.Stream() != "" || (&Record{ID: "t", Session: "s"}).Stream() != "s" || (&Record{ID: "t"}).Stream() != "t" {
		t.Error("a task writes to its session's stream, else to its own")
	}
}
