// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlivetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// Step is one thing a scripted executor does. A step that ends the attempt is the
// last one. Unless [Ignore] came before, a step that waits ends the attempt when
// its context ends: canceled work stops, drained work yields, and what was started
// recoverably is left to live on.
type Step func(p *play) (end *work.Result)

// play is one attempt that performs steps.
type play struct {
	e       *Env
	inst    *Instance
	ctx     context.Context //nolint:containedctx // the attempt's, it lives as long
	a       *work.Attempt
	ignore  bool
	parts   map[string]int
	cursor  int64
	started bool
}

// Script registers an executor that performs the steps in every attempt. Without
// steps each task brings its own as the text of its input, see [Parse]. Change the
// returned executor before the first instance is started: OnLeaseLoss, ReadsInput,
// Recoverable. Its attempts drain, and are retried when their worker is lost.
func (e *Env) Script(key string, steps ...Step) *work.Executor {
	return e.Register(work.Executor{
		Key: key, OnLeaseLoss: task.LoseRetry, Drains: true,
		Run: func(ctx context.Context, a *work.Attempt) work.Result {
			return e.play(ctx, a, steps)
		},
	})
}

// Hook gives a scripted executor a stop hook: the steps, or with none those of the
// task's input. See [Parse].
func (e *Env) Hook(ex *work.Executor, steps ...Step) {
	ex.Stop = func(ctx context.Context, a *work.Attempt) work.Result {
		e.mu.Lock()
		e.hooks[a.ID()]++
		n := e.hooks[a.ID()]
		e.mu.Unlock()
		todo := steps
		if len(todo) == 0 {
			s, err := Parse(string(a.Task().Spec.Data))
			if err != nil {
				return work.Fail("script", err.Error())
			}
			todo = s.hook(n)
		}
		return e.perform(ctx, a, todo)
	}
}

func (e *Env) play(ctx context.Context, a *work.Attempt, steps []Step) work.Result {
	e.enter(ctx, a)
	if len(steps) == 0 {
		s, err := Parse(string(a.Task().Spec.Data))
		if err != nil {
			return work.Fail("script", err.Error())
		}
		steps = s.attempt(a.Number())
	}
	return e.perform(ctx, a, steps)
}

// enter notes that an attempt runs: none is to run twice.
func (e *Env) enter(_ context.Context, a *work.Attempt) {
	r := run{a.ID(), a.Number()}
	e.mu.Lock()
	e.ran[r]++
	twice := e.ran[r] > 1
	e.mu.Unlock()
	if twice {
		e.problem(fmt.Sprintf("task %s: attempt %d ran twice", r.id, r.attempt))
	}
}

func (e *Env) perform(ctx context.Context, a *work.Attempt, steps []Step) work.Result {
	rec := a.Task()
	p := &play{e: e, inst: instanceOf(ctx), ctx: ctx, a: a, parts: map[string]int{}, cursor: rec.ConsumedInput}
	p.started = rec.Recoverable && rec.StartCommitted
	for _, s := range steps {
		if !p.survives() {
			return work.Fail("crashed", "the instance has crashed")
		}
		if end := s(p); end != nil {
			return *end
		}
		if r := p.over(); r != nil {
			return *r
		}
	}
	r := work.Done(text(""))
	r.Cursor = p.cursor
	return r
}

// survives waits out a crash: a dead process performs no step.
func (p *play) survives() bool {
	if p.inst == nil || p.inst.h.alive() {
		return true
	}
	<-p.e.over
	return false
}

// over says how the attempt ends because its context has, if it has and is heeded.
func (p *play) over() *work.Result {
	if p.ctx.Err() == nil || p.ignore {
		return nil
	}
	var r work.Result
	switch cause := context.Cause(p.ctx); {
	case errors.Is(cause, work.ErrDrain) && p.started:
		r = work.Leave()
	case errors.Is(cause, work.ErrDrain):
		r = work.Yield(nil)
	case errors.Is(cause, work.ErrFenced):
		r = work.Retry("fenced", "the attempt was fenced")
	default:
		r = work.Stopped()
	}
	return &r
}

// wait waits for c, the end of the attempt if that is heeded, or that of the test.
func (p *play) wait(c <-chan struct{}) *work.Result {
	gone := p.ctx.Done()
	if p.ignore {
		gone = nil
	}
	select {
	case <-c:
		return nil
	case <-gone:
		return p.over()
	case <-p.e.over:
		r := work.Fail("over", "the test is over")
		return &r
	}
}

// wrote ends the attempt when a write of it was refused.
func (p *play) wrote(err error) *work.Result {
	if err == nil || p.ignore {
		return nil
	}
	if r := p.over(); r != nil {
		return r
	}
	r := work.Retry("refused", err.Error())
	return &r
}

func text(s string) task.Payload {
	return task.Payload{Media: "text/plain", Data: []byte(s)}
}

func checkpoint(s string) task.Checkpoint {
	return task.Checkpoint{Format: "text", Version: 1, Data: []byte(s)}
}

func ends(r work.Result) Step { return func(*play) *work.Result { return &r } }

// Emit appends a part to the event "out". Parts are numbered by position, so that a
// later attempt which emits the same again changes nothing.
func Emit(data string) Step { return emit("out", data, false, false) }

// EmitFinal is Emit of the event's last part.
func EmitFinal(data string) Step { return emit("out", data, true, false) }

// Flush is Emit of what is left after a cancel.
func Flush(data string) Step { return emit("out", data, false, true) }

func emit(event, data string, final, flush bool) Step {
	return func(p *play) *work.Result {
		p.parts[event]++
		ctx := p.ctx
		if flush || p.ignore {
			ctx = context.WithoutCancel(ctx)
		}
		_, err := p.a.Emit(ctx, work.Part{
			Event: event, ID: fmt.Sprint(p.parts[event]), Media: "text/plain", Data: []byte(data), Final: final, Flush: flush,
		})
		if flush {
			return nil
		}
		return p.wrote(err)
	}
}

// Start commits that something lives outside which a cancel must stop, unless an
// earlier attempt has. [Env.Started] counts how often it did.
func Start() Step {
	return func(p *play) *work.Result {
		if p.a.Task().StartCommitted {
			return nil
		}
		err := p.a.CommitStart(p.ctx, work.Begin{Outside: true})
		if err == nil {
			p.started = p.a.Task().Recoverable
			Mark("started/" + string(p.a.ID()))(p)
		}
		return p.wrote(err)
	}
}

// Save stores a checkpoint.
func Save(data string) Step {
	return func(p *play) *work.Result { return p.wrote(p.a.Checkpoint(p.ctx, checkpoint(data))) }
}

// Sleep lets time pass.
func Sleep(d time.Duration) Step {
	return func(p *play) *work.Result {
		done := make(chan struct{})
		t := time.AfterFunc(d, func() { close(done) })
		defer t.Stop()
		return p.wait(done)
	}
}

// Await waits for [Env.Signal].
func Await(signal string) Step {
	return func(p *play) *work.Result { return p.wait(p.e.signal(signal)) }
}

// AwaitDetached waits until the task's caller has left it to go on.
func AwaitDetached() Step {
	return func(p *play) *work.Result { return p.wait(p.a.Detached()) }
}

// Ignore makes the steps that follow pay no attention to cancel, drain or fence.
func Ignore() Step {
	return func(p *play) *work.Result {
		p.ignore = true
		return nil
	}
}

// Mark counts that it was passed, see [Env.Count].
func Mark(name string) Step {
	return func(p *play) *work.Result {
		p.e.mu.Lock()
		defer p.e.mu.Unlock()
		p.e.marks[name]++
		return nil
	}
}

// Input waits for n inputs and reads them; "read/TASK/SEQ" counts how often each was.
func Input(n int) Step {
	return func(p *play) *work.Result {
		left := n
		for in, err := range p.a.Inputs(p.ctx) {
			if err != nil {
				return p.wrote(err)
			}
			if in.Seq <= p.cursor {
				continue
			}
			p.read(in)
			if left--; left == 0 {
				break
			}
		}
		return p.over()
	}
}

// read takes an input: each is to be seen in order.
func (p *play) read(in mail.Input) {
	if in.Seq != p.cursor+1 {
		p.e.problem(fmt.Sprintf("task %s: input %d was read after %d", p.a.ID(), in.Seq, p.cursor))
	}
	p.cursor = in.Seq
	Mark(fmt.Sprintf("read/%s/%d", p.a.ID(), in.Seq))(p)
}

// CommitInput records what was read so far as consumed, with a checkpoint.
func CommitInput(data string) Step {
	return func(p *play) *work.Result {
		cp := checkpoint(data)
		return p.wrote(p.a.CommitInput(p.ctx, p.cursor, &cp))
	}
}

// Complete completes the task with what was read consumed.
func Complete(result string) Step {
	return func(p *play) *work.Result {
		r := work.Done(text(result))
		r.Cursor = p.cursor
		cp := checkpoint("bounced")
		r.Checkpoint = &cp
		return &r
	}
}

// Fail fails the task for good.
func Fail(code, message string) Step { return ends(work.Fail(code, message)) }

// Lost fails the task with outcome unknown.
func Lost(code, message string) Step { return ends(work.Lost(code, message)) }

// Retry fails the attempt.
func Retry(code, message string) Step { return ends(work.Retry(code, message)) }

// Panic panics.
func Panic(value string) Step { return func(*play) *work.Result { panic(value) } }

// Yield gives the attempt back.
func Yield(data string) Step {
	cp := checkpoint(data)
	return ends(work.Yield(&cp))
}

// Suspend parks the task until a release.
func Suspend(reason, data string) Step { return ends(work.Suspend(reason, checkpoint(data))) }

// Ask parks the task until one of the tickets is decided.
func Ask(tickets ...task.TicketID) Step {
	return func(p *play) *work.Result {
		cp := checkpoint("asked")
		var asked []mail.Ticket
		for _, t := range tickets {
			asked = append(asked, work.External(string(t), ""))
		}
		r := work.Ask(&cp, false, asked...)
		r.Cursor = p.cursor
		return &r
	}
}

// Leave leaves what was started to live on.
func Leave() Step { return ends(work.Leave()) }

// Stopped confirms a cancel.
func Stopped() Step { return ends(work.Stopped()) }
