// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"strings"
	"testing"

	"github.com/outlive-dev/outlive/internal/placement"
)

func TestService(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		mode         placement.Mode
		facts        placement.Facts
		status, text string
	}{
		{placement.Auto, placement.Facts{}, OK, "do not belong to a service"},
		{placement.Auto, placement.Facts{Service: "a.service", KillMode: "process"}, OK, "survive its restart"},
		{placement.Auto, placement.Facts{Service: "a.service", KillMode: "mixed"}, Warn, "its restart kills"},
		{placement.Auto, placement.Facts{Service: "a.service", KillMode: "mixed", Manager: true, Run: "x"}, OK, "a scope of their own"},
		{placement.Scope, placement.Facts{}, Fail, "systemd cannot be asked"},
	} {
		if c := service(tt.mode, tt.facts); c.Status != tt.status || !strings.Contains(c.Text, tt.text) {
			t.Errorf("%s, %+v: %+v, want %s and %q", tt.mode, tt.facts, c, tt.status, tt.text)
		}
	}
}
