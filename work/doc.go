// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package work is what an executor is given and what it gives back: the [Executor]
// that is registered under a name, the [Attempt] it runs, and the [Result] that
// ends an attempt. It does no IO of its own; the runtime stands behind [Port].
package work
