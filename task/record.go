// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"maps"
	"slices"
	"time"
)

// ID names a task for ever. It sorts by creation time, cannot be guessed, and is
// an opaque string to everybody but [NewID].
type ID string

// SessionID names a durable conversation.
type SessionID string

// WorkerID names a process (or part of one) that executes attempts.
type WorkerID string

// TicketID names one question a waiting task waits for.
type TicketID string

// Payload is bytes with a media type. The core never looks inside.
type Payload struct {
	Media string `json:"media,omitempty"`
	Data  []byte `json:"data,omitempty"`
}

// IsZero reports whether the payload is absent.
func (p Payload) IsZero() bool { return p.Media == "" && p.Data == nil }

// Checkpoint is an executor's own state with its format and version, so that
// another version can refuse it instead of guessing.
type Checkpoint struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Data    []byte `json:"data,omitempty"`
}

// IsZero reports whether there is no checkpoint.
func (c Checkpoint) IsZero() bool { return c.Format == "" && c.Version == 0 && c.Data == nil }

// Candidate is a result stored first and sealed second (parent-owned tasks), or
// kept over a bounce. Cursor is the input cursor it was made at.
type Candidate struct {
	Result Payload `json:"result"`
	Cursor int64   `json:"cursor"`
}

// Failure says why a task failed or was canceled.
type Failure struct {
	Code    string  `json:"code"`
	Message string  `json:"message,omitempty"`
	Detail  Payload `json:"detail,omitzero"`
	Outcome Outcome `json:"outcome"`
}

// Lease names the attempt's holder: a worker and the epoch of its lease.
type Lease struct {
	Worker WorkerID `json:"worker,omitempty"`
	Epoch  int64    `json:"epoch,omitempty"`
}

// IsZero reports whether nobody holds it.
func (l Lease) IsZero() bool { return l.Worker == "" }

// Defaults of [Backoff].
const (
	DefaultBackoffInitial = time.Second
	DefaultBackoffMax     = 5 * time.Minute
)

// Hold ties a parent-owned child to the attempt of its parent that drives it.
//
// Generation is the parent's: an attempt after a handoff may have the number and the
// lease of one before it. 0 is of a version that did not tell.
type Hold struct {
	Parent     ID    `json:"parent"`
	Attempt    int64 `json:"attempt"`
	Lease      Lease `json:"lease"`
	Generation int64 `json:"generation,omitempty"`
}

// Backoff is the delay before a retry: Initial, doubled per failure, at most Max.
type Backoff struct {
	Initial time.Duration `json:"initial,omitempty"` // Defaults to 1 s.
	Max     time.Duration `json:"max,omitempty"`     // Defaults to 5 min.
}

// Liveness says what happens when the last claim on a live task ends.
type Liveness struct {
	Policy LivenessPolicy `json:"policy,omitempty"`
	Grace  time.Duration  `json:"grace,omitempty"`
}

// Place pins a task to what lives outside the store, such as a run directory.
type Place struct {
	Host string `json:"host,omitempty"`
	Dir  string `json:"dir,omitempty"`
}

// Record is one task: the aggregate that changes under one row lock. It is made
// and changed by [Apply] alone. A result exists only on completed, a failure only
// on failed or canceled. A Record is a value: Clone before keeping one that
// somebody else may change.
type Record struct {
	// Identity, fixed at creation.
	ID          ID                `json:"id"`
	Executor    string            `json:"executor"`
	Kind        string            `json:"kind,omitempty"`
	Name        string            `json:"name,omitempty"`
	Description string            `json:"description,omitempty"`
	Spec        Payload           `json:"spec,omitzero"`
	Invocation  string            `json:"invocation,omitempty"`
	Digest      string            `json:"digest,omitempty"`
	Parent      ID                `json:"parent,omitempty"`
	Root        ID                `json:"root,omitempty"`
	Depth       int               `json:"depth,omitempty"`
	Bound       bool              `json:"bound,omitempty"` // a cancel of its parent cancels it
	Session     SessionID         `json:"session,omitempty"`
	RootSession SessionID         `json:"root_session,omitempty"`
	CausedBy    string            `json:"caused_by,omitempty"`
	Notify      string            `json:"notify,omitempty"` // outbox target of notices that nobody above takes
	RetryOf     ID                `json:"retry_of,omitempty"`
	Principal   string            `json:"principal,omitempty"`
	Tenant      string            `json:"tenant,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Place       Place             `json:"place,omitzero"`

	// Ownership.
	Owner          Owner     `json:"owner"`
	Generation     int64     `json:"generation"`
	Attempt        int64     `json:"attempt,omitempty"`
	Lease          Lease     `json:"lease,omitzero"`
	Hold           Hold      `json:"hold,omitzero"`
	OnLeaseLoss    LeaseLoss `json:"on_lease_loss,omitempty"`
	ReadsInput     bool      `json:"reads_input,omitempty"`
	Recoverable    bool      `json:"recoverable,omitempty"`
	StartCommitted bool      `json:"start_committed,omitempty"`
	Outside        bool      `json:"outside,omitempty"`
	Stopping       bool      `json:"stopping,omitempty"` // the attempt was started to run the stop hook only

	// Children counts those ever created.
	Children int `json:"children,omitempty"`

	// Visibility.
	Publication Publication `json:"publication"`

	// Lifecycle.
	State             State       `json:"state"`
	Version           int64       `json:"version"`
	Revision          int64       `json:"revision"` // the ETag: every change moves it
	CancelRequestedAt time.Time   `json:"cancel_requested_at,omitzero"`
	CancelReason      string      `json:"cancel_reason,omitempty"`
	CancelCode        string      `json:"cancel_code,omitempty"` // "deadline" or "", decides how the end is written
	Tickets           []TicketID  `json:"tickets,omitempty"`
	TicketsAll        bool        `json:"tickets_all,omitempty"`
	SuspendReason     string      `json:"suspend_reason,omitempty"`
	Checkpoint        *Checkpoint `json:"checkpoint,omitempty"`
	Candidate         *Candidate  `json:"candidate,omitempty"`
	Result            *Payload    `json:"result,omitempty"`
	Failure           *Failure    `json:"failure,omitempty"`

	// Mail. Cursors count inputs from 1; 0 is before the first.
	MailSealed  bool  `json:"mail_sealed,omitempty"`
	LatestInput int64 `json:"latest_input,omitempty"`
	// Told is the id of the latest notice the task sent that is not of its end.
	Told          string `json:"told,omitempty"`
	ConsumedInput int64  `json:"consumed_input,omitempty"`
	AttemptInput  int64  `json:"attempt_input,omitempty"` // ConsumedInput when the attempt started
	WakeInput     int64  `json:"wake_input,omitempty"`    // newest steer or interrupt input since the attempt started
	Bounced       bool   `json:"bounced,omitempty"`       // went back for unread input; cleared when the cursor moves

	// Schedule.
	Queue          string    `json:"queue,omitempty"`
	ConcurrencyKey string    `json:"concurrency_key,omitempty"`
	Priority       int       `json:"priority,omitempty"` // smaller is sooner; 0 is normal
	DueAt          time.Time `json:"due_at,omitzero"`
	MaxAttempts    int       `json:"max_attempts,omitempty"` // limits Failures + 1; 0 means 1, and LostAttempts for lost workers
	Failures       int       `json:"failures,omitempty"`
	Progressed     bool      `json:"progressed,omitempty"`  // since Start
	OpenEvents     []string  `json:"open_events,omitempty"` // of the attempt, which no later one can continue
	Backoff        Backoff   `json:"backoff,omitzero"`
	Deadline       time.Time `json:"deadline,omitzero"`
	Tokens         int64     `json:"tokens,omitempty"` // of models, it and its children; 0 is no limit; executors count

	Liveness Liveness `json:"liveness,omitzero"`

	// Times, of the store's clock.
	CreatedAt time.Time     `json:"created_at"`
	StartedAt time.Time     `json:"started_at,omitzero"` // first attempt
	UpdatedAt time.Time     `json:"updated_at"`
	DoneAt    time.Time     `json:"done_at,omitzero"`
	Retention time.Duration `json:"retention,omitempty"`
}

// Stream returns the stream the task writes to: its session's, else its own.
func (r *Record) Stream() string {
	if r.Session != "" {
		return string(r.Session)
	}
	return string(r.ID)
}

// Unattended reports whether the task runs with nobody watching it: a recoverable
// command that lives on under its own supervisor.
func (r *Record) Unattended() bool {
	return r.State == Running && r.Owner == OwnerManager && r.Lease.IsZero()
}

// StopOnly reports whether all that is left is to run the stop hook: the task is
// pending and to be canceled, or running by an attempt that was started for that.
func (r *Record) StopOnly() bool { return r.State == Pending && r.Canceling() || r.Stopping }

// Canceling reports whether a cancel was requested and the task has not ended.
func (r *Record) Canceling() bool { return !r.CancelRequestedAt.IsZero() && !r.State.Terminal() }

// Unread returns how many inputs nobody consumed.
func (r *Record) Unread() int64 { return r.LatestInput - r.ConsumedInput }

// Clone returns a deep copy, so that neither side sees the other's changes.
func (r Record) Clone() Record {
	r.Spec = r.Spec.clone()
	r.Labels = maps.Clone(r.Labels)
	r.Tickets = slices.Clone(r.Tickets)
	r.OpenEvents = slices.Clone(r.OpenEvents)
	if r.Checkpoint != nil {
		c := *r.Checkpoint
		c.Data = slices.Clone(c.Data)
		r.Checkpoint = &c
	}
	if r.Candidate != nil {
		c := *r.Candidate
		c.Result = c.Result.clone()
		r.Candidate = &c
	}
	if r.Result != nil {
		p := r.Result.clone()
		r.Result = &p
	}
	if r.Failure != nil {
		f := *r.Failure
		f.Detail = f.Detail.clone()
		r.Failure = &f
	}
	return r
}

func (p Payload) clone() Payload {
	p.Data = slices.Clone(p.Data)
	return p
}
