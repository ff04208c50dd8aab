// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/printer"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// public reports whether users may import the package.
func public(t *tree, dir string) bool {
	l, _, ok := place(dir)
	if !ok || l.n > 10 || strings.HasPrefix(dir, "internal/") || strings.Contains(dir, "/internal") {
		return false
	}
	return slices.ContainsFunc(t.pkgs[dir], func(s *source) bool { return !s.test && s.ast.Name.Name != "main" })
}

// api lists what a package exports, one line each, in order, and the problems of
// signatures that mention a package nobody else can import.
type api struct {
	t        *tree
	s        *source
	lines    map[string]bool
	names    map[string]bool
	problems []string
}

// exported reads the API of one package.
func exported(t *tree, dir string) *api {
	a := &api{t: t, lines: map[string]bool{}, names: map[string]bool{}}
	for _, s := range t.pkgs[dir] {
		if s.test {
			continue
		}
		a.s = s
		for _, d := range s.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				a.function(d)
			case *ast.GenDecl:
				a.general(d)
			}
		}
	}
	return a
}

// exportedNames returns the names a package exports, methods and fields not counted.
func exportedNames(t *tree, dir string) []string {
	return slices.Sorted(maps.Keys(exported(t, dir).names))
}

func (a *api) text() string {
	return strings.Join(slices.Sorted(maps.Keys(a.lines)), "\n") + "\n"
}

func (a *api) function(d *ast.FuncDecl) {
	if !d.Name.IsExported() {
		return
	}
	sig := strings.TrimPrefix(a.print(d.Type), "func")
	if d.Recv == nil {
		a.names[d.Name.Name] = true
		a.add(d.Type, "func %s%s", d.Name.Name, sig)
		return
	}
	recv := d.Recv.List[0].Type
	if base := receiver(recv); ast.IsExported(base) {
		a.add(d.Type, "method (%s) %s%s", a.print(recv), d.Name.Name, sig)
	}
}

func (a *api) general(d *ast.GenDecl) {
	var typ ast.Expr // of the last const that had values: iota repeats them
	var values []ast.Expr
	for i, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() {
				a.names[spec.Name.Name] = true
				a.typ(spec)
			}
		case *ast.ValueSpec:
			if len(spec.Values) > 0 || d.Tok == token.VAR {
				typ, values = spec.Type, spec.Values
			}
			for j, name := range spec.Names {
				if name.IsExported() {
					a.names[name.Name] = true
					a.value(d.Tok, name.Name, typ, at(values, j), i)
				}
			}
		}
	}
}

// value adds a constant with its value, which is protocol, or a variable without.
// Without typ its type follows from an expression, which is not judged.
func (a *api) value(tok token.Token, name string, typ, value ast.Expr, iota int) {
	line := tok.String() + " " + name
	if typ != nil {
		line += " " + a.print(typ)
	}
	if tok == token.CONST && value != nil {
		line += " = " + a.print(value)
		if usesIota(value) {
			line += fmt.Sprintf(" (%d)", iota)
		}
	}
	if typ == nil {
		a.add(nil, "%s", line)
		return
	}
	a.add(typ, "%s", line)
}

func (a *api) typ(spec *ast.TypeSpec) {
	name := spec.Name.Name
	if spec.TypeParams != nil {
		var params []string
		for _, f := range spec.TypeParams.List {
			for _, n := range f.Names {
				params = append(params, n.Name+" "+a.print(f.Type))
			}
		}
		name += "[" + strings.Join(params, ", ") + "]"
	}
	if spec.Assign.IsValid() {
		a.add(spec.Type, "type %s = %s", name, a.print(spec.Type))
		return
	}
	switch typ := spec.Type.(type) {
	case *ast.StructType:
		a.add(nil, "type %s struct", name)
		for _, f := range typ.Fields.List {
			tag := ""
			if f.Tag != nil {
				tag = " " + f.Tag.Value
			}
			for _, n := range f.Names {
				if n.IsExported() {
					a.add(f.Type, "type %s struct, %s %s%s", name, n.Name, a.print(f.Type), tag)
				}
			}
			if len(f.Names) == 0 && ast.IsExported(receiver(f.Type)) {
				a.add(f.Type, "type %s struct, embedded %s%s", name, a.print(f.Type), tag)
			}
		}
	case *ast.InterfaceType:
		a.add(nil, "type %s interface", name)
		for _, f := range typ.Methods.List {
			switch {
			case len(f.Names) == 0:
				a.add(f.Type, "type %s interface, embedded %s", name, a.print(f.Type))
			case f.Names[0].IsExported():
				a.add(f.Type, "type %s interface, %s%s", name, f.Names[0].Name, strings.TrimPrefix(a.print(f.Type), "func"))
			default:
				a.add(nil, "type %s interface, sealed", name)
			}
		}
	default:
		a.add(spec.Type, "type %s %s", name, a.print(spec.Type))
	}
}

// add adds a line and looks for internal packages in the types it shows.
func (a *api) add(shown ast.Node, format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	a.lines[line] = true
	if shown == nil {
		return
	}
	imports := a.s.imports()
	ast.Inspect(shown, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if id, ok := sel.X.(*ast.Ident); ok && strings.Contains("/"+imports[id.Name]+"/", "/internal/") {
			a.problems = append(a.problems, a.t.at(sel.Pos(), "%s mentions %s.%s of an internal package", line, id.Name, sel.Sel.Name))
		}
		return true
	})
}

// print renders a node on one line, without comments.
func (a *api) print(n ast.Node) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, token.NewFileSet(), n); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func at(list []ast.Expr, i int) ast.Expr {
	if i < len(list) {
		return list[i]
	}
	return nil
}

func usesIota(e ast.Expr) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == "iota"
		return true
	})
	return found
}

// receiver returns the name of a receiver's or embedded field's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// checkInternal judges the signatures of every public package.
func checkInternal(t *tree) []string {
	var out []string
	for _, dir := range t.dirs() {
		if public(t, dir) {
			out = append(out, exported(t, dir).problems...)
		}
	}
	return out
}

// golden is the name of a package's golden file.
func golden(dir string) string {
	if dir == "." {
		dir = "outlive"
	}
	return strings.ReplaceAll(dir, "/", "_") + ".txt"
}

// checkAPI compares each public package's API with the golden files, given by name.
func checkAPI(t *tree, goldens map[string]string) []string {
	var out []string
	seen := map[string]bool{}
	for _, dir := range t.dirs() {
		if !public(t, dir) {
			continue
		}
		name := golden(dir)
		seen[name] = true
		want, got := strings.Split(goldens[name], "\n"), strings.Split(exported(t, dir).text(), "\n")
		if diff := cmp.Diff(want, got); diff != "" {
			out = append(out, fmt.Sprintf("the exported API of %s has changed (-golden +code):\n%s\nIf it should: go test ./internal/archtest -update", dir, diff))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(goldens)) {
		if !seen[name] {
			out = append(out, name+": a golden file of no package: go test ./internal/archtest -update")
		}
	}
	return out
}

func TestInternalInSignatures(t *testing.T) { report(t, checkInternal(repo(t))) }

func TestAPI(t *testing.T) {
	const dir = "testdata/api"
	if *update {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, pkg := range repo(t).dirs() {
			if public(repo(t), pkg) {
				if err := os.WriteFile(filepath.Join(dir, golden(pkg)), []byte(exported(repo(t), pkg).text()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	goldens := map[string]string{}
	files, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		goldens[f.Name()] = string(b)
	}
	report(t, checkAPI(repo(t), goldens))
}
