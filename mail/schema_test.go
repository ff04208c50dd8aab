// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package mail_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/mail"
)

func TestCheckValue(t *testing.T) {
	t.Parallel()
	const form = `{"type":"object","title":"t","required":["name","n"],"additionalProperties":false,"properties":{
		"name":{"type":"string","minLength":2,"maxLength":3},
		"n":{"type":"integer","minimum":1,"maximum":9007199254740993},
		"tags":{"type":"array","minItems":1,"maxItems":2,"items":{"enum":["a",1,{"x":[true]}]}},
		"note":{"type":["string","null"]},"k":{"const":1.0},"any":true,
		"free":{"type":"object","additionalProperties":{"type":"boolean"}}}}`
	tests := []struct{ schema, value, err string }{
		{form, `{"name":"añb","n":9007199254740993,"tags":["a",{"x":[true]}],"note":null,"k":1,"any":[],"free":{"z":true}}`, ""},
		{form, `[]`, "the top: is array, want object"},
		{form, `{"name":"ab"}`, "/n: is missing"},
		{form, `{"name":"a","n":1}`, "/name: has 1 characters, want at least 2"},
		{form, `{"name":"abcd","n":1}`, "/name: has 4 characters, want at most 3"},
		{form, `{"name":"ab","n":1.5}`, "/n: is number, want integer"},
		{form, `{"name":"ab","n":0}`, "/n: is below the minimum 1"},
		{form, `{"name":"ab","n":9007199254740994}`, "/n: is above the maximum"},
		{form, `{"name":"ab","n":2.0,"x":1}`, "/x: is not a member"},
		{form, `{"name":"ab","n":2,"tags":[]}`, "/tags: has 0 items, want at least 1"},
		{form, `{"name":"ab","n":2,"tags":["a","b"]}`, "/tags/1: is none of the values"},
		{form, `{"name":"ab","n":2,"tags":["a",1,1]}`, "/tags: has 3 items"},
		{form, `{"name":"ab","n":2,"note":3}`, "/note: is number, want string or null"},
		{form, `{"name":"ab","n":2,"k":2}`, "/k: is none"},
		{form, `{"name":"ab","n":2,"free":{"z":1}}`, "/free/z: is number, want boolean"},
		{`{"type":"string"}`, `"a" "b"`, "something follows"},
		{`{"type":"string"}`, `a`, "no JSON"},
		{`{"pattern":"x"}`, `"x"`, `the keyword "pattern" is not supported`},
		{`{"type":"text"}`, `"x"`, `schema at /type: "text" is no type`},
		{`{"properties":{"a":{"oneOf":[]}}}`, `{}`, `schema at /properties/a: the keyword "oneOf"`},
		{`{"minimum":"x"}`, `1`, "not a number"},
		{`{"enum":[]}`, `1`, "not a list"},
		{`7`, `1`, "not an object"},
	}
	for _, tt := range tests {
		err := mail.CheckValue(json.RawMessage(tt.schema), []byte(tt.value))
		switch {
		case tt.err == "" && err != nil:
			t.Errorf("CheckValue(%s) = %v", tt.value, err)
		case tt.err != "" && (!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("CheckValue(%s) = %v, want %q", tt.value, err, tt.err)
		}
	}
}

func TestTicketRules(t *testing.T) {
	t.Parallel()
	for _, bad := range []mail.Ticket{
		{},
		{Kind: mail.Question},
		{ID: "a", Kind: mail.Approval},
		{ID: "a", Kind: mail.Tasks},
		{ID: "a", Kind: "x"},
		{ID: "a", Kind: mail.Question, Schema: []byte(`{"not":{}}`)},
		{ID: "a", Kind: mail.Tasks, IDs: make([]string, mail.MaxIDs+1)},
	} {
		if err := bad.Validate(); !fault.Is(err, fault.Invalid) {
			t.Errorf("Validate(%+v) = %v, want Invalid", bad.ID, err)
		}
	}
	all := mail.Ticket{ID: "t", Kind: mail.Tasks, IDs: []string{"a", "b"}, Left: []string{"a", "b"}, All: true}
	one, changed := all.End("a", noon(0))
	if !changed || !one.Open() || len(all.Left) != 2 {
		t.Errorf("one of two: %+v, %v", one, changed)
	}
	if again, changed := one.End("a", noon(0)); changed || !again.Open() {
		t.Error("the same end counted twice")
	}
	if both, _ := one.End("b", noon(0)); both.Open() || both.Decision.Verdict != mail.Ended {
		t.Errorf("both: %+v", both)
	}
	a := mail.Ticket{ID: "a", Kind: mail.Approval, ArgsDigest: "d"}
	yes, _, _ := a.Decide(mail.Decision{Verdict: mail.Approved}, noon(0))
	if _, err := yes.Claim("other", 1, noon(0)); !fault.Is(err, fault.Forbidden) {
		t.Errorf("other arguments: %v", err)
	}
	used, err := yes.Claim("d", 1, noon(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := used.Claim("d", 1, noon(2)); err != nil {
		t.Errorf("again by the same attempt: %v", err)
	}
	if _, err := used.Claim("d", 2, noon(2)); !fault.Is(err, fault.UnknownOutcome) {
		t.Errorf("by the next attempt: %v", err)
	}
	if _, err := used.Claim("other", 2, noon(2)); !fault.Is(err, fault.UnknownOutcome) {
		t.Errorf("by the next attempt with other arguments: %v", err)
	}
	if _, err := used.Claim("other", 1, noon(2)); !fault.Is(err, fault.Forbidden) {
		t.Errorf("other arguments by the same attempt: %v", err)
	}
	used.Settled = true
	if _, err := used.Claim("d", 2, noon(2)); !fault.Is(err, fault.Conflict) {
		t.Errorf("after it has run: %v", err)
	}
}
