// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"strings"
	"testing"

	"github.com/outlive-dev/outlive/fault"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	const (
		none   = ""
		system = "systemd-run --system --scope --quiet --collect --no-ask-password"
		user   = "systemd-run --user --scope --quiet --collect --no-ask-password"
	)
	reach := func(f Facts) Facts {
		f.Manager, f.Run = true, "systemd-run"
		return f
	}
	for _, tt := range []struct {
		name    string
		mode    Mode
		facts   Facts
		prefix  string
		must    bool
		warning string
	}{
		{"at a terminal", Auto, reach(Facts{}), none, false, ""},
		{"no systemd", Auto, Facts{}, none, false, ""},
		{"a service", Auto, reach(Facts{Service: "a.service", KillMode: "control-group"}), system, false, ""},
		{"a user's service", Auto, reach(Facts{Service: "a.service", KillMode: "mixed", User: true}), user, false, ""},
		{"a service that kills itself alone", Auto, reach(Facts{Service: "a.service", KillMode: "process"}), none, false, ""},
		{"a service that kills nothing", Auto, reach(Facts{Service: "a.service", KillMode: "none"}), none, false, ""},
		{"a service that nobody knows", Auto, reach(Facts{Service: "a.service"}), system, false, ""},
		{"a service, nobody to ask", Auto, Facts{Service: "a.service", KillMode: "control-group"}, none, false, "a.service has KillMode control-group: its restart kills"},
		{"a service, no program to ask with", Auto, Facts{Service: "a.service", Manager: true}, none, false, "a.service has KillMode unknown: its restart kills"},
		{"a session by choice", Session, reach(Facts{Service: "a.service", KillMode: "mixed"}), none, false, "a.service has KillMode mixed"},
		{"a session by choice, harmless", Session, reach(Facts{Service: "a.service", KillMode: "process"}), none, false, ""},
		{"a scope by choice", Scope, reach(Facts{User: true}), user, true, ""},
	} {
		d, err := Decide(tt.mode, tt.facts)
		if got := strings.Join(d.Prefix, " "); err != nil || got != tt.prefix || d.Must != tt.must {
			t.Errorf("%s: %+v, %v, want %q, must %v", tt.name, d, err, tt.prefix, tt.must)
		}
		if (d.Warning == "") != (tt.warning == "") || !strings.Contains(d.Warning, tt.warning) {
			t.Errorf("%s: warning %q, want %q", tt.name, d.Warning, tt.warning)
		}
	}
	if _, err := Decide(Scope, Facts{Service: "a.service"}); !fault.Is(err, fault.Unsupported) {
		t.Errorf("a scope that nobody can make: %v, want Unsupported", err)
	}
}

func TestParseMode(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]Mode{"": Auto, "auto": Auto, "session": Session, "scope": Scope} {
		if m, err := ParseMode(s); err != nil || m != want {
			t.Errorf("ParseMode(%q) = %q, %v", s, m, err)
		}
	}
	if _, err := ParseMode("cgroup"); !fault.Is(err, fault.Invalid) {
		t.Errorf("ParseMode = %v, want Invalid", err)
	}
}

func TestUnit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		unit string
		user bool
	}{
		"0::/system.slice/web.service\n":                                                          {"web.service", false},
		"0::/user.slice/user-1000.slice/session-3.scope\n":                                        {},
		"0::/user.slice/user-1000.slice/user@1000.service/app.slice/ci.service\n":                 {"ci.service", true},
		"0::/user.slice/user-1000.slice/user@1000.service/init.scope\n":                           {},
		"0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-u7.scope\n":               {},
		"12:pids:/system.slice/web.service\n1:name=systemd:/system.slice/web.service\n0::/init\n": {"web.service", false},
		"0::/\n": {},
	} {
		if unit, user := Unit(text); unit != want.unit || user != want.user {
			t.Errorf("Unit(%q) = %q, %v, want %+v", text, unit, user, want)
		}
	}
}
