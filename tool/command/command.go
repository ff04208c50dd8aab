// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/alive"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/stream"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

const (
	window       = 10 * time.Millisecond // chunks that arrive within it become one part
	partSize     = 32 << 10
	journalLimit = 1 << 20 // bytes of output the journal holds; the rest is in the spool
	idleRead     = time.Second
)

// Options tune the executor.
type Options struct {
	// Dir is the runs directory of commands started here. Required.
	Dir string
	// Open opens the backend over a runs directory, or at a URL. Required.
	Open func(dir string) (shell.Recoverable, error)
	// JournalLimit is how many bytes of output the journal holds per run. Defaults
	// to 1 MiB.
	JournalLimit int64
	// Persist puts output into the journal. One of your own gets the output from its
	// beginning in every attempt, in frames that may be cut elsewhere each time: it makes
	// parts that are the same again, such as lines. Defaults to the bytes as they are, in
	// parts whose ids are their offsets, each attempt going on where the journal ends.
	Persist stream.Persister[shell.RunID, shell.Frame]
}

// Commands runs commands as tasks.
//
// Concurrency: mu guards backends and loans; it is not held over a backend call
// other than Open.
type Commands struct {
	o    Options
	host string

	mu       sync.Mutex
	backends map[string]shell.Recoverable
	loans    map[task.ID]*Loan
	places   map[task.ID]string // URLs of tasks lent here
}

// New returns the executor's home. It opens nothing yet.
func New(o Options) *Commands {
	if o.JournalLimit == 0 {
		o.JournalLimit = journalLimit
	}
	return &Commands{o: o, host: alive.Here().Name, backends: map[string]shell.Recoverable{}, loans: map[task.ID]*Loan{}, places: map[task.ID]string{}}
}

// Executor returns what to register with a Runtime.
func (c *Commands) Executor() work.Executor {
	return work.Executor{
		Key: Key, Kind: "sh", Drains: true, Recoverable: true, OnLeaseLoss: task.LoseRetry,
		Validate: func(p task.Payload) error {
			_, err := Decode(p)
			return err
		},
		Run: c.run, Stop: c.stop, Ended: c.ended,
	}
}

// Loan is what the process that starts a command lends it and stores nowhere.
type Loan struct {
	// Environ is the command's whole environment.
	Environ []string
	// Attached says that the lender will attach, see shell.Request.
	Attached bool
	// Backend is the URL of the backend to run on, or empty for the one here.
	Backend string
	// Ready is closed when the start was tried.
	Ready chan struct{}
	once  sync.Once
}

// Lend gives the command of a task, which is about to be created here, what only
// this process has.
func (c *Commands) Lend(id task.ID, l *Loan) {
	l.Ready = make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loans[id] = l
	if l.Backend != "" {
		c.places[id] = l.Backend
	}
}

// IsURL reports whether a task's place is the URL of a backend and no directory.
func IsURL(place string) bool { return strings.Contains(place, "://") }

// place is where the run of a task that is about to start will be. A backend behind a
// URL belongs to no host: whoever can reach it finds the run.
func (c *Commands) place(id task.ID) task.Place {
	c.mu.Lock()
	defer c.mu.Unlock()
	if url := c.places[id]; url != "" {
		return task.Place{Dir: url}
	}
	return task.Place{Host: c.host, Dir: c.o.Dir}
}

func (c *Commands) loan(id task.ID) *Loan {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.loans[id]
	delete(c.loans, id)
	return l
}

func (l *Loan) settle() {
	if l != nil {
		l.once.Do(func() { close(l.Ready) })
	}
}

// Backend returns the backend that holds the run of a task.
func (c *Commands) Backend(r *task.Record) (shell.Recoverable, error) {
	dir := r.Place.Dir
	if dir == "" {
		dir = c.place(r.ID).Dir
	}
	if r.Place.Host != "" && r.Place.Host != c.host {
		return nil, fault.Newf(fault.Unsupported, "command: the run lives on host %s", r.Place.Host)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.backends[dir]; b != nil {
		return b, nil
	}
	b, err := c.o.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open runs directory: %w", err)
	}
	c.backends[dir] = b
	return b, nil
}

// run starts the command, or finds it again, and follows it to its end.
func (c *Commands) run(ctx context.Context, a *work.Attempt) work.Result {
	rec := a.Task()
	loan := c.loan(rec.ID)
	defer loan.settle()
	spec, err := Decode(rec.Spec)
	if err != nil {
		return work.Fail(CodeStartFailed, err.Error())
	}
	b, err := c.Backend(&rec)
	if err != nil {
		return work.Fail(CodeStartFailed, err.Error())
	}
	req := spec.Request()
	if loan != nil {
		req.Environ, req.Attached = loan.Environ, loan.Attached
	}
	id := RunID(rec.ID)
	if !rec.StartCommitted {
		// The intent is durable before anything is started: from here on a lost
		// attempt is adopted, and the backend knows whether the command ever ran.
		if spec.Environ && req.Environ == nil {
			return notStarted(environGone)
		}
		if p, ok := b.(shell.Preparer); ok {
			if err := p.Prepare(ctx, id); err != nil {
				return notStarted(err.Error())
			}
		}
		if err := a.CommitStart(ctx, work.Begin{Place: c.place(rec.ID), Outside: true}); err != nil {
			return work.Retry("store", err.Error())
		}
	} else if taken(ctx, b, id) {
		return work.Lost(CodeLost, stateGone)
	}
	generation, attempt := a.Fence()
	fence := shell.Fence{Generation: generation, Attempt: attempt}
	if spec.Environ && req.Environ == nil {
		if res, over := c.forgo(ctx, b, id, fence, environGone); over {
			return res
		}
	}
	if err := b.Start(context.WithoutCancel(ctx), id, fence, req); err != nil {
		if errors.Is(err, shell.ErrEnvironmentGone) { // its supervisor has died meanwhile
			if res, over := c.forgo(ctx, b, id, fence, environGone); over {
				return res
			}
			return c.follow(ctx, a, b, id, fence)
		}
		return startFailed(err)
	}
	loan.settle()
	return c.follow(ctx, a, b, id, fence)
}

// stateGone is why a command's outcome is unknown when nothing of its run is left.
const stateGone = "somebody removed its run directory; it may have run partly or fully"

// taken reports whether a run that was prepared has left no trace: it is not started
// again.
func taken(ctx context.Context, b shell.Recoverable, id shell.RunID) bool {
	if _, ok := b.(shell.Preparer); !ok {
		return false
	}
	st, err := b.Recover(context.WithoutCancel(ctx), id)
	return err == nil && st.Phase == shell.UnknownRun && st.Reason == shell.ReasonStateMissing
}

// Why a run was given up before it started.
const (
	environGone    = "its environment was given by a process that has ended"
	supervisorGone = "its supervisor died before it could start it"
)

// forgo gives up a run that has not started: because its environment is gone, and it
// is not started in another one, or because its supervisor died. The stop keeps a
// starter that only sleeps from starting it later. over is false when there is a run
// to follow.
func (c *Commands) forgo(ctx context.Context, b shell.Recoverable, id shell.RunID, f shell.Fence, why string) (res work.Result, over bool) {
	free := context.WithoutCancel(ctx)
	st, err := b.Recover(free, id)
	switch {
	case err != nil:
		return work.Retry("backend", err.Error()), true
	case st.Phase != shell.NeverStarted && (st.Phase != shell.UnknownRun || st.Reason == shell.ReasonReleased):
		return work.Result{}, false
	}
	if err := b.Stop(free, id, f, shell.StopRequest{Reason: why, Grace: shell.AtOnce}); err != nil {
		return startFailed(err), true
	}
	x, err := b.Wait(free, id)
	switch {
	case err != nil || !x.Started:
		return notStarted(why), true
	case x.Cause == shell.Canceled:
		return work.Lost(CodeLost, "it was stopped in the moment in which it started").WithDetail(exitPayload(x)).At(x.EndedAt), true
	default:
		return work.Result{}, false
	}
}

func notStarted(why string) work.Result {
	r := work.Fail(CodeStartFailed, "did not run: "+why)
	return r.WithDetail(exitPayload(shell.Exit{Cause: shell.StartFailed, Reason: why}))
}

func startFailed(err error) work.Result {
	var x *shell.ExecError
	switch {
	case errors.As(err, &x) && x.Started != shell.No:
		return work.Lost(CodeLost, err.Error())
	case fault.Is(err, fault.Fenced):
		return work.Lost(CodeLost, err.Error())
	default:
		return notStarted(err.Error())
	}
}

// follow journals the output and reports the end. When the worker drains it leaves
// the command running.
func (c *Commands) follow(ctx context.Context, a *work.Attempt, b shell.Recoverable, id shell.RunID, f shell.Fence) work.Result {
	err := c.copy(ctx, a, b, id)
	if errors.Is(err, errNeverStarted) {
		if res, over := c.forgo(ctx, b, id, f, supervisorGone); over {
			return res
		}
		return c.follow(ctx, a, b, id, f) // it started in that moment
	}
	if ctx.Err() == nil && unreachable(err) {
		return work.Leave()
	}
	if ctx.Err() == nil && err != nil && !fault.Is(err, fault.NotFound) {
		return work.Retry("journal", err.Error())
	}
	cause := context.Cause(ctx)
	reason, canceled := work.Canceled(ctx)
	free := context.WithoutCancel(ctx)
	switch {
	case cause == nil:
	case canceled:
		if err := b.Stop(free, id, f, shell.StopRequest{Cause: shell.Canceled, Reason: reason}); err != nil && !fault.Is(err, fault.Fenced) {
			return work.Lost(CodeLost, "stop: "+err.Error())
		}
	default: // draining or fenced: the command goes on under its supervisor
		if st, err := b.Recover(free, id); err != nil || st.Phase == shell.Live || errors.Is(cause, work.ErrFenced) {
			return work.Leave()
		}
	}
	return c.end(free, a, b, id)
}

// end waits for the exit, journals the rest and the exit itself, and says what it
// means for the task.
func (c *Commands) end(ctx context.Context, a *work.Attempt, b shell.Recoverable, id shell.RunID) work.Result {
	x, err := b.Wait(ctx, id)
	if err != nil {
		return c.missing(ctx, b, id, err)
	}
	if err := c.copy(ctx, a, b, id); err != nil && !fault.Is(err, fault.Closed) && !fault.Is(err, fault.NotFound) {
		return work.Retry("journal", err.Error())
	}
	p := work.Part{Event: eventOf(id), ID: "exit", Kind: "command.exited", Media: MediaExit, Data: exitPayload(x).Data, Final: true, Flush: true}
	if _, err := a.Emit(ctx, p); err != nil && !fault.Is(err, fault.Closed) {
		return work.Retry("journal", err.Error())
	}
	return resultOf(x)
}

// missing says what a run without records means.
func (c *Commands) missing(ctx context.Context, b shell.Recoverable, id shell.RunID, err error) work.Result {
	st, rerr := b.Recover(ctx, id)
	switch {
	case unreachable(rerr):
		return work.Leave()
	case rerr != nil:
		return work.Lost(CodeLost, rerr.Error())
	case st.Phase == shell.NeverStarted:
		return notStarted("it was stopped before it started")
	case st.Reason == shell.ReasonStateMissing:
		return work.Lost(CodeLost, stateGone)
	default:
		return work.Lost(CodeLost, fmt.Sprintf("%v (%s)", err, st.Reason))
	}
}

// unreachable reports whether a backend could not be asked, which says nothing of the
// run: it goes on, and who comes later finds it.
func unreachable(err error) bool {
	var x *shell.ExecError
	return errors.As(err, &x) && x.Phase == shell.StepTransport
}

func resultOf(x shell.Exit) work.Result {
	var r work.Result
	switch x.Cause {
	case shell.Exited:
		r = work.Done(exitPayload(x))
	case shell.TimedOut:
		r = work.Fail(CodeTimedOut, "the command was stopped at its time limit")
	case shell.Canceled:
		// With an intent in the store this becomes canceled. Without one, somebody
		// stopped the supervisor itself, or the run was given up before it started.
		r = work.Fail(codeStopped, "the command was stopped: "+x.Reason)
		if !x.Started {
			r = work.Fail(CodeStartFailed, "did not run: "+x.Reason)
		}
	case shell.OutputLimited:
		r = work.Fail(CodeOutputLimit, "the command was stopped: it wrote too much")
	case shell.StartFailed:
		r = work.Fail(CodeStartFailed, "did not run: "+x.Reason)
	default:
		r = work.Lost(CodeLost, "the process supervising the command was lost ("+x.Reason+"); it may have run partly or fully")
	}
	return r.WithDetail(exitPayload(x)).At(x.EndedAt)
}

func exitPayload(x shell.Exit) task.Payload {
	b, err := json.Marshal(x)
	if err != nil {
		panic(err) // numbers, strings and times
	}
	return task.Payload{Media: MediaExit, Data: b}
}

func eventOf(id shell.RunID) string { return string(id) + "/out" }

// errNeverStarted says that there is nothing to follow.
var errNeverStarted = errors.New("the run was never started")

// copy journals output until the run ends, the journal's limit is reached, or ctx
// ends.
func (c *Commands) copy(ctx context.Context, a *work.Attempt, b shell.Recoverable, id shell.RunID) error {
	tail, err := a.Tail(ctx, eventOf(id))
	if err != nil {
		return err
	}
	if tail.Final {
		return nil
	}
	from, persist := tail.Bytes, stream.Persister[shell.RunID, shell.Frame](frames) // parts follow one another without a hole
	if c.o.Persist != nil {
		from, persist = 0, c.o.Persist
	}
	live := stream.Persist(ctx, a, stream.Event[shell.RunID, shell.Frame]{ID: eventOf(id), Value: id, Chunks: c.output(ctx, b, id, from)}, persist)
	_, err = live.Wait(context.WithoutCancel(ctx)) // it ends with ctx
	return err
}

// frames is the persister of commands: a part's id is its offset, so a replay is a
// no-op.
func frames(ctx context.Context, w *stream.Writer, _ shell.RunID, output iter.Seq2[shell.Frame, error]) error {
	for f, err := range output {
		if err != nil {
			return err
		}
		p := work.Part{ID: strconv.FormatInt(f.Off, 10), Kind: kindOf(f.Stream), Media: "application/octet-stream", Data: f.Data}
		if _, err := w.Append(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// output reads a run's output from the offset on, until what copy journals ends.
func (c *Commands) output(ctx context.Context, b shell.Recoverable, id shell.RunID, from int64) iter.Seq2[shell.Frame, error] {
	return func(yield func(shell.Frame, error) bool) {
		for {
			if from >= c.o.JournalLimit {
				if err := c.idle(ctx, b, id); err != nil {
					yield(shell.Frame{}, err)
				}
				return
			}
			ch, err := c.chunk(ctx, b, id, from)
			if err != nil {
				yield(shell.Frame{}, err)
				return
			}
			for _, f := range ch.Frames {
				if !yield(f, nil) {
					return
				}
			}
			from = ch.Next
			if ch.End || ctx.Err() != nil {
				if err := context.Cause(ctx); err != nil {
					yield(shell.Frame{}, err)
				}
				return
			}
			if from == 0 { // nothing yet: is there somebody who will write?
				if st, err := b.Recover(ctx, id); err == nil && st.Phase == shell.NeverStarted {
					yield(shell.Frame{}, errNeverStarted)
					return
				}
			}
		}
	}
}

// chunk reads the next output. When more may follow at once it waits a moment for it:
// one part instead of many.
func (c *Commands) chunk(ctx context.Context, b shell.Recoverable, id shell.RunID, from int64) (shell.Chunk, error) {
	ch, err := b.Read(ctx, id, from, partSize, idleRead)
	if err != nil || size(ch) >= partSize || size(ch) == 0 || ch.End {
		return ch, err
	}
	t := time.NewTimer(window)
	select {
	case <-t.C:
	case <-ctx.Done():
		t.Stop()
	}
	return b.Read(context.WithoutCancel(ctx), id, from, partSize, 0)
}

// idle waits for the end without journaling.
func (c *Commands) idle(ctx context.Context, b shell.Recoverable, id shell.RunID) error {
	_, err := b.Wait(ctx, id)
	return err
}

func size(ch shell.Chunk) int {
	n := 0
	for _, f := range ch.Frames {
		n += len(f.Data)
	}
	return n
}

func kindOf(s shell.Stream) string {
	if s == shell.Merged {
		return journal.KindOutput
	}
	return journal.KindOutput + "." + s.String()
}

// stop stops what is left of a task that is to be canceled and has no attempt.
func (c *Commands) stop(ctx context.Context, a *work.Attempt) work.Result {
	rec := a.Task()
	b, err := c.Backend(&rec)
	if err != nil {
		return work.Lost(CodeLost, err.Error())
	}
	id := RunID(rec.ID)
	generation, attempt := a.Fence()
	free := context.WithoutCancel(ctx)
	err = b.Stop(free, id, shell.Fence{Generation: generation, Attempt: attempt}, shell.StopRequest{Cause: shell.Canceled, Reason: rec.CancelReason})
	switch {
	case fault.Is(err, fault.Fenced):
		return work.Lost(CodeLost, "stop: "+err.Error())
	case err != nil && !fault.Is(err, fault.NotFound):
		return work.Retry("stop", err.Error()) // what lives outside is not stopped: try again
	}
	r := c.end(free, a, b, id)
	r.End = work.EndStopped
	return r
}

// ended reports whether an unattended command has ended.
func (c *Commands) ended(ctx context.Context, r task.Record) bool {
	b, err := c.Backend(&r)
	if err != nil {
		return false
	}
	st, err := b.Recover(ctx, RunID(r.ID))
	return err == nil && st.Phase != shell.Live
}
