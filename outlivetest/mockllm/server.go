// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package mockllm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Request is one request that was made.
type Request struct {
	Model  string `json:"model"`
	Step   int    `json:"step"`
	Stream bool   `json:"stream"`
	// Fault is what went wrong on purpose, or nothing.
	Fault string `json:"fault,omitempty"`
	// Refused says why the script has no answer, or nothing.
	Refused string `json:"refused,omitempty"`
	// Last is the beginning of the last message.
	Last string `json:"last,omitempty"`
	// Tools are the names of the tools that were offered.
	Tools []string `json:"tools,omitempty"`
}

// Server answers by a script. It is an http.Handler:
//
//	POST /v1/chat/completions  an answer, blocking or as a stream
//	GET  /v1/models            the script's models
//	GET  /requests             what was asked, a JSON object a line
//
// Concurrency: safe for concurrent use; mu guards what was counted.
type Server struct {
	script *Script
	mux    *http.ServeMux

	mu       sync.Mutex
	requests []Request
	faults   map[string]int // by model and step: how often
}

// New returns a server for a script that Parse has checked.
func New(s *Script) *Server {
	m := &Server{script: s, mux: http.NewServeMux(), faults: map[string]int{}}
	m.mux.HandleFunc("POST /v1/chat/completions", m.complete)
	m.mux.HandleFunc("GET /v1/models", m.models)
	m.mux.HandleFunc("GET /requests", m.asked)
	return m
}

// ServeHTTP implements http.Handler.
func (m *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.mux.ServeHTTP(w, r) }

// Requests returns the requests for completions so far.
func (m *Server) Requests() []Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

// Answered returns how often each step of a model has answered.
func (m *Server) Answered(model string) map[int]int {
	n := map[int]int{}
	for _, r := range m.Requests() {
		if r.Model == model && r.Fault == "" && r.Refused == "" {
			n[r.Step]++
		}
	}
	return n
}

func (m *Server) asked(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/jsonl")
	enc := json.NewEncoder(w)
	for _, r := range m.Requests() {
		_ = enc.Encode(r) // the client left
	}
}

func (m *Server) models(w http.ResponseWriter, _ *http.Request) {
	type model struct {
		ID     string `json:"id"`
		Object string `json:"object"`
	}
	list := []model{}
	for name := range m.script.Models {
		list = append(list, model{name, "model"})
	}
	slices.SortFunc(list, func(a, b model) int { return strings.Compare(a.ID, b.ID) })
	reply(w, http.StatusOK, map[string]any{"object": "list", "data": list})
}

// asking is what is read of a request.
type asking struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// texts are the texts of the messages; a content of parts is joined.
func (a *asking) texts() []string {
	list := make([]string, len(a.Messages))
	for n, msg := range a.Messages {
		if json.Unmarshal(msg.Content, &list[n]) == nil {
			continue
		}
		var parts []struct {
			Text string `json:"text"`
		}
		_ = json.Unmarshal(msg.Content, &parts)
		for _, p := range parts {
			list[n] += p.Text
		}
	}
	return list
}

// answer is a step whose templates are filled.
type answer struct {
	step  *Step
	n     int
	text  string
	calls []call
}

type call struct{ id, name, arguments string }

// find returns the step that answers a request.
func (m *Server) find(a *asking, texts []string) (ans answer, err error) {
	for _, msg := range a.Messages {
		if msg.Role == "assistant" {
			ans.n++
		}
	}
	steps, ok := m.script.Models[a.Model]
	if !ok {
		steps, ok = m.script.Models["*"]
	}
	if !ok {
		return ans, fmt.Errorf("the script has no model %q", a.Model)
	}
	if ans.n >= len(steps) {
		return ans, fmt.Errorf("the script of %q has %d steps, and %d answers were given", a.Model, len(steps), ans.n)
	}
	ans.step = &steps[ans.n]
	last := ""
	if len(texts) > 0 {
		last = texts[len(texts)-1]
	}
	if !ans.step.expect.MatchString(last) {
		return ans, fmt.Errorf("step %d of %q expects %q, and the last message is %q", ans.n, a.Model, ans.step.Expect, cut(last, 500))
	}
	if ans.text, err = fill(ans.step.Text, texts); err != nil {
		return ans, err
	}
	for k, c := range ans.step.ToolCalls {
		args, err := fill(c.arguments(), texts)
		if err != nil {
			return ans, err
		}
		if c.ID == "" {
			c.ID = fmt.Sprintf("call_%d_%d", ans.n, k)
		}
		ans.calls = append(ans.calls, call{c.ID, c.Name, args})
	}
	return ans, nil
}

// fails counts a request and says whether its fault happens now.
func (m *Server) fails(r Request, f *Fault) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := r.Model + "\x00" + strconv.Itoa(r.Step)
	times := 0
	if f != nil {
		times = f.Times
		if times == 0 {
			times = 1
		}
	}
	fails := times < 0 || m.faults[key] < times
	if fails {
		m.faults[key]++
		r.Fault = f.Kind
	}
	m.requests = append(m.requests, r)
	return fails
}

func (m *Server) complete(w http.ResponseWriter, r *http.Request) {
	var a asking
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<20)).Decode(&a); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request_error", "the body is no request: "+err.Error())
		return
	}
	texts := a.texts()
	note := Request{Model: a.Model, Stream: a.Stream}
	if len(texts) > 0 {
		note.Last = cut(texts[len(texts)-1], 200)
	}
	for _, t := range a.Tools {
		note.Tools = append(note.Tools, t.Function.Name)
	}
	ans, err := m.find(&a, texts)
	note.Step = ans.n
	if err != nil {
		note.Refused = err.Error()
		m.fails(note, nil)
		refuse(w, http.StatusBadRequest, "invalid_request_error", err.Error())
		return
	}
	fails := m.fails(note, ans.step.Fault)
	if !sleep(r, ans.step.Delay) {
		return
	}
	out := &writer{w: w, r: r, ans: ans, model: a.Model, usage: a.usage(texts, ans), includeUsage: a.StreamOptions.IncludeUsage, cut: -1}
	if fails && !out.fault(ans.step.Fault) {
		return
	}
	if a.Stream {
		out.stream()
	} else {
		out.whole()
	}
}

// usage counts four bytes as a token.
func (a *asking) usage(texts []string, ans answer) map[string]int {
	in, out := 0, len(ans.text)
	for _, t := range texts {
		in += len(t)
	}
	for _, c := range ans.calls {
		out += len(c.arguments)
	}
	in, out = (in+3)/4, (out+3)/4
	return map[string]int{"prompt_tokens": in, "completion_tokens": out, "total_tokens": in + out}
}

func sleep(r *http.Request, d Duration) bool {
	if d == 0 {
		return true
	}
	t := time.NewTimer(time.Duration(d))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client left
}

func refuse(w http.ResponseWriter, status int, kind, text string) {
	reply(w, status, map[string]any{"error": map[string]any{"message": text, "type": kind, "code": nil, "param": nil}})
}

// cut bounds a text at a character.
func cut(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}
