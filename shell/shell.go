// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"context"
	"iter"
	"time"

	"github.com/outlive-dev/outlive/fault"
)

// Shell runs a command to its end. It is safe for concurrent use.
type Shell interface {
	// Execute starts the command and returns when it has ended, whatever its exit
	// code: a code other than zero, a signal and an expired Timeout are responses,
	// not errors. When ctx ends first the command is stopped and the error is an
	// *[ExecError] that wraps ctx's error and carries the output so far. It does
	// not keep r.
	Execute(ctx context.Context, r Request) (*Response, error)
	// Capabilities says what the backend can honour; a request that asks for more
	// is refused with kind fault.Unsupported, never silently degraded.
	Capabilities() Capabilities
}

// StreamingShell is a Shell that also delivers output while the command runs.
type StreamingShell interface {
	Shell
	// Stream runs the command and yields its output as it comes. The last part
	// carries Exit and may have no output. The sequence runs the command once: it
	// must be ranged over once. Breaking out of it stops the command. An error is
	// yielded last, as Execute would return it.
	Stream(ctx context.Context, r Request) iter.Seq2[Part, error]
}

// Recoverable is a backend whose commands outlive the process that started them.
// Any process that can reach the backend may observe, stop and release a run.
//
// All methods are safe for concurrent use, also from several processes. An
// unreadable run is never reported as finished, and a run is never executed twice.
type Recoverable interface {
	// Start makes sure that the run has been started, at most once ever. It is
	// idempotent: with the same digest it returns nil for a run that is live, has
	// ended or was lost, and raises the stored fence to f, which is how an adopter
	// makes itself known before it acts. It executes the command only when it is
	// certain that it was never executed.
	//
	// Errors: [ErrDigest] (Conflict) when id is known with another request,
	// [ErrFenced] (Fenced) when a higher fence is stored, [ErrReleased] (Finished)
	// after Release, [ErrEnvironmentGone] (Unsupported) when the run never started,
	// its environment went by pipe and r brings none, Invalid for a bad request,
	// and otherwise an *[ExecError] whose Started says whether the command may have
	// run. A command that cannot be executed is no error: it ends with cause
	// start_failed.
	Start(ctx context.Context, id RunID, f Fence, r Request) error
	// Recover decides what became of a run from its records. When the supervisor is
	// gone without an exit record, it stops what is left of the command and writes
	// the exit record with cause lost. An id that is not known here is a State with
	// phase unknown, not an error.
	Recover(ctx context.Context, id RunID) (State, error)
	// Read returns output from the logical offset from, at most max bytes (0 means
	// 64 KiB). With nothing there yet it waits up to wait. It is repeatable: the
	// same range gives the same bytes, except that a range may become omitted.
	// Chunk.End is true when the run has ended and Next is its last offset.
	// Kind NotFound when there is no such run.
	Read(ctx context.Context, id RunID, from int64, max int, wait time.Duration) (Chunk, error)
	// Wait returns the exit when the run has ended, also as lost. Kind NotFound
	// when there is no such run or it was never started; ctx's error when ctx ends
	// first, which leaves the run alone.
	Wait(ctx context.Context, id RunID) (Exit, error)
	// Stop records a durable intent to stop the run and returns without waiting for
	// the end. It is idempotent: the first cause wins, a later call can only shorten
	// the grace. After the end it does nothing. When the run has not started yet it
	// never will. When the supervisor is gone it stops what is left of the command
	// and writes the exit record. [ErrFenced] when a higher fence is stored.
	Stop(ctx context.Context, id RunID, f Fence, s StopRequest) error
	// Release gives the run up after its exit and output are stored elsewhere. What
	// remains is a tombstone, so that a late Start does not run it again. It is
	// idempotent. Kind Conflict while the run is live, [ErrFenced] when a higher
	// fence is stored.
	Release(ctx context.Context, id RunID, f Fence) error
	// List returns the runs that are there, released ones excluded, in no order.
	List(ctx context.Context) ([]RunID, error)
	// Attach follows a run from the logical offset from and holds its output back
	// for this reader: see [Attachment]. The first Attach in the process that
	// started the run with Request.Attached takes over the hold made by Start. It
	// works on a run that has ended, too. Kind NotFound when there is no such run.
	Attach(ctx context.Context, id RunID, from int64) (Attachment, error)
	// Capabilities says what the backend can honour.
	Capabilities() Capabilities
}

// Preparer is a backend that leaves a trace of a run before it is started. A caller that
// prepares a run, then records that it may start it, and only then starts it, can tell a
// run that was never started from one whose state was taken away: of the second, Recover
// says [ReasonStateMissing].
type Preparer interface {
	// Prepare is idempotent and starts nothing.
	Prepare(ctx context.Context, id RunID) error
}

// Attachment is one reader's hold on a run. While it is open, bytes that it has not
// acknowledged are not dropped, and when a whole window is not acknowledged the
// supervisor stops reading, as a plain pipe would. Close, or the death of the
// reader's process, ends that and leaves the run alone; when the last attachment of
// a run ends, an open standard input is closed. A terminal's stays open.
//
// Concurrency: one goroutine may read, one may write standard input; Ack and Close
// may be called from anywhere.
type Attachment interface {
	// Read returns the next output after the last Read, at most max bytes (0 means
	// 64 KiB). It waits for output or the end. It does not acknowledge.
	Read(ctx context.Context, max int) (Chunk, error)
	// Ack tells the supervisor that everything before off was taken. Offsets that go
	// back are ignored.
	Ack(off int64) error
	// WriteStdin feeds the command's standard input and waits while it is full. Kind
	// Closed when the run does not read input (any more).
	WriteStdin(ctx context.Context, p []byte) (int, error)
	// CloseStdin ends the command's standard input after what was written. It is
	// idempotent. On a terminal it is what the end-of-file key does: whoever reads
	// from it next sees an end once, and for other attachments the input stays open.
	CloseStdin() error
	// Resize sets the size of the run's terminal, of which the command learns. It does
	// nothing for a run without one, or one that has ended.
	Resize(TTY) error
	// Close ends the attachment. It is idempotent.
	Close() error
}

// Capabilities says what a backend can honour.
type Capabilities struct {
	Streaming   bool // output while the command runs
	Recoverable bool // runs survive the process that started them
	OwnsTimeout bool // the backend holds the command's clock
	TTY         bool // terminals
	Stdin       bool // StdinOpen
	Split       bool // separate standard output and error
	Signals     bool // tells a signal that ended the command from a code of its own
	Leftovers   bool // can find and stop processes the command left behind
	Umask       bool // can set the command's umask
	Rlimits     bool // limits of each process: Files and Processes
	Memory      bool // limits of the whole run, each
	Pids        bool
	CPU         bool
}

// Honours returns an error of kind fault.Unsupported that names the first limit that the
// backend cannot keep.
func (c Capabilities) Honours(l Limits) error {
	for _, x := range []struct {
		what  string
		asked bool
		can   bool
	}{
		{"memory of a command", l.Memory > 0, c.Memory},
		{"number of processes of a command", l.Pids > 0, c.Pids},
		{"processor time of a command", l.MilliCPU > 0, c.CPU},
		{"open files of a process", l.Files > 0, c.Rlimits},
		{"number of processes of a user", l.Processes > 0, c.Rlimits},
	} {
		if x.asked && !x.can {
			return fault.Newf(fault.Unsupported, "this backend cannot limit the %s", x.what)
		}
	}
	return nil
}

// Part is a piece of a streamed execution.
type Part struct {
	Frames  []Frame
	Omitted []Range
	// Exit is set in the last part only.
	Exit *Exit
}

// Response is a whole execution.
type Response struct {
	// Output is what was kept of the merged stream, or of both streams in the order
	// received; Stdout and Stderr are set only for a Split request.
	Output, Stdout, Stderr []byte
	// Omitted lists what was dropped between the kept parts of Output.
	Omitted []Range
	Exit    Exit
	// Ref is the run to read from later; empty when the backend keeps nothing.
	Ref RunID
}

// Stream says which of the command's outputs bytes belong to.
type Stream uint8

const (
	// Merged is the one stream of a request that is not Split.
	Merged Stream = iota
	// Stdout is the standard output of a Split request.
	Stdout
	// Stderr is the standard error of a Split request.
	Stderr
)

// String returns "merged", "stdout" or "stderr".
func (s Stream) String() string {
	switch s {
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	default:
		return "merged"
	}
}

// Frame is a piece of output. Off is its offset in the logical stream, which
// counts the bytes of both streams in the order received.
type Frame struct {
	Stream Stream
	Off    int64
	Data   []byte
}

// Range is the half-open range of logical offsets [From, To).
type Range struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Len returns the number of bytes in the range.
func (r Range) Len() int64 { return r.To - r.From }

// Chunk is what one Read returned. Frames and Omitted together cover every offset
// from the one asked for up to Next, each in ascending order.
type Chunk struct {
	Frames  []Frame
	Omitted []Range
	Next    int64
	End     bool
}

// Bytes returns the data of all frames in order.
func (c Chunk) Bytes() []byte {
	if len(c.Frames) == 1 {
		return c.Frames[0].Data
	}
	var b []byte
	for _, f := range c.Frames {
		b = append(b, f.Data...)
	}
	return b
}

// StopRequest says why and how a run is to be stopped.
type StopRequest struct {
	// Cause becomes the run's cause: [Canceled] or [TimedOut]. Defaults to Canceled.
	Cause Cause
	// Reason is kept in the exit record, cut to a few hundred bytes.
	Reason string
	// Grace is the time between TERM and KILL; [AtOnce] kills without TERM. Defaults
	// to the grace of the run's own request.
	Grace time.Duration
}
