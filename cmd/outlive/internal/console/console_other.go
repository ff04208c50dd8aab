// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package console

// Discard drops what was typed and not read yet: not here.
func (r *Raw) Discard() {}
