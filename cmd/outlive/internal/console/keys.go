// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"strings"
)

// DetachKeys is what is typed to leave a command when nothing else was agreed on.
const DetachKeys = "ctrl-p,ctrl-q"

// Keys looks for a sequence of keys in what somebody types. Nil looks for nothing.
type Keys struct {
	want []byte
	seen int // how much of it was typed, and not passed on
}

// ParseKeys reads a sequence such as "ctrl-p,ctrl-q": keys are single characters, or
// ctrl- and a letter or one of @[\]^_. "none" is no sequence.
func ParseKeys(text string) (*Keys, error) {
	if text == "none" {
		return nil, nil
	}
	k := &Keys{}
	for name := range strings.SplitSeq(text, ",") {
		c, ctrl := strings.CutPrefix(strings.ToLower(name), "ctrl-")
		switch {
		case !ctrl && len(name) == 1 && name[0] >= ' ' && name[0] < 0x7f:
			k.want = append(k.want, name[0])
		case ctrl && len(c) == 1 && (c[0] >= 'a' && c[0] <= 'z' || strings.Contains("@[\\]^_", c)):
			k.want = append(k.want, c[0]&0x1f)
		default:
			return nil, fmt.Errorf("%q is no key: want one such as a or ctrl-p", name)
		}
	}
	return k, nil
}

// Pass returns what of the input is to be passed on, and whether the sequence is
// complete: then the rest of the input is dropped. The beginning of a sequence is held
// until it is known whether it is one.
func (k *Keys) Pass(in []byte) (out []byte, found bool) {
	if k == nil {
		return in, false
	}
	out = make([]byte, 0, len(in)+k.seen)
	for _, c := range in {
		for c != k.want[k.seen] && k.seen > 0 {
			// What was held is no beginning any more; a shorter part of it may be.
			held := k.want[:k.seen]
			for n := 1; ; n++ {
				if n == len(held) || strings.HasPrefix(string(k.want), string(held[n:])) {
					out = append(out, held[:n]...)
					k.seen -= n
					break
				}
			}
		}
		if c != k.want[k.seen] {
			out = append(out, c)
			continue
		}
		if k.seen++; k.seen == len(k.want) {
			k.seen = 0
			return out, true
		}
	}
	return out, false
}
