// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"strings"
	"time"
)

// How much output receipts and notices show.
const (
	receiptBytes = 2 << 10
	noticeBytes  = 1 << 10
	excerptLines = 50
	markerLen    = 48 // at least that of a marker
)

// Why says why a command is in the background.
type Why string

// The reasons.
const (
	// Asked means that the call asked for it.
	Asked Why = "asked"
	// Timer means that the call had waited for as long as it was to.
	Timer Why = "timer"
	// CallerLeft means that nobody waits any more.
	CallerLeft Why = "caller_left"
)

// Receipt is what a call returns for a command that goes on in the background.
type Receipt struct {
	ID  string
	Why Why
	// StartedAt is when the command started.
	StartedAt time.Time
	// Waited is how long the call had waited, for Timer.
	Waited time.Duration
	// TimeoutIgnored means that the call gave a timeout which has no effect, with
	// Asked.
	TimeoutIgnored bool
	// Script is that of [Call].
	Script string
	// Output is the end of the output so far, and Bytes how much there is of it;
	// Bytes defaults to the length of Output.
	Output []byte
	Bytes  int64
}

// Render returns the text of the receipt: state first, then the end of the output so
// far, then what to do next.
func (rc Receipt) Render(o RenderOptions) string {
	s := o.settings()
	body := s.excerpt(rc.Output, rc.Bytes, rc.Script, receiptBytes)
	var phrase string
	switch {
	case rc.Why == CallerLeft:
		phrase = s.p.CallerLeft
	case rc.Why == Timer && rc.Waited > 0:
		phrase = s.p.Moved
	case rc.Why == Timer:
		phrase = s.p.MovedNow
	default:
		phrase = s.p.Started
	}
	timeout := ""
	if rc.TimeoutIgnored {
		timeout = s.p.NoTimeout
	}
	return s.framed(body, rc.ID, true, phrase,
		"id", inline(rc.ID), "at", s.clock(rc.StartedAt), "waited", seconds(rc.Waited), "timeout", timeout,
		"output", s.soFar(body))
}

// StillRunning is the periodic notice of a command in the background.
type StillRunning struct {
	ID        string
	StartedAt time.Time
	// Ran is how long it has been running.
	Ran time.Duration
	// Script, Output and Bytes are those of [Receipt].
	Script string
	Output []byte
	Bytes  int64
}

// Render returns the text of the notice.
func (n StillRunning) Render(o RenderOptions) string {
	s := o.settings()
	body := s.excerpt(n.Output, n.Bytes, n.Script, noticeBytes)
	return s.framed(body, n.ID, true, s.p.StillRunning,
		"waited", lasted(n.Ran), "id", inline(n.ID), "at", s.clock(n.StartedAt),
		"n", count(max(n.Bytes, int64(len(n.Output)))), "output", s.soFar(body))
}

// Completion is the notice that a command in the background has ended.
type Completion struct {
	ID   string
	Exit Exit
	// Script and Output are those of [Receipt].
	Script string
	Output []byte
}

// Render returns the text of the notice. Its one word of status follows from the exit
// record alone.
func (n Completion) Render(o RenderOptions) string {
	s := o.settings()
	e := n.Exit
	body := s.excerpt(n.Output, e.TotalBytes, n.Script, noticeBytes)
	how := ""
	if e.Signal != "" && e.Status() == StatusFailed {
		how = fill(s.p.SignalPart, "signal", inline(e.Signal))
	}
	if e.Code != nil {
		how += fill(s.p.CodePart, "code", code(e))
	}
	output := ""
	if body != "" {
		output = s.p.LastOutput
	}
	return s.framed(body, n.ID, false, s.p.Ended,
		"status", string(e.Status()), "id", inline(n.ID), "how", how, "ran", lasted(e.EndedAt.Sub(e.StartedAt)),
		"n", count(max(e.TotalBytes, int64(len(n.Output)))), "output", output)
}

func (s *settings) soFar(body string) string {
	if body == "" {
		return s.p.NoneYet
	}
	return s.p.OutputSoFar
}

// framed puts a body between its first line, a phrase without its last bracket, and
// what to do next.
func (s *settings) framed(body, id string, live bool, phrase string, pairs ...string) string {
	first, next := fill(phrase, pairs...), s.todo(id, live)
	if body == "" {
		return first + strings.TrimSuffix(" "+next, " ") + "]"
	}
	text := first + "]\n" + body
	if next == "" {
		return text
	}
	return text + below([]byte(text), "["+next+"]")
}

// todo says how to read and stop a task, and that its end will be told, each only if
// it is so.
func (s *settings) todo(id string, live bool) string {
	var do []string
	if id != "" && s.OutputTool != NoTool {
		do = append(do, fill(s.p.Read, "output_tool", s.OutputTool))
	}
	if id != "" && live && s.StopTool != NoTool {
		do = append(do, fill(s.p.Stop, "stop_tool", s.StopTool))
	}
	text := strings.Join(do, "; ")
	if text != "" {
		text += "."
	}
	if live && !s.NoNotices {
		text = strings.TrimPrefix(text+" "+s.p.WillBeTold, " ")
	}
	return text
}

// excerpt returns the last bytes of output as text, with a marker where some are
// missing.
func (s *settings) excerpt(output []byte, total int64, script string, most int) string {
	in := RenderInput{Call: Call{Script: script}, Output: output}
	if before := total - int64(len(output)); before > 0 {
		in.Omitted = []Range{{To: before}}
	}
	o := s.RenderOptions
	r := NewRenderer(in.Call, o)
	r.body.headMax, r.body.keep = 0, most+near
	r.Add(in.part())
	r.drain(0)
	if r.body.total() == 0 || !r.body.visible {
		return ""
	}
	if text, ok := r.body.all(); ok && len(text) <= most && r.body.lines() <= excerptLines {
		return string(text)
	}
	_, tail, omitted, midLine := r.body.cut(most-markerLen, excerptLines-1)
	after := string(tail)
	if midLine {
		after = escapeStart(tail, s.forms)
	}
	return fill(s.p.Omitted, "n", count(omitted)) + "\n" + after
}

func (s *settings) clock(t time.Time) string {
	if t.IsZero() {
		return s.p.NoTime
	}
	return t.UTC().Format("15:04:05Z")
}
