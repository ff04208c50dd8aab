// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool/command"
)

// Fake is a backend whose commands end when their text says: the first word is how
// long they run, or another word for ever, and the rest is what they put out at once.
type Fake struct {
	shell.Recoverable
	// Slack says that it does not hold the command's clock.
	Slack bool
	// Deaf makes it ignore timeouts.
	Deaf bool
	// Provision is how long a start takes before the command's clock runs.
	Provision time.Duration

	mu     sync.Mutex
	runs   map[shell.RunID]*fakeRun
	starts int
	last   shell.Request
}

type fakeRun struct {
	output  string
	started time.Time
	exit    *shell.Exit
	done    chan struct{}
}

// Capabilities implements [shell.Recoverable].
func (f *Fake) Capabilities() shell.Capabilities {
	return shell.Capabilities{Streaming: true, Recoverable: true, OwnsTimeout: !f.Slack}
}

// Start implements [shell.Recoverable].
func (f *Fake) Start(_ context.Context, id shell.RunID, _ shell.Fence, r shell.Request) error {
	if f.Provision > 0 && f.run(id) == nil {
		<-time.After(f.Provision)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.runs[id] != nil {
		return nil
	}
	if f.runs == nil {
		f.runs = map[shell.RunID]*fakeRun{}
	}
	f.starts++
	f.last = r
	word, out, _ := strings.Cut(r.Command, " ")
	run := &fakeRun{output: out, started: time.Now(), done: make(chan struct{})}
	f.runs[id] = run
	if d, err := time.ParseDuration(word); err == nil {
		time.AfterFunc(d, func() { f.End(id, shell.Exit{Cause: shell.Exited, Code: new(int)}) })
	}
	if r.Timeout > 0 && !f.Deaf {
		code := 143
		time.AfterFunc(r.Timeout, func() { f.End(id, shell.Exit{Cause: shell.TimedOut, TimedOut: true, Code: &code, Signal: "SIGTERM"}) })
	}
	return nil
}

// Write adds output to the run of a task.
func (f *Fake) Write(id task.ID, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runs[command.RunID(id)].output += text
}

// End ends a run.
func (f *Fake) End(id shell.RunID, x shell.Exit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.runs[id]
	if r.exit != nil {
		return
	}
	x.Started, x.StartedAt, x.EndedAt, x.TotalBytes = true, r.started, time.Now(), int64(len(r.output))
	r.exit = &x
	close(r.done)
}

func (f *Fake) run(id shell.RunID) *fakeRun {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.runs[id]
}

// Recover implements [shell.Recoverable].
func (f *Fake) Recover(_ context.Context, id shell.RunID) (shell.State, error) {
	r := f.run(id)
	if r == nil {
		return shell.State{Phase: shell.UnknownRun}, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := shell.State{Phase: shell.Live, Started: true, StartedAt: r.started, Bytes: int64(len(r.output)), Exit: r.exit}
	if r.exit != nil {
		s.Phase = shell.Finished
	}
	return s, nil
}

// Read implements [shell.Recoverable].
func (f *Fake) Read(ctx context.Context, id shell.RunID, from int64, most int, wait time.Duration) (shell.Chunk, error) {
	r := f.run(id)
	if r == nil {
		return shell.Chunk{}, shell.ErrNoRun
	}
	f.mu.Lock()
	idle := from >= int64(len(r.output))
	f.mu.Unlock()
	if idle && wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-r.done:
		case <-t.C:
		case <-ctx.Done():
			return shell.Chunk{Next: from}, context.Cause(ctx)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	data := r.output[min(from, int64(len(r.output))):]
	data = data[:min(len(data), most)]
	c := shell.Chunk{Next: from + int64(len(data))}
	if data != "" {
		c.Frames = []shell.Frame{{Off: from, Data: []byte(data)}}
	}
	c.End = r.exit != nil && c.Next == int64(len(r.output))
	return c, nil
}

// Wait implements [shell.Recoverable].
func (f *Fake) Wait(ctx context.Context, id shell.RunID) (shell.Exit, error) {
	r := f.run(id)
	if r == nil {
		return shell.Exit{}, shell.ErrNoRun
	}
	select {
	case <-r.done:
		return *r.exit, nil
	case <-ctx.Done():
		return shell.Exit{}, context.Cause(ctx)
	}
}

// Stop implements [shell.Recoverable].
func (f *Fake) Stop(_ context.Context, id shell.RunID, _ shell.Fence, s shell.StopRequest) error {
	if f.run(id) == nil {
		return shell.ErrNoRun
	}
	code := 143
	f.End(id, shell.Exit{Cause: shell.Canceled, Canceled: true, Reason: s.Reason, Code: &code, Signal: "SIGTERM"})
	return nil
}

// Request returns the last request, and how many runs were started.
func (f *Fake) Request() (shell.Request, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last, f.starts
}
