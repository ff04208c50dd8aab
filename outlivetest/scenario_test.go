// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlivetest_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the scenarios and docs/races.md")

// block is one command of a scenario file with what it must print. A scenario reads
// as a story: comments, then blocks of a command, the lines it is given, "----", and
// the state it leaves, up to an empty line.
type block struct {
	comment string // lines before the command, as they are
	command string
	body    string
	want    string
	line    int
}

func parseBlocks(text string) (blocks []block, err error) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := 0; i < len(lines); {
		var b block
		for i < len(lines) && (lines[i] == "" || strings.HasPrefix(lines[i], "#")) {
			b.comment += lines[i] + "\n"
			i++
		}
		if i == len(lines) {
			return append(blocks, b), nil
		}
		b.command, b.line = lines[i], i+1
		for i++; ; i++ {
			if i == len(lines) {
				return nil, fmt.Errorf("line %d: a command without ----", b.line)
			}
			if lines[i] == "----" {
				i++
				break
			}
			b.body += lines[i] + "\n"
		}
		for ; i < len(lines) && lines[i] != ""; i++ {
			b.want += lines[i] + "\n"
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

func (b *block) String() string {
	if b.command == "" {
		return b.comment
	}
	return b.comment + b.command + "\n" + b.body + "----\n" + b.want
}

// TestScenarios plays every story of testdata/scenarios against whole runtimes with
// fake time. With -update it writes down what happens.
func TestScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			blocks, err := parseBlocks(string(text))
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				for i := range blocks {
					b := &blocks[i]
					if b.command == "" {
						continue
					}
					got := s.perform(b.command, b.body)
					if *update {
						b.want = got
					} else if diff := cmp.Diff(b.want, got); diff != "" {
						t.Errorf("%s:%d: %s (-want +got):\n%s", file, b.line, b.command, diff)
					}
				}
				s.end()
			})
			if !*update {
				return
			}
			var out strings.Builder
			for i := range blocks {
				out.WriteString(blocks[i].String())
			}
			if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}
