// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package output reads what a task has put out: the bytes of a command from its spool,
// else the entries of the journal and the result.
package output

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool/command"
)

// Reader reads output. Commands may be nil: then the journal is all there is.
type Reader struct {
	Runtime  *outlive.Runtime
	Commands *command.Commands
}

// IsCommand reports whether the task is a command.
func IsCommand(r *task.Record) bool { return r.Executor == command.Key }

// Chunk returns a command's output from the offset on, as much as is there, at most so
// many bytes. What the spool no longer has comes from the journal.
func (o Reader) Chunk(ctx context.Context, r *task.Record, from int64, most int) (shell.Chunk, error) {
	if o.Commands != nil {
		ch, err := o.Commands.Read(ctx, r, from, most, 0)
		if err == nil || ctx.Err() != nil {
			return ch, err
		}
	}
	return o.journaled(ctx, r, from, most)
}

// journaled is Chunk from the journal: a part's id is its offset.
func (o Reader) journaled(ctx context.Context, r *task.Record, from int64, most int) (shell.Chunk, error) {
	ch := shell.Chunk{Next: from}
	whole := true
	for e, err := range o.Runtime.Events(ctx, r.ID, &outlive.EventsOptions{NoFollow: true}) {
		if err != nil {
			return ch, err
		}
		off, perr := strconv.ParseInt(e.Part, 10, 64)
		if !isOutput(e.Kind) || perr != nil || off+int64(len(e.Data)) <= ch.Next {
			continue
		}
		data := e.Data[max(ch.Next-off, 0):]
		off = max(off, ch.Next)
		if room := most - int(ch.Next-from); len(data) > room {
			data, whole = data[:room], false
		}
		if len(data) > 0 {
			ch.Frames = append(ch.Frames, shell.Frame{Off: off, Data: data})
			ch.Next = off + int64(len(data))
		}
		if !whole {
			return ch, nil
		}
	}
	if x, ok := command.ExitOf(r); ok && r.State.Terminal() {
		ch.End = true
		if x.TotalBytes > ch.Next {
			ch.Omitted = []shell.Range{{From: ch.Next, To: x.TotalBytes}}
			ch.Next = x.TotalBytes
		}
	}
	return ch, nil
}

// Tail returns the last bytes of what the task has put out so far, and how much there
// is in all. It is for showing: what cannot be read is left out.
func (o Reader) Tail(ctx context.Context, r *task.Record, most int) (data []byte, total int64) {
	if !IsCommand(r) {
		text, _, _, _ := o.Text(ctx, r, Position{}, 1<<20)
		return text[max(len(text)-most, 0):], int64(len(text))
	}
	if o.Commands != nil {
		if size, err := o.Commands.Size(ctx, r); err == nil {
			total = size
		}
	}
	ch, err := o.Chunk(ctx, r, max(total-int64(most), 0), most)
	if err != nil {
		return nil, total
	}
	data = ch.Bytes()
	return data[max(len(data)-most, 0):], max(total, ch.Next)
}

func isOutput(kind string) bool {
	return kind == journal.KindOutput || strings.HasPrefix(kind, journal.KindOutput+".")
}

// Position is a place in the output of a task that is no command: Off bytes into the
// first text after Cursor, or, with InResult, into the result.
type Position struct {
	Cursor   journal.Cursor
	Off      int64
	InResult bool
}

const inResult = "result"

// ParsePosition reads what String wrote.
func ParsePosition(s string) (p Position, err error) {
	if s == "" || s == "0" {
		return p, nil
	}
	at, off, ok := strings.Cut(s, "+")
	if ok {
		if p.Off, err = strconv.ParseInt(off, 10, 64); err != nil || p.Off < 0 {
			return Position{}, journal.ErrCursor
		}
	}
	if at == inResult && ok {
		p.InResult = true
		return p, nil
	}
	p.Cursor, err = journal.ParseCursor(at)
	return p, err
}

// String returns the position as a text that a model gives back.
func (p Position) String() string {
	switch {
	case p.InResult:
		return inResult + "+" + strconv.FormatInt(p.Off, 10)
	case p.Off > 0:
		return p.Cursor.String() + "+" + strconv.FormatInt(p.Off, 10)
	}
	return p.Cursor.String()
}

// Text returns the text that a task has put out after the position, at most so many
// bytes: its output entries in order and, at its end, its result. end means that
// nothing will follow.
func (o Reader) Text(ctx context.Context, r *task.Record, at Position, most int) (text []byte, next Position, end bool, err error) {
	if at.InResult {
		return o.rest(r, at, most)
	}
	next = at
	event := ""
	for e, err := range o.Runtime.Events(ctx, r.ID, &outlive.EventsOptions{After: at.Cursor, NoFollow: true}) {
		if err != nil {
			return text, next, false, err
		}
		var piece string
		switch {
		case isOutput(e.Kind):
			piece = textOf(task.Payload{Media: e.Media, Data: e.Data})
		case journal.Terminal(e.Kind) && r.State.Terminal():
			piece = ResultText(r)
		}
		piece = piece[min(next.Off, int64(len(piece))):]
		if len(piece) > 0 && len(text) > 0 && e.Event != event && text[len(text)-1] != '\n' {
			text = append(text, '\n')
		}
		event = e.Event
		if room := most - len(text); len(piece) > room {
			text = append(text, piece[:max(room, 0)]...)
			next.Off += int64(max(room, 0))
			return text, next, false, nil
		}
		text = append(text, piece...)
		if len(piece) > 0 || !isOutput(e.Kind) {
			next = Position{Cursor: e.Cursor()}
		}
		end = end || journal.Terminal(e.Kind)
	}
	return text, next, end || r.State.Terminal(), nil
}

// rest is Text inside of the result.
func (o Reader) rest(r *task.Record, at Position, most int) (text []byte, next Position, end bool, err error) {
	if !r.State.Terminal() {
		return nil, at, false, fault.Newf(fault.Invalid, "the task has no result yet: it is %s", r.State)
	}
	all := ResultText(r)
	piece := all[min(at.Off, int64(len(all))):]
	piece = piece[:min(len(piece), most)]
	at.Off += int64(len(piece))
	return []byte(piece), at, at.Off >= int64(len(all)), nil
}

// maxHops bounds the walk to an ancestor: no deeper nesting is admitted.
const maxHops = 16

// Told reports whether somebody will be told of the task's end, as far as can be seen
// now: an ancestor that reads input, or the conversation it belongs to.
func (o Reader) Told(ctx context.Context, r *task.Record) bool {
	if r.RootSession != "" {
		return true
	}
	for at, hops := r.Parent, 0; at != "" && hops < maxHops; hops++ {
		p, err := o.Runtime.Get(ctx, at)
		switch {
		case err != nil:
			return false
		case p.ReadsInput && !p.MailSealed && !p.State.Terminal():
			return true
		}
		at = p.Parent
	}
	return false
}

// Media types of what tools store: a [Result], and one update in the journal, JSON with
// an id and a text.
const (
	MediaResult = "application/vnd.outlive.tool-result+json"
	MediaUpdate = "application/vnd.outlive.tool-update+json"
)

// Result is what a tool's task stores as its result.
type Result struct {
	Text    string         `json:"text"`
	Media   []task.Payload `json:"media,omitempty"`
	IsError bool           `json:"is_error,omitempty"`
}

// ResultOf decodes a task's result; any payload becomes one.
func ResultOf(r *task.Record) Result {
	if r.Result == nil {
		return Result{}
	}
	var out Result
	if r.Result.Media == MediaResult && json.Unmarshal(r.Result.Data, &out) == nil {
		return out
	}
	return Result{Text: textOf(*r.Result)}
}

// ResultText returns a task's result as text.
func ResultText(r *task.Record) string {
	if IsCommand(r) {
		return ""
	}
	return ResultOf(r).Text
}

// textOf returns a payload as text, or says what it is.
func textOf(p task.Payload) string {
	media, _, _ := strings.Cut(p.Media, ";")
	var update struct {
		Text string `json:"text"`
	}
	switch {
	case len(p.Data) == 0:
		return ""
	case media == MediaUpdate && json.Unmarshal(p.Data, &update) == nil:
		return update.Text + "\n"
	case media == "" || media == "application/octet-stream" || media == "application/json" ||
		strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "+json"):
		return string(p.Data)
	}
	return fmt.Sprintf("(%d bytes of %s)\n", len(p.Data), media)
}
