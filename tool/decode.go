// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/outlive-dev/outlive/fault"
)

// Decode reads the arguments of a call into the struct that v points to, and is
// strict: an argument that is not there, is given twice or has the wrong type is
// refused, so that a limit with a misspelled name is not silently without effect. A
// field is required unless its tag says omitempty; null stands for one that is not
// given. Names must match exactly.
//
// The error has kind Invalid and names everything that is wrong, each unknown argument
// with the nearest one there is.
func Decode(args json.RawMessage, v any) error {
	target := reflect.ValueOf(v).Elem()
	known := fieldsOf(target.Type())
	given, problems := split(args, known)
	for _, f := range known {
		raw, ok := given[f.name]
		if !ok || string(raw) == "null" {
			if f.required {
				problems = append(problems, fmt.Sprintf("%s is missing", f.name))
			}
			continue
		}
		if err := json.Unmarshal(raw, target.Field(f.index).Addr().Interface()); err != nil {
			problems = append(problems, mismatch(f.name, target.Field(f.index).Type(), raw))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return fault.Newf(fault.Invalid, "arguments: %s", strings.Join(problems, "; ")).WithHint(usage(known))
}

type field struct {
	name     string
	index    int
	required bool
}

func fieldsOf(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		name, opts, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			out = append(out, field{name: name, index: i, required: !strings.Contains(opts, "omit")})
		}
	}
	return out
}

// split takes the arguments apart, each value as it was written.
func split(args json.RawMessage, known []field) (given map[string]json.RawMessage, problems []string) {
	given = map[string]json.RawMessage{}
	if len(bytes.TrimSpace(args)) == 0 {
		return given, nil
	}
	d := json.NewDecoder(bytes.NewReader(args))
	t, err := d.Token()
	if err != nil {
		return given, []string{"not valid JSON: " + syntax(err)}
	}
	if t == nil {
		return given, trailing(d)
	}
	if t != json.Delim('{') {
		return given, []string{"want an object, got " + describe(args)}
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return given, append(problems, "not valid JSON: "+syntax(err))
		}
		name, _ := key.(string)
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return given, append(problems, "not valid JSON: "+syntax(err))
		}
		_, twice := given[name]
		switch {
		case twice:
			problems = append(problems, fmt.Sprintf("%s is given twice", name))
		case !has(known, name):
			problems = append(problems, unknown(name, known))
		default:
			given[name] = raw
		}
	}
	if _, err := d.Token(); err != nil {
		return given, append(problems, "not valid JSON: "+syntax(err))
	}
	return given, append(problems, trailing(d)...)
}

func trailing(d *json.Decoder) []string {
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return []string{"something follows the object"}
	}
	return nil
}

func syntax(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it ends too early"
	}
	return err.Error()
}

func has(known []field, name string) bool {
	for _, f := range known {
		if f.name == name {
			return true
		}
	}
	return false
}

func unknown(name string, known []field) string {
	text := fmt.Sprintf("there is no argument %q", name)
	if near := nearest(name, known); near != "" {
		text += fmt.Sprintf(", the nearest is %q", near)
	}
	return text
}

// nearest returns the known name that a wrong one may have meant, or "".
func nearest(name string, known []field) string {
	best, at := "", 0
	plain := plainName(name)
	for _, f := range known {
		k := plainName(f.name)
		d := distance(plain, k)
		if strings.HasPrefix(plain, k) || strings.HasPrefix(k, plain) && len(plain) > 2 {
			d = min(d, 1)
		}
		if d <= max(1, len(k)/3) && (best == "" || d < at) {
			best, at = f.name, d
		}
	}
	return best
}

func plainName(s string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(s))
}

// distance is how many letters differ, at most: the edit distance.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		prev := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := prev
			if a[i] != b[j] {
				cost++
			}
			prev = row[j+1]
			row[j+1] = min(cost, row[j]+1, prev+1)
		}
	}
	return row[len(b)]
}

// mismatch says what a value should have been.
func mismatch(name string, t reflect.Type, raw json.RawMessage) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	want := "another value"
	switch t.Kind() {
	case reflect.String:
		want = "a string"
	case reflect.Bool:
		want = "true or false"
	case reflect.Float32, reflect.Float64:
		want = "a number"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		want = "a whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		want = "a whole number, not negative"
	case reflect.Slice, reflect.Array:
		want = "a list"
	case reflect.Struct, reflect.Map:
		want = "an object"
	default:
	}
	return fmt.Sprintf("%s: want %s, got %s", name, want, describe(raw))
}

// describe says what a JSON value is.
func describe(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	text := string(raw)
	if len(text) > 40 {
		text = strings.ToValidUTF8(text[:40], "") + "…"
	}
	switch {
	case len(raw) == 0:
		return "nothing"
	case raw[0] == '"':
		return "the string " + text
	case raw[0] == '[':
		return "a list"
	case raw[0] == '{':
		return "an object"
	default:
		return text
	}
}

func usage(known []field) string {
	if len(known) == 0 {
		return "It takes no arguments."
	}
	names := make([]string, len(known))
	for i, f := range known {
		names[i] = f.name
		if f.required {
			names[i] += " (required)"
		}
	}
	return "Arguments: " + strings.Join(names, ", ") + "."
}
