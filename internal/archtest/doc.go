// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package archtest keeps the shape of the repository: layers, sizes, exported
// names, headers, and habits that a linter does not know. It holds only tests.
//
// Each rule is a function from a [fs.FS] to problems. It runs over the repository
// and, in selftest_test.go, over small fixtures that break it, so that no rule can
// stop finding anything unnoticed.
//
// After a wanted change of the exported API or the layers:
//
//	go test ./internal/archtest -update
package archtest
