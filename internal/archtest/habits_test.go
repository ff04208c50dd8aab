// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var header = regexp.MustCompile(`^// Copyright 20\d\d The outlive authors\.\n// SPDX-License-Identifier: Apache-2\.0\n\n`)

// checkHeaders wants the two license lines at the top of each Go file.
func checkHeaders(t *tree) []string {
	var out []string
	for _, s := range t.sources() {
		if !header.Match(t.texts[s.path]) {
			out = append(out, s.path+":1: want the two-line license header of fault/fault.go and a blank line")
		}
	}
	return out
}

// mayGo are the packages that may start goroutines, each with its reason.
var mayGo = map[string]string{
	"internal/lifecycle": "it is what the others use instead",
	"store/storetest":    "a suite is test code that other packages call",
	"shell/shelltest":    "the same",
	"shell/local":        "copy loops of a command's pipes end with the command, and the supervisor is a process of its own",
}

// checkGo finds goroutines that have no name and no owner: go statements, and
// calls x.Go(f) of a WaitGroup or errgroup. Tests are free.
func checkGo(t *tree) []string {
	var out []string
	for _, s := range t.sources() {
		if _, ok := mayGo[s.dir]; ok || s.test {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				out = append(out, t.at(n.Pos(), "a bare go statement: use lifecycle.Group.Go"))
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Go" && len(n.Args) == 1 {
					out = append(out, t.at(n.Pos(), "a goroutine without a name: use lifecycle.Group.Go"))
				}
			}
			return true
		})
	}
	return out
}

// checkSleep finds time.Sleep in tests, except in a function literal given to
// synctest.Test, where it costs nothing and says what the test means.
func checkSleep(t *tree) []string {
	var out []string
	for _, s := range t.sources() {
		if !s.test {
			continue
		}
		var bubbles []*ast.CallExpr
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if c, ok := n.(*ast.CallExpr); ok && s.calls(c.Fun, "testing/synctest", "Test") {
				bubbles = append(bubbles, c)
			}
			return true
		})
		for _, pos := range s.uses("time", "Sleep") {
			if !slices.ContainsFunc(bubbles, func(c *ast.CallExpr) bool { return c.Pos() < pos && pos < c.End() }) {
				out = append(out, t.at(pos, "time.Sleep in a test: wait for what you mean, or use a synctest bubble"))
			}
		}
	}
	return out
}

// checkInit finds init functions.
func checkInit(t *tree) []string {
	var out []string
	for _, s := range t.sources() {
		for _, d := range s.ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				out = append(out, t.at(f.Pos(), "an init function: pass what it sets up"))
			}
		}
	}
	return out
}

// checkOptions wants each exported field of an exported Options struct to say what
// its zero value means.
func checkOptions(t *tree) []string {
	var out []string
	for _, s := range t.sources() {
		if s.test {
			continue
		}
		for spec, st := range s.structs() {
			if !ast.IsExported(spec.Name.Name) || !strings.HasSuffix(spec.Name.Name, "Options") {
				continue
			}
			for _, f := range st.Fields.List {
				if len(f.Names) > 0 && !ast.IsExported(f.Names[0].Name) {
					continue
				}
				text := strings.Join(strings.Fields(f.Doc.Text()+f.Comment.Text()), " ")
				if !strings.Contains(text, "Defaults to") && !strings.Contains(text, "Required") {
					out = append(out, t.at(f.Pos(), `a field of %s whose comment lacks "Defaults to" or "Required"`, spec.Name.Name))
				}
			}
		}
	}
	return out
}

// mayBeGeneric are the packages of layers 0 to 6 that may export type parameters,
// each with its reason.
var mayBeGeneric = map[string]string{
	"turnloop":         "its items are the caller's own type and never stored",
	"internal/rowjson": "a codec is made for one row type, by its driver",
}

// checkGenerics finds exported type parameters where payloads are bytes. Unexported
// helpers may have them.
func checkGenerics(t *tree) []string {
	var out []string
	for _, s := range t.sources() {
		l, _, ok := place(s.dir)
		if _, may := mayBeGeneric[s.dir]; may || !ok || s.test || l.n > 6 {
			continue
		}
		for _, d := range s.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Type.TypeParams != nil {
					out = append(out, t.at(d.Pos(), "%s is generic: layers 0 to 6 are not", d.Name.Name))
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if ts, ok := spec.(*ast.TypeSpec); ok && ts.Name.IsExported() && ts.TypeParams != nil {
						out = append(out, t.at(ts.Pos(), "%s is generic: layers 0 to 6 are not", ts.Name.Name))
					}
				}
			}
		}
	}
	return out
}

// machinePath matches absolute paths that exist on one machine only: homes and the
// places where checkouts live.
var machinePath = regexp.MustCompile(`(?:^|[\s"'` + "`" + `=(:,\[])(/(?:home|root|Users|work|workspace|builds)/[\w.~-]+|[A-Z]:\\Users\\)`)

// checkPaths finds machine paths in any text file.
func checkPaths(t *tree) []string {
	var out []string
	for name, text := range t.texts {
		n := 0
		for line := range bytes.Lines(text) {
			n++
			if m := machinePath.FindSubmatch(line); m != nil {
				out = append(out, fmt.Sprintf("%s:%d: %s is a path of one machine", name, n, m[1]))
			}
		}
	}
	slices.Sort(out)
	return out
}

var invariantID = regexp.MustCompile(`\bI-\d+\b`)

// checkInvariants wants each invariant that code cites to be defined, once.
func checkInvariants(t *tree) []string {
	const doc = "docs/invariants.md"
	defined := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^\*\*(I-\d+)\b`).FindAllSubmatch(t.texts[doc], -1) {
		defined[string(m[1])]++
	}
	var out []string
	for id, n := range defined {
		if n > 1 {
			out = append(out, fmt.Sprintf("%s: %s is defined %d times", doc, id, n))
		}
	}
	for _, s := range t.sources() {
		if s.dir == "internal/archtest" {
			continue
		}
		for _, g := range s.ast.Comments {
			for _, id := range invariantID.FindAllString(g.Text(), -1) {
				if defined[id] == 0 {
					out = append(out, t.at(g.Pos(), "%s is not defined in %s", id, doc))
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// uses returns where a file mentions name of an imported package.
func (s *source) uses(pkg, name string) []token.Pos {
	var out []token.Pos
	ast.Inspect(s.ast, func(n ast.Node) bool {
		if e, ok := n.(ast.Expr); ok && s.calls(e, pkg, name) {
			out = append(out, e.Pos())
		}
		return true
	})
	return out
}

// structs yields the struct types that a file declares.
func (s *source) structs() func(yield func(*ast.TypeSpec, *ast.StructType) bool) {
	return func(yield func(*ast.TypeSpec, *ast.StructType) bool) {
		for _, d := range s.ast.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range g.Specs {
				ts, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				if st, ok := ts.Type.(*ast.StructType); ok && !yield(ts, st) {
					return
				}
			}
		}
	}
}

func TestHeaders(t *testing.T)    { report(t, checkHeaders(repo(t))) }
func TestGo(t *testing.T)         { report(t, checkGo(repo(t))) }
func TestSleep(t *testing.T)      { report(t, checkSleep(repo(t))) }
func TestInit(t *testing.T)       { report(t, checkInit(repo(t))) }
func TestOptions(t *testing.T)    { report(t, checkOptions(repo(t))) }
func TestGenerics(t *testing.T)   { report(t, checkGenerics(repo(t))) }
func TestPaths(t *testing.T)      { report(t, checkPaths(repo(t))) }
func TestInvariants(t *testing.T) { report(t, checkInvariants(repo(t))) }
