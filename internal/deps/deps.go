// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package deps keeps the modules in go.mod that packages still to come need.
package deps

import (
	_ "github.com/anishathalye/porcupine"
	_ "github.com/fsnotify/fsnotify"
	_ "github.com/google/go-cmp/cmp"
	_ "golang.org/x/sys/unix"
	_ "modernc.org/sqlite"
	_ "pgregory.net/rapid"
)
