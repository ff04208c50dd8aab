// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package mail is the model of a task's mailbox. It does no IO.
package mail

import "time"

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

func (d Delivery) norm() Delivery {
	if d == "" {
		return Queue
	}
	return d
}
