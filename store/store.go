// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package store is the contract of a driver: rows, keys, counters and fences, in
// order, durably. A driver knows no lifecycle rule; storetest judges every one.
//
// # Guarantees
//
//  1. A transaction is data: what it reads is declared as keys, what it writes is
//     staged, so that hundreds commit together. An error from its function leaves
//     no trace of it and is returned as it is.
//  2. Update returns only when its writes are durable (or UnknownOutcome).
//  3. [Tx.Now] is the store's clock, one value per commit, and never goes back.
//  4. Values given are not kept, values returned are the caller's.
//  5. [Store.Changes] is a doorbell: lossy, merged, late. Nothing may depend on it
//     but delay.
package store

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/session"
	"github.com/outlive-dev/outlive/task"
)

// ErrClosed is returned by every method of a closed store.
var ErrClosed = fault.New(fault.Closed, "store is closed")

// Store is a durable home of tasks. All methods may be called concurrently; Close
// may be repeated and waits for updates in flight.
type Store interface {
	// Update runs fn over the rows of keys and commits what it staged, or leaves no
	// trace. fn is pure over its Tx, fast, may run again, and must not keep the Tx.
	// ctx counts until fn is admitted to a batch; afterwards the batch's outcome is
	// returned. When the outcome cannot be known the kind is fault.UnknownOutcome.
	// A queue that stays full for the driver's patience gives fault.Unavailable.
	Update(ctx context.Context, keys []Key, fn func(Tx) error) error
	// View runs fn over one consistent snapshot.
	View(ctx context.Context, fn func(View) error) error
	// Changes yields hints that something committed, by this or another process,
	// until ctx ends or the loop breaks. The first hint comes at once and says Any.
	Changes(ctx context.Context) iter.Seq[Hint]
	// Info tells what this store is. It does no IO.
	Info() Info
	Close() error
}

// Info identifies a store.
type Info struct {
	ID     string // the incarnation, made when the store is created
	Driver string // memory, sqlite or postgres
	Path   string // the file of an embedded store, else ""
	Epoch  int64  // the epoch new streams start with; a restore bumps it
	Schema int    // the schema's version
}

// Hint says what changed. Any means "look at everything you care about".
type Hint struct {
	Any     bool
	Pending bool // a task became pending, or may be claimable now
	Workers bool // a worker came, went or renewed in a way others care about
	Streams []journal.StreamID
	Tasks   []task.ID
}

// Tx is what fn of an Update sees: its own staged writes over the declared rows.
// Reading an undeclared key panics with a message that names it; a fn that learns
// which keys it needs only from what it reads returns [More] and is run again.
type Tx interface {
	Now() time.Time
	Declared(k Key) bool // whether k may be read

	Task(id task.ID) (task.Record, bool) // TaskKey
	PutTask(r task.Record)               // TaskKey; streams, names, queues follow from the record

	Head(s journal.StreamID) journal.Head                              // StreamKey
	Append(e journal.Entry) journal.Entry                              // StreamKey; mints Epoch, Seq and At
	Tail(s journal.StreamID, event string) journal.Tail                // EventKey
	Part(s journal.StreamID, event, part string) (journal.Entry, bool) // PartKey
	Input(id task.ID, input string) (mail.Input, bool)                 // InputKey
	PutInput(in mail.Input)                                            // InputKey; Seq as given
	Inputs(id task.ID) []mail.Input                                    // InputsKey: those after ConsumedInput, in order, at most 1000

	Worker(id task.WorkerID) (Worker, bool) // WorkerKey
	PutWorker(w Worker)                     // WorkerKey
	DropWorker(id task.WorkerID)            // WorkerKey

	Invocation(key string) (Invocation, bool) // InvocationKey
	PutInvocation(i Invocation)               // InvocationKey
	Named(name string) (task.ID, bool)        // NameKey: the unfinished task of that name

	Queue(name string) Queue     // QueueKey: its row, zero when there is none
	PutQueue(q Queue)            // QueueKey
	Running(queue string) int    // QueueKey: running tasks of the queue
	RunningWith(ckey string) int // ConcurrencyKey: running tasks with that concurrency key

	Observers(id task.ID) []Observer          // ObserversKey
	PutObserver(o Observer)                   // ObserversKey
	DropObserver(id task.ID, observer string) // ObserversKey

	Ticket(id task.ID, ticket task.TicketID) (mail.Ticket, bool) // TicketKey
	PutTicket(t mail.Ticket)                                     // TicketKey
	Held(parent task.ID) int                                     // HeldKey: running tasks that the parent drives

	Session(id task.SessionID) (session.Session, bool) // SessionKey
	PutSession(s session.Session)                      // SessionKey

	Delivery(target, id string) (Delivery, bool) // DeliveryKey
	Outbox(target string) []Delivery             // OutboxKey: in the order (At, Seq, id), at most 1000
	PutDelivery(d Delivery)                      // DeliveryKey
	DropDelivery(target, id string)              // DeliveryKey

	// ForgetTask (TaskKey) removes up to the given number of rows of a task that has
	// ended: entries of its own stream, inputs, tickets, observers, timers, and when
	// none of them is left the task itself. The caller goes on until it is gone.
	ForgetTask(id task.ID, rows int)
	DropInvocation(key string) // InvocationKey

	PutTimer(t Timer)               // blind; replaces the timer of the same kind and subject
	DropTimer(kind, subject string) // blind
}

// View is what fn of Store.View sees: one snapshot, by key or in pages.
type View interface {
	Now() time.Time
	Task(id task.ID) (task.Record, bool, error)
	// Tasks lists newest first. The page after Filter.Before is stable under inserts.
	Tasks(f Filter) ([]task.Record, error)
	// Find returns tasks whose id begins or ends with part, or whose name is part
	// (newest first, at most limit).
	Find(part string, limit int) ([]task.Record, error)
	// Children lists the children of parent by id, after the given id.
	Children(parent, after task.ID, limit int) ([]task.Record, error)
	// Pending lists tasks that are due at now, best claim first: stop-only starts,
	// then (priority with aging, due, id). Empty executors means any.
	Pending(q PendingQuery) ([]task.Record, error)
	// NextDue returns when the earliest pending task or timer not yet due will be.
	NextDue(now time.Time) (time.Time, bool, error)
	// Held lists the running tasks under a lease, by id, after the given id.
	Held(l task.Lease, after task.ID, limit int) ([]task.Record, error)
	// Unattended lists running manager-owned tasks without a worker, by id.
	Unattended(after task.ID, limit int) ([]task.Record, error)

	// Driven lists the running tasks that attempts of their parents drive, by id.
	Driven(after task.ID, limit int) ([]task.Record, error)

	Head(s journal.StreamID) (journal.Head, error)
	// Entries returns entries of the stream with Seq > after, in order.
	Entries(s journal.StreamID, after int64, limit int) ([]journal.Entry, error)
	Tail(s journal.StreamID, event string) (journal.Tail, error)
	// Inputs returns a task's inputs with Seq > after, in order.
	Inputs(id task.ID, after int64, limit int) ([]mail.Input, error)

	Worker(id task.WorkerID) (Worker, bool, error)
	Workers() ([]Worker, error)
	Observers(id task.ID) ([]Observer, error)
	// ObserversOf lists the observers bound to a lease.
	ObserversOf(l task.Lease, limit int) ([]Observer, error)
	Timers(due time.Time, limit int) ([]Timer, error)
	Queues() ([]Queue, error)
	// Ticket returns one ticket of a task.
	Ticket(id task.ID, ticket task.TicketID) (mail.Ticket, bool, error)
	// Tickets lists a task's tickets by id, after the given one, decided ones too.
	Tickets(id task.ID, after task.TicketID, limit int) ([]mail.Ticket, error)
	Session(id task.SessionID) (session.Session, bool, error)
	// Sessions lists by id, after the given one.
	Sessions(after task.SessionID, limit int) ([]session.Session, error)
	// Outbox lists the messages to a target in the order (At, Seq, id), dead ones too.
	Outbox(target string, limit int) ([]Delivery, error)
	// Due lists messages of any target that are to be offered at now, by (Due, target, id).
	Due(now time.Time, limit int) ([]Delivery, error)
	// Invocations lists idempotency keys that expired before the given time.
	Invocations(expired time.Time, limit int) ([]Invocation, error)
	// Counts returns the number of tasks in each state.
	Counts() (map[task.State]int64, error)
}

// Worker is the lease of one worker, and how to prove that it is dead.
type Worker struct {
	ID         task.WorkerID `json:"id"`
	Epoch      int64         `json:"epoch"`
	Host       string        `json:"host"`
	Boot       string        `json:"boot,omitempty"`
	PIDNS      uint64        `json:"pidns,omitempty"`
	PID        int           `json:"pid,omitempty"`
	LockPath   string        `json:"lock_path,omitempty"`
	LockDev    uint64        `json:"lock_dev,omitempty"`
	LockIno    uint64        `json:"lock_ino,omitempty"`
	Executors  []string      `json:"executors,omitempty"`
	Slots      int           `json:"slots,omitempty"`
	Draining   bool          `json:"draining,omitempty"`
	StartedAt  time.Time     `json:"started_at"`
	RenewedAt  time.Time     `json:"renewed_at"`
	LeaseUntil time.Time     `json:"lease_until"`
}

// Lease returns the worker's present lease.
func (w *Worker) Lease() task.Lease { return task.Lease{Worker: w.ID, Epoch: w.Epoch} }

// Invocation remembers which task an idempotency key made, and of what intent.
type Invocation struct {
	Key     string    `json:"key"`
	Task    task.ID   `json:"task"`
	Digest  string    `json:"digest"`
	Expires time.Time `json:"expires"`
}

// Queue is a named limit on running tasks. Limit 0 means no limit.
type Queue struct {
	Name   string `json:"name"`
	Limit  int    `json:"limit,omitempty"`
	Paused bool   `json:"paused,omitempty"`
}

// Observer is one durable claim on a task, bound to a worker's lease or to a time.
type Observer struct {
	Task      task.ID    `json:"task"`
	ID        string     `json:"id"`
	Kind      string     `json:"kind"` // claim
	Attend    bool       `json:"attend,omitempty"`
	Lease     task.Lease `json:"lease,omitzero"`
	Until     time.Time  `json:"until,omitzero"`
	CreatedAt time.Time  `json:"created_at"`
}

// Timer is a durable alarm: at Due something is to be done to Subject.
type Timer struct {
	Kind    string    `json:"kind"`
	Subject string    `json:"subject"`
	Due     time.Time `json:"due"`
	Arg     string    `json:"arg,omitempty"` // of the kind's own
}

// Filter selects tasks to list. Zero fields select everything.
type Filter struct {
	States  []task.State
	Label   map[string]string
	Session task.SessionID
	Queue   string
	Before  task.ID // only ids below this one (older)
	Limit   int     // Defaults to 100, at most 1000.
}

// PendingQuery selects claimable tasks.
type PendingQuery struct {
	Now       time.Time
	Executors []string
	Limit     int
	// FullQueues and BusyKeys leave out what only waits for its limits: tasks of these
	// queues and concurrency keys, except stop-only starts.
	FullQueues, BusyKeys []string
	// Aging lifts a task by one priority step for each Aging it has waited, so that
	// nothing starves. Defaults to 1 minute.
	Aging time.Duration
}

// Page limits.
const (
	DefaultPage = 100
	MaxPage     = 1000
)

// MoreKeys is the error a fn returns to be run again with more keys declared.
type MoreKeys struct{ Keys []Key }

// Error implements error.
func (*MoreKeys) Error() string { return "store: more keys needed" }

// More asks the driver to run fn again with these keys declared too.
func More(keys ...Key) error { return &MoreKeys{Keys: keys} }

// AsMore returns the keys a fn asked for, if its error is such a request.
func AsMore(err error) ([]Key, bool) {
	var m *MoreKeys
	if errors.As(err, &m) {
		return m.Keys, true
	}
	return nil, false
}
