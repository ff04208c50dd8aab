// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

func (a *app) hintStdin() {}

func (a *app) heedStop() {}
