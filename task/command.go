// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package task

import "time"

// Op names a command; its values are the rows of the transition table.
type Op string

// Command is one request to change a record. The set is sealed: the types of this
// file and no others. Each carries the fence it needs and no more.
type Command interface {
	Op() Op
	apply(s *step) error
}

// Fence is the attempt's right to write: attempt number, worker and epoch. The
// caller of [Apply] has already checked that the worker's lease lives.
//
// For a parent-owned task the fence is its hold, Attempt and Lease of the parent's
// attempt, and the task's Generation: after a handoff the task may have an attempt of
// its own with the same number under the same lease, which the hold alone could not
// be told from. Attempts of the manager leave Generation 0. Held counts the unfinished parent-owned children of the attempt, by the
// engine's reading in the same transaction: while there are any, Complete, Wait,
// Suspend and Yield are refused.
type Fence struct {
	Attempt    int64
	Lease      Lease
	Generation int64
	Held       int
}

// Create makes a task. It is the only command on the zero Record. The engine
// fills Parent facts (Depth, Root, RootSession) before.
type Create struct {
	Record Record // identity, ownership, publication, schedule; the rest is set here
}

// Start begins an attempt of a pending, due task. StopOnly starts may begin before
// DueAt and exist to run the stop hook of a task that is to be canceled. Outside
// is set when the executor has a stop hook.
type Start struct {
	Lease   Lease
	Outside bool
}

// Adopt takes over a recoverable, start-committed task that is unattended or
// whose worker is proved dead. Nothing is started.
type Adopt struct {
	Lease Lease
	Dead  bool // the holder is proved dead
}

// CommitStart says that the attempt is about to start, or has started, what lives
// outside; from here on a lost attempt is adopted, never started again. Outside
// marks that a stop hook must run on cancel.
type CommitStart struct {
	Fence      Fence
	Checkpoint *Checkpoint
	Place      Place // kept when set
	Outside    bool
}

// Save stores a checkpoint (op "checkpoint").
type Save struct {
	Fence      Fence
	Checkpoint Checkpoint
}

// CommitInput moves the consumed cursor, and the checkpoint with it.
type CommitInput struct {
	Fence      Fence
	Cursor     int64
	Checkpoint *Checkpoint
}

// Progress notes that the attempt wrote a journal part: it only resets the
// no-progress rule of Expire, moves no version, and is a no-op when already set.
//
// Event names an event that no later attempt can continue; Final says that the part
// was its last. While it is open the record lists it, and the start of the next
// attempt closes it.
type Progress struct {
	Fence Fence
	Event string
	Final bool
}

// Complete ends the task with a result, or bounces it to pending when there is
// unread input that the executor reads. EndedAt, when set, is the recorded end of
// what ran outside and becomes DoneAt.
type Complete struct {
	Fence      Fence
	Result     Payload
	Cursor     int64 // the cursor consumed; ignored below ConsumedInput when the executor reads no input
	Checkpoint *Checkpoint
	EndedAt    time.Time
}

// Wait parks the attempt until its tickets are decided. Decided names those of
// Tickets that are decided already, by the engine's reading in the same
// transaction; Answered is their number, for an engine that only counts.
type Wait struct {
	Fence      Fence
	Tickets    []TicketID
	All        bool
	Answered   int
	Decided    []TicketID
	Cursor     int64
	Checkpoint *Checkpoint
}

// Suspend parks the attempt until a release. Reason is one of the Suspend
// constants. A zero Checkpoint keeps the one there is.
type Suspend struct {
	Fence      Fence
	Reason     string
	Checkpoint Checkpoint
}

// Yield gives the attempt back: drain, hand over.
type Yield struct {
	Fence      Fence
	Checkpoint *Checkpoint
}

// DetachWorker leaves a recoverable, start-committed task unattended: a clean exit.
type DetachWorker struct{ Fence Fence }

// Fail ends the attempt. Retryable goes back to pending while the budget lasts.
type Fail struct {
	Fence     Fence
	Failure   Failure
	Retryable bool
	EndedAt   time.Time
}

// AckCancel confirms that a canceled attempt has stopped. Unknown marks that the
// outcome is not known (force). EndedAt as in Complete.
type AckCancel struct {
	Fence   Fence
	Outcome Outcome
	EndedAt time.Time
	Result  *Payload // kept as Failure.Detail: what had been produced
}

// RequestCancel states the intent to cancel. IfVersion, when not 0, is the version
// the caller decided on. WorkerGone means the holder is proved dead or there is
// none. Force ends it at once with outcome unknown. Cascade names the children that
// the engine cancels with it in the same transaction.
type RequestCancel struct {
	Cascade    []ID
	Reason     string
	IfVersion  int64
	WorkerGone bool
	Force      bool
}

// Send accepts one input; the engine stores it in the same transaction with the
// sequence the new LatestInput names. Wakes marks steer and interrupt. Input is
// what the entry tells of it; its Seq is set by Apply.
type Send struct {
	Wakes bool
	Input InputNote
}

// Decide tells a task that one of its tickets was decided; Satisfied when that is
// enough to go on, by the engine's reading of the ticket rows. A task whose last
// open ticket it was, or that waits for any, goes on in any case. Deciding a ticket
// that is not open changes nothing.
type Decide struct {
	Ticket    TicketID
	Satisfied bool
}

// Release makes a suspended task pending.
type Release struct{ IfVersion int64 }

// Publish makes a deferred task public; idempotent; moves no version.
type Publish struct{}

// Reveal is Publish by the rule that nothing stays hidden whose observer is gone:
// publishes, also a terminal task whose outcome was not taken; a policy of cancel
// requests cancel instead on a live one.
type Reveal struct {
	Policy     LivenessPolicy
	WorkerGone bool // as in RequestCancel
}

// Expire ends the attempt of a worker whose lease is over. A recoverable task with
// a committed start becomes unattended; Fence names the attempt to end.
type Expire struct{ Fence Fence }

// Orphan ends the hold of a parent-owned task whose parent's attempt is over.
type Orphan struct{ Generation int64 }

// Retake gives a parent-owned task that is not yet orphaned to the next attempt of
// its parent, with a new generation. The engine has checked that the old hold is
// over and that the invocation is the same.
type Retake struct{ Hold Hold }

// HandOff passes a parent-owned task to the manager with a new generation.
type HandOff struct {
	Generation int64
	Tickets    []TicketID
	All        bool
	Answered   int
	Decided    []TicketID // as in Wait
	Suspend    bool
	Checkpoint *Checkpoint
	Cursor     int64
}

// Offer stores a parent-owned task's candidate result.
type Offer struct {
	Generation int64
	Result     Payload
	Cursor     int64
}

// Seal completes a parent-owned task with its candidate, or withdraws it when
// input came in between.
type Seal struct{ Generation int64 }

// Deadline ends a task whose deadline has passed.
type Deadline struct{ WorkerGone bool }

// Every op, in the order of the table.
const (
	OpCreate        Op = "create"
	OpStart         Op = "start"
	OpAdopt         Op = "adopt"
	OpCommitStart   Op = "commit_start"
	OpSave          Op = "checkpoint"
	OpCommitInput   Op = "commit_input"
	OpProgress      Op = "progress"
	OpComplete      Op = "complete"
	OpWait          Op = "wait"
	OpSuspend       Op = "suspend"
	OpYield         Op = "yield"
	OpDetachWorker  Op = "detach_worker"
	OpFail          Op = "fail"
	OpAckCancel     Op = "ack_cancel"
	OpRequestCancel Op = "request_cancel"
	OpSend          Op = "send"
	OpDecide        Op = "decide"
	OpRelease       Op = "release"
	OpPublish       Op = "publish"
	OpReveal        Op = "reveal"
	OpExpire        Op = "expire"
	OpOrphan        Op = "orphan"
	OpRetake        Op = "retake"
	OpHandOff       Op = "hand_off"
	OpOffer         Op = "offer"
	OpSeal          Op = "seal"
	OpDeadline      Op = "deadline"
)

func (Create) Op() Op        { return OpCreate }
func (Start) Op() Op         { return OpStart }
func (Adopt) Op() Op         { return OpAdopt }
func (CommitStart) Op() Op   { return OpCommitStart }
func (Save) Op() Op          { return OpSave }
func (CommitInput) Op() Op   { return OpCommitInput }
func (Progress) Op() Op      { return OpProgress }
func (Complete) Op() Op      { return OpComplete }
func (Wait) Op() Op          { return OpWait }
func (Suspend) Op() Op       { return OpSuspend }
func (Yield) Op() Op         { return OpYield }
func (DetachWorker) Op() Op  { return OpDetachWorker }
func (Fail) Op() Op          { return OpFail }
func (AckCancel) Op() Op     { return OpAckCancel }
func (RequestCancel) Op() Op { return OpRequestCancel }
func (Send) Op() Op          { return OpSend }
func (Decide) Op() Op        { return OpDecide }
func (Release) Op() Op       { return OpRelease }
func (Publish) Op() Op       { return OpPublish }
func (Reveal) Op() Op        { return OpReveal }
func (Expire) Op() Op        { return OpExpire }
func (Orphan) Op() Op        { return OpOrphan }
func (Retake) Op() Op        { return OpRetake }
func (HandOff) Op() Op       { return OpHandOff }
func (Offer) Op() Op         { return OpOffer }
func (Seal) Op() Op          { return OpSeal }
func (Deadline) Op() Op      { return OpDeadline }
