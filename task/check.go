// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"fmt"
	"slices"
)

// Check returns what is wrong with a record, or nil: every record that [Apply]
// returns passes, so a record that does not was damaged. Each complaint begins with
// the id of the invariant, as docs/states.md lists them.
func Check(r Record) error {
	var bad []error
	must := func(id string, ok bool, format string, args ...any) {
		if !ok {
			bad = append(bad, fmt.Errorf("%s: %s", id, fmt.Sprintf(format, args...)))
		}
	}
	known := slices.Contains(States(), r.State)
	ended := r.State.Terminal()
	driven := r.Owner == OwnerParent && !ended
	intent := !r.CancelRequestedAt.IsZero()

	must("T-1", r.ID != "" && r.Executor != "", "id and executor are fixed at creation")
	must("T-1", known, "unknown state %q", r.State)
	must("T-1", r.Owner == OwnerManager || r.Owner == OwnerParent, "unknown owner %q", r.Owner)
	must("T-1", r.Publication == Deferred || r.Publication == OnCreate || r.Publication == OnBackground,
		"unknown publication %q", r.Publication)

	must("T-2", r.Version >= 1 && r.Generation >= 1 && r.Attempt >= 0 && r.Failures >= 0, "a counter is too low")
	must("T-2", r.Revision >= r.Version, "revision %d is behind version %d", r.Revision, r.Version)

	must("T-3", r.Lease.IsZero() || r.State == Running && r.Owner == OwnerManager && r.Attempt > 0,
		"a lease belongs to a running attempt")
	must("T-3", !r.Lease.IsZero() || r.Lease.Epoch == 0, "an epoch without a worker")
	must("T-3", !r.Unattended() || r.Recoverable && r.StartCommitted, "unattended, but nothing lives on outside")

	must("T-4", !driven || r.State == Running && r.Attempt == 0, "a parent-owned task is running with attempt 0")
	must("T-4", driven == (r.Hold != Hold{}), "a hold belongs to an unfinished parent-owned task")
	must("T-4", !driven || r.Hold.Parent != "" && r.Hold.Parent == r.Parent && !r.Hold.Lease.IsZero(), "the hold names no attempt of the parent")

	must("T-5", (r.Result != nil) == (r.State == Completed), "a result belongs to a completed task")
	must("T-5", (r.Failure != nil) == (r.State == Failed || r.State == Canceled), "a failure belongs to a failed or canceled task")
	if r.Failure != nil {
		must("T-5", r.Failure.Code != "", "a failure needs a code")
		must("T-5", r.Failure.Outcome == OutcomeKnown || r.Failure.Outcome == OutcomeUnknown, "unknown outcome %q", r.Failure.Outcome)
		must("T-5", len(r.Failure.Message) <= MaxText, "the failure's message is too long")
	}

	must("T-6", r.MailSealed == ended, "the mailbox is sealed at the end and not before")
	must("T-6", r.DoneAt.IsZero() != ended, "done_at is set at the end and not before")
	must("T-6", !ended || r.Candidate == nil && len(r.Tickets) == 0, "a candidate or open tickets after the end")
	must("T-6", !ended || len(r.OpenEvents) == 0, "an open event after the end")
	must("T-6", r.State != Completed || r.Checkpoint == nil, "a checkpoint after completion")

	must("T-7", intent || r.CancelReason == "" && r.CancelCode == "", "a cancel reason without an intent")
	must("T-7", r.CancelCode == "" || r.CancelCode == CodeDeadline, "unknown cancel code %q", r.CancelCode)
	must("T-7", len(r.CancelReason) <= MaxText, "the cancel reason is too long")
	must("T-7", !intent || r.State != Waiting && r.State != Suspended, "a task to be canceled is pending or running")
	must("T-7", !r.Stopping || r.State == Running && intent && !r.Lease.IsZero(), "stopping belongs to a running attempt of a task to be canceled")
	must("T-7", !intent || r.State != Completed, "completed after a cancel intent")
	must("T-7", r.State != Canceled || intent && r.CancelCode == "", "canceled without a cancel intent")
	must("T-7", r.State != Failed || intent == (r.CancelCode == CodeDeadline), "failed after a cancel intent that no deadline had")

	must("T-8", 0 <= r.AttemptInput && r.AttemptInput <= r.ConsumedInput && r.ConsumedInput <= r.LatestInput, "input cursors are out of order")
	must("T-8", r.ReadsInput || r.LatestInput == 0 && !r.Bounced, "input for an executor that reads none")
	must("T-8", 0 <= r.WakeInput && r.WakeInput <= r.LatestInput, "the waking input is past the latest")
	must("T-8", r.Candidate == nil || r.Candidate.Cursor <= r.LatestInput, "the candidate is past the latest input")

	must("T-9", r.State != Waiting || len(r.Tickets) > 0, "waits for nothing")
	must("T-9", len(r.Tickets) > 0 || !r.TicketsAll, "waits for all of nothing")
	for i, t := range r.Tickets {
		must("T-9", t != "" && !slices.Contains(r.Tickets[:i], t), "ticket %q is empty or named twice", t)
	}

	must("T-10", r.State != Suspended || r.Checkpoint != nil, "suspended without a checkpoint")
	must("T-10", (r.SuspendReason != "") == (r.State == Suspended), "a suspend reason belongs to a suspended task")

	must("T-11", r.DueAt.IsZero() == (r.State != Pending), "due_at belongs to a pending task")
	must("T-11", r.Attempt > 0 || r.StartedAt.IsZero() || r.Owner == OwnerParent || r.Generation > 1, "started without an attempt")

	must("T-12", !r.CreatedAt.IsZero() && !r.UpdatedAt.Before(r.CreatedAt), "updated before it was created")
	must("T-12", !ended || !r.DoneAt.Before(r.CreatedAt) && !r.DoneAt.After(r.UpdatedAt), "done outside its time")
	return errors.Join(bad...)
}
