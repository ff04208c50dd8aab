// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"cmp"
	"slices"

	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// errLater ends a function whose range was read further by another function of
// the same batch than was loaded: it runs in the next batch.
type errLater struct{}

func (t *txn) Named(name string) (task.ID, bool) {
	t.need(store.NameKey(name))
	var found task.ID
	for _, id := range t.rows.Names[name] {
		if c, ok := t.tasks.get(id); ok && (!Live(c.New) || c.New.Name != name) {
			continue
		}
		found = max(found, id)
	}
	added, _ := t.names.get(name)
	for _, id := range added {
		if r := t.record(id); r != nil && Live(r) && r.Name == name {
			found = max(found, id)
		}
	}
	return found, found != ""
}

func (t *txn) Input(id task.ID, input string) (mail.Input, bool) {
	k := store.InputKey(id, input)
	t.need(k)
	in, ok := t.inputs.get(k)
	if !ok {
		in = t.rows.Inputs[k]
	}
	if in == nil {
		return mail.Input{}, false
	}
	return cloneInput(in), true
}

func (t *txn) PutInput(in mail.Input) {
	k := store.InputKey(task.ID(in.Task), in.ID)
	t.need(k)
	c := cloneInput(&in)
	c.At = micros(c.At)
	t.inputs.put(k, &c)
	list, _ := t.inboxes.get(task.ID(in.Task))
	t.inboxes.put(task.ID(in.Task), append(list[:len(list):len(list)], &c))
	t.bytes += 256 + len(in.Data)
}

func cloneInput(in *mail.Input) mail.Input {
	c := *in
	c.Data = slices.Clone(in.Data)
	return c
}

func (t *txn) Inputs(id task.ID) []mail.Input {
	t.need(store.InputsKey(id))
	var from int64
	if r := t.record(id); r != nil {
		from = r.ConsumedInput
	}
	base := t.rows.Inboxes[id]
	added, _ := t.inboxes.get(id)
	var list []mail.Input
	take := func(in *mail.Input) {
		if in.Seq > from {
			list = append(list, cloneInput(in))
		}
	}
	for i := range base.Items {
		if _, replaced := t.inputs.get(store.InputKey(id, base.Items[i].ID)); !replaced {
			take(&base.Items[i])
		}
	}
	if base.More && len(list) < store.MaxPage && !t.first {
		panic(errLater{})
	}
	if !base.More {
		for i, in := range added {
			if !slices.ContainsFunc(added[i+1:], func(o *mail.Input) bool { return o.ID == in.ID }) {
				take(in)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b mail.Input) int { return cmp.Compare(a.Seq, b.Seq) })
	return list[:min(len(list), store.MaxPage)]
}

func (t *txn) watchers(id task.ID) []store.Observer {
	if list, ok := t.observers.get(id); ok {
		return list
	}
	return t.rows.Observers[id]
}

// Observers lists by observer id.
func (t *txn) Observers(id task.ID) []store.Observer {
	t.need(store.ObserversKey(id))
	return slices.Clone(t.watchers(id))
}

func (t *txn) PutObserver(o store.Observer) {
	t.need(store.ObserversKey(o.Task))
	t.observed.put([2]string{string(o.Task), o.ID}, &o)
	t.observers.put(o.Task, PutObserver(t.watchers(o.Task), o))
}

func (t *txn) DropObserver(id task.ID, observer string) {
	t.need(store.ObserversKey(id))
	t.observed.put([2]string{string(id), observer}, nil)
	t.observers.put(id, DropObserver(t.watchers(id), observer))
}

// PutObserver returns a copy of list, sorted by id, with o in it.
func PutObserver(list []store.Observer, o store.Observer) []store.Observer {
	list = slices.Clone(list)
	i, found := slices.BinarySearchFunc(list, o.ID, compareObserver)
	if found {
		list[i] = o
		return list
	}
	return slices.Insert(list, i, o)
}

// DropObserver returns a copy of list without the observer.
func DropObserver(list []store.Observer, id string) []store.Observer {
	i, found := slices.BinarySearchFunc(list, id, compareObserver)
	if !found {
		return list
	}
	return slices.Delete(slices.Clone(list), i, i+1)
}

func compareObserver(o store.Observer, id string) int { return cmp.Compare(o.ID, id) }
