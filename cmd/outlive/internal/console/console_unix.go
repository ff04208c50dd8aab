// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package console

import (
	"os"
	"os/signal"
	"syscall"
)

// Resizes returns a channel that receives when this process's terminal has another
// size, until stop is called.
func Resizes() (c <-chan os.Signal, stop func()) {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGWINCH)
	return ch, func() { signal.Stop(ch) }
}
