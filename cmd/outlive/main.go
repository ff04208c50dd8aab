// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Command outlive runs commands and agents as tasks that outlive the call that
// started them.
package main

import (
	"os"

	"github.com/outlive-dev/outlive/shell/local"
)

func main() {
	// The binary is also the supervisor of the commands it starts: that comes before
	// anything else.
	if local.Main(os.Args) {
		return
	}
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
