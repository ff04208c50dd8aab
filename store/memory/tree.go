// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"cmp"
	"math/rand/v2"
)

// A tree is an ordered map that never changes: put and drop return a new one that
// shares most of the old one's nodes, so that a copy of its root is a snapshot.
// The zero tree is empty. Safe for concurrent use.
type tree[K cmp.Ordered, V any] struct{ root *node[K, V] }

type node[K cmp.Ordered, V any] struct {
	key         K
	value       V
	weight      uint64 // not below its children's: the shape is random, thus shallow
	left, right *node[K, V]
}

func (t tree[K, V]) get(k K) (v V, ok bool) {
	for n := t.root; n != nil; {
		switch c := cmp.Compare(k, n.key); {
		case c < 0:
			n = n.left
		case c > 0:
			n = n.right
		default:
			return n.value, true
		}
	}
	return v, false
}

func (t tree[K, V]) put(k K, v V) tree[K, V] { return tree[K, V]{t.root.put(k, v)} }

func (n *node[K, V]) put(k K, v V) *node[K, V] {
	if n == nil {
		return &node[K, V]{key: k, value: v, weight: rand.Uint64()}
	}
	m := *n
	switch c := cmp.Compare(k, n.key); {
	case c < 0:
		m.left = n.left.put(k, v)
		if l := m.left; l.weight > m.weight { // l is new: it may be changed
			m.left, l.right = l.right, &m
			return l
		}
	case c > 0:
		m.right = n.right.put(k, v)
		if r := m.right; r.weight > m.weight {
			m.right, r.left = r.left, &m
			return r
		}
	default:
		m.value = v
	}
	return &m
}

func (t tree[K, V]) drop(k K) tree[K, V] {
	if _, ok := t.get(k); !ok {
		return t
	}
	return tree[K, V]{t.root.drop(k)}
}

func (n *node[K, V]) drop(k K) *node[K, V] {
	m := *n
	switch c := cmp.Compare(k, n.key); {
	case c < 0:
		m.left = n.left.drop(k)
	case c > 0:
		m.right = n.right.drop(k)
	default:
		return join(n.left, n.right)
	}
	return &m
}

func join[K cmp.Ordered, V any](l, r *node[K, V]) *node[K, V] {
	switch {
	case l == nil:
		return r
	case r == nil:
		return l
	case l.weight > r.weight:
		m := *l
		m.right = join(l.right, r)
		return &m
	default:
		m := *r
		m.left = join(l, r.left)
		return &m
	}
}

// after calls yield for every key above k (from the beginning if all), ascending,
// until it returns false.
func (t tree[K, V]) after(k K, all bool, yield func(K, V) bool) { t.root.after(k, all, yield) }

func (n *node[K, V]) after(k K, all bool, yield func(K, V) bool) bool {
	if n == nil {
		return true
	}
	if !all && n.key <= k {
		return n.right.after(k, false, yield)
	}
	return n.left.after(k, all, yield) && yield(n.key, n.value) && n.right.after(k, true, yield)
}

// before is after, for the keys below k, descending.
func (t tree[K, V]) before(k K, all bool, yield func(K, V) bool) { t.root.before(k, all, yield) }

func (n *node[K, V]) before(k K, all bool, yield func(K, V) bool) bool {
	if n == nil {
		return true
	}
	if !all && n.key >= k {
		return n.left.before(k, false, yield)
	}
	return n.right.before(k, all, yield) && yield(n.key, n.value) && n.left.before(k, true, yield)
}
