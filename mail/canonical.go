// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package mail

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/outlive-dev/outlive/fault"
)

// maxNesting bounds the depth of JSON that is looked into.
const maxNesting = 512

// ArgsDigest returns what binds an approval to its arguments: the SHA-256 of their
// canonical JSON, in hexadecimal.
func ArgsDigest(args []byte) (string, error) {
	c, err := Canonical(args)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(c)
	return hex.EncodeToString(sum[:]), nil
}

// Canonical returns JSON in the one form that RFC 8785 gives it: members ordered by
// the UTF-16 code units of their names, numbers as ECMAScript prints them, no space.
//
// What the form could not tell apart is refused with kind Invalid: a name used
// twice, text that is not Unicode, and a number that a double does not hold exactly
// as written where that is an integer, or holds only as infinity.
func Canonical(data []byte) ([]byte, error) {
	if !utf8.Valid(data) || loneSurrogate(data) {
		return nil, fault.New(fault.Invalid, "canonical JSON: text that is not Unicode")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	out, err := canonical(nil, d, 0)
	if err != nil {
		if fault.KindOf(err) == fault.Invalid {
			return nil, err
		}
		return nil, fault.Newf(fault.Invalid, "canonical JSON: %v", err)
	}
	if _, err := d.Token(); err != io.EOF { //nolint:errorlint // Token returns it as it is
		return nil, fault.New(fault.Invalid, "canonical JSON: something follows the value")
	}
	return out, nil
}

// loneSurrogate reports whether a \u escape names half a character.
func loneSurrogate(data []byte) bool {
	unit := func(at int) (rune, bool) {
		if at+6 > len(data) || data[at] != '\\' || data[at+1] != 'u' {
			return 0, false
		}
		n, err := strconv.ParseUint(string(data[at+2:at+6]), 16, 16)
		return rune(n), err == nil
	}
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		u, ok := unit(i)
		if !ok {
			i++ // an escape of two bytes
			continue
		}
		if utf16.IsSurrogate(u) {
			low, _ := unit(i + 6)
			if utf16.DecodeRune(u, low) == utf8.RuneError {
				return true
			}
			i += 6
		}
		i += 5
	}
	return false
}

func canonical(out []byte, d *json.Decoder, depth int) ([]byte, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case nil:
		return append(out, "null"...), nil
	case bool:
		return strconv.AppendBool(out, t), nil
	case string:
		return appendText(out, t), nil
	case json.Number:
		return appendNumber(out, t.String())
	case json.Delim:
		if depth >= maxNesting {
			return nil, fault.Newf(fault.Invalid, "canonical JSON: nested deeper than %d", maxNesting)
		}
		if t == '[' {
			return canonicalArray(out, d, depth)
		}
		return canonicalObject(out, d, depth)
	}
	return nil, fault.Newf(fault.Invalid, "canonical JSON: unexpected %v", t)
}

func canonicalArray(out []byte, d *json.Decoder, depth int) ([]byte, error) {
	out = append(out, '[')
	for first := true; d.More(); first = false {
		if !first {
			out = append(out, ',')
		}
		var err error
		if out, err = canonical(out, d, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return append(out, ']'), err
}

func canonicalObject(out []byte, d *json.Decoder, depth int) ([]byte, error) {
	type member struct {
		units []uint16
		name  string
		value []byte
	}
	var members []member
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := t.(string)
		value, err := canonical(nil, d, depth+1)
		if err != nil {
			return nil, err
		}
		members = append(members, member{utf16.Encode([]rune(name)), name, value})
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	slices.SortFunc(members, func(a, b member) int { return slices.Compare(a.units, b.units) })
	out = append(out, '{')
	for i, m := range members {
		if i > 0 {
			if m.name == members[i-1].name {
				return nil, fault.Newf(fault.Invalid, "canonical JSON: the name %q is used twice", m.name)
			}
			out = append(out, ',')
		}
		out = append(appendText(out, m.name), ':')
		out = append(out, m.value...)
	}
	return append(out, '}'), nil
}

func appendText(out []byte, s string) []byte {
	const hexDigits = "0123456789abcdef"
	out = append(out, '"')
	for i := range len(s) {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c >= 0x20:
			out = append(out, c)
		case strings.IndexByte("\b\t\n\f\r", c) >= 0:
			out = append(out, '\\', "btn?fr"[c-'\b'])
		default:
			out = append(out, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(out, '"')
}

// appendNumber prints a number as ECMAScript's Number::toString does.
func appendNumber(out []byte, text string) ([]byte, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) {
		return nil, fault.Newf(fault.Invalid, "canonical JSON: the number %.40s is out of range", text)
	}
	if !strings.ContainsAny(text, ".eE") {
		exact, _ := new(big.Int).SetString(text, 10)
		if back, _ := new(big.Float).SetFloat64(f).Int(nil); exact == nil || exact.Cmp(back) != 0 {
			return nil, fault.Newf(fault.Invalid, "canonical JSON: the integer %.40s is not exact as a double; send it as text", text)
		}
	}
	if f == 0 {
		return append(out, '0'), nil
	}
	if f < 0 {
		out, f = append(out, '-'), -f
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	digits := strings.Replace(mantissa, ".", "", 1)
	e, _ := strconv.Atoi(exponent)
	k, n := len(digits), e+1
	switch {
	case k <= n && n <= 21:
		out = append(append(out, digits...), strings.Repeat("0", n-k)...)
	case 0 < n && n <= 21:
		out = append(append(append(out, digits[:n]...), '.'), digits[n:]...)
	case -6 < n && n <= 0:
		out = append(append(append(out, "0."...), strings.Repeat("0", -n)...), digits...)
	default:
		out = append(out, digits[0])
		if k > 1 {
			out = append(append(out, '.'), digits[1:]...)
		}
		out = append(out, 'e')
		if n > 0 {
			out = append(out, '+')
		}
		out = strconv.AppendInt(out, int64(n-1), 10)
	}
	return out, nil
}
