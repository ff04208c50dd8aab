// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"time"

	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/session"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// Rows is what a driver loaded: the committed state, without anything staged. A
// driver sets an entry for every key it is asked for, also when there is no row
// (nil, or the zero value). What the pointers point to is never changed again.
type Rows struct {
	Tasks       map[task.ID]*task.Record
	Heads       map[journal.StreamID]journal.Head // Seq 0: empty
	Tails       map[store.Key]journal.Tail
	Parts       map[store.Key]*journal.Entry
	Inputs      map[store.Key]*mail.Input
	Inboxes     map[task.ID]Inbox
	Workers     map[task.WorkerID]*store.Worker
	Invocations map[string]*store.Invocation
	Names       map[string][]task.ID // the unfinished tasks of that name
	Queues      map[string]Queue
	Concurrency map[string]int // running tasks with that concurrency key
	Observers   map[task.ID][]store.Observer
	Tickets     map[store.Key]*mail.Ticket
	Sessions    map[task.SessionID]*session.Session
	Deliveries  map[store.Key]*store.Delivery
	Outboxes    map[string]Outbox
	Held        map[task.ID]int
}

// Outbox is the messages to one target, in order, at most store.MaxPage; More says
// that there are others behind them.
type Outbox struct {
	Items []store.Delivery
	More  bool
}

// Inbox is a task's inputs after its ConsumedInput, in order, at most
// store.MaxPage; More says that there are others behind them.
type Inbox struct {
	Items []mail.Input
	More  bool
}

// Queue is a queue's row and the number of its running tasks.
type Queue struct {
	Row     store.Queue
	Running int
}

func newRows() Rows {
	return Rows{
		Tasks:       make(map[task.ID]*task.Record),
		Heads:       make(map[journal.StreamID]journal.Head),
		Tails:       make(map[store.Key]journal.Tail),
		Parts:       make(map[store.Key]*journal.Entry),
		Inputs:      make(map[store.Key]*mail.Input),
		Inboxes:     make(map[task.ID]Inbox),
		Workers:     make(map[task.WorkerID]*store.Worker),
		Invocations: make(map[string]*store.Invocation),
		Names:       make(map[string][]task.ID),
		Queues:      make(map[string]Queue),
		Concurrency: make(map[string]int),
		Observers:   make(map[task.ID][]store.Observer),
		Tickets:     make(map[store.Key]*mail.Ticket),
		Sessions:    make(map[task.SessionID]*session.Session),
		Deliveries:  make(map[store.Key]*store.Delivery),
		Outboxes:    make(map[string]Outbox),
		Held:        make(map[task.ID]int),
	}
}

func (r *Rows) reset() {
	clear(r.Tasks)
	clear(r.Heads)
	clear(r.Tails)
	clear(r.Parts)
	clear(r.Inputs)
	clear(r.Inboxes)
	clear(r.Workers)
	clear(r.Invocations)
	clear(r.Names)
	clear(r.Queues)
	clear(r.Concurrency)
	clear(r.Observers)
	clear(r.Tickets)
	clear(r.Sessions)
	clear(r.Deliveries)
	clear(r.Outboxes)
	clear(r.Held)
}

// Staging is all that one batch writes, each row once with its last value, in
// the order the rows were first written. Its values are never changed again, so
// a driver may keep them.
type Staging struct {
	Now         time.Time // of the store's clock; the next batch's is not before it
	Tasks       []TaskChange
	Entries     []journal.Entry
	Heads       []HeadChange
	Tails       []TailChange
	Inputs      []*mail.Input
	Workers     []WorkerChange
	Invocations []InvocationChange
	Queues      []store.Queue
	Observers   []ObserverChange
	Timers      []TimerChange
	Tickets     []*mail.Ticket
	Sessions    []*session.Session
	Deliveries  []DeliveryChange
	Forgets     []Forget // after everything else
}

// InvocationChange is an idempotency key's new row; nil means that it is dropped.
type InvocationChange struct {
	Key string
	New *store.Invocation
}

// DeliveryChange is a message's new row; nil means that it is dropped.
type DeliveryChange struct {
	Target, ID string
	New        *store.Delivery
}

// Forget asks to remove at most Rows rows of a task.
type Forget struct {
	Task task.ID
	Rows int
}

// TaskChange is a task's row before (nil: none) and after.
type TaskChange struct {
	Old, New *task.Record
}

// HeadChange is a stream's new head.
type HeadChange struct {
	Stream journal.StreamID
	Head   journal.Head
}

// TailChange is what a batch adds to an event: Add.Bytes and Add.Parts count up,
// Add.Final is or-ed, Add.Part (unless empty) is the new last part.
type TailChange struct {
	Stream journal.StreamID
	Event  string
	Add    journal.Tail
}

// WorkerChange is a worker's row before and after; nil means none.
type WorkerChange struct {
	ID       task.WorkerID
	Old, New *store.Worker
}

// ObserverChange is an observer's new row; nil means that it is dropped.
type ObserverChange struct {
	Task task.ID
	ID   string
	New  *store.Observer
}

// TimerChange is a timer's new row; nil means that it is dropped.
type TimerChange struct {
	Kind, Subject string
	New           *store.Timer
}

func (s *Staging) reset() { *s = Staging{} }

// Hint tells what the staging changes, for [Hub.Ring].
func (s *Staging) Hint() store.Hint {
	h := store.Hint{Pending: len(s.Queues) > 0}
	for _, c := range s.Tasks {
		h.Tasks = append(h.Tasks, c.New.ID)
		freed := c.Old != nil && c.Old.State == task.Running && c.New.State != task.Running &&
			(c.New.Queue != "" || c.New.ConcurrencyKey != "")
		h.Pending = h.Pending || freed || c.New.State == task.Pending
	}
	for _, c := range s.Heads {
		h.Streams = append(h.Streams, c.Stream)
	}
	for _, c := range s.Workers {
		h.Workers = h.Workers || c.Old == nil || c.New == nil || c.Old.Epoch != c.New.Epoch ||
			c.Old.Draining != c.New.Draining || c.Old.Slots != c.New.Slots || len(c.Old.Executors) != len(c.New.Executors)
	}
	for _, c := range s.Observers {
		h.Tasks = append(h.Tasks, c.Task)
	}
	for _, c := range s.Sessions {
		h.Streams = append(h.Streams, journal.StreamID(c.ID))
	}
	for _, c := range s.Deliveries {
		if c.New != nil && c.New.Offered() {
			h.Pending = true
		}
	}
	for _, in := range s.Inputs {
		h.Tasks = append(h.Tasks, task.ID(in.Task))
	}
	return h
}
