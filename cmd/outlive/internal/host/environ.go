// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"slices"
	"strings"

	"github.com/outlive-dev/outlive/shell"
)

// CleanEnviron is what the backend passes to a command when it is given no environment:
// an allow-list, and what keeps tools from prompting and paging unless somebody is
// there to answer.
func CleanEnviron(environ []string, tty bool) []string {
	allowed := []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG",
		"HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY",
		"http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy",
	}
	var out []string
	for _, kv := range environ {
		if name, _, _ := strings.Cut(kv, "="); slices.Contains(allowed, name) || strings.HasPrefix(name, "LC_") {
			out = append(out, kv)
		}
	}
	if tty {
		return out
	}
	return append(out,
		"TERM=dumb", "NO_COLOR=1", "PAGER=cat", "GIT_PAGER=cat", "GH_PAGER=cat", "GIT_TERMINAL_PROMPT=0",
		"GCM_INTERACTIVE=0", "GH_PROMPT_DISABLED=1", "DEBIAN_FRONTEND=noninteractive", "SSH_ASKPASS_REQUIRE=never")
}

// Overlay returns environ with the K=V of list set.
func Overlay(environ, list []string) []string {
	out := make([]string, 0, len(environ)+len(list))
	set := map[string]bool{shell.Cookie: true} // the command gets its own
	for _, kv := range list {
		k, _, _ := strings.Cut(kv, "=")
		set[k] = true
	}
	for _, kv := range environ {
		if k, _, _ := strings.Cut(kv, "="); !set[k] {
			out = append(out, kv)
		}
	}
	return append(out, list...)
}
