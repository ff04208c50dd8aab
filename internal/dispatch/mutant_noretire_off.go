// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !mutant_noretire

package dispatch

// givesBack is the safeguard that a lease which is over gives back what it holds before
// its epoch or its row goes: nobody looks for what an older one held.
const givesBack = true
