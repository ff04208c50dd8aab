// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux && !mutant_nosyncstarted

package local

// startedBeforeGate is the safeguard that the record "started" is durable before the
// command may execute.
const startedBeforeGate = true
