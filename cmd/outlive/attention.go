// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// attention lists the tasks that somebody should look at, after those that have not
// ended told the truth.
func (a *app) attention(ctx context.Context, f store.Filter) ([]row, error) {
	unverified := map[task.ID]bool{}
	all := f
	all.States = unfinished()
	if err := a.pages(ctx, all, func(recs []task.Record) (bool, error) {
		_, left := a.reconcile(ctx, recs)
		maps.Copy(unverified, left)
		return true, nil
	}); err != nil {
		return nil, err
	}
	found, err := a.rt.NeedsAttention(ctx, f)
	if err != nil {
		return nil, err
	}
	list := make([]row, len(found))
	for i := range found {
		list[i] = row{rec: found[i].Task, unverified: unverified[found[i].Task.ID], needs: found[i].Needs}
	}
	return list, nil
}

// pages calls fn with one page of the list after another while it wants more.
func (a *app) pages(ctx context.Context, f store.Filter, fn func([]task.Record) (more bool, err error)) error {
	f.Limit = store.MaxPage
	for {
		recs, err := a.rt.List(ctx, f)
		if err != nil || len(recs) == 0 {
			return err
		}
		last := recs[len(recs)-1].ID
		full := len(recs) == f.Limit
		if more, err := fn(recs); err != nil || !more || !full {
			return err
		}
		f.Before = last
	}
}

// stray is a command on this host whose task is not in the store.
type stray struct {
	Run       shell.RunID `json:"run"`
	Phase     shell.Phase `json:"phase"`
	Pid       int         `json:"pid,omitempty"`
	StartedAt *time.Time  `json:"started_at"`
	Dir       string      `json:"dir"`
	Bytes     int64       `json:"bytes"`
}

// strays looks through the runs directory of the store.
func (a *app) strays(ctx context.Context) ([]stray, shell.Recoverable, error) {
	b, err := a.commands.Backend(&task.Record{})
	if err != nil {
		return nil, nil, err
	}
	ids, err := b.List(ctx)
	if err != nil {
		return nil, nil, err
	}
	var out []stray
	for _, id := range ids {
		_, err := a.rt.Get(ctx, taskOf(id))
		if err == nil {
			continue
		}
		if !fault.Is(err, fault.NotFound) {
			return nil, nil, err
		}
		st, err := b.Recover(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, stray{Run: id, Phase: st.Phase, Pid: st.Pid, StartedAt: stamp(st.StartedAt), Dir: a.runDir(id), Bytes: st.Bytes})
	}
	return out, b, nil
}

// runDir is where the files of a run are.
func (a *app) runDir(id shell.RunID) string {
	found, _ := filepath.Glob(filepath.Join(a.runsDir(), "*", string(id)))
	if len(found) == 0 {
		return ""
	}
	return found[0]
}

func (a *app) runsDir() string { return a.runs }

// taskOf is the task whose run it is.
func taskOf(id shell.RunID) task.ID {
	s := string(id)
	if i := strings.LastIndex(s, "-r"); i > 0 {
		s = s[:i]
	}
	return task.ID(s)
}

func (a *app) orphans(ctx context.Context) error {
	if err := a.open(ctx); err != nil {
		return err
	}
	list, _, err := a.strays(ctx)
	if err != nil {
		return err
	}
	if a.json {
		for _, s := range list {
			if err := a.printJSON(s); err != nil {
				return err
			}
		}
		return nil
	}
	lines := []string{fmt.Sprintf("%-8s  %-12s  %4s  %s", "ID", "STATE", "AGE", "DIRECTORY")}
	for _, s := range list {
		old := "-"
		if s.StartedAt != nil {
			old = age(time.Since(*s.StartedAt))
		}
		lines = append(lines, fmt.Sprintf("%-8s  %-12s  %4s  %s", shortID(taskOf(s.Run)), s.Phase, old, s.Dir))
	}
	return a.print(a.out, "%s\n", strings.Join(lines, "\n"))
}

// strayFence is above every fence that a store without the task could have given.
const strayFence = 1 << 40

// cancelStray ends a command whose task is not in the store. It reports whether there
// is one.
func (a *app) cancelStray(ctx context.Context, word, reason string) (bool, error) {
	if len(word) < 4 {
		return false, nil
	}
	list, b, err := a.strays(ctx)
	if err != nil {
		return false, nil //nolint:nilerr // what was asked for is a task; it is not found
	}
	var hit []stray
	for _, s := range list {
		id := string(taskOf(s.Run))
		if strings.HasPrefix(id, word) || strings.HasSuffix(id, word) {
			hit = append(hit, s)
		}
	}
	if len(hit) != 1 {
		return false, nil
	}
	if err := b.Stop(ctx, hit[0].Run, shell.Fence{Generation: strayFence}, shell.StopRequest{Cause: shell.Canceled, Reason: reason}); err != nil {
		return true, err
	}
	x, err := b.Wait(ctx, hit[0].Run)
	if err != nil {
		return true, err
	}
	if a.json {
		return true, a.printJSON(map[string]any{"run": hit[0].Run, "cause": x.Cause, "exit_code": x.Code})
	}
	return true, a.print(a.out, "%s %s (its task is not in the store)\n", taskOf(hit[0].Run), x.Cause)
}
