// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package bash_test

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/outlive-dev/outlive/shell/local"
	"github.com/outlive-dev/outlive/tool"
	"github.com/outlive-dev/outlive/tool/bash"
	"github.com/outlive-dev/outlive/tool/internal/bench"
)

func TestMain(m *testing.M) {
	local.Main(os.Args)
	os.Exit(m.Run())
}

// fake runs a test over scripted commands, in fake time.
func fake(t *testing.T, change func(*bash.Options), test func(t *testing.T, f *bench.Fake, b *bench.Bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &bench.Fake{}
		test(t, f, bench.Scripted(t, f, bench.Options{Bash: change}))
	})
}

// real makes a bench over commands that are processes.
func real(t *testing.T, change func(*bash.Options)) *bench.Bench {
	t.Helper()
	return bench.Real(t, bench.Options{Bash: change})
}

// want fails the test unless the text has all parts, and none that begins with "!".
func want(t *testing.T, r tool.Result, parts ...string) {
	t.Helper()
	for _, p := range parts {
		not := strings.HasPrefix(p, "!")
		if strings.Contains(r.Text, strings.TrimPrefix(p, "!")) == not {
			t.Errorf("text is %q, want %q", r.Text, p)
		}
	}
}
