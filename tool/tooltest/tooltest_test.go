// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package tooltest_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool"
	"github.com/outlive-dev/outlive/tool/tooltest"
)

// sampleArgs are the arguments of the sample tools.
type sampleArgs struct {
	Text  string `json:"text,omitempty"`
	Slow  bool   `json:"slow,omitempty"`
	Panic bool   `json:"panic,omitempty"`
}

func check(raw json.RawMessage) error { return tool.Decode(raw, &sampleArgs{}) }

func subject() tooltest.Subject {
	return tooltest.Subject{
		Echo: func(text string) json.RawMessage {
			b, err := json.Marshal(sampleArgs{Text: text})
			if err != nil {
				panic(err)
			}
			return b
		},
		Slow: json.RawMessage(`{"slow": true}`), Panic: json.RawMessage(`{"panic": true}`), Bad: json.RawMessage(`{"slov": true}`),
	}
}

func TestPlain(t *testing.T) {
	t.Parallel()
	tooltest.Run(t, func() tooltest.Subject {
		s := subject()
		s.Executor = tool.Plain{Key: "sample.v1", Check: check, Run: func(ctx context.Context, j *tool.Job) (tool.Result, error) {
			var a sampleArgs
			if err := tool.Decode(j.Args, &a); err != nil {
				return tool.Result{}, err
			}
			switch {
			case a.Panic:
				panic("sample")
			case a.Slow:
				select {
				case <-time.After(time.Minute):
				case <-ctx.Done():
					return tool.Result{}, context.Cause(ctx)
				}
				a.Text = "slow done"
			}
			return tool.Result{Text: a.Text}, nil
		}}.Executor()
		return s
	})
}

// elsewhere is another system, which runs jobs by name and outlives every worker.
type elsewhere struct {
	mu   sync.Mutex
	jobs map[task.ID]*job
}

type job struct {
	text    string
	starts  int
	stopped bool
	done    chan struct{}
}

func (e *elsewhere) job(id task.ID) *job {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.jobs[id]
}

func (e *elsewhere) start(_ context.Context, j *tool.Job) error {
	var a sampleArgs
	if err := tool.Decode(j.Args, &a); err != nil {
		return err
	}
	if a.Panic {
		panic("sample")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.jobs[j.ID()] != nil {
		return nil
	}
	it := &job{text: a.Text, starts: 1, done: make(chan struct{})}
	e.jobs[j.ID()] = it
	if !a.Slow {
		close(it.done)
		return nil
	}
	it.text = "slow done"
	time.AfterFunc(time.Minute, func() { e.finish(j.ID(), false) })
	return nil
}

func (e *elsewhere) finish(id task.ID, stop bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	it := e.jobs[id]
	if it == nil || it.stopped {
		return
	}
	select {
	case <-it.done:
	default:
		it.stopped = stop
		close(it.done)
	}
}

func (e *elsewhere) follow(ctx context.Context, j *tool.Job) (tool.Result, error) {
	it := e.job(j.ID())
	select {
	case <-it.done:
		return tool.Result{Text: it.text}, nil
	case <-ctx.Done():
		return tool.Result{}, context.Cause(ctx)
	}
}

func TestRecoverable(t *testing.T) {
	t.Parallel()
	tooltest.Run(t, func() tooltest.Subject {
		e := &elsewhere{jobs: map[task.ID]*job{}}
		s := subject()
		s.Survives = true
		s.Started = func(id task.ID) int { return e.job(id).starts }
		s.Stopped = func(id task.ID) bool { return e.job(id).stopped }
		s.Executor = tool.Recoverable{
			Key: "sample.v1", Check: check, Start: e.start, Follow: e.follow,
			Stop: func(_ context.Context, j *tool.Job, _ string) error {
				e.finish(j.ID(), true)
				return nil
			},
		}.Executor()
		return s
	})
}
