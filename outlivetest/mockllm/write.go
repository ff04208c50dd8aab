// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package mockllm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// writer puts one answer on the wire.
type writer struct {
	w            http.ResponseWriter
	r            *http.Request
	ans          answer
	model        string
	usage        map[string]int
	includeUsage bool

	malformed bool
	cut       int // characters until the connection is cut, or -1
	began     bool
}

// fault lets it happen; false means that there is no answer.
func (o *writer) fault(f *Fault) bool {
	switch f.Kind {
	case FaultStatus:
		status := f.Status
		if status == 0 {
			status = http.StatusInternalServerError
		}
		if f.RetryAfter > 0 {
			o.w.Header().Set("Retry-After", strconv.Itoa(int((time.Duration(f.RetryAfter) + time.Second - 1).Seconds())))
		}
		kind := "server_error"
		switch status {
		case http.StatusTooManyRequests:
			kind = "rate_limit_error"
		case http.StatusUnauthorized:
			kind = "authentication_error"
		}
		refuse(o.w, status, kind, "the script says so")
		return false
	case FaultHang:
		<-o.r.Context().Done()
		return false
	case FaultMalformed:
		o.malformed = true
	case FaultCut:
		o.cut = f.After
	}
	return true
}

// abort cuts the connection.
func (o *writer) abort() {
	if f, ok := o.w.(http.Flusher); ok {
		f.Flush()
	}
	panic(http.ErrAbortHandler)
}

func (o *writer) id() string { return fmt.Sprintf("chatcmpl-%s-%d", o.model, o.ans.n) }

func (o *writer) finish() string {
	if len(o.ans.calls) > 0 {
		return "tool_calls"
	}
	return "stop"
}

// whole writes the answer as one object.
func (o *writer) whole() {
	msg := map[string]any{"role": "assistant", "content": o.ans.text}
	var calls []any
	for _, c := range o.ans.calls {
		calls = append(calls, map[string]any{
			"id": c.id, "type": "function", "function": map[string]any{"name": c.name, "arguments": c.arguments},
		})
	}
	if calls != nil {
		msg["tool_calls"] = calls
	}
	body, err := json.Marshal(map[string]any{
		"id": o.id(), "object": "chat.completion", "created": 0, "model": o.model,
		"choices": []any{map[string]any{"index": 0, "message": msg, "finish_reason": o.finish()}}, "usage": o.usage,
	})
	if err != nil {
		panic(err) // strings and numbers
	}
	o.w.Header().Set("Content-Type", "application/json")
	switch {
	case o.malformed:
		body = body[:len(body)/2]
	case o.cut >= 0:
		o.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = o.w.Write(body[:min(o.cut, len(body)-1)])
		o.abort()
	}
	_, _ = o.w.Write(body) // the client left
}

// stream writes the answer in chunks.
func (o *writer) stream() {
	o.w.Header().Set("Content-Type", "text/event-stream")
	o.w.Header().Set("Cache-Control", "no-store")
	ok := o.delta(map[string]any{"role": "assistant", "content": ""}, nil)
	if o.malformed {
		o.event([]byte(`{"id": "broken", "choices": [{`))
		return
	}
	for _, piece := range o.pieces(o.ans.text) {
		ok = ok && o.delta(map[string]any{"content": piece}, nil)
	}
	for n, c := range o.ans.calls {
		function := map[string]any{"name": c.name, "arguments": ""}
		ok = ok && o.delta(map[string]any{"tool_calls": []any{map[string]any{"index": n, "id": c.id, "type": "function", "function": function}}}, nil)
		for _, piece := range o.pieces(c.arguments) {
			function := map[string]any{"arguments": piece}
			ok = ok && o.delta(map[string]any{"tool_calls": []any{map[string]any{"index": n, "function": function}}}, nil)
		}
	}
	if o.cut >= 0 {
		o.abort() // at the end, at the latest
	}
	if ok && o.delta(map[string]any{}, o.finish()) {
		if o.includeUsage {
			o.chunk([]any{}, o.usage)
		}
		o.event([]byte("[DONE]"))
	}
}

// pieces cuts a text into chunks, and where the connection is to be cut.
func (o *writer) pieces(text string) (list []string) {
	size := o.ans.step.Chunk
	if size == 0 {
		size = 8
	}
	for r := []rune(text); len(r) > 0; {
		n := min(size, len(r))
		list = append(list, string(r[:n]))
		r = r[n:]
	}
	return list
}

// delta writes one change, and reports whether the client is still there.
func (o *writer) delta(d map[string]any, finish any) bool {
	if o.began && !sleep(o.r, o.ans.step.ChunkDelay) {
		return false
	}
	o.began = true
	if o.cut >= 0 {
		if o.cut -= length(d); o.cut < 0 {
			o.abort()
		}
	}
	return o.chunk([]any{map[string]any{"index": 0, "delta": d, "finish_reason": finish}}, nil)
}

// length is how many characters of the answer a change holds.
func length(d map[string]any) int {
	text, _ := d["content"].(string)
	return len([]rune(text))
}

func (o *writer) chunk(choices []any, usage map[string]int) bool {
	v := map[string]any{"id": o.id(), "object": "chat.completion.chunk", "created": 0, "model": o.model, "choices": choices}
	if usage != nil {
		v["usage"] = usage
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and numbers
	}
	return o.event(b)
}

func (o *writer) event(b []byte) bool {
	_, err := fmt.Fprintf(o.w, "data: %s\n\n", b)
	if f, ok := o.w.(http.Flusher); ok {
		f.Flush()
	}
	return err == nil && o.r.Context().Err() == nil
}
