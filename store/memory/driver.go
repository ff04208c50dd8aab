// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"slices"
	"time"

	"github.com/outlive-dev/outlive/internal/batch"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/session"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// state is one committed state. It never changes.
type state struct {
	now         time.Time
	tasks       tree[task.ID, *task.Record]
	live        tree[task.ID, *task.Record] // those that have not ended
	children    tree[pair, task.ID]         // parent, child
	streams     tree[journal.StreamID, []journal.Entry]
	boxes       tree[task.ID, tree[int64, *mail.Input]]
	inputs      tree[pair, *mail.Input]
	workers     tree[task.WorkerID, *store.Worker]
	invocations tree[string, *store.Invocation]
	queues      tree[string, store.Queue]
	observers   tree[task.ID, []store.Observer]
	timers      tree[pair, *store.Timer]
	tails       tree[pair, journal.Tail]
	parts       tree[pair, int64] // stream and event, part: the entry's seq
	tickets     tree[pair, *mail.Ticket]
	sessions    tree[task.SessionID, *session.Session]
	deliveries  tree[pair, *store.Delivery]
}

// pair is an ordered key of two or three strings of any bytes.
type pair string

func pairOf(parts ...string) pair {
	var b []byte
	for _, p := range parts {
		for i := range len(p) {
			if p[i] <= 1 { // 0 separates, 1 escapes
				b = append(b, 1)
			}
			b = append(b, p[i])
		}
		b = append(b, 0)
	}
	return pair(b)
}

// driver is the committer's side. It is used by one goroutine at a time.
type driver struct {
	store   *Store
	next    state          // the transaction's
	running map[string]int // running tasks by queue
	limited map[string]int // running tasks by concurrency key
	named   map[string][]task.ID
	held    map[task.ID]int // running tasks by the parent that drives them
	staged  *batch.Staging
}

// Begin implements [batch.Driver].
func (d *driver) Begin() (time.Time, error) {
	d.next, d.staged = *d.store.state.Load(), nil
	if d.running == nil {
		d.running, d.limited, d.named = make(map[string]int), make(map[string]int), make(map[string][]task.ID)
		d.held = make(map[task.ID]int)
	}
	return d.next.now, nil
}

// Load implements [batch.Driver].
func (d *driver) Load(keys []store.Key, rows *batch.Rows) error {
	st := &d.next
	for _, k := range keys {
		id := task.ID(k.A)
		switch k.Kind {
		case store.KindTask:
			rows.Tasks[id], _ = st.tasks.get(id)
		case store.KindStream:
			rows.Heads[journal.StreamID(k.A)] = st.head(journal.StreamID(k.A))
		case store.KindEvent:
			rows.Tails[k], _ = st.tails.get(pairOf(k.A, k.B))
		case store.KindPart:
			rows.Parts[k] = nil
			if seq, ok := st.parts.get(pairOf(k.A, k.B, k.C)); ok {
				list, _ := st.streams.get(journal.StreamID(k.A))
				rows.Parts[k] = &list[seq-1]
			}
		case store.KindInput:
			rows.Inputs[k], _ = st.inputs.get(pairOf(k.A, k.B))
		case store.KindInputs:
			rows.Inboxes[id] = st.inbox(id)
		case store.KindWorker:
			rows.Workers[task.WorkerID(k.A)], _ = st.workers.get(task.WorkerID(k.A))
		case store.KindInvocation:
			rows.Invocations[k.A], _ = st.invocations.get(k.A)
		case store.KindName:
			rows.Names[k.A] = slices.Clone(d.named[k.A])
		case store.KindQueue:
			q, _ := st.queues.get(k.A)
			rows.Queues[k.A] = batch.Queue{Row: q, Running: d.running[k.A]}
		case store.KindConcurrency:
			rows.Concurrency[k.A] = d.limited[k.A]
		case store.KindObservers:
			rows.Observers[id], _ = st.observers.get(id)
		case store.KindTicket:
			rows.Tickets[k], _ = st.tickets.get(pairOf(k.A, k.B))
		case store.KindSession:
			rows.Sessions[task.SessionID(k.A)], _ = st.sessions.get(task.SessionID(k.A))
		case store.KindOutbox:
			if k.B != "" {
				rows.Deliveries[k], _ = st.deliveries.get(pairOf(k.A, k.B))
			} else {
				rows.Outboxes[k.A] = st.outbox(k.A, store.MaxPage)
			}
		case store.KindHeld:
			rows.Held[id] = d.held[id]
		}
	}
	return nil
}

func (st *state) head(s journal.StreamID) journal.Head {
	list, _ := st.streams.get(s)
	if len(list) == 0 {
		return journal.Head{Epoch: 1}
	}
	last := &list[len(list)-1]
	return journal.Head{Epoch: last.Epoch, Seq: last.Seq}
}

func (st *state) inbox(id task.ID) batch.Inbox {
	var from int64
	if r, ok := st.tasks.get(id); ok {
		from = r.ConsumedInput
	}
	var box batch.Inbox
	all, _ := st.boxes.get(id)
	all.after(from, false, func(_ int64, in *mail.Input) bool {
		if box.More = len(box.Items) == store.MaxPage; box.More {
			return false
		}
		box.Items = append(box.Items, *in)
		return true
	})
	return box
}

// Flush implements [batch.Driver].
func (d *driver) Flush(s *batch.Staging) error {
	d.staged = s
	st := &d.next
	st.now = s.Now
	for _, c := range s.Tasks {
		st.tasks = st.tasks.put(c.New.ID, c.New)
		if c.New.Parent != "" && c.Old == nil {
			st.children = st.children.put(pairOf(string(c.New.Parent), string(c.New.ID)), c.New.ID)
		}
		if batch.Live(c.New) {
			st.live = st.live.put(c.New.ID, c.New)
		} else {
			st.live = st.live.drop(c.New.ID)
		}
	}
	for _, e := range s.Entries {
		list, _ := st.streams.get(e.Stream)
		st.streams = st.streams.put(e.Stream, append(list, e))
		if e.Event != "" && e.Part != "" {
			st.parts = st.parts.put(pairOf(string(e.Stream), e.Event, e.Part), e.Seq)
		}
	}
	for _, c := range s.Tails {
		k := pairOf(string(c.Stream), c.Event)
		tail, _ := st.tails.get(k)
		st.tails = st.tails.put(k, batch.AddTail(tail, c.Add))
	}
	for _, in := range s.Inputs {
		id, k := task.ID(in.Task), pairOf(in.Task, in.ID)
		box, _ := st.boxes.get(id)
		if old, ok := st.inputs.get(k); ok {
			box = box.drop(old.Seq)
		}
		st.boxes = st.boxes.put(id, box.put(in.Seq, in))
		st.inputs = st.inputs.put(k, in)
	}
	for _, c := range s.Workers {
		if c.New == nil {
			st.workers = st.workers.drop(c.ID)
		} else {
			st.workers = st.workers.put(c.ID, c.New)
		}
	}
	for _, c := range s.Invocations {
		if c.New == nil {
			st.invocations = st.invocations.drop(c.Key)
		} else {
			st.invocations = st.invocations.put(c.Key, c.New)
		}
	}
	for _, q := range s.Queues {
		st.queues = st.queues.put(q.Name, q)
	}
	for _, c := range s.Observers {
		list, _ := st.observers.get(c.Task)
		if c.New == nil {
			list = batch.DropObserver(list, c.ID)
		} else {
			list = batch.PutObserver(list, *c.New)
		}
		st.observers = st.observers.put(c.Task, list)
	}
	for _, c := range s.Timers {
		k := pairOf(c.Kind, c.Subject)
		if c.New == nil {
			st.timers = st.timers.drop(k)
		} else {
			st.timers = st.timers.put(k, c.New)
		}
	}
	st.flushMail(s)
	return nil
}

// Commit implements [batch.Driver].
func (d *driver) Commit() error {
	for _, c := range d.staged.Tasks {
		d.count(c.Old, -1)
		d.count(c.New, +1)
	}
	next := d.next
	d.store.state.Store(&next)
	return nil
}

func (d *driver) count(r *task.Record, by int) {
	if r == nil || !batch.Live(r) {
		return
	}
	if r.State == task.Running {
		add(d.running, r.Queue, by)
		add(d.limited, r.ConcurrencyKey, by)
		if batch.Driven(r) {
			add(d.held, r.Parent, by)
		}
	}
	if r.Name == "" {
		return
	}
	ids := slices.DeleteFunc(d.named[r.Name], func(id task.ID) bool { return id == r.ID })
	if by > 0 {
		ids = append(ids, r.ID)
	}
	d.named[r.Name] = ids
	if len(ids) == 0 {
		delete(d.named, r.Name)
	}
}

func add[K ~string](m map[K]int, k K, by int) {
	if k == "" {
		return
	}
	if m[k] += by; m[k] == 0 {
		delete(m, k)
	}
}

// Rollback implements [batch.Driver].
func (d *driver) Rollback() { d.next, d.staged = state{}, nil }
