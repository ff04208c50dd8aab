// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"runtime"
	"sync"
	"testing"
)

// TestShrink gives back the program's pages and goes on: with new threads, which the
// C library makes where there is one.
func TestShrink(t *testing.T) {
	text := programText()
	if len(text) == 0 {
		t.Fatal("programText() found nothing")
	}
	for range 3 {
		shrink(text)
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				runtime.LockOSThread() // and never unlocked: the thread ends with it
			})
		}
		wg.Wait()
	}
}
