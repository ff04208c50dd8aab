// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package bash

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/outlive-dev/outlive/fault"
)

// dir decides where a command runs. A directory that is not there, because another
// command has removed it, must not make every later call fail: the command runs in the
// root, and the model is told.
func (b *bash) dir(cwd string, p *plan) error {
	root := b.o.Dir
	p.Dir = root
	if cwd == "" {
		return nil
	}
	if strings.IndexByte(cwd, 0) >= 0 {
		return fault.New(fault.Invalid, "arguments: NUL byte in cwd")
	}
	dir := cwd
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(root, dir)
	}
	dir = filepath.Clean(dir)
	if !b.o.AnyDir && !within(root, dir) {
		return fault.Newf(fault.Invalid, "arguments: cwd %q is outside of %s", cwd, root)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		why := "is not there"
		if err == nil {
			why = "is no directory"
		}
		p.notes = append(p.notes, fmt.Sprintf("cwd %q %s: the command ran in %s", cwd, why, root))
		return nil
	}
	// A link inside of the root may lead out of it.
	if !b.o.AnyDir {
		real, err := filepath.EvalSymlinks(dir)
		realRoot, rerr := filepath.EvalSymlinks(root)
		if err == nil && rerr == nil && !within(realRoot, real) {
			return fault.Newf(fault.Invalid, "arguments: cwd %q leads outside of %s", cwd, root)
		}
	}
	p.Dir = dir
	return nil
}

// within reports whether dir is root or below it.
func within(root, dir string) bool {
	rel, err := filepath.Rel(root, dir)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}
