// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"fmt"
	"slices"
	"time"

	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/session"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// txn is the Tx of every function of one batch: what was loaded, never changed,
// under one overlay of what the functions staged. Rows that follow from others
// (counts, names, tails) are kept as differences, so that keys may be loaded
// later in the same batch. Values under a pointer are never changed once stored.
type txn struct {
	now   time.Time
	epoch int64
	rows  Rows
	have  map[store.Key]struct{} // loaded keys

	declared []store.Key
	sorted   map[store.Key]struct{} // declared, when there are many
	first    bool                   // nothing was staged before this function

	tasks       table[task.ID, TaskChange]
	heads       table[journal.StreamID, journal.Head]
	tails       table[store.Key, journal.Tail]
	parts       table[store.Key, int] // into entries
	inputs      table[store.Key, *mail.Input]
	inboxes     table[task.ID, []*mail.Input]
	workers     table[task.WorkerID, WorkerChange]
	invocations table[string, *store.Invocation]
	names       table[string, []task.ID] // staged unfinished tasks of that name
	queues      table[string, *store.Queue]
	running     table[string, int]
	concurrency table[string, int]
	observers   table[task.ID, []store.Observer] // the whole list
	observed    table[[2]string, *store.Observer]
	timers      table[[2]string, *store.Timer]
	tickets     table[store.Key, *mail.Ticket]
	sessions    table[task.SessionID, *session.Session]
	deliveries  table[store.Key, *store.Delivery]
	outboxes    table[string, []string] // ids put or dropped, by target
	holding     table[task.ID, int]
	forgets     table[task.ID, int]

	entries []journal.Entry
	kept    int // entries of finished functions
	bytes   int // rough size of what is staged
	held    int // bytes of finished functions
}

type staged interface {
	undo()
	keep()
	reset()
}

func newTxn(epoch int64) *txn {
	return &txn{epoch: epoch, rows: newRows(), have: make(map[store.Key]struct{})}
}

func (t *txn) tables() [21]staged {
	return [...]staged{
		&t.tasks, &t.heads, &t.tails, &t.parts, &t.inputs, &t.inboxes, &t.workers, &t.invocations,
		&t.names, &t.queues, &t.running, &t.concurrency, &t.observers, &t.observed, &t.timers,
		&t.tickets, &t.sessions, &t.deliveries, &t.outboxes, &t.holding, &t.forgets,
	}
}

func (t *txn) reset(now time.Time) {
	t.now = now
	t.rows.reset()
	clear(t.have)
	for _, s := range t.tables() {
		s.reset()
	}
	clear(t.entries)
	t.entries, t.kept, t.bytes, t.held = t.entries[:0], 0, 0, 0
}

// begin prepares for one function.
func (t *txn) begin(keys []store.Key) {
	t.declared, t.sorted = keys, nil
	if len(keys) > 24 {
		t.sorted = make(map[store.Key]struct{}, len(keys))
		for _, k := range keys {
			t.sorted[k] = struct{}{}
		}
	}
}

// keep makes what the function staged part of the batch.
func (t *txn) keep() {
	for _, s := range t.tables() {
		s.keep()
	}
	t.kept, t.held = len(t.entries), t.bytes
}

// undo forgets what the function staged.
func (t *txn) undo() {
	for _, s := range t.tables() {
		s.undo()
	}
	clear(t.entries[t.kept:])
	t.entries, t.bytes = t.entries[:t.kept], t.held
}

// dirty reports whether anything is staged.
func (t *txn) dirty() bool {
	return len(t.tasks.order)+len(t.entries)+len(t.inputs.order)+len(t.workers.order)+
		len(t.invocations.order)+len(t.queues.order)+len(t.observed.order)+len(t.timers.order)+
		len(t.tickets.order)+len(t.sessions.order)+len(t.deliveries.order)+len(t.forgets.order) > 0
}

// staging collects what is to be written.
func (t *txn) staging(s *Staging) {
	s.reset()
	s.Now = t.now
	s.Entries = slices.Clone(t.entries)
	for _, id := range t.tasks.order {
		s.Tasks = append(s.Tasks, t.tasks.m[id])
	}
	for _, id := range t.heads.order {
		s.Heads = append(s.Heads, HeadChange{id, t.heads.m[id]})
	}
	for _, k := range t.tails.order {
		s.Tails = append(s.Tails, TailChange{journal.StreamID(k.A), k.B, t.tails.m[k]})
	}
	for _, k := range t.inputs.order {
		s.Inputs = append(s.Inputs, t.inputs.m[k])
	}
	for _, id := range t.workers.order {
		s.Workers = append(s.Workers, t.workers.m[id])
	}
	for _, k := range t.invocations.order {
		s.Invocations = append(s.Invocations, InvocationChange{k, t.invocations.m[k]})
	}
	for _, name := range t.queues.order {
		s.Queues = append(s.Queues, *t.queues.m[name])
	}
	for _, k := range t.observed.order {
		s.Observers = append(s.Observers, ObserverChange{task.ID(k[0]), k[1], t.observed.m[k]})
	}
	for _, k := range t.timers.order {
		s.Timers = append(s.Timers, TimerChange{k[0], k[1], t.timers.m[k]})
	}
	for _, k := range t.tickets.order {
		s.Tickets = append(s.Tickets, t.tickets.m[k])
	}
	for _, id := range t.sessions.order {
		s.Sessions = append(s.Sessions, t.sessions.m[id])
	}
	for _, k := range t.deliveries.order {
		s.Deliveries = append(s.Deliveries, DeliveryChange{k.A, k.B, t.deliveries.m[k]})
	}
	for _, id := range t.forgets.order {
		s.Forgets = append(s.Forgets, Forget{id, t.forgets.m[id]})
	}
}

func (t *txn) Declared(k store.Key) bool {
	if t.sorted != nil {
		_, ok := t.sorted[k]
		return ok
	}
	return slices.Contains(t.declared, k)
}

func (t *txn) need(k store.Key) {
	if !t.Declared(k) {
		panic(fmt.Sprintf("store: update uses the undeclared key %q", k))
	}
}

func (t *txn) Now() time.Time { return t.now }

func (t *txn) record(id task.ID) *task.Record {
	if c, ok := t.tasks.get(id); ok {
		return c.New
	}
	return t.rows.Tasks[id]
}

func (t *txn) Task(id task.ID) (task.Record, bool) {
	t.need(store.TaskKey(id))
	r := t.record(id)
	if r == nil {
		return task.Record{}, false
	}
	return r.Clone(), true
}

func (t *txn) PutTask(r task.Record) {
	t.need(store.TaskKey(r.ID))
	c := r.Clone()
	old := t.record(r.ID)
	t.tasks.put(r.ID, TaskChange{t.rows.Tasks[r.ID], &c})
	t.count(old, -1)
	t.count(&c, +1)
	if Live(&c) && c.Name != "" && (old == nil || !Live(old) || old.Name != c.Name) {
		ids, _ := t.names.get(c.Name)
		t.names.put(c.Name, append(ids[:len(ids):len(ids)], c.ID))
	}
	t.bytes += 1024 + len(c.Spec.Data)
	if c.Checkpoint != nil {
		t.bytes += len(c.Checkpoint.Data)
	}
	if c.Result != nil {
		t.bytes += len(c.Result.Data)
	}
}

func (t *txn) count(r *task.Record, by int) {
	if r == nil || r.State != task.Running {
		return
	}
	if r.Queue != "" {
		n, _ := t.running.get(r.Queue)
		t.running.put(r.Queue, n+by)
	}
	if r.ConcurrencyKey != "" {
		n, _ := t.concurrency.get(r.ConcurrencyKey)
		t.concurrency.put(r.ConcurrencyKey, n+by)
	}
	if Driven(r) {
		n, _ := t.holding.get(r.Parent)
		t.holding.put(r.Parent, n+by)
	}
}

// Driven reports whether a running task is driven by an attempt of its parent.
func Driven(r *task.Record) bool {
	return r.State == task.Running && r.Owner == task.OwnerParent && r.Parent != ""
}

// Live reports whether a task has not ended.
func Live(r *task.Record) bool { return !r.State.Terminal() }

func (t *txn) head(s journal.StreamID) journal.Head {
	h, ok := t.heads.get(s)
	if !ok {
		h = t.rows.Heads[s]
	}
	h.Epoch = max(h.Epoch, t.epoch)
	return h
}

func (t *txn) Head(s journal.StreamID) journal.Head {
	t.need(store.StreamKey(s))
	return t.head(s)
}

func (t *txn) Append(e journal.Entry) journal.Entry {
	t.need(store.StreamKey(e.Stream))
	h := t.head(e.Stream)
	h.Seq++
	t.heads.put(e.Stream, h)
	e.Epoch, e.Seq, e.At = h.Epoch, h.Seq, t.now
	kept := e
	kept.Data = slices.Clone(e.Data)
	if e.Event != "" && (e.Part != "" || e.Final) {
		k := store.EventKey(e.Stream, e.Event)
		tail, _ := t.tails.get(k)
		t.tails.put(k, AddTail(tail, TailOf(&kept)))
		if e.Part != "" {
			t.parts.put(store.PartKey(e.Stream, e.Event, e.Part), len(t.entries))
		}
	}
	t.entries = append(t.entries, kept)
	t.bytes += 256 + len(e.Data)
	return e
}

// TailOf returns what one entry adds to its event's tail. An entry without a part
// adds nothing but its final flag.
func TailOf(e *journal.Entry) journal.Tail {
	if e.Part == "" {
		return journal.Tail{Final: e.Final}
	}
	return journal.Tail{Part: e.Part, Bytes: int64(len(e.Data)), Final: e.Final, Parts: 1}
}

// AddTail returns tail with add after it.
func AddTail(tail, add journal.Tail) journal.Tail {
	if add.Part != "" {
		tail.Part = add.Part
	}
	tail.Bytes += add.Bytes
	tail.Parts += add.Parts
	tail.Final = tail.Final || add.Final
	return tail
}

func (t *txn) Tail(s journal.StreamID, event string) journal.Tail {
	k := store.EventKey(s, event)
	t.need(k)
	add, _ := t.tails.get(k)
	return AddTail(t.rows.Tails[k], add)
}

func (t *txn) Part(s journal.StreamID, event, part string) (journal.Entry, bool) {
	k := store.PartKey(s, event, part)
	t.need(k)
	var e journal.Entry
	if i, ok := t.parts.get(k); ok {
		e = t.entries[i]
	} else if p := t.rows.Parts[k]; p != nil {
		e = *p
	} else {
		return journal.Entry{}, false
	}
	e.Data = slices.Clone(e.Data)
	return e, true
}

func (t *txn) Worker(id task.WorkerID) (store.Worker, bool) {
	t.need(store.WorkerKey(id))
	w := t.rows.Workers[id]
	if c, ok := t.workers.get(id); ok {
		w = c.New
	}
	if w == nil {
		return store.Worker{}, false
	}
	return CloneWorker(w), true
}

func (t *txn) PutWorker(w store.Worker) {
	t.need(store.WorkerKey(w.ID))
	c := CloneWorker(&w)
	t.workers.put(w.ID, WorkerChange{w.ID, t.rows.Workers[w.ID], &c})
}

func (t *txn) DropWorker(id task.WorkerID) {
	t.need(store.WorkerKey(id))
	t.workers.put(id, WorkerChange{id, t.rows.Workers[id], nil})
}

// CloneWorker returns a deep copy.
func CloneWorker(w *store.Worker) store.Worker {
	c := *w
	c.Executors = slices.Clone(w.Executors)
	return c
}

func (t *txn) Invocation(key string) (store.Invocation, bool) {
	t.need(store.InvocationKey(key))
	i, ok := t.invocations.get(key)
	if !ok {
		i = t.rows.Invocations[key]
	}
	if i == nil {
		return store.Invocation{}, false
	}
	return *i, true
}

func (t *txn) PutInvocation(i store.Invocation) {
	t.need(store.InvocationKey(i.Key))
	i.Expires = micros(i.Expires)
	t.invocations.put(i.Key, &i)
}

func (t *txn) DropInvocation(key string) {
	t.need(store.InvocationKey(key))
	t.invocations.put(key, nil)
}

func (t *txn) Queue(name string) store.Queue {
	t.need(store.QueueKey(name))
	if q, ok := t.queues.get(name); ok {
		return *q
	}
	return t.rows.Queues[name].Row
}

func (t *txn) PutQueue(q store.Queue) {
	t.need(store.QueueKey(q.Name))
	t.queues.put(q.Name, &q)
}

func (t *txn) Running(queue string) int {
	t.need(store.QueueKey(queue))
	n, _ := t.running.get(queue)
	return t.rows.Queues[queue].Running + n
}

func (t *txn) RunningWith(ckey string) int {
	t.need(store.ConcurrencyKey(ckey))
	n, _ := t.concurrency.get(ckey)
	return t.rows.Concurrency[ckey] + n
}

func (t *txn) PutTimer(a store.Timer) {
	a.Due = micros(a.Due)
	t.timers.put([2]string{a.Kind, a.Subject}, &a)
}

// micros is what every driver keeps of a time outside of records: microseconds.
func micros(at time.Time) time.Time { return at.UTC().Truncate(time.Microsecond) }

func (t *txn) DropTimer(kind, subject string) { t.timers.put([2]string{kind, subject}, nil) }
