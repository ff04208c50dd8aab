// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/session"
	"github.com/outlive-dev/outlive/task"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	reads := &task.Record{State: task.Running, ReadsInput: true}
	deaf := &task.Record{State: task.Running}
	leaving := &task.Record{State: task.Running, ReadsInput: true, CancelRequestedAt: time.Unix(1, 0)}
	ended := &task.Record{State: task.Completed, ReadsInput: true}
	tests := []struct {
		active *task.Record
		policy session.Policy
		want   session.Action
		how    mail.Delivery
	}{
		{nil, session.Reject, session.Begin, mail.Queue},
		{ended, session.Reject, session.Begin, mail.Queue},
		{reads, "", session.Deliver, mail.Queue},
		{reads, session.Enqueue, session.Deliver, mail.Queue},
		{reads, session.Steer, session.Deliver, mail.Steer},
		{reads, session.Reject, session.Refuse, mail.Queue},
		{reads, session.Interrupt, session.Replace, mail.Interrupt},
		{reads, session.Rollback, session.Replace, mail.Interrupt},
		{deaf, session.Enqueue, session.Keep, mail.Queue},
		{deaf, session.Steer, session.Keep, mail.Queue},
		{deaf, session.Interrupt, session.Replace, mail.Interrupt},
		{leaving, session.Enqueue, session.Keep, mail.Queue},
		{leaving, session.Interrupt, session.Keep, mail.Queue},
		{leaving, session.Reject, session.Refuse, mail.Queue},
	}
	for _, tt := range tests {
		if got, how := session.Decide(&session.Session{}, tt.active, tt.policy); got != tt.want || how != tt.how {
			t.Errorf("Decide(%+v, %q) = %v, %v, want %v, %v", tt.active, tt.policy, got, how, tt.want, tt.how)
		}
	}
	if got, _ := session.Decide(&session.Session{Policy: session.Reject}, reads, ""); got != session.Refuse {
		t.Errorf("the session's own policy was not asked: %v", got)
	}
}

func TestBelongs(t *testing.T) {
	t.Parallel()
	s := session.Session{Principal: "ann", Tenant: "x"}
	if err := s.Belongs("ann", "x"); err != nil {
		t.Error(err)
	}
	for _, who := range [][2]string{{"bob", "x"}, {"ann", "y"}, {"", ""}} {
		if err := s.Belongs(who[0], who[1]); !fault.Is(err, fault.NotFound) {
			t.Errorf("%v: %v, want what an unknown session gives", who, err)
		}
	}
	if err := session.Policy("loud").Valid(); !fault.Is(err, fault.Invalid) {
		t.Errorf("no policy: %v", err)
	}
}

func ExampleDecide() {
	busy := &task.Record{State: task.Running, ReadsInput: true}
	action, how := session.Decide(&session.Session{}, busy, session.Steer)
	fmt.Println(action == session.Deliver, how)
	// Output: true steer
}
