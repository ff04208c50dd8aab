// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	mdLink    = regexp.MustCompile(`\]\(([^)\s#]+)(#[^)]*)?\)`)
	goFence   = regexp.MustCompile("(?ms)^```go[ \t]*\n(.*?)^```")
	fromAbove = regexp.MustCompile(`<!-- from: (\S+) -->\s*$`)
)

// checkLinks wants each relative link of a page to lead to a file.
func checkLinks(t *tree) []string {
	var out []string
	for _, name := range t.pages() {
		for _, m := range mdLink.FindAllSubmatch(t.texts[name], -1) {
			to := string(m[1])
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			if target := path.Join(path.Dir(name), to); !t.exists(target) {
				out = append(out, fmt.Sprintf("%s: the link to %s leads nowhere", name, to))
			}
		}
	}
	return out
}

// checkSnippets wants each Go snippet of a page to be code that compiles: a comment
// above it, <!-- from: FILE -->, names the test file that holds the same lines, at
// any indentation.
func checkSnippets(t *tree) []string {
	var out []string
	for _, name := range t.pages() {
		text := t.texts[name]
		for _, m := range goFence.FindAllSubmatchIndex(text, -1) {
			line := 1 + bytes.Count(text[:m[0]], []byte("\n"))
			from := fromAbove.FindSubmatch(text[:m[0]])
			if from == nil {
				out = append(out, fmt.Sprintf("%s:%d: a Go snippet without <!-- from: FILE --> above it", name, line))
				continue
			}
			file := string(from[1])
			if !strings.Contains(flatten(t.texts[file]), flatten(text[m[2]:m[3]])) {
				out = append(out, fmt.Sprintf("%s:%d: the snippet is not in %s", name, line, file))
			}
		}
	}
	return out
}

var runFlag = regexp.MustCompile(`go test [^` + "`" + `]*-run '([^']+)'`)

// checkClaims wants each test that a page names in a command to exist.
func checkClaims(t *tree) []string {
	tests := map[string]bool{}
	for _, s := range t.sources() {
		for _, d := range s.ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.test && f.Recv == nil {
				tests[f.Name.Name] = true
			}
		}
	}
	var out []string
	for _, name := range t.pages() {
		for _, m := range runFlag.FindAllSubmatch(t.texts[name], -1) {
			for test := range strings.SplitSeq(string(m[1]), "|") {
				if !tests[test] {
					out = append(out, fmt.Sprintf("%s: there is no test %s", name, test))
				}
			}
		}
	}
	return out
}

// flatten drops indentation, blank lines, and output comments.
func flatten(text []byte) string {
	var b strings.Builder
	b.WriteByte('\n')
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

const (
	architecture = "docs/architecture.md"
	tableBegin   = "<!-- layers: written by go test ./internal/archtest -update -->\n"
	tableEnd     = "<!-- layers end -->\n"
)

// checkTable wants the layer table of the architecture page to be the one in force.
func checkTable(t *tree) []string {
	text := string(t.texts[architecture])
	want, ok := withTable(t, text)
	switch {
	case !ok:
		return []string{architecture + ": the marks of the layer table are missing"}
	case text != want:
		return []string{architecture + ": the layer table is stale: go test ./internal/archtest -update"}
	}
	return nil
}

// withTable returns the page with the present table between its marks.
func withTable(t *tree, text string) (string, bool) {
	before, rest, ok := strings.Cut(text, tableBegin)
	_, after, ok2 := strings.Cut(rest, tableEnd)
	return before + tableBegin + layerTable(t) + tableEnd + after, ok && ok2
}

// pages returns the Markdown files in order.
func (t *tree) pages() []string {
	var out []string
	for name := range t.texts {
		if path.Ext(name) == ".md" && !strings.Contains(name, "testdata/") {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// exists reports whether a file, or a directory with a file, is there.
func (t *tree) exists(name string) bool {
	if _, ok := t.texts[name]; ok {
		return true
	}
	for f := range t.texts {
		if strings.HasPrefix(f, name+"/") {
			return true
		}
	}
	return false
}

func TestLinks(t *testing.T) { report(t, checkLinks(repo(t))) }

func TestSnippets(t *testing.T) { report(t, checkSnippets(repo(t))) }

func TestClaims(t *testing.T) { report(t, checkClaims(repo(t))) }

func TestLayerTable(t *testing.T) {
	if *update {
		text := string(repo(t).texts[architecture])
		if fresh, ok := withTable(repo(t), text); ok && fresh != text {
			if err := os.WriteFile(filepath.Join(root, architecture), []byte(fresh), 0o644); err != nil {
				t.Fatal(err)
			}
			repo(t).texts[architecture] = []byte(fresh)
		}
	}
	report(t, checkTable(repo(t)))
}
