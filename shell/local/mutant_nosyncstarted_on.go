// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux && mutant_nosyncstarted

package local

const startedBeforeGate = false
