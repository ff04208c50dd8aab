// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package shelltest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCasesPage checks that the page of field cases names tests that exist, and each
// test that bears the number of a case.
func TestCasesPage(t *testing.T) {
	t.Parallel()
	const root = "../.."
	page, err := os.ReadFile(filepath.Join(root, "docs", "shell-cases.md"))
	if err != nil {
		t.Fatal(err)
	}
	numbered := regexp.MustCompile(`^B[0-9]+`)
	quoted := regexp.MustCompile("`([^`]+)`")
	named := map[string]string{} // test to the row that names it
	rows := map[string]bool{}
	for l := range strings.Lines(string(page)) {
		cells := strings.Split(l, "|")
		if len(cells) != 6 {
			continue
		}
		entry := strings.TrimSpace(cells[1])
		if !numbered.MatchString(entry) {
			continue
		}
		if rows[entry] {
			t.Errorf("%s is listed twice", entry)
		}
		rows[entry] = true
		tests := quoted.FindAllStringSubmatch(cells[4], -1)
		if len(tests) == 0 && !strings.Contains(l, "not apply") {
			t.Errorf("%s has no test and no reason", entry)
		}
		for _, m := range tests {
			named[m[1]] += entry + " "
			if pkg, test, ok := strings.Cut(m[1], ".Test"); ok {
				if !slices.Contains(testsOf(t, filepath.Join(root, pkg)), "Test"+test) {
					t.Errorf("%s: there is no test %s", entry, m[1])
				}
			} else if !slices.Contains(Names(), m[1]) {
				t.Errorf("%s: the suite has no test %q", entry, m[1])
			}
		}
	}
	check := func(name, test string) {
		if b := numbered.FindString(test); b != "" && !slices.Contains(strings.Fields(named[name]), b) {
			t.Errorf("%s is not named in the row of %s", name, b)
		}
	}
	for _, name := range Names() {
		check(name, name[strings.LastIndex(name, "/")+1:])
	}
	for _, pkg := range []string{"shell", "shell/local", "shell/remote", "shell/ssh"} {
		for _, name := range testsOf(t, filepath.Join(root, pkg)) {
			check(pkg+"."+name, strings.TrimPrefix(name, "Test"))
		}
	}
	if len(rows) < 70 {
		t.Errorf("%d rows", len(rows))
	}
}

// testsOf returns the names of the test functions of a package.
func testsOf(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)`).FindAllSubmatch(b, -1) {
			names = append(names, string(m[1]))
		}
	}
	return names
}
