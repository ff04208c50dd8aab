// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of what a model reads of one command.
const (
	DefaultModelBytes = 30_000
	DefaultModelLines = 2_000
	DefaultModelHead  = 8 << 10
)

const (
	minModelBytes = 4 << 10
	minModelLines = 40
	noteLines     = 10  // at most so many lines are not the command's
	slack         = 128 // by which notes may grow when their numbers are known
)

// NoTool is the name of a tool that is switched off: it is not mentioned.
const NoTool = "-"

// RenderOptions say how output is shown to a model. The zero value is usable.
type RenderOptions struct {
	// MaxBytes bounds the whole text, notes included; at least 4 KiB. Defaults to
	// DefaultModelBytes.
	MaxBytes int
	// MaxLines bounds its lines; at least 40. Defaults to DefaultModelLines.
	MaxLines int
	// HeadBytes is how much of the beginning stays when the text is too long, at
	// most half of MaxBytes; what fits of the end stays too. Defaults to
	// DefaultModelHead.
	HeadBytes int
	// NoticeLast puts the notice of truncation behind the output instead of before
	// it, so that a [Renderer] can show the head while the command runs. Defaults to
	// false: the notice is the first line, where it is not overlooked, and a Renderer
	// shows nothing before the end.
	NoticeLast bool
	// OutputTool is the tool that reads output, or NoTool. Defaults to "task_output".
	OutputTool string
	// StopTool is the tool that stops a task, or NoTool. Defaults to "task_stop".
	StopTool string
	// NoNotices means that nobody will be told when a background command ends.
	// Defaults to false.
	NoNotices bool
	// NoBackground means that there is no run_in_background to recommend. Defaults to
	// false.
	NoBackground bool
	// Phrases are the fixed strings; empty ones are replaced. Defaults to English.
	Phrases *Phrases
}

// settings are options with their defaults.
type settings struct {
	RenderOptions
	p     Phrases
	forms []form
}

func (o RenderOptions) settings() settings {
	o.MaxBytes = max(cmp.Or(o.MaxBytes, DefaultModelBytes), minModelBytes)
	o.MaxLines = max(cmp.Or(o.MaxLines, DefaultModelLines), minModelLines)
	o.HeadBytes = min(max(cmp.Or(o.HeadBytes, DefaultModelHead), 0), o.MaxBytes/2)
	o.OutputTool = cmp.Or(o.OutputTool, "task_output")
	o.StopTool = cmp.Or(o.StopTool, "task_stop")
	s := settings{RenderOptions: o, p: o.Phrases.withDefaults()}
	s.forms = s.p.forms()
	return s
}

// Call is what the caller of a command knows before it ends, as far as the text
// depends on it. The zero value is usable.
type Call struct {
	// ID is the task to read more from, or empty.
	ID string
	// Script is the path of the file that holds the command. Messages of the shell
	// begin with it, and are shown to begin with "sh".
	Script string
	// Timeout is the request's, and TimeoutText how it was asked for, such as "2m".
	// TimeoutText defaults to Timeout in seconds.
	Timeout     time.Duration
	TimeoutText string
	// OutputLimit is the request's Output.Limit.
	OutputLimit int64
}

// RenderInput is an execution.
type RenderInput struct {
	Call
	// Output and Omitted are those of a [Response].
	Output  []byte
	Omitted []Range
	Exit    Exit
}

// Render returns what a model reads of an execution: [notice of truncation] output
// [leftover note] [incomplete note] [terminal note], in this order. The terminal note
// says how the command ended; there is exactly one, except that output of a command
// with code 0 stands alone. Where bytes are missing, a marker has their number.
//
// Notes are lines of their own in square brackets. A line of output that begins like
// any of them gets a backslash before the bracket, so that no output can pass for a
// note, a receipt or a notice.
func Render(in RenderInput, o RenderOptions) string {
	r := NewRenderer(in.Call, o)
	r.Add(in.part())
	return joined(r)
}

// joined ends a renderer of which nothing was shown.
func joined(r *Renderer) string {
	r.shown = 0
	return r.End()
}

// part puts the output of a response back to its offsets.
func (in RenderInput) part() Part {
	p := Part{Omitted: slices.Clone(in.Omitted), Exit: &in.Exit}
	slices.SortFunc(p.Omitted, func(a, b Range) int { return cmp.Compare(a.From, b.From) })
	var off int64
	rest := in.Output
	for _, g := range p.Omitted {
		if k := min(g.From-off, int64(len(rest))); k > 0 {
			p.Frames = append(p.Frames, Frame{Off: off, Data: rest[:k]})
			rest = rest[k:]
		}
		off = max(off, g.To)
	}
	if len(rest) > 0 {
		p.Frames = append(p.Frames, Frame{Off: off, Data: rest})
	}
	return p
}

// Renderer is [Render] for an execution that is still going on: what Add and End
// return, joined, is what Render returns for the whole. It is not safe for concurrent
// use.
type Renderer struct {
	call Call
	o    settings
	norm Normalizer
	filt filter
	body collector

	next     int64 // the logical offset that comes next
	gap      int64 // so many bytes before next are missing and not marked yet
	skip     int   // so many bytes may still be the rest of a rune that is missing
	exit     Exit
	hasExit  bool
	timedOut bool
	shown    int
	ended    bool

	at   mark   // the last line start in the head
	line []byte // the bytes after it
}

// mark is a place in the text and its offset in the output.
type mark struct {
	text int
	off  int64
}

// NewRenderer returns a Renderer of a command that is about to run.
func NewRenderer(c Call, o RenderOptions) *Renderer {
	s := o.settings()
	r := &Renderer{call: c, o: s, filt: filter{forms: s.forms}}
	if c.Script != "" && !strings.ContainsAny(c.Script, "\n\r\t\x1b") {
		r.filt.script = c.Script + ":"
	}
	r.body = collector{headMax: s.HeadBytes, headLines: s.MaxLines / 4, keep: s.MaxBytes + near + 4}
	return r
}

// Add takes the next part and returns the text that it settles, which may be empty.
// TimedOut of any part's Exit stays; else the last Exit counts. Bytes that were given
// before are ignored, and those that are missing are counted.
func (r *Renderer) Add(p Part) string {
	if r.ended {
		return ""
	}
	frames, gaps := p.Frames, p.Omitted
	for len(frames) > 0 || len(gaps) > 0 {
		if len(gaps) > 0 && (len(frames) == 0 || gaps[0].From <= frames[0].Off) {
			r.missing(gaps[0].To)
			gaps = gaps[1:]
			continue
		}
		f := frames[0]
		frames = frames[1:]
		if f.Off > r.next {
			r.missing(f.Off)
		}
		if known := r.next - f.Off; known < int64(len(f.Data)) {
			r.feed(f.Data[known:])
		}
	}
	if p.Exit != nil {
		r.exit, r.hasExit = *p.Exit, true
		r.timedOut = r.timedOut || p.Exit.TimedOut || p.Exit.Cause == TimedOut
	}
	if !r.o.NoticeLast {
		return ""
	}
	n := r.body.stable()
	text := string(r.body.head[r.shown:max(n, r.shown)])
	r.shown = max(n, r.shown)
	return text
}

// missing notes that the output goes on at the offset to.
func (r *Renderer) missing(to int64) {
	if to <= r.next {
		return
	}
	if r.gap == 0 {
		r.gap = int64(r.norm.abandon())
		r.settle()
		r.body.add(r.filt.flush())
	}
	r.gap += to - r.next
	r.next, r.skip = to, utf8.UTFMax-1
}

// mind drops from b the rest of a rune whose beginning is missing, which is missing
// too, and marks the gap before what is left.
func (r *Renderer) mind(b []byte) []byte {
	for len(b) > 0 && r.skip > 0 && !utf8.RuneStart(b[0]) {
		r.skip--
		r.gap++
		r.next++
		b = b[1:]
	}
	if len(b) > 0 {
		r.markGap()
	}
	return b
}

func (r *Renderer) markGap() {
	if r.gap > 0 {
		r.body.addGap(fill(r.o.p.Omitted, "n", count(r.gap)), r.gap)
		r.gap = 0
		r.mark()
	}
}

// feed takes bytes that follow those before.
func (r *Renderer) feed(b []byte) {
	if r.gap > 0 {
		b = r.mind(b)
	}
	for len(b) > 0 {
		if !r.body.open() {
			k := min(len(b), 64<<10)
			r.norm.write(b[:k])
			r.next += int64(k)
			r.settle()
			b = b[k:]
			continue
		}
		k := bytes.IndexByte(b, '\n') + 1
		if k == 0 {
			k = min(len(b), 64<<10)
		}
		r.norm.write(b[:k])
		r.line = append(r.line, b[:min(k, max(r.body.headMax-len(r.line), 0))]...)
		r.next += int64(k)
		r.settle()
		whole := b[k-1] == '\n' // where the pieces end must not matter
		b = b[k:]
		if whole && r.norm.clean() && len(r.filt.carry) == 0 && (r.body.empty() || r.body.last == '\n') {
			r.mark()
		}
	}
}

// settle passes on what the normalizer has settled.
func (r *Renderer) settle() { r.body.add(r.filt.add(r.norm.take())) }

// mark notes where the text and the output stand, at the start of a line.
func (r *Renderer) mark() {
	if r.body.tailStart == int64(len(r.body.head)) && len(r.body.tail) == 0 {
		r.at = mark{text: len(r.body.head), off: r.next}
		r.line = r.line[:0]
	}
}

// offsetOf returns the offset in the output of a place in the head, or one before it.
func (r *Renderer) offsetOf(text int) int64 {
	if d := text - r.at.text; d > 0 && d <= len(r.line) && bytes.Equal(r.line[:d], r.body.head[r.at.text:text]) {
		return r.at.off + int64(d)
	}
	return r.at.off
}
