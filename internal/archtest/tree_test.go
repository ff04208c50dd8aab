// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/outlive-dev/outlive"

var update = flag.Bool("update", false, "rewrite the golden files")

// tree is everything a rule may look at. Packages are named by their directory
// below the repository, the root package by ".".
type tree struct {
	fset  *token.FileSet
	pkgs  map[string][]*source
	texts map[string][]byte // every text file by path, Go files too

	broken []string // Go files that do not parse
}

// source is one parsed Go file. Files below testdata are texts only.
type source struct {
	path string
	dir  string
	ast  *ast.File
	test bool
}

// load reads a repository. Hidden directories are skipped, except the scripts.
func load(fsys fs.FS) (*tree, error) {
	t := &tree{fset: token.NewFileSet(), pkgs: map[string][]*source{}, texts: map[string][]byte{}}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) { // removed while we walk
				return nil
			}
			return err
		}
		base := path.Base(name)
		if d.IsDir() {
			hidden := strings.HasPrefix(base, ".") && name != "." && base != ".ci" && base != ".github"
			if hidden || base == "vendor" || base == "node_modules" || base == "bin" {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		return t.add(fsys, name)
	})
	return t, err
}

func (t *tree) add(fsys fs.FS, name string) error {
	b, err := fs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) { // removed while we walk
		return nil
	}
	if err != nil {
		return err
	}
	if bytes.IndexByte(b, 0) >= 0 { // a built binary
		return nil
	}
	t.texts[name] = b
	if path.Ext(name) != ".go" || strings.Contains("/"+name, "/testdata/") {
		return nil
	}
	f, err := parser.ParseFile(t.fset, name, b, parser.ParseComments)
	if err != nil { // the compiler says it too; the other files are still judged
		t.broken = append(t.broken, err.Error())
		return nil
	}
	dir := path.Dir(name)
	t.pkgs[dir] = append(t.pkgs[dir], &source{path: name, dir: dir, ast: f, test: strings.HasSuffix(name, "_test.go")})
	return nil
}

// dirs returns the packages in order.
func (t *tree) dirs() []string {
	var out []string
	for dir := range t.pkgs {
		out = append(out, dir)
	}
	slices.Sort(out)
	return out
}

// sources returns every Go file in order.
func (t *tree) sources() []*source {
	var out []*source
	for _, dir := range t.dirs() {
		out = append(out, t.pkgs[dir]...)
	}
	return out
}

// lines counts the lines of a text.
func (t *tree) lines(name string) int { return bytes.Count(t.texts[name], []byte("\n")) }

// at renders a problem with the place it was found at.
func (t *tree) at(pos token.Pos, format string, args ...any) string {
	p := t.fset.Position(pos)
	return fmt.Sprintf("%s:%d: %s", p.Filename, p.Line, fmt.Sprintf(format, args...))
}

// imports returns the import path behind each name used in the file.
func (s *source) imports() map[string]string {
	out := map[string]string{}
	for _, spec := range s.ast.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := path.Base(p)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		out[name] = p
	}
	return out
}

// local returns the directory of an import path of this repository.
func local(importPath string) (dir string, ok bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// calls reports whether e is the selector pkg.name of an imported package.
func (s *source) calls(e ast.Expr, pkg, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && s.imports()[id.Name] == pkg
}

const root = "../.."

var repository = sync.OnceValues(func() (*tree, error) { return load(os.DirFS(root)) })

// repo returns the repository this test belongs to.
func repo(t *testing.T) *tree {
	t.Helper()
	r, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// report fails the test with each problem.
func report(t *testing.T, problems []string) {
	t.Helper()
	for _, p := range problems {
		t.Error(p)
	}
}

func TestParse(t *testing.T) { report(t, repo(t).broken) }
