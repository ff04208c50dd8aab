// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/apply"
	"github.com/outlive-dev/outlive/internal/dispatch"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/session"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// keyLife is how long an idempotency key is kept at least.
const keyLife = 7 * 24 * time.Hour

// Spec describes a task to create. Executor is required; every other field's zero
// value is its default.
type Spec struct {
	// ID is the task's id, made with NewID. Defaults to a new one.
	ID task.ID
	// Executor is the registered name. Required.
	Executor string
	// Input is the payload. Defaults to none.
	Input task.Payload
	// Invocation makes the creation idempotent: the same key with the same request
	// returns the first task. Defaults to none.
	Invocation string
	// Name is unique among unfinished tasks. Defaults to none.
	Name string
	// Description is for people. Defaults to none.
	Description string
	// Labels are for filters. Defaults to none.
	Labels map[string]string
	// Parent makes this a child task. Defaults to none.
	Parent task.ID
	// Bound has a cancel of the parent cancel it, for as long as it runs: also when nobody
	// waits for it any more, and whatever becomes of the process that made it. Without a
	// parent it says nothing. Defaults to false: a child goes on when it was let go.
	Bound bool
	// Session makes this a turn of a session, which first use creates. While a task of
	// the session has not ended, Busy says what becomes of it, and the task returned is
	// that one. Defaults to none.
	Session task.SessionID
	// Busy is the policy for a session whose task has not ended: enqueue, reject, steer,
	// interrupt or rollback. Defaults to the session's, which is that of its first use.
	Busy session.Policy
	// Notify is the outbox target of the task's notices that no ancestor and no session
	// takes, see Subscribe. Defaults to none.
	Notify string
	// Queue limits how many run at once, see SetQueue. Defaults to no queue.
	Queue string
	// ConcurrencyKey lets one task with the key run at a time. Defaults to none.
	ConcurrencyKey string
	// Priority is smaller for sooner. Defaults to 0.
	Priority int
	// Delay postpones the first attempt. Defaults to 0.
	Delay time.Duration
	// MaxAttempts limits retries of failures. Defaults to 1.
	MaxAttempts int
	// Backoff is the delay between retries. Defaults to 1 s doubling up to 5 min.
	Backoff task.Backoff
	// Timeout sets a deadline for the whole task. Defaults to none.
	Timeout time.Duration
	// Tokens is how many tokens of models the task and its children may use; executors
	// of agents count them. A child's is never wider. Defaults to 0: no limit.
	Tokens int64
	// Retention is how long the finished task is kept. Defaults to the collector's.
	Retention time.Duration
	// Liveness says what happens when the last claim ends. Defaults to continue.
	Liveness task.Liveness
	// Principal is who asks. Defaults to none.
	Principal string
	// Tenant separates principals. Defaults to none.
	Tenant string

	// Here starts the task in this process, in the transaction that creates it,
	// unless a limit forbids it. Passive runtimes use it. Defaults to false.
	Here bool

	retryOf     task.ID
	publication task.Publication
	observer    string
}

// Submit creates a task that runs in the background and returns its record.
func (rt *Runtime) Submit(ctx context.Context, s Spec) (task.Record, error) {
	s.publication = task.OnCreate
	out, err := rt.launch(ctx, s)
	return out.Record, err
}

func (rt *Runtime) launch(ctx context.Context, s Spec) (dispatch.Launched, error) {
	ex, err := rt.d.Executor(s.Executor)
	if err != nil {
		return dispatch.Launched{}, fmt.Errorf("submit: %w", err)
	}
	if ex.Validate != nil {
		if err := ex.Validate(s.Input); err != nil {
			return dispatch.Launched{}, fmt.Errorf("submit %s: %w", s.Executor, err)
		}
	}
	if s.ID == "" {
		s.ID = NewID(ex.Kind)
	}
	for _, d := range []time.Duration{s.Delay, s.Timeout, s.Retention} {
		if d < 0 {
			return dispatch.Launched{}, fault.Newf(fault.Invalid, "submit: negative duration %v", d)
		}
	}
	if s.Tokens < 0 {
		return dispatch.Launched{}, fault.Newf(fault.Invalid, "submit: negative budget of %d tokens", s.Tokens)
	}
	now := time.Now()
	rec := task.Record{
		ID: s.ID, Executor: s.Executor, Kind: ex.Kind, Name: s.Name, Description: s.Description, Spec: s.Input,
		Invocation: s.Invocation, Parent: s.Parent, Bound: s.Bound && s.Parent != "", RetryOf: s.retryOf, Principal: s.Principal, Tenant: s.Tenant, Labels: s.Labels,
		Owner: task.OwnerManager, OnLeaseLoss: ex.OnLeaseLoss, ReadsInput: ex.ReadsInput, Recoverable: ex.Recoverable,
		Publication: s.publication, Queue: s.Queue, ConcurrencyKey: s.ConcurrencyKey, Priority: s.Priority,
		MaxAttempts: s.MaxAttempts, Backoff: s.Backoff, Liveness: s.Liveness, Retention: s.Retention,
		Session: s.Session, Notify: s.Notify, Tokens: s.Tokens,
	}
	if s.Delay > 0 {
		rec.DueAt = now.Add(s.Delay)
	}
	if s.Timeout > 0 {
		rec.Deadline = now.Add(s.Timeout)
	}
	l := dispatch.Launch{Create: task.Create{Record: rec}, Observer: s.observer, Here: s.Here}
	if s.Session != "" {
		if s.Parent != "" {
			return dispatch.Launched{}, fault.New(fault.Invalid, "submit: a turn of a session has no parent")
		}
		name := s.Invocation
		if name == "" {
			name = string(s.ID)
		}
		l.Turn = &apply.Turn{Policy: s.Busy, Message: mail.Input{
			ID: "turn/" + name, Kind: "message", Media: s.Input.Media, Data: s.Input.Data, From: s.Principal,
		}}
	}
	if s.Invocation != "" {
		rec.Digest = digest(s)
		l.Create.Record.Digest = rec.Digest
		under := string(s.Parent)
		if s.Session != "" {
			under = "session/" + string(s.Session)
		}
		scope := strings.Join([]string{s.Tenant, s.Principal, under, s.Invocation}, "\x00")
		l.Invocation = &store.Invocation{Key: scope, Digest: rec.Digest, Expires: now.Add(max(keyLife, s.Retention))}
	}
	return rt.d.Launch(ctx, l)
}

// digest identifies the intent of a request, so that a key used for another one is
// refused.
func digest(s Spec) string {
	h := sha256.New()
	b, err := json.Marshal([]any{s.Executor, s.Input, s.Name, s.Labels, s.Parent, s.Queue, s.ConcurrencyKey, s.retryOf})
	if err != nil {
		panic(err) // strings, bytes and maps of them
	}
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil))
}

// SetQueue sets how many tasks of a queue run at once, in the whole store; 0 means
// no limit. A paused queue starts nothing.
func (rt *Runtime) SetQueue(ctx context.Context, q store.Queue) error {
	if q.Name == "" || q.Limit < 0 {
		return fault.Newf(fault.Invalid, "set queue: name %q, limit %d", q.Name, q.Limit)
	}
	err := rt.st.Update(ctx, []store.Key{store.QueueKey(q.Name)}, func(tx store.Tx) error {
		tx.PutQueue(q)
		return nil
	})
	if err != nil {
		return fmt.Errorf("set queue %s: %w", q.Name, err)
	}
	return nil
}
