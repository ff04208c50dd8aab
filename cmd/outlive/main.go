// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Command outlive runs commands and agents as tasks that outlive the call that
// started them.
package main

import (
	"os"

	"github.com/outlive-dev/outlive/shell/ssh"
)

func main() {
	// The binary is also the supervisor of the commands it starts, and what serves them
	// on hosts that it is placed on: that comes before anything else.
	if ssh.Main(os.Args, nil) {
		return
	}
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
