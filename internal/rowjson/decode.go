// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package rowjson

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

var errSyntax = errors.New("it is not the JSON of a row")

// decoder reads one value after the other.
type decoder struct {
	in []byte
	at int
}

// peek skips white space and returns the next byte, 0 at the end.
func (d *decoder) peek() byte {
	for d.at < len(d.in) {
		switch c := d.in[d.at]; c {
		case ' ', '\t', '\n', '\r':
			d.at++
		default:
			return c
		}
	}
	return 0
}

func (d *decoder) take(c byte) bool {
	if d.peek() != c {
		return false
	}
	d.at++
	return true
}

func (d *decoder) word(w string) bool {
	d.peek()
	if !strings.HasPrefix(string(d.in[d.at:min(len(d.in), d.at+len(w))]), w) {
		return false
	}
	d.at += len(w)
	return true
}

// members calls member for every key of an object, at its value.
func (d *decoder) members(member func(key string) error) error {
	if !d.take('{') {
		return errSyntax
	}
	if d.take('}') {
		return nil
	}
	for {
		key, err := d.text()
		if err != nil {
			return err
		}
		if !d.take(':') {
			return errSyntax
		}
		if err := member(key); err != nil {
			return err
		}
		if d.take('}') {
			return nil
		}
		if !d.take(',') {
			return errSyntax
		}
	}
}

func (d *decoder) object(p *plan, v unsafe.Pointer, extra *[]byte) error {
	return d.members(func(key string) error {
		if f, ok := p.index[key]; ok {
			return d.value(f, unsafe.Add(v, f.offset))
		}
		d.peek()
		start := d.at
		if err := d.skip(); err != nil {
			return err
		}
		if extra != nil {
			*extra = append(appendString(append(*extra, ','), key), ':')
			*extra = append(*extra, d.in[start:d.at]...)
		}
		return nil
	})
}

func (d *decoder) value(f *field, v unsafe.Pointer) (err error) {
	if f.kind != kindOther && d.peek() == 'n' && d.word("null") {
		return nil
	}
	switch f.kind {
	case kindString:
		*at[string](v), err = d.text()
	case kindInt:
		*at[int64](v), err = strconv.ParseInt(d.number(), 10, 64)
	case kindUint64:
		*at[uint64](v), err = strconv.ParseUint(d.number(), 10, 64)
	case kindBool:
		switch {
		case d.word("true"):
			*at[bool](v) = true
		case !d.word("false"):
			return errSyntax
		}
	case kindBytes:
		s, err := d.quoted()
		if err != nil {
			return err
		}
		b := make([]byte, base64.StdEncoding.DecodedLen(len(s)))
		n, err := base64.StdEncoding.Decode(b, s)
		*at[[]byte](v) = b[:n]
		return err
	case kindTime:
		s, err := d.quoted()
		if err != nil {
			return err
		}
		t, err := time.Parse(time.RFC3339Nano, string(s))
		*at[time.Time](v) = t
		return err
	case kindStruct:
		return d.object(f.sub, v, nil)
	case kindPointer:
		p := reflect.New(f.typ.Elem())
		*at[unsafe.Pointer](v) = p.UnsafePointer()
		return d.object(f.sub, p.UnsafePointer(), nil)
	case kindStrings:
		return d.strings(at[[]string](v))
	case kindMap:
		m := make(map[string]string)
		*at[map[string]string](v) = m
		return d.members(func(key string) (err error) {
			m[key], err = d.text()
			return err
		})
	case kindOther:
		d.peek()
		start := d.at
		if err := d.skip(); err != nil {
			return err
		}
		return json.Unmarshal(d.in[start:d.at], reflect.NewAt(f.typ, v).Interface())
	}
	return err
}

func (d *decoder) strings(list *[]string) error {
	if !d.take('[') {
		return errSyntax
	}
	*list = []string{}
	for !d.take(']') {
		if len(*list) > 0 && !d.take(',') {
			return errSyntax
		}
		s, err := d.text()
		if err != nil {
			return err
		}
		*list = append(*list, s)
	}
	return nil
}

func (d *decoder) number() string {
	d.peek()
	start := d.at
	for d.at < len(d.in) && strings.IndexByte("+-.0123456789eE", d.in[d.at]) >= 0 {
		d.at++
	}
	return string(d.in[start:d.at])
}

// quoted returns what is between two quotes, escapes and all.
func (d *decoder) quoted() ([]byte, error) {
	if !d.take('"') {
		return nil, errSyntax
	}
	start := d.at
	for d.at < len(d.in) {
		switch d.in[d.at] {
		case '\\':
			d.at++
		case '"':
			d.at++
			return d.in[start : d.at-1], nil
		}
		d.at++
	}
	return nil, errSyntax
}

func (d *decoder) text() (string, error) {
	start := d.at
	b, err := d.quoted()
	if err != nil {
		return "", err
	}
	if strings.IndexByte(unsafe.String(unsafe.SliceData(b), len(b)), '\\') < 0 {
		return string(b), nil
	}
	if strings.HasPrefix(string(b[:min(len(b), len(raw))]), raw) {
		s, err := base64.StdEncoding.DecodeString(string(b[len(raw):]))
		return string(s), err
	}
	var s string
	for d.in[start] != '"' {
		start++
	}
	err = json.Unmarshal(d.in[start:d.at], &s)
	return s, err
}

// skip passes over one value.
func (d *decoder) skip() error {
	switch d.peek() {
	case '"':
		_, err := d.quoted()
		return err
	case '{':
		return d.members(func(string) error { return d.skip() })
	case '[':
		d.at++
		for first := true; !d.take(']'); first = false {
			if !first && !d.take(',') {
				return errSyntax
			}
			if err := d.skip(); err != nil {
				return err
			}
		}
		return nil
	}
	for _, w := range []string{"true", "false", "null"} {
		if d.word(w) {
			return nil
		}
	}
	if d.number() == "" {
		return errSyntax
	}
	return nil
}
