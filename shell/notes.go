// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
)

// ReasonOutOfMemory is the Reason of an exit by SIGKILL that is known to come from a
// memory limit.
const ReasonOutOfMemory = "out_of_memory"

// Status is how a command ended, in one word for a model.
type Status string

// The words. Each follows from the exit record alone.
const (
	StatusSucceeded Status = "succeeded"
	StatusFailed    Status = "failed"
	StatusTimedOut  Status = "timed_out"
	StatusStopped   Status = "stopped"
	StatusLost      Status = "lost"
)

// Status returns the word for e: succeeded only for a command that ended by itself
// with code 0, stopped for one that was stopped for whatever reason but its time, and
// lost for one whose code is not known.
func (e Exit) Status() Status {
	switch e.ended() {
	case Exited:
		if e.Succeeded() && e.Signal == "" {
			return StatusSucceeded
		}
		return StatusFailed
	case StartFailed:
		return StatusFailed
	case TimedOut:
		return StatusTimedOut
	case Canceled, OutputLimited:
		return StatusStopped
	default:
		return StatusLost
	}
}

// ended returns the cause that counts: a lost run is lost whatever was asked of it,
// a stop counts more than how the command took it, and an exit without a status is
// not known to be one.
func (e Exit) ended() Cause {
	switch {
	case e.Cause == Lost, e.Cause == StartFailed:
		return e.Cause
	case e.TimedOut || e.Cause == TimedOut:
		return TimedOut
	case e.Cause == OutputLimited:
		return OutputLimited
	case e.Canceled || e.Cause == Canceled:
		return Canceled
	case e.Cause == Exited && (e.Code != nil || e.Signal != ""):
		return Exited
	default:
		return ""
	}
}

// terminal returns the one note that says how a command ended, or "".
func (s *settings) terminal(e Exit, c Call, empty, visible bool) string {
	p := &s.p
	switch e.ended() {
	case Lost:
		reason := inline(e.Reason)
		if reason != "" {
			reason = " (" + reason + ")"
		}
		return fill(p.Lost, "reason", reason)
	case StartFailed:
		return fill(p.NotStarted, "reason", cmp.Or(inline(e.Reason), p.NoReason))
	case TimedOut:
		return s.timedOut(c, !empty)
	case OutputLimited:
		if c.OutputLimit <= 0 {
			return p.OutputLimitUnknown
		}
		return fill(p.OutputLimit, "limit", size(c.OutputLimit))
	case Canceled:
		return p.Stopped
	case Exited:
	default:
		return p.Unknown
	}
	switch {
	case e.Signal != "":
		extra := ""
		if e.Reason == ReasonOutOfMemory {
			extra = p.OutOfMemory
		}
		return fill(p.Killed, "signal", inline(e.Signal), "code", code(e), "extra", extra)
	case *e.Code != 0:
		return fill(p.Exit, "code", code(e))
	case empty:
		return p.NoOutput
	case !visible:
		return p.Blank
	default:
		return ""
	}
}

func (s *settings) timedOut(c Call, output bool) string {
	limit := inline(c.TimeoutText)
	if limit == "" && c.Timeout > 0 {
		limit = seconds(c.Timeout)
	}
	switch {
	case limit == "" && output:
		return s.p.TimedOutNoLimit
	case limit == "":
		return s.p.TimedOutNoLimitSilent
	case output:
		return fill(s.p.TimedOut, "limit", limit)
	default:
		return fill(s.p.TimedOutSilent, "limit", limit)
	}
}

// beside returns the notes that may stand before the terminal one.
func (s *settings) beside(e Exit) []string {
	var out []string
	hint := s.p.LeftoverHint
	if s.NoBackground {
		hint = ""
	}
	add := func(n int, one, many string) {
		switch {
		case n == 1:
			out = append(out, fill(one, "n", "1", "hint", hint))
		case n > 1:
			out = append(out, fill(many, "n", count(int64(n)), "hint", hint))
		}
	}
	add(e.LeftoversStopped, s.p.LeftoverStopped, s.p.LeftoversStopped)
	add(e.LeftoversKept, s.p.LeftoverKept, s.p.LeftoversKept)
	if e.Incomplete {
		out = append(out, s.p.Incomplete)
	}
	return out
}

func code(e Exit) string {
	if e.Code == nil {
		return "?"
	}
	return strconv.Itoa(*e.Code)
}

// End returns the rest of the text: what was not shown yet, and the notes. After that
// the renderer has ended. Without any Exit the outcome is unknown.
func (r *Renderer) End() string {
	if r.ended {
		return ""
	}
	e := r.exit
	e.TimedOut = e.TimedOut || r.timedOut
	r.drain(e.TotalBytes)
	notes := r.o.beside(e)
	if t := r.o.terminal(e, r.call, r.body.empty(), r.body.visible); t != "" {
		notes = append(notes, t)
	}
	return r.compose(notes)
}

// drain settles all output, of which there were total bytes.
func (r *Renderer) drain(total int64) {
	r.ended = true
	r.missing(total)
	if r.gap == 0 {
		r.norm.Flush()
		r.settle()
		r.body.add(r.filt.flush())
	}
	r.markGap()
}

// compose puts the text together, and cuts the output to what the notes leave.
func (r *Renderer) compose(notes []string) string {
	s, p := &r.o, &r.o.p
	end := strings.Join(notes, "\n")
	if text, ok := r.body.all(); ok && len(text)+1+len(end) <= s.MaxBytes && int(r.body.lines())+len(notes) <= s.MaxLines {
		return string(text[r.shown:]) + below(text, end)
	}
	notice := func(head, tail int) string {
		phrase := p.Truncated
		if r.call.ID != "" && s.OutputTool != NoTool {
			phrase = p.TruncatedRead
		}
		return fill(phrase, "head", size(int64(head)), "tail", size(int64(tail)), "total", size(r.body.size()),
			"output_tool", s.OutputTool, "id", inline(r.call.ID), "offset", strconv.FormatInt(r.offsetOf(head), 10))
	}
	marker := func(n int64) string { return fill(p.Omitted, "n", count(n)) }

	reserve := len(end) + len(notice(r.body.headCut(), s.MaxBytes)) + len(marker(r.body.size())) + slack
	head, tail, omitted, midLine := r.body.cut(
		max(s.MaxBytes-r.body.headCut()-reserve, 0), s.MaxLines-s.MaxLines/4-noteLines)
	after := string(tail)
	if midLine {
		after = escapeStart(tail, s.forms)
	}
	var b strings.Builder
	if !s.NoticeLast {
		b.WriteString(notice(len(head), len(tail)) + "\n")
	} else {
		end = strings.TrimSuffix(notice(len(head), len(tail))+"\n"+end, "\n")
	}
	b.Write(head[r.shown:])
	b.WriteString(below(head, marker(omitted)) + "\n")
	b.WriteString(after)
	b.WriteString(below([]byte(after), end))
	return b.String()
}

// below returns a note as it stands below text.
func below(text []byte, note string) string {
	if note == "" || len(text) == 0 || text[len(text)-1] == '\n' {
		return note
	}
	return "\n" + note
}

// Fail is End for a call that failed, as opposed to a command that did: the note says
// whether the command may have run. Only what err says counts, no Exit.
func (r *Renderer) Fail(err error) string {
	if r.ended {
		return ""
	}
	note, cause := r.o.p.ErrorMaybe, err
	var e *ExecError
	if errors.As(err, &e) {
		switch e.Started {
		case No:
			note = r.o.p.ErrorNotStarted
		case Yes:
			note = r.o.p.ErrorStarted
		case Maybe:
		}
		cause = e.Cause
	}
	reason := ""
	if cause != nil {
		reason = inline(cause.Error())
	}
	r.drain(0)
	return r.compose([]string{fill(note, "reason", cmp.Or(reason, r.o.p.NoReason))})
}

// RenderError returns what a model reads of a call that failed: the output so far,
// which an [ExecError] may carry, and the note of [Renderer.Fail].
func RenderError(err error, c Call, o RenderOptions) string {
	r := NewRenderer(c, o)
	var e *ExecError
	if errors.As(err, &e) && e.Partial != nil {
		r.Add(RenderInput{Output: e.Partial.Output, Omitted: e.Partial.Omitted}.part())
		r.shown = 0
	}
	return r.Fail(err)
}
