// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package mail is the model of a task's mailbox and of the tickets it waits for. It
// does no IO.
//
// An input is accepted once by its id, in the order of its sequence numbers, and
// consumed at least once: the consumed cursor moves with the checkpoint that holds
// what was consumed. A ticket is decided once.
package mail

import (
	"time"

	"github.com/outlive-dev/outlive/fault"
)

// ErrInput means that an input of that id is there with other content.
var ErrInput = fault.New(fault.Conflict, "the input id was used with other content")

// Delivery is the sender's intent; an executor may downgrade it.
type Delivery string

const (
	// Queue is delivered at the next turn boundary. The default.
	Queue Delivery = "queue"
	// Steer is delivered at the earliest safe point the executor allows.
	Steer Delivery = "steer"
	// Interrupt stops the present turn now.
	Interrupt Delivery = "interrupt"
	// Answer answers the ticket named by Input.Ticket.
	Answer Delivery = "answer"
)

// Wakes reports whether the delivery wakes a waiting task whose tickets stay open.
func (d Delivery) Wakes() bool { return d == Steer || d == Interrupt }

// Input is one durable message to one task. Seq is dense per task and starts at 1;
// ID makes sending it again harmless.
type Input struct {
	Task     string    `json:"task"`
	Seq      int64     `json:"seq"`
	ID       string    `json:"id"`
	Kind     string    `json:"kind,omitempty"`
	Media    string    `json:"media,omitempty"`
	Data     []byte    `json:"data,omitempty"`
	Delivery Delivery  `json:"delivery,omitempty"`
	Ticket   string    `json:"ticket,omitempty"`
	From     string    `json:"from,omitempty"`
	At       time.Time `json:"at"`
}

// Same reports whether two inputs of one id say the same, sequence and time apart.
func (i Input) Same(o Input) bool {
	return i.Task == o.Task && i.ID == o.ID && i.Kind == o.Kind && i.Media == o.Media &&
		string(i.Data) == string(o.Data) && i.Delivery.norm() == o.Delivery.norm() && i.Ticket == o.Ticket && i.From == o.From
}

// Accept decides what becomes of an input: a new one is to be inserted; the same
// again is accepted without effect, also after the mailbox is sealed; the same id
// with other content is [ErrInput]. existing is the stored input of that id, or nil.
func Accept(existing *Input, in Input) (insert bool, err error) {
	if err := in.Validate(); err != nil {
		return false, err
	}
	switch {
	case existing == nil:
		return true, nil
	case existing.Same(in):
		return false, nil
	}
	return false, ErrInput
}

// Validate checks that an input has an id and a delivery there is, and a ticket if
// and only if it answers one. Sizes are the limits' matter.
func (i Input) Validate() error {
	switch d := i.Delivery.norm(); {
	case i.ID == "":
		return fault.New(fault.Invalid, "input: id is missing")
	case d != Queue && d != Steer && d != Interrupt && d != Answer:
		return fault.Newf(fault.Invalid, "input: delivery %q is none of queue, steer, interrupt, answer", d)
	case (d == Answer) != (i.Ticket != ""):
		return fault.New(fault.Invalid, "input: an answer, and nothing else, names a ticket")
	}
	return nil
}

func (d Delivery) norm() Delivery {
	if d == "" {
		return Queue
	}
	return d
}
