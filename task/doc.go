// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package task is the model of the one Task: its record, its states, the commands
// that change it and the effects that belong to a change. It does no IO.
//
// [Apply] decides; engines perform. An error means that nothing changed; a
// transition that is not the one asked for is a result, to be read from the
// record's state.
package task
