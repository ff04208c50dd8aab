// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package shelltest is the suite that judges every command backend: one that passes
// needs no other test of the contract in package shell.
//
// A backend's own tests call [Run] with a [Factory]. The tests are named
// TestConformance/BACKEND/Tnn for the timeout contract and
// TestConformance/BACKEND/GROUP/NAME for the rest; a name that starts with Bnn is a
// failure seen in the field, listed in docs/shell-cases.md.
//
// After every test no process of its commands is left, every run's records say the
// same to whoever asks, and no command was executed twice. After the last one no
// goroutine of the backend is left.
//
// What a backend does not offer by its capabilities must be refused; that is a test,
// too. SHELLTEST_REPEAT multiplies the repetitions of the tests of races and crashes.
package shelltest
