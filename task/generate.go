// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package task

//go:generate go test -run ^TestStatesPage$ -update .
