// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package pgtest

import (
	"os"
	"os/exec"
	"time"
)

// quit ends a server.
var quit = os.Kill

// own has nothing to do: elsewhere the tests do not run as root.
func (c *Cluster) own(string) error { return nil }

func as(cmd *exec.Cmd) error {
	cmd.Dir = "/"
	return nil
}

func childrenOf(int) []int { return nil }

// CPU is not known here.
func (c *Cluster) CPU() time.Duration { return 0 }
