// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package alive

import "errors"

// Hold fails: without file locks that outlive nothing, only the lease counts.
func Hold(string) (*Lock, error) { return nil, errors.ErrUnsupported }

// Probe knows nothing here.
func Probe(string, uint64, uint64) Verdict { return Unknown }

// Sweep does nothing here.
func Sweep(string, uint64, uint64) {}

func pidNamespace() uint64 { return 0 }
