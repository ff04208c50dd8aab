// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"path/filepath"
	"time"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/task"
)

// Capabilities returns what the backend of commands started here can honour.
func (c *Commands) Capabilities() (shell.Capabilities, error) {
	b, err := c.Backend(&task.Record{})
	if err != nil {
		return shell.Capabilities{}, err
	}
	return b.Capabilities(), nil
}

// Script returns the path of the file that holds the shell text of a task's command
// on its host, see [shell.Call].
func (c *Commands) Script(r *task.Record) string {
	dir, id := r.Place.Dir, string(r.ID)
	if dir == "" {
		dir = c.o.Dir
	}
	if len(id) < 2 {
		return ""
	}
	return filepath.Join(dir, id[len(id)-2:], string(RunID(r.ID)), "cmd")
}

// Read returns output of a task's command from the backend that holds it, as
// [shell.Recoverable] does.
func (c *Commands) Read(ctx context.Context, r *task.Record, from int64, most int, wait time.Duration) (shell.Chunk, error) {
	b, err := c.Backend(r)
	if err != nil {
		return shell.Chunk{}, err
	}
	return b.Read(ctx, RunID(r.ID), from, most, wait)
}

// Size returns how much output of a task's command there is so far.
func (c *Commands) Size(ctx context.Context, r *task.Record) (int64, error) {
	b, err := c.Backend(r)
	if err != nil {
		return 0, err
	}
	st, err := b.Recover(ctx, RunID(r.ID))
	if st.Exit != nil {
		return st.Exit.TotalBytes, err
	}
	return st.Bytes, err
}
