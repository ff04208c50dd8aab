// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"slices"
	"strings"
)

// CleanEnviron is what a command gets when it is given no environment: of environ the
// few variables that programs need and no secret is in, and what keeps tools from
// prompting and paging unless somebody is there at a terminal to answer.
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
