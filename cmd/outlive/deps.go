// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Command outlive runs commands as tasks that outlive the call that started them.
package main

import (
	_ "github.com/creack/pty"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/spf13/cobra"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
)

func main() {}
