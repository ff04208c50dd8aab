// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package task

import "unicode/utf8"

// MaxText is the size of reasons and error texts in bytes; longer ones are cut.
const MaxText = 4 << 10

// CutText cuts s to [MaxText] bytes at the start of a rune and removes what is not
// UTF-8 there.
func CutText(s string) string {
	if len(s) <= MaxText {
		return s
	}
	n := MaxText
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
