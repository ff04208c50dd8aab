// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"bufio"
	"bytes"
	"fmt"
	"go/build"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// Limits of size, in lines and in exported names.
const (
	softFile    = 600
	hardFile    = 900
	softPackage = 2500 // without tests, as it builds for Linux
	hardPackage = 5000
	rootNames   = 60
)

// longFiles is where files over softFile and packages over softPackage ("dir/") are
// listed, each with its reason.
const longFiles = "internal/archtest/testdata/long_files.txt"

// checkSizes judges files and packages. Generated files count for nothing.
func checkSizes(t *tree) []string {
	var out []string
	allowed, bad := reasons(t.texts[longFiles])
	for _, line := range bad {
		out = append(out, fmt.Sprintf("%s: %q: want a path and a reason", longFiles, line))
	}
	sum := map[string]int{}
	for _, s := range t.sources() {
		if generated(t.texts[s.path]) {
			continue
		}
		n := t.lines(s.path)
		if !s.test && t.onLinux(s) {
			sum[s.dir] += n
		}
		_, listed := allowed[s.path]
		delete(allowed, s.path)
		switch {
		case n > hardFile:
			out = append(out, fmt.Sprintf("%s: %d lines, at most %d", s.path, n, hardFile))
		case n > softFile && !listed:
			out = append(out, fmt.Sprintf("%s: %d lines, over %d: split it, or list it in %s with a reason", s.path, n, softFile, longFiles))
		case n <= softFile && listed:
			out = append(out, fmt.Sprintf("%s: %s is not over %d lines any more: take it off the list", longFiles, s.path, softFile))
		}
	}
	for _, dir := range t.dirs() {
		n, key := sum[dir], dir+"/"
		_, listed := allowed[key]
		delete(allowed, key)
		switch {
		case n > hardPackage:
			out = append(out, fmt.Sprintf("%s: the package has %d lines without tests, at most %d", dir, n, hardPackage))
		case n > softPackage && !listed:
			out = append(out, fmt.Sprintf("%s: the package has %d lines without tests, over %d: split it, or list %s in %s with a reason",
				dir, n, softPackage, key, longFiles))
		case n <= softPackage && listed:
			out = append(out, fmt.Sprintf("%s: %s is not over %d lines any more: take it off the list", longFiles, key, softPackage))
		}
	}
	for _, gone := range slices.Sorted(maps.Keys(allowed)) {
		out = append(out, fmt.Sprintf("%s: %s does not exist: take it off the list", longFiles, gone))
	}
	if n := len(exportedNames(t, ".")); n > rootNames {
		out = append(out, fmt.Sprintf("the root package exports %d names, at most %d", n, rootNames))
	}
	return out
}

// onLinux reports whether the file is part of an ordinary build for Linux: a package
// is as long as what builds together, not as all its platforms and mutants.
func (t *tree) onLinux(s *source) bool {
	ctx := build.Default
	ctx.GOOS, ctx.GOARCH, ctx.BuildTags = "linux", "amd64", nil
	ctx.OpenFile = func(string) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(t.texts[s.path])), nil
	}
	match, err := ctx.MatchFile(s.dir, path.Base(s.path))
	return err != nil || match
}

// reasons parses lines of "path reason"; # starts a comment.
func reasons(text []byte) (m map[string]string, bad []string) {
	m = map[string]string{}
	sc := bufio.NewScanner(bytes.NewReader(text))
	for sc.Scan() {
		line := strings.TrimSpace(sc.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, reason, _ := strings.Cut(line, " ")
		if reason = strings.TrimSpace(reason); reason == "" {
			bad = append(bad, line)
			continue
		}
		m[name] = reason
	}
	return m, bad
}

// generated reports whether a Go file says that a tool wrote it.
func generated(text []byte) bool {
	head, _, _ := bytes.Cut(text, []byte("\npackage "))
	for line := range bytes.Lines(head) {
		if bytes.HasPrefix(line, []byte("// Code generated ")) && bytes.HasSuffix(bytes.TrimSpace(line), []byte("DO NOT EDIT.")) {
			return true
		}
	}
	return false
}

func TestSizes(t *testing.T) { report(t, checkSizes(repo(t))) }
