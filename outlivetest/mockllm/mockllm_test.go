// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package mockllm_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/outlivetest/mockllm"
)

func serve(t *testing.T, script string) (*mockllm.Server, string) {
	t.Helper()
	s, err := mockllm.Parse(strings.NewReader(script))
	if err != nil {
		t.Fatal(err)
	}
	m := mockllm.New(s)
	h := httptest.NewServer(m)
	t.Cleanup(h.Close)
	return m, h.URL
}

// message is one of a conversation: "role: text".
func request(model string, stream bool, messages ...string) string {
	var list []any
	for _, m := range messages {
		role, text, _ := strings.Cut(m, ": ")
		list = append(list, map[string]any{"role": role, "content": text})
	}
	b, _ := json.Marshal(map[string]any{
		"model": model, "stream": stream, "messages": list, "stream_options": map[string]any{"include_usage": true},
		"tools": []any{map[string]any{"type": "function", "function": map[string]any{"name": "bash"}}},
	})
	return string(b)
}

func post(ctx context.Context, t *testing.T, url, body string) (int, http.Header, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, res.Header, string(b), err
}

// reply is what both forms of an answer hold.
type reply struct {
	Text   string
	Calls  []string
	Finish string
	Tokens int
}

type wire struct {
	Choices []struct {
		Message, Delta struct {
			Content   string `json:"content"`
			ToolCalls []struct {
				Index    int    `json:"index"`
				ID       string `json:"id"`
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		Finish string `json:"finish_reason"`
	}
	Usage struct {
		Total int `json:"total_tokens"`
	}
}

func whole(t *testing.T, body string) (r reply) {
	t.Helper()
	var w wire
	if err := json.Unmarshal([]byte(body), &w); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	c := w.Choices[0]
	r = reply{Text: c.Message.Content, Finish: c.Finish, Tokens: w.Usage.Total}
	for _, call := range c.Message.ToolCalls {
		r.Calls = append(r.Calls, call.ID+" "+call.Function.Name+" "+call.Function.Arguments)
	}
	return r
}

func joined(t *testing.T, body string) (r reply) {
	t.Helper()
	done := false
	for sc := bufio.NewScanner(strings.NewReader(body)); sc.Scan(); {
		data, ok := strings.CutPrefix(sc.Text(), "data: ")
		if !ok {
			continue
		}
		if done = data == "[DONE]"; done {
			continue
		}
		var w wire
		if err := json.Unmarshal([]byte(data), &w); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		r.Tokens += w.Usage.Total
		for _, c := range w.Choices {
			r.Text += c.Delta.Content
			r.Finish += c.Finish
			for _, call := range c.Delta.ToolCalls {
				if call.ID != "" {
					r.Calls = append(r.Calls, call.ID+" "+call.Function.Name+" ")
				}
				r.Calls[call.Index] += call.Function.Arguments
			}
		}
	}
	if !done {
		t.Errorf("the stream does not end with [DONE]: %s", body)
	}
	return r
}

const script = `{"models": {
	"coder": [
		{"tool_calls": [
			{"name": "bash", "arguments": {"command": "sleep 5", "timeout": 1}},
			{"id": "mine", "name": "bash", "arguments": "{not json"}]},
		{"expect": "Started", "tool_calls": [{"name": "task_output", "arguments": {"task_id": "{{last \"sh-[0-9a-z]+\"}}"}}]},
		{"text": "It said: {{last \"hello .*\"}} — über alles", "chunk": 3}
	],
	"*": [{"text": "anybody"}]
}}`

func TestAnswers(t *testing.T) {
	t.Parallel()
	m, url := serve(t, script)
	talk := []string{"user: go", "assistant: ", "tool: Started sh-0123abcd, then sh-9999zzzz.", "assistant: ", "tool: hello world"}
	for n, want := range []reply{
		{Calls: []string{`call_0_0 bash {"command":"sleep 5","timeout":1}`, `mine bash {not json`}, Finish: "tool_calls", Tokens: 12},
		{Calls: []string{`call_1_0 task_output {"task_id":"sh-9999zzzz"}`}, Finish: "tool_calls", Tokens: 17},
		{Text: "It said: hello world — über alles", Finish: "stop", Tokens: 22},
	} {
		for _, stream := range []bool{false, true} {
			status, _, body, err := post(t.Context(), t, url, request("coder", stream, talk[:2*n+1]...))
			if err != nil || status != http.StatusOK {
				t.Fatalf("step %d: %d, %v, %s", n, status, err, body)
			}
			got := whole
			if stream {
				got = joined
			}
			if diff := cmp.Diff(want, got(t, body)); diff != "" {
				t.Errorf("step %d, stream %v (-want +got):\n%s", n, stream, diff)
			}
		}
	}
	if diff := cmp.Diff(map[int]int{0: 2, 1: 2, 2: 2}, m.Answered("coder")); diff != "" {
		t.Errorf("answered:\n%s", diff)
	}
	if _, _, body, _ := post(t.Context(), t, url, request("other", false, "user: x")); whole(t, body).Text != "anybody" {
		t.Errorf("another model: %s", body)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	m, url := serve(t, script)
	for _, tt := range []struct{ body, want string }{
		{request("coder", false, "user: go", "assistant: ", "tool: no"), `step 1 of \"coder\" expects \"Started\"`},
		{request("coder", false, "assistant: ", "assistant: ", "assistant: "), "has 3 steps, and 3 answers were given"},
		{request("coder", true, "user: a", "assistant: ", "tool: Started nothing"), "no message matches"},
		{"{", "the body is no request"},
	} {
		status, _, body, err := post(t.Context(), t, url, tt.body)
		if err != nil || status != http.StatusBadRequest || !strings.Contains(body, tt.want) {
			t.Errorf("%s: %d, %v, %s; want %s", tt.body, status, err, body, tt.want)
		}
	}
	if n := len(m.Answered("coder")); n > 0 {
		t.Errorf("%d steps have answered", n)
	}
	res, err := http.Get(url + "/requests")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var first mockllm.Request
	if err := json.NewDecoder(res.Body).Decode(&first); err != nil {
		t.Fatal(err)
	}
	want := mockllm.Request{Model: "coder", Step: 1, Refused: first.Refused, Last: "no", Tools: []string{"bash"}}
	if diff := cmp.Diff(want, first); diff != "" || first.Refused == "" {
		t.Errorf("/requests:\n%s", diff)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, fault string
		stream      bool
		check       func(status int, h http.Header, body string, err error) bool
	}{
		{"too many", `{"kind": "status", "status": 429, "retry_after": "1500ms"}`, true, func(status int, h http.Header, body string, _ error) bool {
			return status == 429 && h.Get("Retry-After") == "2" && strings.Contains(body, "rate_limit_error")
		}},
		{"broken server", `{"kind": "status"}`, false, func(status int, _ http.Header, _ string, _ error) bool { return status == 500 }},
		{"cut stream", `{"kind": "cut", "after": 10}`, true, func(status int, _ http.Header, body string, err error) bool {
			return status == 200 && err != nil && strings.Contains(body, "01234567") && !strings.Contains(body, "[DONE]")
		}},
		{"cut at the end", `{"kind": "cut", "after": 1000}`, true, func(_ int, _ http.Header, body string, err error) bool {
			return err != nil && strings.Contains(body, "ghij") && !strings.Contains(body, "[DONE]")
		}},
		{"cut answer", `{"kind": "cut", "after": 10}`, false, func(_ int, _ http.Header, body string, err error) bool { return err != nil && len(body) == 10 }},
		{"malformed stream", `{"kind": "malformed"}`, true, func(_ int, _ http.Header, body string, err error) bool {
			return err == nil && strings.Contains(body, `"choices": [{`+"\n")
		}},
		{"malformed answer", `{"kind": "malformed"}`, false, func(_ int, _ http.Header, body string, err error) bool {
			return err == nil && !json.Valid([]byte(body))
		}},
		{"no answer", `{"kind": "hang"}`, false, func(_ int, _ http.Header, _ string, err error) bool { return err != nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m, url := serve(t, `{"models": {"*": [{"text": "0123456789abcdefghij", "fault": `+tt.fault+`}]}}`)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if strings.Contains(tt.fault, "hang") {
				time.AfterFunc(50*time.Millisecond, cancel)
			}
			status, h, body, err := post(ctx, t, url, request("m", tt.stream, "user: x"))
			if !tt.check(status, h, body, err) {
				t.Errorf("%d, %v, %q, %v", status, h, body, err)
			}
			status, _, body, err = post(t.Context(), t, url, request("m", false, "user: x")) // it happens once
			if err != nil || status != http.StatusOK || whole(t, body).Text != "0123456789abcdefghij" {
				t.Errorf("afterwards: %d, %v, %s", status, err, body)
			}
			if diff := cmp.Diff(map[int]int{0: 1}, m.Answered("m")); diff != "" {
				t.Errorf("answered:\n%s", diff)
			}
		})
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ script, want string }{
		{``, "line 1: EOF"},
		{"{\"models\": {\n\"a\": [\n{\"txt\": \"x\"}]}}", `line 3: unknown field "txt"`},
		{"{\n\n!}", "line 3: invalid character"},
		{`{}`, "no models"},
		{`{"models": {"a": []}} {}`, "more than one value"},
		{`{"models": {"a": [{"expect": "("}]}}`, `model "a", step 0: error parsing regexp`},
		{`{"models": {"a": [{}, {"tool_calls": [{}]}]}}`, `step 1: a tool call without a name`},
		{`{"models": {"a": [{"text": "{{last}}"}]}}`, `wrong number of args for last`},
		{`{"models": {"a": [{"text": "{{first \"x\"}}"}]}}`, `function "first" not defined`},
		{`{"models": {"a": [{"delay": "fast"}]}}`, `invalid duration`},
		{`{"models": {"a": [{"delay": "-1s"}]}}`, `negative duration`},
		{`{"models": {"a": [{"delay": 5}]}}`, `as in "1.5s"`},
		{`{"models": {"a": [{"fault": {"kind": "fire"}}]}}`, `fault kind "fire"`},
		{`{"models": {"a": [{"fault": {"kind": "status", "status": 200}}]}}`, `fault status 200`},
		{`{"models": {"a": [{"fault": {"kind": "cut", "times": -2}}]}}`, `negative number`},
		{`{"models": {"a": [{"chunk": -1}]}}`, `chunk -1`},
	} {
		if _, err := mockllm.Parse(strings.NewReader(tt.script)); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Parse(%s) = %v, want %s", tt.script, err, tt.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(script)
	f.Add(`{"models": {"*": [{"fault": {"kind": "cut"}, "text": "{{last \"a\"}}"}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := mockllm.Parse(strings.NewReader(text))
		if err != nil {
			return
		}
		for model := range s.Models {
			w := httptest.NewRecorder()
			mockllm.New(s).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/models", nil))
			if !json.Valid(w.Body.Bytes()) {
				t.Errorf("models of %q: %s", model, w.Body)
			}
		}
	})
}

func Example() {
	s, err := mockllm.Parse(strings.NewReader(`{"models": {"*": [{"text": "hello"}]}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	model := mockllm.New(s)
	h := httptest.NewServer(model)
	defer h.Close()
	res, err := http.Post(h.URL+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"model": "any", "messages": [{"role": "user", "content": "hi"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	var answer struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Choices[0].Message.Content, model.Answered("any"))
	// Output: hello map[0:1]
}
