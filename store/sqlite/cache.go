// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

// A recent holds what was used of late: when young is full it becomes old, and
// what is used again moves to young, so that between cap and twice cap rows are
// held. The zero recent is unusable; see newRecent.
type recent[K comparable, V any] struct {
	young, old map[K]V
	cap        int
}

func newRecent[K comparable, V any](size int) recent[K, V] {
	return recent[K, V]{young: make(map[K]V), old: make(map[K]V), cap: size}
}

func (r *recent[K, V]) get(k K) (V, bool) {
	if v, ok := r.young[k]; ok {
		return v, true
	}
	v, ok := r.old[k]
	if ok {
		r.put(k, v)
	}
	return v, ok
}

func (r *recent[K, V]) put(k K, v V) {
	if len(r.young) >= r.cap {
		r.old, r.young = r.young, r.old
		clear(r.young)
	}
	r.young[k] = v
}

func (r *recent[K, V]) drop(k K) {
	delete(r.young, k)
	delete(r.old, k)
}

func (r *recent[K, V]) reset() {
	clear(r.young)
	clear(r.old)
}
