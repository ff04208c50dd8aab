// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package tool_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool"
)

type args struct {
	Command string          `json:"command"`
	Timeout *float64        `json:"timeout,omitempty"`
	Limit   int64           `json:"limit,omitempty"`
	Flag    bool            `json:"run_in_background,omitempty"`
	List    []string        `json:"list,omitempty"`
	Object  struct{}        `json:"object,omitzero"`
	Raw     json.RawMessage `json:"raw,omitempty"`
	Small   uint8           `json:"small,omitempty"`
	Skipped string          `json:"-"`
}

// Given arguments that are wrong in any way, all that is wrong is named in words that a
// model can act on, and nothing is guessed.
func TestDecode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ args, want string }{
		{`{"command": "x"}`, ""},
		{`{"command": "x", "timeout": null, "list": null}`, ""},
		{`{"command": "x", "limit": 9007199254740993}`, ""},
		{`{"command": "x", "timeoutMs": 5}`, `there is no argument "timeoutMs", the nearest is "timeout"`},
		{`{"command": "x", "Timeout": 5}`, `there is no argument "Timeout", the nearest is "timeout"`},
		{`{"comand": "x"}`, `there is no argument "comand", the nearest is "command"; command is missing`},
		{`{"command": "x", "runInBackground": true}`, `there is no argument "runInBackground", the nearest is "run_in_background"`},
		{`{"command": "x", "description": "y"}`, `there is no argument "description"`},
		{`{"command": "x", "command": "y"}`, `command is given twice`},
		{
			`{"command": 5, "timeout": "60", "limit": 1.5, "run_in_background": "yes", "list": "a", "object": [], "small": 300}`,
			`command: want a string, got 5; timeout: want a number, got the string "60"; limit: want a whole number, got 1.5; ` +
				`run_in_background: want true or false, got the string "yes"; list: want a list, got the string "a"; ` +
				`object: want an object, got a list; small: want a whole number, not negative, got 300`,
		},
		{``, "command is missing"},
		{`null`, "command is missing"},
		{`{}`, "command is missing"},
		{`{"command": null}`, "command is missing"},
		{`[1]`, "want an object, got a list; command is missing"},
		{`"x"`, `want an object, got the string "x"; command is missing`},
		{`{"command": "x"`, "not valid JSON: it ends too early"},
		{`{"command": x}`, "not valid JSON: invalid character 'x' looking for beginning of value; command is missing"},
		{`{"command": "x"} {}`, "something follows the object"},
		{`{"command": "x"}]`, "something follows the object"},
	} {
		var a args
		err := tool.Decode(json.RawMessage(tt.args), &a)
		got := ""
		if err != nil {
			got = err.Error()
			if !fault.Is(err, fault.Invalid) || fault.Hint(err) == "" {
				t.Errorf("Decode(%s): kind %v, hint %q", tt.args, fault.KindOf(err), fault.Hint(err))
			}
			tt.want = "arguments: " + tt.want
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("Decode(%s) (-want +got):\n%s", tt.args, diff)
		}
	}
	var a args
	if err := tool.Decode(json.RawMessage(`{"command": "x", "limit": 9007199254740993, "raw": 12345678901234567890.5}`), &a); err != nil ||
		a.Limit != 9007199254740993 || string(a.Raw) != "12345678901234567890.5" {
		t.Errorf("big numbers became %d, %s, %v", a.Limit, a.Raw, err)
	}
}

// FuzzDecode wants an answer for whatever a model sends: what is accepted is an object
// of known names.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"command": "x"}`, `{`, `[]`, `{"a":1,"a":2}`, "\xff", `{"command":"x","timeout":1e999}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var a args
		if err := tool.Decode(b, &a); err != nil {
			return
		}
		var m map[string]json.RawMessage
		if err := json.Unmarshal(b, &m); err != nil {
			t.Errorf("Decode(%q) accepts what is no object: %v", b, err)
		}
		if _, ok := m["command"]; !ok {
			t.Errorf("Decode(%q) accepts it without command", b)
		}
	})
}

// Given callers in tasks and sessions, each owns what is below its task or part of its
// session, if it is the same principal's.
func TestCallerOwns(t *testing.T) {
	t.Parallel()
	rec := task.Record{ID: "c", Parent: "p", Root: "r", RootSession: "s", Principal: "ann", Tenant: "t"}
	for _, tt := range []struct {
		c    tool.Caller
		want bool
	}{
		{tool.Caller{Principal: "ann", Tenant: "t"}, true},
		{tool.Caller{Principal: "ann", Tenant: "t", Parent: "p"}, true},
		{tool.Caller{Principal: "ann", Tenant: "t", Parent: "r"}, true},
		{tool.Caller{Principal: "ann", Tenant: "t", Parent: "x", Session: "s"}, true},
		{tool.Caller{Principal: "ann", Tenant: "t", Session: "s"}, true},
		{tool.Caller{Principal: "ann", Tenant: "t", Parent: "x"}, false},
		{tool.Caller{Principal: "ann", Tenant: "t", Parent: "c"}, false},
		{tool.Caller{Principal: "ann", Tenant: "t", Session: "x"}, false},
		{tool.Caller{Principal: "ann", Parent: "p"}, false},
		{tool.Caller{Principal: "bob", Tenant: "t", Parent: "p", Session: "s"}, false},
		{tool.Caller{}, false},
	} {
		if got := tt.c.Owns(&rec); got != tt.want {
			t.Errorf("%+v.Owns() = %v, want %v", tt.c, got, tt.want)
		}
	}
}
