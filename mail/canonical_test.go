// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package mail_test

import (
	"fmt"
	"math"
	"strconv"
	"testing"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/mail"
)

// The vectors of RFC 8785: section 3.2.2, 3.2.3 and appendix B.
func TestCanonical(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, want string }{
		{
			`{
  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}`,
			`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		},
		{
			`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",
			"\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`,
			"{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"\u00f6\":\"Latin Small Letter O With Diaeresis\",\"\u20ac\":\"Euro Sign\",\"\U0001f600\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}",
		},
		{` [ ] `, `[]`},
		{`{"b":{"d":1,"c":[{}]},"a":""}`, `{"a":"","b":{"c":[{}],"d":1}}`},
		{`"\b\t\f\r\u001f\u007f"`, "\"\\b\\t\\f\\r\\u001f\u007f\""},
		{`-0`, `0`},
		{`9007199254740992`, `9007199254740992`},
		{`1e21`, `1e+21`},
		{`100000000000000000000`, `100000000000000000000`},
	}
	for _, tt := range tests {
		got, err := mail.Canonical([]byte(tt.in))
		if err != nil || string(got) != tt.want {
			t.Errorf("Canonical(%s) = %s, %v, want %s", tt.in, got, err, tt.want)
		}
		again, err := mail.Canonical(got)
		if err != nil || string(again) != string(got) {
			t.Errorf("Canonical(%s) is not stable: %s, %v", got, again, err)
		}
	}
	for bits, want := range map[uint64]string{
		0x0000000000000001: "5e-324", 0x8000000000000001: "-5e-324", 0x7fefffffffffffff: "1.7976931348623157e+308",
		0xffefffffffffffff: "-1.7976931348623157e+308", 0x4340000000000000: "9007199254740992", 0xc340000000000000: "-9007199254740992",
		0x4430000000000000: "295147905179352830000", 0x44b52d02c7e14af5: "9.999999999999997e+22", 0x44b52d02c7e14af6: "1e+23",
		0x44b52d02c7e14af7: "1.0000000000000001e+23", 0x444b1ae4d6e2ef4e: "999999999999999700000", 0x444b1ae4d6e2ef4f: "999999999999999900000",
		0x444b1ae4d6e2ef50: "1e+21", 0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7", 0x3eb0c6f7a0b5ed8d: "0.000001",
		0x41b3de4355555553: "333333333.3333332", 0x41b3de4355555554: "333333333.33333325", 0x41b3de4355555555: "333333333.3333333",
		0x41b3de4355555556: "333333333.3333334", 0x41b3de4355555557: "333333333.33333343", 0xbecbf647612f3696: "-0.0000033333333333333333",
		0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		in := strconv.FormatFloat(math.Float64frombits(bits), 'e', -1, 64)
		if got, err := mail.Canonical([]byte(in)); err != nil || string(got) != want {
			t.Errorf("Canonical(%s) = %s, %v, want %s", in, got, err, want)
		}
	}
}

func TestCanonicalRefuses(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		``, `{`, `[1,]`, `1 2`, `{"a":1,"a":1}`, `{"a":1,"\u0061":2}`, `"\ud800"`, `"\udc00\ud800"`, "\"\xff\"", `9007199254740993`, `1e999`, `nul`, `{"a" 1}`,
		`[[` + fmt.Sprint(make([]struct{}, 0)),
	} {
		if got, err := mail.Canonical([]byte(in)); !fault.Is(err, fault.Invalid) {
			t.Errorf("Canonical(%q) = %q, %v, want Invalid", in, got, err)
		}
	}
	deep := make([]byte, 5000)
	for i := range deep {
		deep[i] = '['
	}
	if _, err := mail.Canonical(deep); !fault.Is(err, fault.Invalid) {
		t.Errorf("Canonical of deep nesting = %v, want Invalid", err)
	}
}

func FuzzCanonical(f *testing.F) {
	f.Add([]byte(`{"b":[1.5,"\u00e9",{"x":null}],"a":-1e-7}`))
	f.Add([]byte(`"\ud83d\ude00"`))
	f.Fuzz(func(t *testing.T, in []byte) {
		once, err := mail.Canonical(in)
		if err != nil {
			return
		}
		twice, err := mail.Canonical(once)
		if err != nil || string(once) != string(twice) {
			t.Errorf("Canonical(%q) = %q, then %q, %v", in, once, twice, err)
		}
	})
}

func ExampleArgsDigest() {
	a, _ := mail.ArgsDigest([]byte(`{"path": "/tmp/x", "mode": 1.0}`))
	b, _ := mail.ArgsDigest([]byte(`{"mode":1,"path":"\/tmp\/x"}`))
	c, _ := mail.ArgsDigest([]byte(`{"mode":1,"path":"/tmp/y"}`))
	fmt.Println(a == b, a == c)
	// Output: true false
}
