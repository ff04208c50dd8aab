// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import "testing"

func TestUnitOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0::/system.slice/web.service\n":                                                          "web.service",
		"0::/user.slice/user-1000.slice/session-3.scope\n":                                        "",
		"0::/user.slice/user-1000.slice/user@1000.service/app.slice/ci.service\n":                 "ci.service",
		"0::/user.slice/user-1000.slice/user@1000.service/init.scope\n":                           "",
		"0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-u7.scope\n":               "",
		"12:pids:/system.slice/web.service\n1:name=systemd:/system.slice/web.service\n0::/init\n": "web.service",
		"0::/\n": "",
	} {
		if got := unitOf(text); got != want {
			t.Errorf("unitOf(%q) = %q, want %q", text, got, want)
		}
	}
}
