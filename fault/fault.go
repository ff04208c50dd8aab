// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package fault gives every error of outlive a kind, so that an edge (HTTP, A2A,
// MCP, the command line) decides by the kind alone and never by the text. It
// does no IO.
//
// A sentinel is made once, beside what it describes, with [New]; a layer that
// passes an error on wraps it once with fmt.Errorf and %w, its text starting with
// the operation. [KindOf] finds the kind through any number of wraps.
package fault

import (
	"context"
	"errors"
	"fmt"
)

// Kind classifies an error. Kinds are protocol: append only, never renumbered.
type Kind uint8

const (
	// Unknown is an error nobody classified: log it, show "internal error".
	Unknown Kind = iota
	// Invalid means that the request itself is wrong; fix it.
	Invalid
	// NotFound means no such id, or not yours.
	NotFound
	// Exists means the id is taken with other content.
	Exists
	// Conflict means the facts have moved: read again, decide again.
	Conflict
	// Fenced means you own nothing any more: stop, write nothing.
	Fenced
	// Finished means the task is terminal; the error carries how it ended.
	Finished
	// Unsupported means this backend or executor cannot do that.
	Unsupported
	// Unavailable means later: back off and try again.
	Unavailable
	// Canceled means the caller's context was canceled.
	Canceled
	// Timeout means the caller's context ran out.
	Timeout
	// NoInput means that the task's executor does not read input.
	NoInput
	// CancelRequested means the task is to be canceled: only AckCancel is left.
	CancelRequested
	// UnknownOutcome means that a commit was sent and its answer lost. It is
	// neither success nor failure; ask with the commit id.
	UnknownOutcome
	// Closed means that an event, mailbox or store takes nothing more.
	Closed
	// Forbidden means that the caller may not do that.
	Forbidden
	kinds
)

var names = [kinds]string{
	"unknown", "invalid", "not_found", "exists", "conflict", "fenced", "finished", "unsupported",
	"unavailable", "canceled", "timeout", "no_input", "cancel_requested", "unknown_outcome", "closed", "forbidden",
}

// String returns the kind's stable name in lower snake case.
func (k Kind) String() string {
	if k < kinds {
		return names[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Error is an error with a kind. Text starts with the operation and is lower
// case; Hint, where there is something to do, is a whole sentence for the user.
type Error struct {
	Kind Kind
	Text string
	Hint string
}

// Error returns the text without the hint.
func (e *Error) Error() string { return e.Text }

// New returns a sentinel of the given kind.
func New(k Kind, text string) *Error { return &Error{Kind: k, Text: text} }

// Newf is New with a format; it does not wrap.
func Newf(k Kind, format string, args ...any) *Error {
	return &Error{Kind: k, Text: fmt.Sprintf(format, args...)}
}

// WithHint returns a copy of e that carries the hint.
func (e *Error) WithHint(hint string) *Error {
	c := *e
	c.Hint = hint
	return &c
}

// Is reports whether target is an *Error with the same kind and text, so that a
// sentinel copied with a hint still matches.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Kind == e.Kind && t.Text == e.Text
}

// KindOf returns the kind of err: that of the outermost *Error in its chain, the
// kinds of the two context errors, and Unknown otherwise. KindOf(nil) is Unknown.
func KindOf(err error) Kind {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Kind
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case errors.Is(err, context.Canceled):
		return Canceled
	}
	return Unknown
}

// Is reports whether err has kind k.
func Is(err error, k Kind) bool { return err != nil && KindOf(err) == k }

// Hint returns the hint of the outermost *Error in err's chain, or "".
func Hint(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}
