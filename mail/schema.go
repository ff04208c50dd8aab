// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package mail

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/outlive-dev/outlive/fault"
)

// schema is the subset of JSON Schema that a ticket's answer is checked by. A
// keyword that asserts something and is not in it makes the schema invalid, so that
// no answer passes unchecked.
type schema struct {
	types    []string
	enum     []any
	props    map[string]*schema
	required []string
	closed   bool    // no other members than props
	rest     *schema // of other members
	items    *schema
	min, max *big.Float // of a number
	length   bounds     // of a string, in characters
	count    bounds     // of an array
}

type bounds struct{ min, max *int }

// CheckSchema fails unless s is a schema of the subset: type, enum, const,
// properties, required, additionalProperties, items, minimum, maximum, minLength,
// maxLength, minItems, maxItems, and what only describes.
func CheckSchema(s json.RawMessage) error {
	_, err := parseSchema(s, "")
	return err
}

// CheckValue checks a JSON value by a schema. The error names where in the value.
func CheckValue(s json.RawMessage, value []byte) error {
	parsed, err := parseSchema(s, "")
	if err != nil {
		return err
	}
	v, err := decode(value)
	if err != nil {
		return fault.Newf(fault.Invalid, "answer: %v", err)
	}
	return parsed.check(v, "")
}

// decode reads one JSON value, with exact numbers, and nothing behind it.
func decode(data []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("no JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF { //nolint:errorlint // Token returns it as it is
		return nil, fmt.Errorf("something follows the value")
	}
	return v, nil
}

func schemaErr(path, format string, args ...any) error {
	return fault.Newf(fault.Invalid, "schema at %s: %s", at(path), fmt.Sprintf(format, args...))
}

func at(path string) string {
	if path == "" {
		return "the top"
	}
	return path
}

func parseSchema(data json.RawMessage, path string) (*schema, error) {
	var allows bool
	if json.Unmarshal(data, &allows) == nil {
		if allows {
			return &schema{}, nil
		}
		return nil, schemaErr(path, "false allows nothing")
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, schemaErr(path, "not an object: %v", err)
	}
	s := &schema{}
	for k, raw := range m {
		if err := s.keyword(k, raw, path); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *schema) keyword(k string, raw json.RawMessage, path string) (err error) {
	into := func(v any) error {
		if err := json.Unmarshal(raw, v); err != nil {
			return schemaErr(path+"/"+k, "%v", err)
		}
		return nil
	}
	switch k {
	case "title", "description", "default", "examples", "$schema", "$id", "$comment", "format", "deprecated", "readOnly", "writeOnly":
		return nil
	case "type":
		if json.Unmarshal(raw, &s.types) != nil {
			s.types = make([]string, 1)
			if err := into(&s.types[0]); err != nil {
				return err
			}
		}
		for _, t := range s.types {
			if !slices.Contains([]string{"null", "boolean", "object", "array", "number", "integer", "string"}, t) {
				return schemaErr(path+"/type", "%q is no type", t)
			}
		}
	case "enum":
		v, err := decode(raw)
		list, ok := v.([]any)
		if err != nil || !ok || len(list) == 0 {
			return schemaErr(path+"/enum", "not a list of values")
		}
		s.enum = list
	case "const":
		v, err := decode(raw)
		if err != nil {
			return schemaErr(path+"/const", "%v", err)
		}
		s.enum = []any{v}
	case "properties":
		var props map[string]json.RawMessage
		if err := into(&props); err != nil {
			return err
		}
		s.props = make(map[string]*schema, len(props))
		for name, p := range props {
			if s.props[name], err = parseSchema(p, path+"/properties/"+name); err != nil {
				return err
			}
		}
	case "required":
		return into(&s.required)
	case "additionalProperties":
		if string(bytes.TrimSpace(raw)) == "false" {
			s.closed = true
			return nil
		}
		s.rest, err = parseSchema(raw, path+"/"+k)
		return err
	case "items":
		s.items, err = parseSchema(raw, path+"/items")
		return err
	case "minimum":
		return number(&s.min, raw, path+"/"+k)
	case "maximum":
		return number(&s.max, raw, path+"/"+k)
	case "minLength":
		return into(&s.length.min)
	case "maxLength":
		return into(&s.length.max)
	case "minItems":
		return into(&s.count.min)
	case "maxItems":
		return into(&s.count.max)
	default:
		return schemaErr(path, "the keyword %q is not supported", k)
	}
	return nil
}

func number(dst **big.Float, raw json.RawMessage, path string) error {
	f, _, err := big.ParseFloat(string(bytes.TrimSpace(raw)), 10, 256, big.ToNearestEven)
	if err != nil {
		return schemaErr(path, "not a number")
	}
	*dst = f
	return nil
}

func answerErr(path, format string, args ...any) error {
	return fault.Newf(fault.Invalid, "answer at %s: %s", at(path), fmt.Sprintf(format, args...))
}

func (s *schema) check(v any, path string) error {
	if len(s.types) > 0 && !slices.ContainsFunc(s.types, func(t string) bool { return isType(v, t) }) {
		return answerErr(path, "is %s, want %s", typeOf(v), strings.Join(s.types, " or "))
	}
	if len(s.enum) > 0 && !slices.ContainsFunc(s.enum, func(e any) bool { return same(e, v) }) {
		return answerErr(path, "is none of the values there are")
	}
	switch v := v.(type) {
	case string:
		return s.length.check(path, "characters", utf8.RuneCountInString(v))
	case json.Number:
		f := float(v)
		if s.min != nil && f.Cmp(s.min) < 0 {
			return answerErr(path, "is below the minimum %s", s.min.Text('g', -1))
		}
		if s.max != nil && f.Cmp(s.max) > 0 {
			return answerErr(path, "is above the maximum %s", s.max.Text('g', -1))
		}
	case []any:
		if err := s.count.check(path, "items", len(v)); err != nil {
			return err
		}
		for i, item := range v {
			if s.items != nil {
				if err := s.items.check(item, fmt.Sprintf("%s/%d", path, i)); err != nil {
					return err
				}
			}
		}
	case map[string]any:
		return s.checkObject(v, path)
	}
	return nil
}

func (s *schema) checkObject(v map[string]any, path string) error {
	for _, name := range s.required {
		if _, ok := v[name]; !ok {
			return answerErr(path+"/"+name, "is missing")
		}
	}
	names := make([]string, 0, len(v))
	for name := range v {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		sub, known := s.props[name]
		if !known {
			if s.closed {
				return answerErr(path+"/"+name, "is not a member there is")
			}
			sub = s.rest
		}
		if sub != nil {
			if err := sub.check(v[name], path+"/"+name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b bounds) check(path, what string, n int) error {
	switch {
	case b.min != nil && n < *b.min:
		return answerErr(path, "has %d %s, want at least %d", n, what, *b.min)
	case b.max != nil && n > *b.max:
		return answerErr(path, "has %d %s, want at most %d", n, what, *b.max)
	}
	return nil
}

func float(n json.Number) *big.Float {
	f, _, err := big.ParseFloat(n.String(), 10, 256, big.ToNearestEven)
	if err != nil {
		return new(big.Float)
	}
	return f
}

func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		return "number"
	case []any:
		return "array"
	default:
		return "object"
	}
}

func isType(v any, t string) bool {
	if n, ok := v.(json.Number); ok && t == "integer" {
		return float(n).IsInt()
	}
	return typeOf(v) == t
}

// same compares two decoded values.
func same(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		n, ok := b.(json.Number)
		return ok && float(a).Cmp(float(n)) == 0
	case []any:
		l, ok := b.([]any)
		return ok && slices.EqualFunc(a, l, same)
	case map[string]any:
		m, ok := b.(map[string]any)
		if !ok || len(a) != len(m) {
			return false
		}
		for k, v := range a {
			if w, there := m[k]; !there || !same(v, w) {
				return false
			}
		}
		return true
	default:
		return typeOf(a) == typeOf(b) && a == b
	}
}
