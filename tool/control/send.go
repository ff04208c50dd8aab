// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool"
)

// sendArgs are the arguments of task_send.
type sendArgs struct {
	Task     string        `json:"task_id"`
	Message  string        `json:"message"`
	Delivery mail.Delivery `json:"delivery,omitempty"`
}

// Kind and media type of the inputs that task_send makes.
const (
	KindMessage  = "message"
	MediaMessage = "text/plain"
)

func (c *Control) send(ctx context.Context, who tool.Caller, raw json.RawMessage) (tool.Result, error) {
	var a sendArgs
	if err := tool.Decode(raw, &a); err != nil {
		return tool.Refused(err), nil
	}
	switch a.Delivery {
	case "", mail.Queue, mail.Steer, mail.Interrupt:
	default:
		err := fault.Newf(fault.Invalid, "arguments: delivery is %q, want queue, steer or interrupt", a.Delivery)
		return tool.Refused(err), nil
	}
	r, other, err := c.find(ctx, who, a.Task)
	switch {
	case err != nil:
		return failed(err)
	case other != nil:
		return *other, nil
	}
	in := mail.Input{
		Kind: KindMessage, Media: MediaMessage, Data: []byte(a.Message), Delivery: a.Delivery,
		From: cmp.Or(string(who.Parent), string(who.Session), who.Principal),
	}
	if who.Call != "" {
		in.ID = "call/" + who.Call // sent again, it is the same input
	}
	in, err = c.o.Runtime.Send(ctx, r.ID, in)
	switch {
	case err == nil && in.Delivery == mail.Answer:
		return c.said(&r, "accepted as the answer to %s", in.Ticket), nil
	case err == nil:
		return c.said(&r, "accepted as input %d; it is %s", in.Seq, c.status(&r)), nil
	case fault.Is(err, fault.NoInput):
		res := c.said(&r, "it does not read input, so nothing was sent")
		res.IsError = true
		return res, nil
	case fault.Is(err, fault.Finished), fault.Is(err, fault.Closed):
		return c.tooLate(ctx, &r), nil
	case fault.Is(err, fault.Invalid), fault.Is(err, fault.Conflict), fault.Is(err, fault.CancelRequested):
		return tool.Result{Text: "[error: " + err.Error() + "]", IsError: true, Task: r.ID}, nil
	}
	return failed(err)
}

// tooLate says how a task had ended before something reached it.
func (c *Control) tooLate(ctx context.Context, r *task.Record) tool.Result {
	if now, err := c.o.Runtime.Get(ctx, r.ID); err == nil {
		r = &now
	}
	res := c.said(r, "it takes nothing any more: %s", c.status(r))
	res.IsError = true
	return res
}
