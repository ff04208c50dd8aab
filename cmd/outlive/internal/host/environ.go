// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"strings"

	"github.com/outlive-dev/outlive/shell"
)

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
