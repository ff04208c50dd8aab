// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package batch

// A table is the staged part of one kind of rows, with an undo log that reaches
// back to the last keep. The zero table is ready to use.
type table[K comparable, V any] struct {
	m     map[K]V
	order []K // keys of m, in the order they were first put
	log   []change[K, V]
}

type change[K comparable, V any] struct {
	key K
	old V
	had bool
}

func (t *table[K, V]) get(k K) (V, bool) {
	v, ok := t.m[k]
	return v, ok
}

func (t *table[K, V]) put(k K, v V) {
	old, had := t.m[k]
	if !had {
		if t.m == nil {
			t.m = make(map[K]V)
		}
		t.order = append(t.order, k)
	}
	t.m[k] = v
	t.log = append(t.log, change[K, V]{k, old, had})
}

// undo takes back every put since the last keep, newest first, so that keys
// which were new are the last ones of order.
func (t *table[K, V]) undo() {
	for i := len(t.log) - 1; i >= 0; i-- {
		c := t.log[i]
		if c.had {
			t.m[c.key] = c.old
			continue
		}
		delete(t.m, c.key)
		t.order = t.order[:len(t.order)-1]
	}
	t.keep()
}

func (t *table[K, V]) keep() {
	if len(t.log) > 0 {
		clear(t.log)
		t.log = t.log[:0]
	}
}

func (t *table[K, V]) reset() {
	t.keep()
	clear(t.m)
	clear(t.order)
	t.order = t.order[:0]
}
