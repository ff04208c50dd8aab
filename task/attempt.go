// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/outlive-dev/outlive/journal"
)

// own checks that the fence holds the task, and nothing more.
func (s *step) own(f Fence) error {
	if s.r.Owner == OwnerParent {
		if f.Generation != s.r.Generation || f.Lease.IsZero() || f.Attempt != s.r.Hold.Attempt || f.Lease != s.r.Hold.Lease {
			return ErrOwner
		}
		return nil
	}
	former := f.Generation != 0 && f.Generation != s.r.Generation // an owner before the handoff
	if s.r.State != Running || f.Lease.IsZero() || f.Attempt != s.r.Attempt || f.Lease != s.r.Lease || former {
		return ErrFenced
	}
	return nil
}

// write checks that the fence may write: it holds the task and nobody canceled it.
func (s *step) write(f Fence) error {
	if err := s.own(f); err != nil {
		return err
	}
	if s.r.Canceling() {
		return ErrCancelRequested
	}
	return nil
}

// leave is write for a command that ends an attempt of the manager.
func (s *step) leave(f Fence) error {
	if err := s.write(f); err != nil {
		return err
	}
	if s.r.Owner == OwnerParent {
		return illegal(&s.r)
	}
	return held(f)
}

func held(f Fence) error {
	if f.Held > 0 {
		return fmt.Errorf("%w: %d", ErrHolding, f.Held)
	}
	return nil
}

func (c Start) apply(s *step) error {
	r := &s.r
	switch {
	case r.State != Pending:
		return illegal(r)
	case c.Lease.IsZero():
		return invalidf("lease is missing")
	case !r.StopOnly() && r.DueAt.After(s.now):
		return fmt.Errorf("%w: due at %s", ErrNotDue, r.DueAt.Format(time.RFC3339Nano))
	}
	stopOnly := r.StopOnly()
	s.take(c.Lease)
	r.DueAt = time.Time{}
	r.Outside = r.Outside || c.Outside
	r.Progressed, r.Stopping = false, stopOnly
	if !stopOnly && r.StartedAt.IsZero() {
		r.StartedAt = s.now
	}
	s.journal(journal.KindStarted, Started{Attempt: r.Attempt, Worker: c.Lease.Worker, StopOnly: stopOnly})
	s.abandon()
	return nil
}

func (c Adopt) apply(s *step) error {
	r := &s.r
	switch {
	case r.State != Running || r.Owner != OwnerManager || !r.Recoverable || !r.StartCommitted:
		return illegal(r)
	case r.Canceling():
		return ErrCancelRequested
	case !r.Lease.IsZero() && !c.Dead:
		return fmt.Errorf("%w: its worker is not proved dead", ErrIllegal)
	case c.Lease.IsZero():
		return invalidf("lease is missing")
	}
	s.take(c.Lease)
	s.journal(journal.KindRecovered, Started{Attempt: r.Attempt, Worker: c.Lease.Worker})
	s.abandon()
	return nil
}

// take begins a new attempt under the lease.
func (s *step) take(l Lease) {
	r := &s.r
	r.State, r.Lease = Running, l
	r.Attempt++
	r.AttemptInput, r.WakeInput = r.ConsumedInput, 0
	s.bump()
}

func (c CommitStart) apply(s *step) error {
	if err := s.write(c.Fence); err != nil {
		return err
	}
	r := &s.r
	if r.StartCommitted {
		return ErrStarted
	}
	r.StartCommitted, r.Progressed = true, true
	r.Outside = r.Outside || c.Outside
	if c.Checkpoint != nil {
		// What was started is no sign of progress in it: the budget stays.
		own := *c.Checkpoint
		r.Checkpoint = &own
	}
	if c.Place != (Place{}) {
		r.Place = c.Place
	}
	s.bump()
	return nil
}

func (c Save) apply(s *step) error {
	if err := s.write(c.Fence); err != nil {
		return err
	}
	s.keep(&c.Checkpoint)
	s.bump()
	return nil
}

// keep stores a checkpoint, if there is one; it is progress and resets the budget.
func (s *step) keep(c *Checkpoint) {
	if c == nil {
		return
	}
	own := *c
	s.r.Checkpoint = &own
	s.r.Progressed, s.r.Failures = true, 0
}

func (c CommitInput) apply(s *step) error {
	if err := s.write(c.Fence); err != nil {
		return err
	}
	if !s.r.ReadsInput {
		return ErrNoInput
	}
	if err := s.consume(c.Cursor); err != nil {
		return err
	}
	s.keep(c.Checkpoint)
	s.bump()
	return nil
}

// consume moves the consumed cursor of a task that reads input; an unchanged cursor
// is legal. It is the fence against a second consumer of the same input.
func (s *step) consume(cursor int64) error {
	r := &s.r
	if !r.ReadsInput {
		return nil
	}
	if cursor < r.ConsumedInput {
		return fmt.Errorf("%w: cursor %d is before %d", ErrConsumed, cursor, r.ConsumedInput)
	}
	if cursor > r.LatestInput {
		return invalidf("cursor %d is past the latest input %d", cursor, r.LatestInput)
	}
	if cursor > r.ConsumedInput {
		r.ConsumedInput = cursor
		r.Bounced, r.Progressed, r.Failures = false, true, 0
	}
	return nil
}

// bounces reports whether unread input keeps the task from ending or idling. A task
// that has bounced must move its cursor before it bounces again.
func (s *step) bounces() bool { return s.r.ReadsInput && s.r.Unread() > 0 && !s.r.Bounced }

func (c Progress) apply(s *step) error {
	if err := s.write(c.Fence); err != nil {
		return err
	}
	r := &s.r
	at := slices.Index(r.OpenEvents, c.Event)
	switch {
	case c.Event != "" && !c.Final && at < 0:
		if len(r.OpenEvents) >= maxOpenEvents {
			return overf("open events of one attempt", len(r.OpenEvents)+1, maxOpenEvents, "events")
		}
		r.OpenEvents = slices.Concat(r.OpenEvents, []string{c.Event})
	case c.Final && at >= 0:
		if r.OpenEvents = slices.Concat(r.OpenEvents[:at], r.OpenEvents[at+1:]); len(r.OpenEvents) == 0 {
			r.OpenEvents = nil
		}
	case r.Progressed:
		return nil
	}
	r.Progressed = true
	s.touch()
	return nil
}

// maxOpenEvents bounds how many events that nobody else can continue are open at once.
const maxOpenEvents = 64

// abandon closes the events that the attempt before left open and this one cannot
// continue.
func (s *step) abandon() {
	for _, e := range s.r.OpenEvents {
		s.fx = append(s.fx, Journal{Kind: journal.KindAbandoned, Closes: e})
	}
	s.r.OpenEvents = nil
}

func (c Complete) apply(s *step) error {
	if err := s.write(c.Fence); err != nil {
		return err
	}
	if err := held(c.Fence); err != nil {
		return err
	}
	if err := s.consume(c.Cursor); err != nil {
		return err
	}
	r := &s.r
	if !s.bounces() {
		s.done(c.Result, c.EndedAt)
		return nil
	}
	s.keep(c.Checkpoint)
	r.Bounced = true
	if r.Owner == OwnerParent {
		// The parent goes on; its result is withdrawn, as by Seal.
		r.Candidate = nil
		s.bump()
		return nil
	}
	r.Candidate = &Candidate{Result: c.Result, Cursor: r.ConsumedInput}
	s.yielded("input")
	return nil
}

// done ends the task as completed.
func (s *step) done(result Payload, endedAt time.Time) {
	s.r.Result = &result
	s.r.Checkpoint, s.r.Outside = nil, false
	s.end(Completed, nil, endedAt)
}

// yielded makes the task pending at once and says why.
func (s *step) yielded(reason string) {
	s.journal(journal.KindYielded, Yielded{Attempt: s.r.Attempt, Reason: reason})
	s.pend(s.now)
}

func (c Wait) apply(s *step) error {
	if err := s.leave(c.Fence); err != nil {
		return err
	}
	if len(c.Tickets) == 0 {
		return invalidf("wait needs a ticket")
	}
	answered, err := s.open(c.Tickets, c.Decided, c.Answered, c.All)
	if err != nil {
		return err
	}
	if err := s.consume(c.Cursor); err != nil {
		return err
	}
	s.keep(c.Checkpoint)
	if answered {
		s.yielded("answered")
		return nil
	}
	if s.r.WakeInput > s.r.ConsumedInput {
		// Sent a moment later it would have woken the task.
		s.yielded("input")
		return nil
	}
	s.waits()
	s.notify(NoticeWaiting, "")
	return nil
}

// open makes the undecided ones of tickets the task's open tickets and reports
// whether enough are decided to go on.
func (s *step) open(tickets, decided []TicketID, count int, all bool) (answered bool, err error) {
	left := make([]TicketID, 0, len(tickets))
	for i, t := range tickets {
		if t == "" {
			return false, invalidf("a ticket without id")
		}
		if slices.Contains(tickets[:i], t) {
			return false, invalidf("ticket %s is named twice", t)
		}
		if !slices.Contains(decided, t) {
			left = append(left, t)
		}
	}
	count = max(count, len(tickets)-len(left))
	answered = count > 0 && (!all || count >= len(tickets))
	if answered && len(left) == len(tickets) && (all || len(left) == 1) {
		left = nil // counted, not named: none of them is open
	}
	if len(left) == 0 {
		left, all = nil, false
	}
	s.r.Tickets, s.r.TicketsAll = left, all
	return answered, nil
}

// waits makes the task wait for its open tickets.
func (s *step) waits() {
	r := &s.r
	r.State, r.Lease = Waiting, Lease{}
	s.journal(journal.KindWaiting, Parked{Attempt: r.Attempt, Tickets: r.Tickets, All: r.TicketsAll})
	s.bump()
}

func (c Suspend) apply(s *step) error {
	if err := s.leave(c.Fence); err != nil {
		return err
	}
	r := &s.r
	switch c.Reason {
	case SuspendParked, SuspendOperator, SuspendIdle:
	default:
		return invalidf("reason %q: none of parked, operator, idle", c.Reason)
	}
	if !c.Checkpoint.IsZero() {
		s.keep(&c.Checkpoint)
	}
	if r.Checkpoint == nil {
		return invalidf("suspend needs a checkpoint")
	}
	if c.Reason == SuspendIdle && s.bounces() {
		r.Bounced = true
		s.yielded("input")
		return nil
	}
	s.suspended(c.Reason)
	return nil
}

// suspended parks the task until a release.
func (s *step) suspended(reason string) {
	r := &s.r
	r.State, r.Lease, r.SuspendReason = Suspended, Lease{}, reason
	s.journal(journal.KindSuspended, Parked{Attempt: r.Attempt, Reason: reason})
	s.bump()
}

func (c Yield) apply(s *step) error {
	if err := s.leave(c.Fence); err != nil {
		return err
	}
	s.keep(c.Checkpoint)
	s.yielded("yield")
	return nil
}

func (c DetachWorker) apply(s *step) error {
	if err := s.write(c.Fence); err != nil {
		return err
	}
	if s.r.Owner == OwnerParent || !s.r.Recoverable || !s.r.StartCommitted {
		return fmt.Errorf("%w: it would not live on without a worker", ErrIllegal)
	}
	s.letGo(false)
	return nil
}

// letGo leaves a running task unattended.
func (s *step) letGo(lost bool) {
	r := &s.r
	s.journal(journal.KindUnattended, Started{Attempt: r.Attempt, Worker: r.Lease.Worker, Lost: lost})
	r.Lease = Lease{}
	s.bump()
}

func (c Fail) apply(s *step) error {
	if err := s.write(c.Fence); err != nil {
		return err
	}
	f := c.Failure
	if f.Code == "" {
		return invalidf("a failure needs a code")
	}
	f.Outcome = cmp.Or(f.Outcome, OutcomeKnown)
	r := &s.r
	if !c.Retryable || r.Owner == OwnerParent {
		s.failed(f, c.EndedAt)
		return nil
	}
	r.Failures++
	budget := max(r.MaxAttempts, 1)
	if r.Failures >= budget {
		if budget > 1 {
			f.Message = fmt.Sprintf("gave up after %d failures, the last: %s: %s", r.Failures, f.Code, f.Message)
			f.Code = CodePoison
		}
		s.failed(f, c.EndedAt)
		return nil
	}
	s.retry(r.Backoff.Delay(r.Failures), f.Code, f.Message)
	return nil
}

// failed ends the task as failed. What lives outside is known to be over only if
// the outcome is.
func (s *step) failed(f Failure, endedAt time.Time) {
	f.Message = CutText(f.Message)
	if f.Outcome == OutcomeKnown {
		s.r.Outside = false
	}
	s.end(Failed, &f, endedAt)
}

// retry makes the task pending for another attempt, which starts anew.
func (s *step) retry(delay time.Duration, code, message string) {
	r := &s.r
	due := s.now.Add(delay)
	s.journal(journal.KindRetrying, Retrying{
		Attempt: r.Attempt, Failures: r.Failures, DueAt: due, Code: code, Message: CutText(message),
	})
	r.StartCommitted = false
	s.pend(due)
}

func (c AckCancel) apply(s *step) error {
	if err := s.own(c.Fence); err != nil {
		return err
	}
	if !s.r.Canceling() {
		return fmt.Errorf("%w: no cancel is requested", ErrIllegal)
	}
	s.canceled(cmp.Or(c.Outcome, OutcomeKnown), c.Result, c.EndedAt)
	return nil
}

// canceled ends the task as its cancel intent says: canceled with the first
// reason, or failed if a deadline asked.
func (s *step) canceled(o Outcome, detail *Payload, endedAt time.Time) {
	r := &s.r
	f := Failure{Code: CodeCanceled, Message: r.CancelReason, Outcome: o}
	if detail != nil {
		f.Detail = *detail
	}
	if o == OutcomeKnown {
		r.Outside = false
	}
	if r.CancelCode == CodeDeadline {
		f.Code = CodeDeadline
		s.end(Failed, &f, endedAt)
		return
	}
	s.end(Canceled, &f, endedAt)
}

func (c Expire) apply(s *step) error {
	r := &s.r
	if r.Owner == OwnerParent {
		return illegal(r)
	}
	if err := s.own(c.Fence); err != nil {
		return err
	}
	switch {
	case r.Canceling():
		s.stopLater(OutcomeUnknown)
	case r.Recoverable && r.StartCommitted:
		s.letGo(true)
	case r.OnLeaseLoss == LoseRetry:
		s.lost()
	default:
		s.failed(Failure{Code: CodeWorkerLost, Message: "the worker was lost", Outcome: OutcomeUnknown}, time.Time{})
	}
	return nil
}

// lost retries a task whose worker was lost. The first loss is retried at once:
// it says more about the worker than about the task.
func (s *step) lost() {
	r := &s.r
	const message = "the worker was lost"
	if r.Progressed {
		s.retry(0, CodeWorkerLost, message)
		return
	}
	r.Failures++
	budget := cmp.Or(r.MaxAttempts, LostAttempts)
	if r.Failures < budget {
		s.retry(r.Backoff.Delay(r.Failures-1), CodeWorkerLost, message)
		return
	}
	f := Failure{Code: CodeWorkerLost, Message: message, Outcome: OutcomeUnknown}
	if budget > 1 {
		f.Code = CodePoison
		f.Message = fmt.Sprintf("gave up after %d failures, the last: %s", r.Failures, message)
	}
	s.failed(f, time.Time{})
}

// Delay returns how long to wait after the given number of failures, 0 for none.
func (b Backoff) Delay(failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	d, limit := cmp.Or(b.Initial, DefaultBackoffInitial), cmp.Or(b.Max, DefaultBackoffMax)
	for range failures - 1 {
		if d >= limit/2 {
			return limit
		}
		d *= 2
	}
	return min(d, limit)
}
