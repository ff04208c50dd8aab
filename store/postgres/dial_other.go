// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package postgres

import "syscall"

// dialControl has nothing to set here; keep-alives notice a dead server later.
func dialControl(string, string, syscall.RawConn) error { return nil }
