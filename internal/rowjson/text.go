// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package rowjson

import (
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// raw begins a string whose bytes follow as base64.
const raw = `\u0000`

func appendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }

func appendUint(dst []byte, n uint64) []byte { return strconv.AppendUint(dst, n, 10) }

func appendBytes(dst, b []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}

func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	plain := true
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x80 || c == '"' || c == '\\' {
			plain = false
			break
		}
	}
	switch {
	case plain:
		dst = append(dst, s...)
	case !utf8.ValidString(s) || strings.HasPrefix(s, "\x00"):
		dst = append(dst, raw...)
		dst = base64.StdEncoding.AppendEncode(dst, []byte(s))
	default:
		for i := range len(s) {
			switch c := s[i]; {
			case c == '"' || c == '\\':
				dst = append(dst, '\\', c)
			case c == '\n':
				dst = append(dst, '\\', 'n')
			case c < 0x20:
				const hex = "0123456789abcdef"
				dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			default:
				dst = append(dst, c)
			}
		}
	}
	return append(dst, '"')
}

func appendMap(dst []byte, m map[string]string) []byte {
	dst = append(dst, '{')
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, k), ':')
		dst = appendString(dst, m[k])
	}
	return append(dst, '}')
}
