// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package ssh

// Main is the program on the host, which is Linux: not here.
func Main([]string, *HostOptions) (handled bool) { return false }
