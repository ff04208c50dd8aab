// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package local

import (
	"context"
	"iter"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
)

var errLinuxOnly = fault.New(fault.Unsupported, "local commands: this operating system is not supported")

// Failpoints returns the names of all failpoints: none here.
func Failpoints() []string { return nil }

// Main runs a supervisor where there is one: not here.
func Main([]string) (handled bool) { return false }

// Recoverable is not available on this operating system.
type Recoverable struct{}

// Open returns kind fault.Unsupported.
func Open(string, *Options) (*Recoverable, error) { return nil, errLinuxOnly }

// Dir returns "".
func (*Recoverable) Dir() string { return "" }

// Close does nothing.
func (*Recoverable) Close() error { return nil }

// Capabilities returns that nothing is supported.
func (*Recoverable) Capabilities() shell.Capabilities { return shell.Capabilities{} }

// Start returns kind fault.Unsupported.
func (*Recoverable) Start(context.Context, shell.RunID, shell.Fence, shell.Request) error {
	return errLinuxOnly
}

// Recover returns kind fault.Unsupported.
func (*Recoverable) Recover(context.Context, shell.RunID) (shell.State, error) {
	return shell.State{}, errLinuxOnly
}

// Read returns kind fault.Unsupported.
func (*Recoverable) Read(context.Context, shell.RunID, int64, int, time.Duration) (shell.Chunk, error) {
	return shell.Chunk{}, errLinuxOnly
}

// Wait returns kind fault.Unsupported.
func (*Recoverable) Wait(context.Context, shell.RunID) (shell.Exit, error) {
	return shell.Exit{}, errLinuxOnly
}

// Stop returns kind fault.Unsupported.
func (*Recoverable) Stop(context.Context, shell.RunID, shell.Fence, shell.StopRequest) error {
	return errLinuxOnly
}

// Release returns kind fault.Unsupported.
func (*Recoverable) Release(context.Context, shell.RunID, shell.Fence) error { return errLinuxOnly }

// List returns kind fault.Unsupported.
func (*Recoverable) List(context.Context) ([]shell.RunID, error) { return nil, errLinuxOnly }

// Attach returns kind fault.Unsupported.
func (*Recoverable) Attach(context.Context, shell.RunID, int64) (shell.Attachment, error) {
	return nil, errLinuxOnly
}

// GC returns kind fault.Unsupported.
func (*Recoverable) GC(context.Context, func(shell.RunID) Verdict, int64) (GCReport, error) {
	return GCReport{}, errLinuxOnly
}

// Shell is not available on this operating system.
type Shell struct{}

// Capabilities returns that nothing is supported.
func (*Shell) Capabilities() shell.Capabilities { return shell.Capabilities{} }

// Execute returns kind fault.Unsupported.
func (*Shell) Execute(context.Context, shell.Request) (*shell.Response, error) {
	return nil, errLinuxOnly
}

// Stream yields kind fault.Unsupported.
func (*Shell) Stream(context.Context, shell.Request) iter.Seq2[shell.Part, error] {
	return func(yield func(shell.Part, error) bool) { yield(shell.Part{}, errLinuxOnly) }
}
