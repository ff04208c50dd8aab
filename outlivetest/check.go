// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlivetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// Check fails the test for everything in the store that must never be, see [Audit],
// and for what scripted executors saw and must not have seen.
func (e *Env) Check() {
	e.t.Helper()
	for _, p := range e.Problems() {
		e.t.Error(p)
	}
}

// Problems returns what Check complains about, one line each.
func (e *Env) Problems() []string {
	e.mu.Lock()
	out := slices.Clone(e.problems)
	e.mu.Unlock()
	found, err := Audit(context.WithoutCancel(e.t.Context()), e.st)
	if err != nil {
		out = append(out, "audit: "+err.Error())
	}
	return append(out, found...)
}

// Audit reads the whole store and returns what is wrong with it, one line each:
//
//   - a record that task.Check refuses;
//   - a running task whose lease nobody holds or will end;
//   - a hidden task that is not to be canceled and whose observer is gone for good;
//   - a journal that is not dense from 1, tells an attempt twice or out of order,
//     has a part of an attempt that was replaced, a second publication, a second
//     terminal entry, or one that disagrees with the record;
//   - inputs that are not dense, or told twice;
//   - an open ticket that its task does not wait for;
//   - a session with two unfinished tasks, or that miscounts its inbox;
//   - a queue or a concurrency key over its limit, a name used twice.
func Audit(ctx context.Context, st store.Store) (problems []string, err error) {
	err = st.View(ctx, func(v store.View) error {
		a := &audit{v: v, queues: map[string]int{}, keys: map[string]int{}, names: map[string]task.ID{}, turns: map[task.SessionID]task.ID{}}
		problems = nil
		for before := task.ID(""); ; {
			page, err := v.Tasks(store.Filter{Before: before, Limit: store.MaxPage})
			if err != nil {
				return err
			}
			for i := range page {
				if err := a.task(&page[i]); err != nil {
					return err
				}
			}
			if len(page) < store.MaxPage {
				break
			}
			before = page[len(page)-1].ID
		}
		if err := a.limits(); err != nil {
			return err
		}
		if err := a.sessions(); err != nil {
			return err
		}
		problems = a.out
		return nil
	})
	return problems, err
}

// audit is one look at one snapshot.
type audit struct {
	v      store.View
	out    []string
	queues map[string]int
	keys   map[string]int
	names  map[string]task.ID
	turns  map[task.SessionID]task.ID // the unfinished task of each session
}

func (a *audit) bad(r *task.Record, format string, args ...any) {
	a.out = append(a.out, fmt.Sprintf("task %s (%s, attempt %d): ", r.ID, r.State, r.Attempt)+fmt.Sprintf(format, args...))
}

func (a *audit) task(r *task.Record) error {
	if err := task.Check(*r); err != nil {
		a.bad(r, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if r.State == task.Running && !r.StopOnly() { // a start that is to stop is ahead of every limit
		a.queues[r.Queue]++
		a.keys[r.ConcurrencyKey]++
	}
	if r.Name != "" && !r.State.Terminal() {
		if other, taken := a.names[r.Name]; taken {
			a.bad(r, "name %q is also that of %s", r.Name, other)
		}
		a.names[r.Name] = r.ID
	}
	for _, check := range []func(*task.Record) error{a.holder, a.observers, a.journal, a.inputs, a.tickets, a.turn} {
		if err := check(r); err != nil {
			return err
		}
	}
	return nil
}

// holder wants somebody to be there who will end the attempt of a running task.
func (a *audit) holder(r *task.Record) error {
	if r.Lease.IsZero() {
		return nil
	}
	there, err := a.holds(r.Lease)
	if err == nil && !there {
		a.bad(r, "runs under epoch %d of worker %s, which is gone: nobody will end it", r.Lease.Epoch, r.Lease.Worker)
	}
	return err
}

func (a *audit) holds(l task.Lease) (bool, error) {
	w, ok, err := a.v.Worker(l.Worker)
	return ok && w.Epoch == l.Epoch, err
}

// observers wants a hidden task to be watched, or to be revealed by somebody.
func (a *audit) observers(r *task.Record) error {
	list, err := a.v.Observers(r.ID)
	if err != nil {
		return err
	}
	watched := false
	for _, o := range list {
		there, err := a.holds(o.Lease)
		if err != nil {
			return err
		}
		watched = watched || there
		if !there {
			a.bad(r, "observer %s is bound to epoch %d of worker %s, which is gone: nobody will reveal it", o.ID, o.Lease.Epoch, o.Lease.Worker)
		}
	}
	if r.Publication == task.Deferred && r.Owner == task.OwnerManager && !r.State.Terminal() && !r.Canceling() && !watched {
		a.bad(r, "hidden, and nobody watches it")
	}
	return nil
}

// journal reads the task's stream from its beginning.
func (a *audit) journal(r *task.Record) error {
	j := journey{r: r, bad: a.bad}
	for after := int64(0); ; {
		page, err := a.v.Entries(journal.StreamID(r.Stream()), after, store.MaxPage)
		if err != nil {
			return err
		}
		for i := range page {
			if page[i].Seq != after+1 {
				a.bad(r, "entry %d follows %d", page[i].Seq, after)
			}
			after = page[i].Seq
			j.see(&page[i])
		}
		if len(page) < store.MaxPage {
			break
		}
	}
	j.end()
	return nil
}

// journey follows one task through its journal.
type journey struct {
	r         *task.Record
	bad       func(r *task.Record, format string, args ...any)
	created   int
	attempt   int64
	published int
	inputs    int64
	terminal  *journal.Entry
}

func (j *journey) see(e *journal.Entry) {
	if e.Task != string(j.r.ID) {
		return
	}
	if j.terminal != nil {
		j.bad(j.r, "entry %d (%s) after the terminal one", e.Seq, e.Kind)
	}
	if e.Attempt < j.attempt {
		j.bad(j.r, "entry %d (%s) is of attempt %d, which attempt %d had replaced", e.Seq, e.Kind, e.Attempt, j.attempt)
	}
	switch {
	case e.Kind == journal.KindCreated:
		j.created++
	case e.Kind == journal.KindStarted, e.Kind == journal.KindRecovered:
		if e.Attempt != j.attempt+1 {
			j.bad(j.r, "entry %d starts attempt %d after attempt %d", e.Seq, e.Attempt, j.attempt)
		}
		j.attempt = e.Attempt
	case e.Kind == journal.KindPublished:
		if j.published++; j.published > 1 {
			j.bad(j.r, "published twice")
		}
	case e.Kind == journal.KindInput:
		j.inputs++
	case journal.Terminal(e.Kind):
		j.terminal = e
	}
}

func (j *journey) end() {
	r := j.r
	if j.created != 1 {
		j.bad(r, "%d entries of its creation", j.created)
	}
	if r.Owner == task.OwnerManager && j.attempt != r.Attempt {
		j.bad(r, "the journal knows %d attempts", j.attempt)
	}
	if j.inputs != r.LatestInput {
		j.bad(r, "the journal knows %d inputs of %d", j.inputs, r.LatestInput)
	}
	if j.published > 0 && r.Publication != task.OnBackground {
		j.bad(r, "published in the journal, %s in the record", r.Publication)
	}
	if r.State.Terminal() != (j.terminal != nil) {
		j.bad(r, "a terminal entry is there: %v", j.terminal != nil)
		return
	}
	if j.terminal != nil {
		j.agrees()
	}
}

// agrees wants the terminal entry to say what the record says.
func (j *journey) agrees() {
	r := j.r
	var end task.Ended
	if err := json.Unmarshal(j.terminal.Data, &end); err != nil {
		j.bad(r, "the terminal entry: %v", err)
		return
	}
	var f task.Failure
	if r.Failure != nil {
		f = *r.Failure
	}
	if j.terminal.Kind != "task."+string(r.State) || end.Attempt != r.Attempt || end.Generation != r.Generation ||
		end.Code != f.Code || end.Outcome != f.Outcome || end.Unread != r.Unread() {
		j.bad(r, "the terminal entry disagrees: %s %s", j.terminal.Kind, j.terminal.Data)
	}
}

// inputs wants the mailbox to be dense, and each child to have ended once.
func (a *audit) inputs(r *task.Record) error {
	seen := map[string]bool{}
	after := int64(0)
	for {
		page, err := a.v.Inputs(r.ID, after, store.MaxPage)
		if err != nil {
			return err
		}
		for _, in := range page {
			if in.Seq != after+1 {
				a.bad(r, "input %d follows %d", in.Seq, after)
			}
			after = in.Seq
			if key := noticeKey(in); key != "" {
				if seen[key] {
					a.bad(r, "was told twice that %s", key)
				}
				seen[key] = true
			}
		}
		if len(page) < store.MaxPage {
			break
		}
	}
	if after != r.LatestInput {
		a.bad(r, "the mailbox ends at %d, the record says %d", after, r.LatestInput)
	}
	return nil
}

// noticeKey returns what must be told once of a child: that it ended, or that it
// became public.
func noticeKey(in mail.Input) string {
	switch strings.TrimPrefix(in.Kind, "child.") {
	case task.NoticeCompleted, task.NoticeFailed, task.NoticeCanceled:
		return in.From + " ended"
	case task.NoticeBackgrounded, task.NoticeCreated:
		return in.From + " exists"
	}
	return ""
}

func (a *audit) limits() error {
	for key, n := range a.keys {
		if key != "" && n > 1 {
			a.out = append(a.out, fmt.Sprintf("concurrency key %q: %d run at once", key, n))
		}
	}
	queues, err := a.v.Queues()
	if err != nil {
		return err
	}
	for _, q := range queues {
		if n := a.queues[q.Name]; q.Limit > 0 && n > q.Limit {
			a.out = append(a.out, fmt.Sprintf("queue %q: %d run, the limit is %d", q.Name, n, q.Limit))
		}
	}
	return nil
}
