// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlivetest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/foreground"
	"github.com/outlive-dev/outlive/internal/apply"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/outlivetest"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// stage is where a scenario is played.
type stage struct {
	t     *testing.T
	env   *outlivetest.Env
	calls map[string]*call
	holds map[task.ID]task.Hold
}

// call is one foreground call.
type call struct {
	leave context.CancelFunc
	w     *outlive.Watched
	done  chan struct{}
	out   outlive.Outcome
	err   error
}

// executors registers those that scenarios and races use; each task brings its own
// script.
func executors(env *outlivetest.Env) {
	env.Script("script.v1")
	env.Script("fragile.v1").OnLeaseLoss = task.LoseFail
	env.Script("reads.v1").ReadsInput = true
	env.Hook(env.Script("outside.v1"))
	deaf := env.Script("nodrain.v1")
	deaf.Drains = false
	command := env.Script("command.v1")
	command.Recoverable = true
	env.Hook(command)
	env.Register(parents())
}

func newStage(t *testing.T) *stage {
	s := &stage{t: t, calls: map[string]*call{}, holds: map[task.ID]task.Hold{}}
	t.Cleanup(func() { // after the Env has ended: the calls of crashed instances end with it
		for _, c := range s.calls {
			<-c.done
		}
	})
	s.env = outlivetest.New(t, nil)
	executors(s.env)
	return s
}

// end lets every call that still waits go.
func (s *stage) end() {
	for _, c := range s.calls {
		c.leave()
	}
	s.env.Idle()
}

// line is a parsed command: words, and options as KEY=VALUE.
type line struct {
	words []string
	opts  map[string]string
	body  string
}

func (l *line) word(i int) string {
	if i < len(l.words) {
		return l.words[i]
	}
	return ""
}

func (l *line) id() task.ID { return task.ID(l.word(0)) }

func (l *line) rest(from int) string { return strings.Join(l.words[min(from, len(l.words)):], " ") }

func (s *stage) number(l *line, key string) int64 {
	if l.opts[key] == "" {
		return 0
	}
	n, err := strconv.ParseInt(l.opts[key], 10, 64)
	if err != nil {
		s.t.Fatalf("%s=%q: %v", key, l.opts[key], err)
	}
	return n
}

func (s *stage) duration(text string) time.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// perform runs one command and prints what it left.
func (s *stage) perform(command, body string) string {
	fields := strings.Fields(command)
	l := &line{opts: map[string]string{}, body: body}
	for _, f := range fields[1:] {
		if k, v, ok := strings.Cut(f, "="); ok {
			l.opts[k] = v
		} else {
			l.words = append(l.words, s.turnID(f))
		}
	}
	verbs := map[string]func(*line) string{
		"instance": s.instance, "crash": s.on((*outlivetest.Instance).Crash), "hang": s.on((*outlivetest.Instance).Hang),
		"resume": s.on((*outlivetest.Instance).Resume), "stop": s.stop, "reopen": s.reopen, "lose": s.lose, "refuse": s.refuse,
		"deafen": s.on(func(i *outlivetest.Instance) { i.Deafen(true) }),
		"submit": s.submit, "run": s.run, "leave": s.leave, "detach": s.detach, "outcome": s.outcome,
		"sleep": s.sleep, "signal": s.signal, "show": s.show, "journal": s.journal, "count": s.count, "check": s.check,
		"cancel": s.cancel, "publish": s.publish, "release": s.release, "send": s.send, "wait": s.wait, "sweep": s.sweep,
		"adopt": s.adopt, "queue": s.queue, "observers": s.observers, "mailbox": s.mailbox,
		"decide": s.decide, "child": s.child, "handoff": s.handoff, "offer": s.offer, "seal": s.seal, "orphan": s.orphan,
		"stale": s.stale, "events": s.events, "workers": s.workers,
	}
	maps.Copy(verbs, s.mailVerbs())
	do := verbs[fields[0]]
	if do == nil {
		s.t.Fatalf("unknown command %q", fields[0])
	}
	out := do(l)
	if out != "" && !strings.HasSuffix(out, "\n") {
		out += "\n"
	}
	return out
}

func (s *stage) via(l *line) *outlive.Runtime {
	if name := l.opts["via"]; name != "" {
		return s.env.Instance(name).Runtime()
	}
	return s.env.Runtime()
}

// said prints how a command ended: the task's line, or the kind of the error.
func (s *stage) said(id task.ID, err error) string {
	s.env.Idle()
	if err != nil {
		return "refused: " + fault.KindOf(err).String()
	}
	return outlivetest.Line(s.env.Get(id))
}

func (s *stage) instance(l *line) string {
	o := outlive.Options{Passive: slices.Contains(l.words, "passive")}
	if n := s.number(l, "slots"); n > 0 {
		o.Slots = int(n)
	}
	s.env.Start(l.word(0), &o)
	s.env.Idle()
	return ""
}

func (s *stage) on(do func(*outlivetest.Instance)) func(*line) string {
	return func(l *line) string {
		do(s.env.Instance(l.word(0)))
		s.env.Idle()
		return ""
	}
}

func (s *stage) reopen(l *line) string {
	s.env.Reopen(l.word(0))
	s.env.Idle()
	return ""
}

func (s *stage) stop(l *line) string {
	ctx := s.t.Context()
	if d := s.duration(l.opts["within"]); d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	began := time.Now()
	err := s.env.Instance(l.word(0)).Stop(ctx)
	took := time.Since(began)
	s.env.Idle()
	if err != nil {
		return fmt.Sprintf("after %v: %v", took, err)
	}
	return fmt.Sprintf("after %v", took)
}

func (s *stage) lose(l *line) string {
	s.env.Instance(l.word(0)).Lose(int(max(s.number(l, "n"), 1)))
	return ""
}

func (s *stage) refuse(l *line) string {
	kind, ok := fault.ParseKind(l.opts["kind"])
	if !ok {
		s.t.Fatalf("kind %q", l.opts["kind"])
	}
	s.env.Instance(l.word(0)).Refuse(int(max(s.number(l, "n"), 1)), fault.New(kind, "refused by the test"))
	return ""
}

func (s *stage) spec(l *line) outlive.Spec {
	sp := outlive.Spec{
		ID: l.id(), Executor: "script.v1", Input: task.Payload{Media: "text/plain", Data: []byte(l.body)},
		Parent: task.ID(l.opts["parent"]), Queue: l.opts["queue"], ConcurrencyKey: l.opts["key"], Name: l.opts["name"],
		Priority: int(s.number(l, "priority")), MaxAttempts: int(s.number(l, "max")),
		Delay: s.duration(l.opts["delay"]), Timeout: s.duration(l.opts["timeout"]),
		Liveness: task.Liveness{Policy: task.LivenessPolicy(l.opts["liveness"])},
		Here:     slices.Contains(l.words, "here"), Invocation: l.opts["invocation"],
	}
	if ex := l.opts["exec"]; ex != "" {
		sp.Executor = ex + ".v1"
	}
	return sp
}

func (s *stage) submit(l *line) string {
	_, err := s.via(l).Submit(s.t.Context(), s.spec(l))
	return s.said(l.id(), err)
}

func choice(s string) foreground.Choice {
	if s == "cancel" {
		return foreground.CancelTask
	}
	return foreground.DetachTask
}

// run begins a foreground call: run ID [detach=D] [on_timeout=cancel] [on_gone=cancel].
func (s *stage) run(l *line) string {
	ctx, leave := context.WithCancel(s.t.Context())
	c := &call{leave: leave, done: make(chan struct{})}
	if slices.Contains(l.words, "gone") {
		leave()
	}
	p := foreground.Policy{
		DetachAfter: s.duration(l.opts["detach"]), CleanupTimeout: s.duration(l.opts["cleanup"]),
		OnTimeout: choice(l.opts["on_timeout"]), OnGone: choice(l.opts["on_gone"]),
	}
	var err error
	if c.w, err = s.via(l).Watch(ctx, s.spec(l), p); err != nil {
		leave()
		return s.said(l.id(), err)
	}
	s.calls[l.word(0)] = c
	go func() {
		defer close(c.done)
		c.out, c.err = c.w.Wait(ctx)
	}()
	return s.said(l.id(), nil)
}

func (s *stage) call(l *line) *call {
	c := s.calls[l.word(0)]
	if c == nil {
		s.t.Fatalf("no call %q", l.word(0))
	}
	return c
}

func (s *stage) leave(l *line) string {
	s.call(l).leave()
	s.env.Idle()
	return s.outcome(l)
}

func (s *stage) detach(l *line) string {
	s.call(l).w.Detach()
	s.env.Idle()
	return s.outcome(l)
}

// outcome tells what the caller was told.
func (s *stage) outcome(l *line) string {
	c := s.call(l)
	select {
	case <-c.done:
	default:
		return "still waiting"
	}
	said := outlivetest.Line(c.out.Task)
	var timeout *foreground.TimeoutError
	switch {
	case errors.As(c.err, &timeout):
		return "timeout error: " + said
	case errors.Is(c.err, context.Canceled):
		return "gone: " + said
	case c.err != nil:
		return fmt.Sprintf("error %s: %s", fault.KindOf(c.err), said)
	case c.out.Detached:
		return "detached: " + said
	}
	return "returned: " + said
}

func (s *stage) sleep(l *line) string {
	<-time.After(s.duration(l.word(0)))
	s.env.Idle()
	return ""
}

func (s *stage) signal(l *line) string {
	s.env.Signal(l.word(0))
	s.env.Idle()
	return ""
}

func (s *stage) show(l *line) string {
	var b strings.Builder
	for _, w := range l.words {
		fmt.Fprintf(&b, "%s: %s\n", w, outlivetest.Line(s.env.Get(task.ID(w))))
	}
	return b.String()
}

func (s *stage) journal(l *line) string { return s.env.Journal(l.id()) }

func (s *stage) count(l *line) string { return fmt.Sprint(s.env.Count(l.word(0))) }

func (s *stage) check(*line) string {
	if p := s.env.Problems(); len(p) > 0 {
		return strings.Join(p, "\n")
	}
	return "ok"
}

func (s *stage) cancel(l *line) string {
	_, err := s.via(l).Cancel(s.t.Context(), l.id(), &outlive.CancelOptions{Reason: l.rest(1), Force: l.opts["force"] != ""})
	return s.said(l.id(), err)
}

func (s *stage) publish(l *line) string {
	_, err := s.via(l).Publish(s.t.Context(), l.id())
	return s.said(l.id(), err)
}

func (s *stage) release(l *line) string {
	_, err := s.via(l).Release(s.t.Context(), l.id())
	return s.said(l.id(), err)
}

func (s *stage) send(l *line) string {
	in := mail.Input{ID: l.opts["id"], Data: []byte(l.rest(1)), Delivery: mail.Delivery(l.opts["as"]), From: l.opts["from"]}
	_, err := s.via(l).Send(s.t.Context(), l.id(), in)
	return s.said(l.id(), err)
}

// wait waits at most the given time for the task's end.
func (s *stage) wait(l *line) string {
	ctx, cancel := context.WithTimeout(s.t.Context(), s.duration(l.opts["for"]))
	defer cancel()
	began := time.Now()
	_, err := s.via(l).Wait(ctx, l.id(), outlive.Terminal)
	took := time.Since(began).Round(time.Second)
	return fmt.Sprintf("after %v: %s", took, s.said(l.id(), err))
}

func (s *stage) sweep(l *line) string {
	left := s.via(l).Reconcile(s.t.Context(), []task.Record{s.env.Get(l.id())})
	return fmt.Sprintf("unverified %d; %s", len(left), s.said(l.id(), nil))
}

// adopt follows the task on an instance for a moment.
func (s *stage) adopt(l *line) string {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Millisecond)
	defer cancel()
	_, err := s.via(l).Wait(ctx, l.id(), outlive.Terminal)
	if fault.Is(err, fault.Timeout) {
		err = nil
	}
	return s.said(l.id(), err)
}

func (s *stage) queue(l *line) string {
	q := store.Queue{Name: l.word(0), Limit: int(s.number(l, "limit")), Paused: slices.Contains(l.words, "paused")}
	if err := s.via(l).SetQueue(s.t.Context(), q); err != nil {
		return "refused: " + fault.KindOf(err).String()
	}
	s.env.Idle()
	return ""
}

func (s *stage) observers(l *line) string {
	var n int
	s.view(func(v store.View) error {
		list, err := v.Observers(l.id())
		n = len(list)
		return err
	})
	return fmt.Sprint(n)
}

func (s *stage) workers(*line) string {
	var epochs []string
	s.view(func(v store.View) error {
		list, err := v.Workers()
		for _, w := range list {
			epochs = append(epochs, fmt.Sprintf("epoch %d", w.Epoch))
		}
		return err
	})
	slices.Sort(epochs)
	return strings.Join(epochs, "\n")
}

func (s *stage) mailbox(l *line) string {
	var b strings.Builder
	s.view(func(v store.View) error {
		list, err := v.Inputs(l.id(), 0, 0)
		for _, in := range list {
			from := ""
			if in.From != "" {
				from = " from " + in.From
			}
			fmt.Fprintf(&b, "%d %s%s %q\n", in.Seq, in.Kind, from, in.Data)
		}
		return err
	})
	return b.String()
}

// events reads the task's entries from a cursor on, as a reader that follows.
func (s *stage) events(l *line) string {
	ctx, cancel := context.WithTimeout(s.t.Context(), s.duration(l.opts["for"]))
	defer cancel()
	var b strings.Builder
	o := &outlive.EventsOptions{After: journal.Cursor{Epoch: 1, Seq: s.number(l, "after")}}
	for e, err := range s.via(l).Events(ctx, l.id(), o) {
		if err != nil {
			fmt.Fprintf(&b, "error %s\n", fault.KindOf(err))
			return b.String()
		}
		fmt.Fprintf(&b, "%d %s\n", e.Seq, e.Kind)
	}
	return b.String() + "end\n"
}

func (s *stage) view(fn func(store.View) error) {
	if err := s.env.Store().View(s.t.Context(), fn); err != nil {
		s.t.Fatal(err)
	}
}

// step applies one command to the store, as an engine that does not exist yet would.
func (s *stage) step(id task.ID, c task.Command) string {
	err := s.env.Store().Update(s.t.Context(), apply.Keys(id), func(tx store.Tx) error {
		_, err := apply.Step(tx, id, c)
		return err
	})
	return s.said(id, err)
}

func (s *stage) decide(l *line) string {
	return s.step(l.id(), task.Decide{Ticket: task.TicketID(l.word(1))})
}

// child creates a parent-owned task under its parent's present attempt, or under the
// hold and in the generation that another child was created with: child ID parent=P
// [hold=OTHER] [gen=N].
func (s *stage) child(l *line) string {
	parent := s.env.Get(task.ID(l.opts["parent"]))
	hold := task.Hold{Parent: parent.ID, Attempt: parent.Attempt, Lease: parent.Lease}
	if parent.Owner == task.OwnerParent {
		hold.Attempt, hold.Lease = parent.Hold.Attempt, parent.Hold.Lease
	}
	if other := task.ID(l.opts["hold"]); other != "" {
		hold.Attempt, hold.Lease = s.holds[other].Attempt, s.holds[other].Lease
	}
	generation := parent.Generation
	if n := s.number(l, "gen"); n > 0 {
		generation = n
	}
	s.holds[l.id()] = hold
	c := task.Create{Record: task.Record{
		ID: l.id(), Executor: "reads.v1", ReadsInput: l.opts["reads"] != "no", Parent: parent.ID, Owner: task.OwnerParent, Hold: hold,
		Publication: task.Deferred, Recoverable: l.opts["recoverable"] != "", Spec: task.Payload{Media: "text/plain", Data: []byte(l.body)},
	}}
	err := s.env.Store().Update(s.t.Context(), apply.CreateKeys(&c.Record), func(tx store.Tx) error {
		_, err := apply.CreateOwned(tx, c, generation)
		return err
	})
	return s.said(l.id(), err)
}

func (s *stage) offer(l *line) string {
	return s.step(l.id(), task.Offer{Generation: s.number(l, "gen"), Cursor: s.number(l, "cursor"), Result: task.Payload{Media: "text/plain", Data: []byte(l.rest(1))}})
}

func (s *stage) seal(l *line) string {
	return s.step(l.id(), task.Seal{Generation: s.number(l, "gen")})
}

func (s *stage) orphan(l *line) string {
	return s.step(l.id(), task.Orphan{Generation: s.number(l, "gen")})
}

// stale writes a part as an attempt that was replaced: stale ID attempt=N.
func (s *stage) stale(l *line) string {
	id := l.id()
	r := s.env.Get(id)
	f := task.Fence{Attempt: s.number(l, "attempt"), Lease: task.Lease{Worker: "replaced", Epoch: 1}}
	e := journal.Entry{Stream: journal.StreamID(r.Stream()), Event: "out", Part: "stale", Kind: journal.KindOutput, Data: []byte("stale")}
	err := s.env.Store().Update(s.t.Context(), apply.PartKeys(id, e), func(tx store.Tx) error {
		_, _, err := apply.Part(tx, id, f, e, apply.PartOptions{})
		return err
	})
	return s.said(id, err)
}
