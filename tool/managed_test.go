// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/foreground"
	"github.com/outlive-dev/outlive/outlivetest"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool"
	"github.com/outlive-dev/outlive/work"
)

// managed runs a test of one tool over an executor.
func managed(t *testing.T, ex work.Executor, o tool.ManagedOptions, test func(t *testing.T, env *outlivetest.Env, call func(context.Context) (tool.Result, error))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		env := outlivetest.New(t, nil)
		env.Register(ex)
		o.Runtime, o.Executor, o.Name = env.Runtime(), ex.Key, "it"
		tl := tool.Managed(o)
		test(t, env, func(ctx context.Context) (tool.Result, error) {
			r, err := tl.Call(ctx, tool.Caller{}, json.RawMessage(`{}`))
			if r.Text == "" {
				t.Error("no text")
			}
			return r, err
		})
	})
}

func sleeper(heed bool) work.Executor {
	return tool.Plain{Key: "sleep.v1", Run: func(ctx context.Context, _ *tool.Job) (tool.Result, error) {
		gone := ctx.Done()
		if !heed {
			gone = nil
		}
		select {
		case <-time.After(time.Minute):
			return tool.Result{Text: "slept"}, nil
		case <-gone:
			return tool.Result{}, context.Cause(ctx)
		}
	}}.Executor()
}

// Given a timeout that may not detach and work that heeds a cancel, the call says that
// it timed out only after the task is canceled, and nobody else learns of it.
func TestE56_TimeoutDenied(t *testing.T) {
	t.Parallel()
	o := tool.ManagedOptions{DetachAfter: time.Second, OnTimeout: foreground.CancelTask}
	managed(t, sleeper(true), o, func(t *testing.T, env *outlivetest.Env, call func(context.Context) (tool.Result, error)) {
		r, err := call(t.Context())
		rec := env.Get(r.Task)
		if err != nil || !r.IsError || r.Detached || rec.State != task.Canceled || rec.Publication != task.Deferred {
			t.Errorf("Call() = %+v, %v of %s", r, err, outlivetest.Line(rec))
		}
		if !strings.Contains(r.Text, "timed out after 1s") {
			t.Errorf("text %q", r.Text)
		}
	})
}

// Given the same and work that heeds nothing, the call returns after the time to clean
// up all the same, says that it has not ended, and the intent to cancel is stored.
func TestE57_TimeoutDeniedAndDeaf(t *testing.T) {
	t.Parallel()
	o := tool.ManagedOptions{DetachAfter: time.Second, OnTimeout: foreground.CancelTask}
	managed(t, sleeper(false), o, func(t *testing.T, env *outlivetest.Env, call func(context.Context) (tool.Result, error)) {
		began := time.Now()
		r, err := call(t.Context())
		rec := env.Get(r.Task)
		if err != nil || !r.IsError || time.Since(began) != 6*time.Second || !rec.Canceling() {
			t.Errorf("Call() = %+v, %v after %v of %s", r, err, time.Since(began), outlivetest.Line(rec))
		}
		if !strings.Contains(r.Text, "it has not ended yet") {
			t.Errorf("text %q", r.Text)
		}
		<-time.After(2 * time.Minute)
	})
}

// Given a caller whose own deadline comes first, the error is the caller's and no
// timeout of the call.
func TestE62_CallersDeadlineFirst(t *testing.T) {
	t.Parallel()
	o := tool.ManagedOptions{DetachAfter: time.Minute, OnTimeout: foreground.CancelTask, OnGone: foreground.CancelTask}
	managed(t, sleeper(true), o, func(t *testing.T, _ *outlivetest.Env, call func(context.Context) (tool.Result, error)) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, err := call(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, foreground.ErrTimeout) || strings.Contains(r.Text, "timed out") {
			t.Errorf("Call() = %+v, %v", r, err)
		}
	})
}

// Given a start that cannot be committed, nothing is started and nothing is waited for.
func TestE66_CommitStartFails(t *testing.T) {
	t.Parallel()
	var env *outlivetest.Env
	var started atomic.Int32
	ex := tool.Recoverable{
		Key:    "job.v1",
		Start:  func(context.Context, *tool.Job) error { started.Add(1); return nil },
		Follow: func(context.Context, *tool.Job) (tool.Result, error) { return tool.Result{Text: "x"}, nil },
		Stop:   func(context.Context, *tool.Job, string) error { return nil },
	}.Executor()
	run := ex.Run
	ex.Run = func(ctx context.Context, a *work.Attempt) work.Result {
		env.Instance(outlivetest.Main).Refuse(1, fault.New(fault.Invalid, "too large"))
		return run(ctx, a)
	}
	managed(t, ex, tool.ManagedOptions{}, func(t *testing.T, e *outlivetest.Env, call func(context.Context) (tool.Result, error)) {
		env = e
		r, err := call(t.Context())
		if err != nil || !r.IsError || started.Load() != 0 || !strings.Contains(r.Text, "too large") {
			t.Errorf("Call() = %+v, %v; started %d times", r, err, started.Load())
		}
	})
}

// Given a recoverable tool without one of its functions, it is refused when the
// program starts.
func TestE67_MissingFunctions(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a Recoverable without functions is accepted")
		}
	}()
	tool.Recoverable{Key: "job.v1"}.Executor()
}

// Given work that puts out media, it comes beside the text.
func TestMedia(t *testing.T) {
	t.Parallel()
	png := task.Payload{Media: "image/png", Data: []byte{1, 2, 3}}
	ex := tool.Plain{Key: "shot.v1", Run: func(context.Context, *tool.Job) (tool.Result, error) {
		return tool.Result{Text: "a picture", Media: []task.Payload{png}, IsError: true}, nil
	}}.Executor()
	managed(t, ex, tool.ManagedOptions{}, func(t *testing.T, _ *outlivetest.Env, call func(context.Context) (tool.Result, error)) {
		r, err := call(t.Context())
		if err != nil || r.Text != "a picture" || !r.IsError || len(r.Media) != 1 || string(r.Media[0].Data) != string(png.Data) {
			t.Errorf("Call() = %+v, %v", r, err)
		}
	})
}
