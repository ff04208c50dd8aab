// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
)

const (
	headerGeneration = "Outlive-Generation"
	headerAttempt    = "Outlive-Attempt"
)

// millis is a duration in milliseconds with up to six decimals, exact to the
// nanosecond.
type millis time.Duration

// MarshalJSON implements [json.Marshaler].
func (m millis) MarshalJSON() ([]byte, error) {
	neg, n := "", int64(m)
	if n < 0 {
		neg, n = "-", -n
	}
	s := neg + strconv.FormatInt(n/1e6, 10)
	if frac := n % 1e6; frac != 0 {
		s += strings.TrimRight(fmt.Sprintf(".%06d", frac), "0")
	}
	return []byte(s), nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (m *millis) UnmarshalJSON(b []byte) error {
	s, neg := strings.CutPrefix(string(b), "-")
	whole, frac, _ := strings.Cut(s, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n > math.MaxInt64/int64(1e6)-1 || len(frac) > 6 || strings.Trim(frac, "0123456789") != "" {
		return fmt.Errorf("%s is no number of milliseconds", b)
	}
	f, _ := strconv.ParseInt((frac + "000000")[:6], 10, 64)
	if n = n*1e6 + f; neg {
		n = -n
	}
	*m = millis(n)
	return nil
}

// raw is text that may not be UTF-8.
type raw string

// MarshalJSON implements [json.Marshaler].
func (t raw) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString([]byte(t))})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (t *raw) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var v struct {
			Base64 []byte `json:"base64"`
		}
		if err := strict(bytes.NewReader(b), &v); err != nil {
			return err
		}
		*t = raw(v.Base64)
		return nil
	}
	return json.Unmarshal(b, (*string)(t))
}

func raws(ss []string) []raw {
	out := make([]raw, len(ss))
	for i, s := range ss {
		out[i] = raw(s)
	}
	return out
}

func texts(rs []raw) []string {
	out := make([]string, len(rs))
	for i, r := range rs {
		out[i] = string(r)
	}
	return out
}

// strict decodes one JSON value and refuses fields it does not know, and whatever
// follows.
func strict(r io.Reader, v any) error {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one value")
	}
	return nil
}

// order is the body of a start.
type order struct {
	Command   raw             `json:"command,omitempty"`
	Argv      []raw           `json:"argv,omitempty"`
	Dir       raw             `json:"dir"`
	Env       map[string]raw  `json:"env,omitempty"`
	Environ   *[]raw          `json:"environ,omitempty"`
	Stdin     []byte          `json:"stdin,omitempty"`
	StdinOpen bool            `json:"stdin_open,omitempty"`
	Attached  bool            `json:"attached,omitempty"`
	Reader    string          `json:"reader,omitempty"` // whose hold Attached is
	Timeout   *millis         `json:"timeout_ms,omitempty"`
	Grace     millis          `json:"grace_ms,omitempty"` // -1 kills at once
	Drain     millis          `json:"drain_ms,omitempty"`
	DrainCap  millis          `json:"drain_cap_ms,omitempty"`
	Umask     *uint32         `json:"umask,omitempty"`
	Output    shell.Output    `json:"output,omitzero"`
	Split     bool            `json:"split,omitempty"`
	Leftovers shell.Leftovers `json:"leftovers,omitempty"`
	Limits    shell.Limits    `json:"limits,omitzero"`
	TTY       *shell.TTY      `json:"tty,omitempty"`
	// Lease has the run stopped when nobody watches it.
	Lease bool `json:"lease,omitempty"`
}

const atOnce = millis(-time.Millisecond)

func graceOf(m millis) time.Duration {
	if m == atOnce {
		return shell.AtOnce
	}
	return time.Duration(m)
}

func wireGrace(d time.Duration) millis {
	if d == shell.AtOnce {
		return atOnce
	}
	return millis(d)
}

// orderOf encodes a valid request.
func orderOf(r shell.Request) (order, error) {
	o := order{
		Command: raw(r.Command), Argv: raws(r.Argv), Dir: raw(r.Dir), Stdin: r.Stdin, StdinOpen: r.StdinOpen,
		Attached: r.Attached, Grace: wireGrace(r.Grace), Drain: millis(r.Drain), DrainCap: millis(r.DrainCap),
		Output: r.Output, Split: r.Split, Leftovers: r.Leftovers, Limits: r.Limits, TTY: r.TTY,
	}
	if len(r.Env) > 0 {
		o.Env = make(map[string]raw, len(r.Env))
		for k, v := range r.Env {
			if !utf8.ValidString(k) {
				return o, fault.Newf(fault.Invalid, "start: environment name %q is not UTF-8", k)
			}
			o.Env[k] = raw(v)
		}
	}
	if r.Environ != nil {
		e := raws(r.Environ)
		o.Environ = &e
	}
	if r.Timeout != 0 {
		t := millis(r.Timeout)
		o.Timeout = &t
	}
	if bits, ok := r.Umask.Bits(); ok {
		o.Umask = &bits
	}
	return o, nil
}

// request decodes an order; it refuses what the fields cannot say and leaves the rest
// to [shell.Request.Validate].
func (o order) request() (shell.Request, error) {
	r := shell.Request{
		Command: string(o.Command), Dir: string(o.Dir), Stdin: o.Stdin, StdinOpen: o.StdinOpen, Attached: o.Attached,
		Grace: graceOf(o.Grace), Drain: time.Duration(o.Drain), DrainCap: time.Duration(o.DrainCap),
		Output: o.Output, Split: o.Split, Leftovers: o.Leftovers, Limits: o.Limits, TTY: o.TTY,
	}
	if len(o.Argv) > 0 {
		r.Argv = texts(o.Argv)
	}
	if len(o.Env) > 0 {
		r.Env = make(map[string]string, len(o.Env))
		for k, v := range o.Env {
			r.Env[k] = string(v)
		}
	}
	if o.Environ != nil {
		r.Environ = texts(*o.Environ)
	}
	if o.Timeout != nil {
		if *o.Timeout == 0 {
			return r, fault.New(fault.Invalid, "start: a time limit of 0: leave it out for none")
		}
		r.Timeout = time.Duration(*o.Timeout)
	}
	if o.Umask != nil {
		if *o.Umask > 0o777 {
			return r, fault.Newf(fault.Invalid, "start: umask %#o", *o.Umask)
		}
		r.Umask = shell.UmaskOf(*o.Umask)
	}
	return r, r.Validate()
}

// The states of a run on the wire.
const (
	stateQueued       = "queued"
	stateProvisioning = "provisioning"
	stateRunning      = "running"
	stateExited       = "exited"
	stateLost         = "lost"
	stateNeverStarted = "never_started"
)

// status is the state of a run on the wire.
type status struct {
	Run         shell.RunID `json:"run"`
	State       string      `json:"state"`
	Reason      string      `json:"reason,omitempty"`
	AcceptedAt  time.Time   `json:"t_accepted,omitzero"`
	StartedAt   time.Time   `json:"t_started,omitzero"`
	Started     bool        `json:"started,omitempty"`
	Bytes       int64       `json:"bytes"`
	Digest      string      `json:"digest,omitempty"`
	EnvironGone bool        `json:"environ_gone,omitempty"`
	Pid         int         `json:"pid,omitempty"`
	Exit        *shell.Exit `json:"exit,omitempty"`
	// Error is why the run did not start.
	Error *problem `json:"error,omitempty"`
}

func (s status) pending() bool { return s.State == stateQueued || s.State == stateProvisioning }

// statusOf translates what a backend found.
func statusOf(id shell.RunID, st shell.State) status {
	s := status{
		Run: id, Reason: st.Reason, StartedAt: st.StartedAt, Started: st.Started, Bytes: st.Bytes,
		Digest: st.Digest, EnvironGone: st.EnvironGone, Pid: st.Pid, Exit: st.Exit,
	}
	switch st.Phase {
	case shell.Live:
		s.State = stateRunning
	case shell.Finished:
		s.State = stateExited
	case shell.RunLost:
		s.State = stateLost
	case shell.NeverStarted, shell.UnknownRun:
		s.State = stateNeverStarted
	}
	return s
}

// state translates back. A run that is queued or provisioned is live: it moves on
// without the caller.
func (s status) state() (shell.State, error) {
	st := shell.State{
		Reason: s.Reason, StartedAt: s.StartedAt, Started: s.Started, Bytes: s.Bytes,
		Digest: s.Digest, EnvironGone: s.EnvironGone, Pid: s.Pid, Exit: s.Exit,
	}
	switch s.State {
	case stateQueued, stateProvisioning, stateRunning:
		st.Phase = shell.Live
	case stateExited:
		st.Phase = shell.Finished
	case stateLost:
		st.Phase = shell.RunLost
	case stateNeverStarted:
		st.Phase = shell.NeverStarted
	}
	if st.Phase == "" || (s.Exit == nil) != (st.Phase != shell.Finished && st.Phase != shell.RunLost) {
		return st, fault.Newf(fault.Unavailable, "the server told of a run in state %q, which does not say what became of it", s.State)
	}
	return st, nil
}

// line is one line of an output stream.
type line struct {
	Off     int64        `json:"off,omitempty"`
	Data    []byte       `json:"data,omitempty"`
	Stream  string       `json:"stream,omitempty"`
	Omitted *shell.Range `json:"omitted,omitempty"`
	Ping    bool         `json:"ping,omitempty"`
	Exit    *shell.Exit  `json:"exit,omitempty"`
	// Next is in the last line of every stream: without it the stream was cut.
	Next  *int64   `json:"next,omitempty"`
	End   bool     `json:"end,omitempty"`
	Error *problem `json:"error,omitempty"`
}

func streamOf(name string) shell.Stream {
	switch name {
	case "stdout":
		return shell.Stdout
	case "stderr":
		return shell.Stderr
	default:
		return shell.Merged
	}
}

// stopOrder is the body of a stop.
type stopOrder struct {
	Cause      shell.Cause `json:"cause,omitempty"`
	Reason     string      `json:"reason,omitempty"`
	Grace      millis      `json:"grace_ms,omitempty"`
	Generation int64       `json:"generation"`
	Attempt    int64       `json:"attempt"`
	// IfPending leaves a run alone that has been started.
	IfPending bool `json:"if_pending,omitempty"`
}

// input is the body of a write to standard input, or the size of the terminal and
// nothing else.
type input struct {
	Reader string     `json:"reader,omitempty"`
	Off    int64      `json:"off"`
	Data   []byte     `json:"data,omitempty"`
	EOF    bool       `json:"eof,omitempty"`
	TTY    *shell.TTY `json:"tty,omitempty"`
}

// position is an offset: that of a reader, or the answer to input.
type position struct {
	Off int64 `json:"off"`
}

// listing is the answer to a list.
type listing struct {
	Runs []shell.RunID `json:"runs"`
}

// problem is an error on the wire, as application/problem+json.
type problem struct {
	Code    string          `json:"code"`
	Title   string          `json:"title"`
	Hint    string          `json:"hint,omitempty"`
	Phase   shell.Step      `json:"phase,omitempty"`
	Started shell.Certainty `json:"started,omitempty"`
}

func problemOf(err error) *problem {
	p := &problem{Code: fault.KindOf(err).String(), Title: err.Error(), Hint: fault.Hint(err)}
	var x *shell.ExecError
	if errors.As(err, &x) {
		p.Phase, p.Started, p.Title = x.Phase, x.Started, x.Cause.Error()
	}
	var f *fault.Error
	if errors.As(err, &f) {
		p.Title = f.Text // so that a sentinel is one again on the other side
	}
	return p
}

// err is the problem as an error again.
func (p *problem) err() error {
	kind, _ := fault.ParseKind(p.Code)
	f := fault.New(kind, p.Title)
	if p.Hint != "" {
		f = f.WithHint(p.Hint)
	}
	if p.Phase == "" {
		return f
	}
	return &shell.ExecError{Phase: p.Phase, Started: p.Started, Cause: f}
}
