// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux && !mutant_norecheck

package local

// recheckUnderLock is the safeguard that the records are read again once the lock is
// held: whoever decided "never started" before may get the lock after another
// process's run has already finished.
const recheckUnderLock = true
