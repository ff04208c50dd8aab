// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// floors remember below which due time nothing was pending, by executor and priority.
// The index of pending tasks keeps the places of those that were claimed for as long as
// any snapshot may see them; without a floor every claim would look at all of them.
//
// Tasks become pending with a due time that is not in the past, so that only a commit
// which takes long comes below a floor. A claim begins somewhat lower, and all is looked
// at again now and then.
//
// Concurrency: a monitor; mu guards the fields. A list is never changed.
type floors struct {
	mu   sync.Mutex
	m    map[group]floor
	list []group   // sorted: those that had pending tasks
	next time.Time // when all are to be looked for again
}

// groups returns what is known, unless it is time to look at all.
func (f *floors) groups() (list []group, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.list, time.Now().Before(f.next)
}

// manyGroups is how many groups are remembered after they have nothing pending any more.
const manyGroups = 1000

// learn takes note of all groups there are. Those that are not there now are remembered,
// since their places in the index would be looked through as a gap.
func (f *floors) learn(list []group, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if all := sortedGroups(append(slices.Clone(f.list), list...)); len(all) <= manyGroups {
		f.list = all
	} else {
		f.list = sortedGroups(list)
	}
	f.next = time.Now().Add(max(floorEvery, floorShare*took))
}

// meet adds groups and returns all that are known.
func (f *floors) meet(list []group) []group {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = sortedGroups(append(slices.Clone(f.list), list...))
	return f.list
}

func sortedGroups(list []group) []group {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b group) int {
		return cmp.Or(cmp.Compare(a.executor, b.executor), cmp.Compare(a.priority, b.priority))
	})
	return slices.Compact(list)
}

type floor struct {
	due  time.Time // nothing was pending before it
	next time.Time // when all is to be looked at again, by this process's clock
}

const (
	floorSlack = 2 * time.Second // more than most commits take
	floorEvery = 3 * time.Second // between looks at all
	floorShare = 30              // what a look takes is at most one part in so many
)

// dawnOfDue is before every due time that the server can hold.
var dawnOfDue = time.Date(-4000, 1, 1, 0, 0, 0, 0, time.UTC)

// from returns the due time a claim begins at.
func (f *floors) from(g group) (from time.Time, all bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known, ok := f.m[g]
	if !ok || !time.Now().Before(known.next) {
		return dawnOfDue, true
	}
	return known.due.Add(-floorSlack), false
}

// looked takes note of what a look at all has found: the first due time that is pending,
// or that nothing is due at now.
func (f *floors) looked(g group, first time.Time, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.m == nil {
		f.m = make(map[group]floor)
	}
	f.m[g] = floor{due: first, next: time.Now().Add(max(floorEvery, floorShare*took))}
}
