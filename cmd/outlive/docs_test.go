// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "rewrite the reference of the command line")

// docs/cli.md is made from the commands themselves.
func TestReference(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "docs", "cli.md")
	want := reference()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s is stale: go test ./cmd/outlive -run TestReference -update\n%s", path, diff)
	}
}

// Each command says what it is for, and each flag what it does.
func TestEveryCommandExplainsItself(t *testing.T) {
	t.Parallel()
	eachCommand(func(c *cobra.Command) {
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: Short = %q, want a line without a full stop", c.Name(), c.Short)
		}
		for line := range strings.Lines(c.Long + "\n" + c.Example) {
			if len(line) > 100 {
				t.Errorf("%s: a line of %d characters: %s", c.Name(), len(line), line)
			}
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s --%s says nothing", c.Name(), f.Name)
			}
		})
	})
}

func eachCommand(fn func(*cobra.Command)) {
	root := (&app{}).root()
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		fn(c)
		for _, sub := range c.Commands() {
			if c.Name() != "completion" { // the library's words
				visit(sub)
			}
		}
	}
	visit(root)
}

func reference() string {
	var b strings.Builder
	b.WriteString("# The command line\n\n" +
		"Made from the commands by `go test ./cmd/outlive -run TestReference -update`; `outlive COMMAND --help` prints the same.\n")
	eachCommand(func(c *cobra.Command) {
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n\n", c.CommandPath(), c.Short)
		if c.Long != "" && c.Long != c.Short {
			fmt.Fprintf(&b, "%s\n\n", c.Long)
		}
		fmt.Fprintf(&b, "```text\n%s\n```\n", c.UseLine())
		if c.Example != "" {
			fmt.Fprintf(&b, "\n```sh\n%s\n```\n", strings.ReplaceAll("\n"+c.Example, "\n  ", "\n")[1:])
		}
		flags := c.NonInheritedFlags()
		if !flags.HasAvailableFlags() {
			return
		}
		b.WriteString("\n| flag | does |\n| --- | --- |\n")
		flags.VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			name := "`--" + f.Name
			if f.Shorthand != "" {
				name = "`-" + f.Shorthand + "`, " + name
			}
			kind, usage := pflag.UnquoteUsage(f)
			if kind != "" {
				name += " " + kind
			}
			if d := f.DefValue; f.Value.Type() == "duration" && d != "0s" || strings.HasPrefix(f.Value.Type(), "int") && d != "0" && d != "-1" {
				usage += " (default " + d + ")"
			}
			fmt.Fprintf(&b, "| %s` | %s |\n", name, strings.ReplaceAll(usage, "|", "\\|"))
		})
	})
	b.WriteString(exitCodes)
	return b.String()
}

const exitCodes = `
## Exit codes

| code | means |
| --- | --- |
| 0 | done |
| 1 | error, also unavailable, unsupported, internal |
| 2 | usage, or a bad value; also an ambiguous id |
| 3 | not found, or not yours |
| 4 | conflict: exists, or already ended |
| 5 | the task failed without a code of its own, also lost |
| 6 | canceled |
| 75 | still running: detached, or ` + "`wait --timeout`" + ` ran out |
| 124 | the task's own time limit |
| 125 | an error of ` + "`run` or `wait`" + ` themselves, other than 2, 3 of ` + "`wait`" + ` and 4 of ` + "`run --name`" + ` |
| 126, 127 | the command is not executable, or not found; it did not run |
| 130, 143 | interrupted, terminated |
| other | the command's own, or 128+n for a signal: ` + "`run` and `wait`" + ` pass it through |

When a code is not the command's own, the last line on stderr starts with ` + "`outlive:`" + `. After a command's own code
outlive prints nothing.
`
