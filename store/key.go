// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"strings"

	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/task"
)

// KeyKind says which row or range a key names.
type KeyKind uint8

// The kinds of keys.
const (
	KindTask KeyKind = iota + 1
	KindStream
	KindEvent
	KindPart
	KindInput
	KindInputs
	KindWorker
	KindInvocation
	KindName
	KindQueue
	KindConcurrency
	KindObservers
	KindTicket
	KindSession
	KindOutbox
	KindHeld
)

// Key names what an Update reads. Keys are comparable.
type Key struct {
	Kind    KeyKind
	A, B, C string
}

// String renders the key for messages.
func (k Key) String() string {
	names := [...]string{
		"?", "task", "stream", "event", "part", "input", "inputs", "worker", "invocation", "name", "queue", "concurrency", "observers",
		"ticket", "session", "outbox", "held",
	}
	s := names[min(int(k.Kind), len(names)-1)]
	return strings.TrimRight(s+" "+k.A+" "+k.B+" "+k.C, " ")
}

// TaskKey names a task's row.
func TaskKey(id task.ID) Key { return Key{Kind: KindTask, A: string(id)} }

// StreamKey names a stream's head.
func StreamKey(s journal.StreamID) Key { return Key{Kind: KindStream, A: string(s)} }

// EventKey names what is known of one event's end.
func EventKey(s journal.StreamID, event string) Key {
	return Key{Kind: KindEvent, A: string(s), B: event}
}

// PartKey names one part of one event.
func PartKey(s journal.StreamID, event, part string) Key {
	return Key{Kind: KindPart, A: string(s), B: event, C: part}
}

// InputKey names one input of one task by its id.
func InputKey(id task.ID, input string) Key { return Key{Kind: KindInput, A: string(id), B: input} }

// InputsKey names a task's unread inputs.
func InputsKey(id task.ID) Key { return Key{Kind: KindInputs, A: string(id)} }

// WorkerKey names a worker's row.
func WorkerKey(id task.WorkerID) Key { return Key{Kind: KindWorker, A: string(id)} }

// InvocationKey names an idempotency key's row.
func InvocationKey(key string) Key { return Key{Kind: KindInvocation, A: key} }

// NameKey names the unfinished task of that name.
func NameKey(name string) Key { return Key{Kind: KindName, A: name} }

// QueueKey names a queue's row and the number of its running tasks.
func QueueKey(name string) Key { return Key{Kind: KindQueue, A: name} }

// ConcurrencyKey names the number of running tasks with that concurrency key.
func ConcurrencyKey(key string) Key { return Key{Kind: KindConcurrency, A: key} }

// ObserversKey names all observers of a task.
func ObserversKey(id task.ID) Key { return Key{Kind: KindObservers, A: string(id)} }

// TicketKey names one ticket of one task.
func TicketKey(id task.ID, ticket task.TicketID) Key {
	return Key{Kind: KindTicket, A: string(id), B: string(ticket)}
}

// SessionKey names a session's row.
func SessionKey(id task.SessionID) Key { return Key{Kind: KindSession, A: string(id)} }

// OutboxKey names all messages to a target.
func OutboxKey(target string) Key { return Key{Kind: KindOutbox, A: target} }

// DeliveryKey names one message to a target by its id.
func DeliveryKey(target, id string) Key { return Key{Kind: KindOutbox, A: target, B: id} }

// HeldKey names the number of running tasks that an attempt of the parent drives.
func HeldKey(parent task.ID) Key { return Key{Kind: KindHeld, A: string(parent)} }
