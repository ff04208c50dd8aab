// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Turnloop runs a long-lived agent in memory: no store, no runtime, no model. Its "model"
// answers a word at a time. Somebody asks, changes their mind in the middle of the
// answer, and closes the program; the next one goes on where it was.
//
//	go run ./examples/turnloop
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/outlive-dev/outlive/turnloop"
)

func main() {
	dir, err := os.MkdirTemp("", "turnloop-")
	if err == nil {
		err = talk(context.Background(), os.Stdout, filepath.Join(dir, "checkpoint.json"))
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "turnloop:", err)
		os.Exit(1)
	}
}

// talk has two loops live one after the other.
func talk(ctx context.Context, out io.Writer, path string) error {
	out = &lines{w: out}
	a := agent{out: out, said: make(chan string, 64)}
	first, err := a.loop(file(path))
	if err != nil {
		return err
	}
	if err := first.Run(ctx); err != nil {
		return err
	}
	if _, err := first.Push("tell me about the sea", nil); err != nil {
		return err
	}
	<-a.said // it has begun
	fmt.Fprintln(out, "  (no, the mountains: cut it after a word)")
	if _, err := first.Push("no, the mountains and their lakes", &turnloop.Preempt[string]{At: turnloop.AfterModel}); err != nil {
		return err
	}
	for <-a.said != "mountains" { //nolint:revive // until it has taken the new one up
	}
	fmt.Fprintln(out, "  (the program closes)")
	first.Stop(&turnloop.StopOptions{At: turnloop.AnySafePoint, Cause: "closing"})
	exit, err := first.Wait(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "left: %d items in a turn that got as far as %q\n", len(exit.Interrupted), exit.State)

	next, err := a.loop(file(path))
	if err != nil {
		return err
	}
	if err := next.Run(ctx); err != nil {
		return err
	}
	next.Stop(&turnloop.StopOptions{Idle: 10 * time.Millisecond})
	exit, err = next.Wait(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s, %d items left\n", exit.Reason, len(exit.Interrupted)+len(exit.Unhandled))
	return exit.Err
}

// lines is a writer that two goroutines may use.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

type agent struct {
	out  io.Writer
	said chan string
}

func (a agent) loop(f file) (*turnloop.Loop[string], error) {
	return turnloop.New(turnloop.Config[string]{
		GenInput: func(_ context.Context, items []turnloop.Item[string]) (turnloop.Plan[string], error) {
			return turnloop.Plan[string]{Consume: items}, nil
		},
		GenResume: func(_ context.Context, r turnloop.Resume[string]) (p turnloop.ResumePlan[string], err error) {
			p.Resume, p.Consume = true, r.New
			return p, nil
		},
		PrepareAgent: func(_ context.Context, t *turnloop.Turn[string]) (turnloop.Agent, error) {
			question := t.Items[len(t.Items)-1].Value
			fmt.Fprintf(a.out, "turn %d, asked %d things, goes on from %q\n", t.ID, len(t.Items), t.State)
			return answer(question, string(t.State)), nil
		},
		OnEvents: func(_ context.Context, _ *turnloop.Turn[string], events iter.Seq2[turnloop.Event, error]) error {
			for e, err := range events {
				if err != nil {
					return err
				}
				fmt.Fprintln(a.out, "  ", e)
				a.said <- fmt.Sprint(e)
			}
			return nil
		},
		Checkpoints: f,
	})
}

// answer says the words of the question again, and can be cut after each.
func answer(question, state string) turnloop.Agent {
	return func(ctx context.Context, at turnloop.SafePoint) iter.Seq2[turnloop.Event, error] {
		return func(yield func(turnloop.Event, error) bool) {
			for word := range strings.FieldsSeq(strings.TrimPrefix(question, state)) {
				select {
				case <-time.After(50 * time.Millisecond): // a model thinks
				case <-ctx.Done():
					yield(nil, ctx.Err())
					return
				}
				if !yield(word, nil) {
					return
				}
				state = strings.TrimSpace(state + " " + word)
				if err := at(turnloop.AfterModel); err != nil {
					var cut *turnloop.CancelError
					if errors.As(err, &cut) {
						cut.State = []byte(state)
					}
					yield(nil, err)
					return
				}
			}
		}
	}
}

// file keeps a checkpoint as JSON.
type file string

// Load implements turnloop.Checkpoints.
func (f file) Load(context.Context) (*turnloop.Checkpoint[string], error) {
	b, err := os.ReadFile(string(f))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	cp := &turnloop.Checkpoint[string]{}
	return cp, json.Unmarshal(b, cp)
}

// Save implements turnloop.Checkpoints.
func (f file) Save(_ context.Context, c turnloop.Checkpoint[string]) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := os.WriteFile(string(f)+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(string(f)+".new", string(f))
}

// Delete implements turnloop.Checkpoints.
func (f file) Delete(context.Context) error {
	if err := os.Remove(string(f)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
