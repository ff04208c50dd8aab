// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package mockllm is a scripted model: a server that speaks the chat completions API of
// OpenAI, blocking and streaming, with tool calls and with faults, and says what its
// script says. It keeps no conversation: which step answers a request follows from the
// number of assistant messages in it, so that a client that was killed and goes on gets
// the same answer again, and every request is counted.
package mockllm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"text/template"
	"time"

	"github.com/outlive-dev/outlive/fault"
)

// Script is what the models say. It is JSON.
type Script struct {
	// Models have their steps by name. The name "*" is for any other model.
	Models map[string][]Step `json:"models"`
}

// Step is one answer. In Text and in the arguments of tool calls, {{last "REGEXP"}} is
// the last match in the request's messages: an id that a tool has returned, for example.
type Step struct {
	// Expect is a regular expression that the last message must match. Defaults to any.
	Expect string `json:"expect,omitempty"`
	// Text is what the model says. Defaults to nothing.
	Text string `json:"text,omitempty"`
	// ToolCalls are what it wants to be done. Defaults to none.
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
	// Delay is before the first byte, ChunkDelay before each further chunk of a stream.
	// Both default to 0.
	Delay      Duration `json:"delay,omitempty"`
	ChunkDelay Duration `json:"chunk_delay,omitempty"`
	// Chunk is how many characters a chunk of a stream has. Defaults to 8.
	Chunk int `json:"chunk,omitempty"`
	// Fault is what goes wrong first. Defaults to nothing.
	Fault *Fault `json:"fault,omitempty"`

	expect *regexp.Regexp
}

// ToolCall is one call of a tool.
type ToolCall struct {
	// ID is the call's. Defaults to one made of the step and the place in it.
	ID string `json:"id,omitempty"`
	// Name is the tool's. Required.
	Name string `json:"name"`
	// Arguments are a JSON object, or a string that is sent as it is, valid or not.
	// Defaults to {}.
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// Fault kinds.
const (
	FaultStatus    = "status"    // an HTTP status instead of an answer
	FaultCut       = "cut"       // the connection is cut after some characters of the answer
	FaultMalformed = "malformed" // the answer is no JSON
	FaultHang      = "hang"      // there is no answer until the client leaves
)

// Fault is what goes wrong with a step.
type Fault struct {
	// Kind is status, cut, malformed or hang. Required.
	Kind string `json:"kind"`
	// Status is the HTTP status of kind status. Defaults to 500.
	Status int `json:"status,omitempty"`
	// RetryAfter is sent with it, in whole seconds. Defaults to not at all.
	RetryAfter Duration `json:"retry_after,omitempty"`
	// After is how many characters of the answer come before a cut. Defaults to 0.
	After int `json:"after,omitempty"`
	// Times is how often it happens before the step answers. Defaults to 1; -1 is always.
	Times int `json:"times,omitempty"`
}

// Duration is a time.Duration that is written as in "1.5s".
type Duration time.Duration

// UnmarshalJSON reads what time.ParseDuration does.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return errors.New(`a duration is written as in "1.5s"`)
	}
	v, err := time.ParseDuration(s)
	if err == nil && v < 0 {
		err = fmt.Errorf("negative duration %s", s)
	}
	*d = Duration(v)
	return err
}

// MarshalJSON writes what UnmarshalJSON reads.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// Parse reads a script and checks it. Errors name the line, or the step.
func Parse(r io.Reader) (*Script, error) {
	text, err := io.ReadAll(io.LimitReader(r, 16<<20))
	if err != nil {
		return nil, fmt.Errorf("read script: %w", err)
	}
	s := &Script{}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(s); err != nil {
		at := dec.InputOffset()
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			at = syntax.Offset
		}
		line := 1 + bytes.Count(text[:min(int(at), len(text))], []byte("\n"))
		return nil, fault.Newf(fault.Invalid, "script: line %d: %s", line, strings.TrimPrefix(err.Error(), "json: "))
	}
	if dec.More() {
		return nil, fault.New(fault.Invalid, "script: there is more than one value")
	}
	return s, s.check()
}

func (s *Script) check() error {
	if len(s.Models) == 0 {
		return fault.New(fault.Invalid, `script: no models; {"models": {"*": [{"text": "hello"}]}} is one`)
	}
	for model, steps := range s.Models {
		for n := range steps {
			if err := steps[n].check(); err != nil {
				return fault.Newf(fault.Invalid, "script: model %q, step %d: %v", model, n, err)
			}
		}
	}
	return nil
}

func (s *Step) check() (err error) {
	if s.expect, err = regexp.Compile(s.Expect); err != nil {
		return err
	}
	if s.Chunk < 0 {
		return fmt.Errorf("chunk %d", s.Chunk)
	}
	if _, err := fill(s.Text, nil); err != nil {
		return err
	}
	for _, c := range s.ToolCalls {
		if c.Name == "" {
			return errors.New("a tool call without a name")
		}
		if _, err := fill(c.arguments(), nil); err != nil {
			return err
		}
	}
	f := s.Fault
	switch {
	case f == nil:
	case f.Kind != FaultStatus && f.Kind != FaultCut && f.Kind != FaultMalformed && f.Kind != FaultHang:
		return fmt.Errorf("fault kind %q: want status, cut, malformed or hang", f.Kind)
	case f.Status != 0 && (f.Status < 400 || f.Status > 599):
		return fmt.Errorf("fault status %d: want 400 to 599", f.Status)
	case f.Times < -1 || f.After < 0:
		return errors.New("negative number in a fault")
	}
	return nil
}

// arguments are the text of a call's arguments.
func (c *ToolCall) arguments() string {
	if len(c.Arguments) == 0 {
		return "{}"
	}
	var asIs string
	if json.Unmarshal(c.Arguments, &asIs) == nil {
		return asIs
	}
	var compact bytes.Buffer
	if json.Compact(&compact, c.Arguments) != nil {
		return string(c.Arguments)
	}
	// A quote within a template is escaped as JSON wants it.
	return templates.ReplaceAllStringFunc(compact.String(), func(t string) string { return strings.ReplaceAll(t, `\"`, `"`) })
}

var templates = regexp.MustCompile(`\{\{.*?\}\}`)

// fill replaces templates by what the messages say.
func fill(text string, messages []string) (string, error) {
	if !strings.Contains(text, "{{") {
		return text, nil
	}
	check := messages == nil
	t, err := template.New("").Funcs(template.FuncMap{"last": func(pattern string) (string, error) {
		re, err := regexp.Compile(pattern)
		if err != nil || check {
			return "", err
		}
		for n := len(messages) - 1; n >= 0; n-- {
			if all := re.FindAllString(messages[n], -1); len(all) > 0 {
				return all[len(all)-1], nil
			}
		}
		return "", fmt.Errorf("no message matches %s", pattern)
	}}).Parse(text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if err := t.Execute(&b, nil); err != nil {
		return "", err
	}
	return b.String(), nil
}
