// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"fmt"
	"go/doc"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layer is one row of the table: packages that may import those of lower rows.
type layer struct {
	n     float64
	what  string
	pkgs  []string  // "a" is one package, "a/..." a family: a and all below, which may import each other
	never []float64 // lower rows that are forbidden all the same
}

// layers is the table. Packages of one row never import each other.
var layers = []layer{
	{n: 0, what: "error kinds, goroutines", pkgs: []string{"fault", "internal/lifecycle"}},
	{n: 1, what: "pure models", pkgs: []string{"mail", "journal"}},
	{n: 2, what: "pure models", pkgs: []string{"task"}},
	{n: 3, what: "pure models", pkgs: []string{"foreground", "session"}},
	{n: 4, what: "contracts", pkgs: []string{"store", "work", "shell", "turnloop"}},
	{n: 4.5, what: "one command applied, many commands committed; helpers of drivers, engines and tests", pkgs: []string{
		"internal/apply", "internal/batch", "internal/alive", "internal/rowjson", "internal/rawlog", "internal/placement", "internal/pgtest",
		"shell/internal/keep",
	}},
	{n: 5, what: "drivers, backends and their suites", pkgs: []string{
		"store/memory/...", "store/sqlite/...", "store/postgres/...", "store/storetest/...", "internal/faultstore",
		"shell/local/...", "shell/remote/...", "shell/shelltest/...",
	}},
	{n: 5.2, what: "a backend made of two others, docs/adr/0014-ssh-carries-the-http-backend.md", pkgs: []string{"shell/ssh/..."}},
	{n: 5.5, what: "wakes and feeds the readers of the journal, the engines among them", pkgs: []string{"internal/record/..."}, never: []float64{5, 5.2}},
	{n: 6, what: "engines", pkgs: []string{
		"internal/dispatch/...", "internal/deliver/...", "internal/host/...", "internal/project/...",
	}, never: []float64{5, 5.2}},
	{n: 7, what: "the Runtime", pkgs: []string{".", "stream/..."}, never: []float64{5, 5.2}},
	{n: 8, what: "tools, agents, the public test kit", pkgs: []string{"tool/...", "subagent/...", "outlivetest/..."}},
	{n: 8.5, what: "suites over the test kit", pkgs: []string{"tool/tooltest/...", "tool/internal/bench/..."}},
	{n: 9, what: "servers", pkgs: []string{"httpapi/...", "a2aserver/...", "mcpserver/...", "web/..."}, never: []float64{6}},
	{n: 10, what: "framework adapters", pkgs: []string{"adapter/eino/...", "adapter/googleadk/..."}, never: []float64{6}},
	{n: 11, what: "programs", pkgs: []string{"cmd/outlive/...", "examples/...", "bench/...", "internal/archtest"}},
}

// pureBelow is the first row that may import third-party modules; the public
// packages below it are pure.
const pureBelow = 4

// place finds the row and the family of a package.
func place(dir string) (l layer, family string, ok bool) {
	best := -1
	for _, row := range layers {
		for _, p := range row.pkgs {
			stem, tree := strings.CutSuffix(p, "/...")
			if dir == stem || tree && strings.HasPrefix(dir, stem+"/") {
				if len(stem) > best {
					best, l, family, ok = len(stem), row, p, true
				}
			}
		}
	}
	return l, family, ok
}

// checkLayers judges what packages import. Tests may import anything.
func checkLayers(t *tree) []string {
	var out []string
	for _, dir := range t.dirs() {
		from, family, ok := place(dir)
		if !ok {
			out = append(out, fmt.Sprintf("%s: a package without a layer: add it to the table in internal/archtest/layers_test.go, "+
				"then run go test ./internal/archtest -update", dir))
			continue
		}
		for _, s := range t.pkgs[dir] {
			if s.test {
				continue
			}
			for _, spec := range s.ast.Imports {
				p, _ := strconv.Unquote(spec.Path.Value)
				if why := judge(from, family, p); why != "" {
					out = append(out, t.at(spec.Pos(), "%s (layer %v) imports %s: %s", dir, from.n, p, why))
				}
			}
		}
	}
	return out
}

// judge says what is wrong with an import, or "".
func judge(from layer, family, importPath string) string {
	dir, ok := local(importPath)
	if !ok {
		first, _, _ := strings.Cut(importPath, "/")
		if from.n < pureBelow && strings.Contains(first, ".") {
			return fmt.Sprintf("layers below %d import no third-party module", pureBelow)
		}
		return ""
	}
	to, toFamily, ok := place(dir)
	switch {
	case !ok:
		return "it has no layer"
	case family == toFamily:
		return ""
	case to.n >= from.n:
		return fmt.Sprintf("it is on layer %v, only lower layers may be imported", to.n)
	case slices.Contains(from.never, to.n):
		return fmt.Sprintf("layer %v never imports layer %v", from.n, to.n)
	}
	return ""
}

// effects are the packages a pure package does not import: they do IO, or read a
// clock other than the one they are given.
var effects = []string{
	"os", "os/exec", "os/signal", "io/fs", "net", "net/http", "database/sql", "syscall", "log", "log/slog",
	"embed", "testing", "runtime", "sync", "math/rand", "math/rand/v2",
}

// clock are the names of package time that read or wait for a clock.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// checkPure judges the public packages below pureBelow: time and randomness come
// in as arguments, nothing goes out but the return values.
func checkPure(t *tree) []string {
	var out []string
	for _, s := range t.sources() {
		l, _, ok := place(s.dir)
		if !ok || s.test || l.n >= pureBelow || strings.HasPrefix(s.dir, "internal/") {
			continue
		}
		for _, spec := range s.ast.Imports {
			if p, _ := strconv.Unquote(spec.Path.Value); slices.Contains(effects, p) {
				out = append(out, t.at(spec.Pos(), "%s is pure and imports %s", s.dir, p))
			}
		}
		for _, name := range clock {
			for _, pos := range s.uses("time", name) {
				out = append(out, t.at(pos, "%s is pure and calls time.%s: take the time as an argument", s.dir, name))
			}
		}
	}
	return out
}

// layerTable renders the packages that exist for docs/architecture.md: the layer, and
// the first sentence of what the package says of itself.
func layerTable(t *tree) string {
	rows := map[float64][]string{}
	for _, dir := range t.dirs() {
		l, _, ok := place(dir)
		if !ok || strings.Contains(dir, "/internal/") {
			continue
		}
		name := "`" + dir + "`"
		if dir == "." {
			name = "`outlive`, the root"
		}
		rows[l.n] = append(rows[l.n], fmt.Sprintf("| %v | %s | %s |\n", l.n, name, t.synopsis(dir)))
	}
	var b strings.Builder
	b.WriteString("| layer | package | |\n| ---: | --- | --- |\n")
	for _, l := range layers {
		b.WriteString(strings.Join(rows[l.n], ""))
	}
	b.WriteString("\n")
	for _, l := range layers {
		for _, n := range l.never {
			if len(rows[l.n]) > 0 {
				fmt.Fprintf(&b, "Layer %v (%s) never imports layer %v.\n", l.n, l.what, n)
			}
		}
	}
	return b.String()
}

var (
	packageWords = regexp.MustCompile(`^(Package|Command) \w+ `)
	docLink      = regexp.MustCompile(`\[([\w.]+)\]`)
)

// synopsis returns the first sentence of a package's comment, without "Package x".
func (t *tree) synopsis(dir string) string {
	for _, s := range t.pkgs[dir] {
		if s.test || s.ast.Doc == nil {
			continue
		}
		text := new(doc.Package).Synopsis(s.ast.Doc.Text())
		text = packageWords.ReplaceAllString(text, "")
		text = docLink.ReplaceAllString(text, "$1")
		return strings.ReplaceAll(strings.TrimSuffix(text, "."), "|", "\\|")
	}
	return ""
}

func TestLayers(t *testing.T) { report(t, checkLayers(repo(t))) }

func TestPure(t *testing.T) { report(t, checkPure(repo(t))) }
