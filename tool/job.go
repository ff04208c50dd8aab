// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"sync"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/stream"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool/internal/output"
	"github.com/outlive-dev/outlive/work"
)

// Media types of what the tasks of tools store.
const (
	MediaArgs   = "application/json"
	MediaResult = output.MediaResult
)

// Failure codes of the tasks of tools.
const (
	CodeFailed      = "tool_failed"
	CodeInterrupted = "tool_interrupted" // its worker stopped in the middle: the outcome is unknown
)

// Job is one attempt of a tool's task, as the tool's functions see it.
type Job struct {
	a       *work.Attempt
	asks    bool
	persist stream.Persister[struct{}, Update]

	mu   sync.Mutex
	live []*stream.Live[Update] // updates that may not have ended
	// Args are the arguments of the call.
	Args json.RawMessage
}

// Update is one piece of news of a tool's work, for whoever reads its output. Its id
// is stable: a later attempt that says the same again adds nothing.
type Update struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

func jobOf(a *work.Attempt, p stream.Persister[struct{}, Update]) *Job {
	if p == nil {
		p = jsonUpdates
	}
	return &Job{a: a, persist: p, Args: json.RawMessage(a.Task().Spec.Data)}
}

// jsonUpdates is the persister of tools: each update is one part, as JSON, so that
// nothing in its text passes for another one.
func jsonUpdates(ctx context.Context, w *stream.Writer, _ struct{}, updates iter.Seq2[Update, error]) error {
	for u, err := range updates {
		if err != nil {
			return err
		}
		data, err := json.Marshal(u)
		if err != nil {
			return fmt.Errorf("encode update %s: %w", u.ID, err)
		}
		if _, err := w.Append(ctx, work.Part{ID: u.ID, Media: output.MediaUpdate, Data: append(data, '\n')}); err != nil {
			return err
		}
	}
	return nil
}

// ID returns the id of the task, which is the same in every attempt.
func (j *Job) ID() task.ID { return j.a.ID() }

// Attempt returns the attempt for what needs more than a Job has.
func (j *Job) Attempt() *work.Attempt { return j.a }

// Detached is closed when nobody waits for the result any more.
func (j *Job) Detached() <-chan struct{} { return j.a.Detached() }

// Update tells the task's readers how far the work is: one more line of its output.
func (j *Job) Update(ctx context.Context, id, text string) error {
	_, err := j.put(ctx, func(yield func(Update, error) bool) { yield(Update{ID: id, Text: text}, nil) }).Wait(ctx)
	return err
}

// Updates puts out updates while the work goes on, and returns them live: for who
// wants to read along, which nothing depends on. They must end with the work, or within
// 5 s of it: the task fails otherwise, as it does when they cannot be stored.
func (j *Job) Updates(ctx context.Context, updates iter.Seq2[Update, error]) *stream.Live[Update] {
	l := j.put(ctx, updates)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.live = append(j.live, l)
	return l
}

func (j *Job) put(ctx context.Context, updates iter.Seq2[Update, error]) *stream.Live[Update] {
	return stream.Persist(ctx, j.a, stream.Event[struct{}, Update]{ID: "updates", Chunks: updates}, j.persist)
}

// drainTime is how long updates may go on after the result.
const drainTime = 5 * time.Second

// settle waits for the updates of work that has its result.
func (j *Job) settle(ctx context.Context) error {
	j.mu.Lock()
	live := j.live
	j.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, drainTime, fmt.Errorf("they did not end within %v of the result", drainTime))
	defer cancel()
	for _, l := range live {
		if _, err := l.Wait(ctx); err != nil {
			return fmt.Errorf("its updates: %w", err)
		}
	}
	return nil
}

// inline is how much text of a result is stored with it; a longer one is put out in
// parts, of which the journal keeps as many as there are.
const (
	inlineText = 512 << 10
	partText   = 128 << 10
)

// done stores a result.
func (j *Job) done(ctx context.Context, r Result) work.Result {
	stored := output.Result{Text: r.Text, Media: r.Media, IsError: r.IsError}
	if len(stored.Text) > inlineText {
		for off := 0; off < len(r.Text); off += partText {
			p := work.Part{
				Event: "result", ID: strconv.Itoa(off), Media: "text/plain", Data: []byte(r.Text[off:min(off+partText, len(r.Text))]),
				Final: off+partText >= len(r.Text),
			}
			if _, err := j.a.Emit(ctx, p); err != nil {
				return work.Retry("journal", err.Error())
			}
		}
		stored.Text = ""
	}
	b, err := json.Marshal(stored)
	if err != nil {
		panic(err) // strings and bytes
	}
	return work.Done(task.Payload{Media: MediaResult, Data: b})
}

// validate returns the validator of a tool's payload.
func validate(check func(json.RawMessage) error) func(task.Payload) error {
	return func(p task.Payload) error {
		if check == nil {
			return nil
		}
		return check(json.RawMessage(p.Data))
	}
}

// Plain is a tool made of a function. Its work goes on when the call returns early,
// and ends with its worker.
type Plain struct {
	// Key names the executor, such as "fetch.v1". Required.
	Key string
	// Kind prefixes the ids of its tasks. Defaults to "tl".
	Kind string
	// Check refuses arguments before a task is made; it is pure. Defaults to
	// accepting all that Decode can be given.
	Check func(args json.RawMessage) error
	// Idempotent says that the function may be run again when its worker was lost in
	// the middle. Otherwise the outcome is then unknown. Defaults to false.
	Idempotent bool
	// Persist puts updates into the journal. Defaults to one part each, as JSON.
	Persist stream.Persister[struct{}, Update]
	// Run does the work. An error fails the task; work that failed in a way that the
	// model is to read is a Result with IsError. Required.
	Run func(ctx context.Context, j *Job) (Result, error)
}

// Executor returns what to register with a Runtime.
func (p Plain) Executor() work.Executor {
	ex := work.Executor{
		Key: p.Key, Kind: kind(p.Kind), Drains: p.Idempotent, OnLeaseLoss: task.LoseFail, Validate: validate(p.Check),
		Run: func(ctx context.Context, a *work.Attempt) work.Result {
			j := jobOf(a, p.Persist)
			r, err := p.Run(ctx, j)
			if err == nil {
				err = j.settle(ctx)
			}
			if err != nil {
				return p.failed(ctx, err)
			}
			return j.done(ctx, r)
		},
	}
	if p.Idempotent {
		ex.OnLeaseLoss = task.LoseRetry
	}
	return ex
}

func (p Plain) failed(ctx context.Context, err error) work.Result {
	_, canceled := work.Canceled(ctx)
	switch {
	case canceled:
		return work.Stopped()
	case ctx.Err() != nil && p.Idempotent:
		return work.Yield(nil)
	case ctx.Err() != nil:
		return work.Lost(CodeInterrupted, "its worker stopped: "+err.Error())
	}
	return work.Fail(CodeFailed, err.Error())
}

func kind(k string) string {
	if k == "" {
		return "tl"
	}
	return k
}

// Recoverable is a tool that starts something outside which lives on without the
// worker: a job of another system. The intent to start is stored before the start, so
// that a later attempt finds it again instead of starting another.
type Recoverable struct {
	// Key, Kind, Check and Persist are those of [Plain].
	Key     string
	Kind    string
	Check   func(args json.RawMessage) error
	Persist stream.Persister[struct{}, Update]
	// Start starts the work, named by the task's id. It is idempotent: when the work
	// is there already, however far it is, it does nothing. Required.
	Start func(ctx context.Context, j *Job) error
	// Follow waits for the end and returns the result. It may be called again by any
	// later attempt, and leaves the work alone when ctx ends. Required.
	Follow func(ctx context.Context, j *Job) (Result, error)
	// Stop stops the work, and does nothing when there is none. It is idempotent, and
	// is also called when nobody follows the work. Required.
	Stop func(ctx context.Context, j *Job, reason string) error
}

// Executor returns what to register with a Runtime. It panics when a function is
// missing, which is a mistake of the program.
func (r Recoverable) Executor() work.Executor {
	if r.Start == nil || r.Follow == nil || r.Stop == nil {
		panic("tool: Recoverable without Start, Follow or Stop: " + r.Key)
	}
	return work.Executor{
		Key: r.Key, Kind: kind(r.Kind), Drains: true, Recoverable: true, OnLeaseLoss: task.LoseRetry,
		Validate: validate(r.Check), Run: r.run, Stop: r.stop,
	}
}

func (r Recoverable) run(ctx context.Context, a *work.Attempt) work.Result {
	j := jobOf(a, r.Persist)
	if !a.Task().StartCommitted {
		if err := a.CommitStart(ctx, work.Begin{Outside: true}); err != nil {
			return work.Retry("store", err.Error())
		}
	}
	if err := r.Start(ctx, j); err != nil {
		if ctx.Err() != nil {
			return r.over(ctx, j, err)
		}
		return work.Fail(CodeFailed, err.Error())
	}
	res, err := r.Follow(ctx, j)
	if err == nil {
		err = j.settle(ctx)
	}
	switch {
	case err == nil:
		return j.done(ctx, res)
	case ctx.Err() != nil:
		return r.over(ctx, j, err)
	}
	return work.Fail(CodeFailed, err.Error())
}

// over ends an attempt whose context has ended: canceled work is stopped, other work
// is left to live on.
func (r Recoverable) over(ctx context.Context, j *Job, err error) work.Result {
	reason, canceled := work.Canceled(ctx)
	if !canceled {
		return work.Leave()
	}
	if serr := r.Stop(context.WithoutCancel(ctx), j, reason); serr != nil {
		return work.Lost(CodeInterrupted, "stop: "+errors.Join(serr, err).Error())
	}
	return work.Stopped()
}

func (r Recoverable) stop(ctx context.Context, a *work.Attempt) work.Result {
	if err := r.Stop(context.WithoutCancel(ctx), jobOf(a, r.Persist), a.Task().CancelReason); err != nil {
		return work.Retry("stop", err.Error())
	}
	return work.Stopped()
}

func refusal(err error) string {
	text := "[error: " + err.Error() + "]"
	if hint := fault.Hint(err); hint != "" {
		text += "\n" + hint
	}
	return fmt.Sprintf("%s\nNothing was started.", text)
}
