// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"regexp"
	"time"

	"github.com/outlive-dev/outlive/fault"
)

// MaxIDLen is the length of the longest id that [NewID] makes.
const MaxIDLen = 48

// Lengths of an id's parts: 10 digits hold 48 bits of milliseconds, 23 digits the
// 112 random bits. What is left is for the kind and a dash.
const (
	timeDigits   = 10
	randomDigits = 23
	maxIDKind    = MaxIDLen - timeDigits - randomDigits - 1
)

// NewID returns an id of the given kind ("sh", "ag"): the kind, a dash, the time in
// milliseconds and the random bits, in lower case Crockford base 32. Ids of one
// kind sort by time, whoever makes them, and cannot be guessed if random is. What a
// kind holds besides a-z and 0-9 is left out; an empty one becomes "t".
func NewID(kind string, now time.Time, random [14]byte) ID {
	b := make([]byte, 0, MaxIDLen)
	for i := 0; i < len(kind) && len(b) < maxIDKind; i++ {
		if c := kind[i]; 'a' <= c && c <= 'z' || '0' <= c && c <= '9' {
			b = append(b, c)
		}
	}
	if len(b) == 0 {
		b = append(b, 't')
	}
	b = append(b, '-')
	ms := uint64(max(now.UnixMilli(), 0)) & (1<<48 - 1)
	for i := timeDigits - 1; i >= 0; i-- {
		b = append(b, crockford[ms>>(5*i)&31])
	}
	var acc, bits uint
	for _, r := range random {
		acc, bits = acc<<8|uint(r), bits+8
		for bits >= 5 {
			bits -= 5
			b = append(b, crockford[acc>>bits&31])
		}
		acc &= 1<<bits - 1
	}
	return ID(append(b, crockford[acc<<(5-bits)&31]))
}

const crockford = "0123456789abcdefghjkmnpqrstvwxyz"

// executorKey is name.vN: words of a-z, 0-9, dash and underscore with dots between,
// then a version from 1 on.
var executorKey = regexp.MustCompile(`^[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*\.v[1-9][0-9]{0,5}$`)

// MaxExecutor is the size of an executor key in bytes.
const MaxExecutor = 128

// ValidateExecutor checks an executor key. Keys are protocol: name.vN, such as
// "report.v1".
func ValidateExecutor(key string) error {
	if len(key) > MaxExecutor {
		return overf("executor", len(key), MaxExecutor, "bytes")
	}
	if !executorKey.MatchString(key) {
		return fault.Newf(fault.Invalid, "executor %q is not of the form name.vN", key).
			WithHint(`Name it in lower case with a version, such as "report.v1".`)
	}
	return nil
}
