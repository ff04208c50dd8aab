// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Command supervisor is the smallest program that can supervise runs. The crash tests
// use it, because it starts faster than a test binary.
package main

import (
	"os"

	"github.com/outlive-dev/outlive/shell/local"
)

func main() { local.Main(os.Args) }
