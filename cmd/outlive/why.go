// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outlive-dev/outlive/internal/alive"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool/command"
)

// unserved is how long a task may wait to be stopped before why says that nobody
// comes.
const unserved = time.Minute

func (a *app) whyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "why ID", Short: "Say what a task waits for, who owns it, what comes next and what to do", Args: words(1, 1),
		ValidArgsFunction: a.completeIDs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.named(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			f, err := a.facts(cmd.Context(), r)
			if err != nil {
				return err
			}
			w := explain(f)
			if a.json {
				return a.printJSON(w)
			}
			return a.print(a.out, "%s", w.text(a))
		},
	}
}

// facts are what an explanation is made of.
type facts struct {
	rec     task.Record
	now     time.Time
	host    string
	holder  *store.Worker  // who holds the lease, if its row is there
	workers []store.Worker // all that hold a lease
	queue   store.Queue
	ahead   int          // running tasks of the queue
	sameKey []task.ID    // running tasks with the concurrency key
	run     *shell.State // of a command started on this host
}

func (a *app) facts(ctx context.Context, r task.Record) (facts, error) {
	f := facts{rec: r, host: alive.Here().Name}
	err := a.st.View(ctx, func(v store.View) (err error) {
		f.now = v.Now()
		if f.workers, err = v.Workers(); err != nil {
			return err
		}
		if r.Queue == "" && r.ConcurrencyKey == "" {
			return nil
		}
		qs, err := v.Queues()
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(qs, func(q store.Queue) bool { return q.Name == r.Queue }); i >= 0 {
			f.queue = qs[i]
		}
		running, err := v.Tasks(store.Filter{States: []task.State{task.Running}, Limit: store.MaxPage})
		for i := range running {
			if r.Queue != "" && running[i].Queue == r.Queue {
				f.ahead++
			}
			if r.ConcurrencyKey != "" && running[i].ConcurrencyKey == r.ConcurrencyKey && running[i].ID != r.ID {
				f.sameKey = append(f.sameKey, running[i].ID)
			}
		}
		return err
	})
	if err != nil {
		return f, fmt.Errorf("look behind task %s: %w", r.ID, err)
	}
	for i := range f.workers {
		if f.workers[i].Lease() == r.Lease {
			f.holder = &f.workers[i]
		}
	}
	if r.Executor == command.Key && r.StartCommitted && !r.State.Terminal() {
		if b, err := a.commands.Backend(&r); err == nil {
			if st, err := b.Recover(ctx, command.RunID(r.ID)); err == nil {
				f.run = &st
			}
		}
	}
	return f, nil
}

// explanation is one screen about a task.
type explanation struct {
	ID       task.ID    `json:"id"`
	State    task.State `json:"state"`
	Summary  string     `json:"summary"`
	WaitsFor string     `json:"waits_for"`
	Owner    string     `json:"owner"`
	Next     string     `json:"next"`
	Do       []advice   `json:"do"`
}

type advice struct {
	Run string `json:"run"`
	To  string `json:"to"`
}

func (w *explanation) advise(run, to string) {
	w.Do = append(w.Do, advice{Run: "outlive " + run + " " + string(w.ID), To: to})
}

func (w *explanation) text(a *app) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is %s\n", w.ID, a.color(bold, w.Summary))
	for _, l := range [][2]string{{"waits for", w.WaitsFor}, {"owner", w.Owner}, {"next", w.Next}} {
		if l[1] != "" {
			fmt.Fprintf(&b, "  %-10s %s\n", l[0], l[1])
		}
	}
	for i, d := range w.Do {
		head := "do"
		if i > 0 {
			head = ""
		}
		fmt.Fprintf(&b, "  %-10s %s  %s\n", head, d.Run, a.color(dim, "# "+d.To))
	}
	return b.String()
}

// explain says what a task waits for. It is a function of facts alone.
func explain(f facts) explanation {
	r := &f.rec
	w := explanation{ID: r.ID, State: r.State, Summary: stateWord(r), Owner: owner(&f), Do: []advice{}}
	switch {
	case r.State.Terminal():
		explainEnd(&f, &w)
	case r.Canceling():
		explainCanceling(&f, &w)
	case r.State == task.Pending:
		explainPending(&f, &w)
	case r.State == task.Waiting:
		w.WaitsFor = tickets(r)
		w.Next = "it goes on when that is answered"
		w.advise("cancel", "give it up")
	case r.State == task.Suspended:
		w.WaitsFor = "somebody to release it"
		if r.SuspendReason != "" {
			w.WaitsFor += " (suspended: " + r.SuspendReason + ")"
		}
		w.Next = "nothing, until then"
		w.advise("release", "let it go on")
		w.advise("cancel", "give it up")
	default:
		explainRunning(&f, &w)
	}
	if r.Publication == task.Deferred && !r.State.Terminal() {
		w.Summary += ", watched in the foreground and not public (deferred)"
		w.Do = append(w.Do, advice{Run: "outlive publish " + string(r.ID), To: "let others see it now"})
	}
	return w
}

func tickets(r *task.Record) string {
	ids := make([]string, len(r.Tickets))
	for i, t := range r.Tickets {
		ids[i] = string(t)
	}
	switch {
	case len(ids) == 0:
		return "an answer"
	case len(ids) == 1:
		return "an answer to " + ids[0]
	case r.TicketsAll:
		return "answers to all of " + strings.Join(ids, ", ")
	}
	return "an answer to one of " + strings.Join(ids, ", ")
}

// owner says who drives the task, and until when.
func owner(f *facts) string {
	r := &f.rec
	switch {
	case r.State.Terminal():
		return "nobody any more"
	case r.Owner == task.OwnerParent:
		return fmt.Sprintf("its parent %s, while that runs (generation %d)", r.Parent, r.Generation)
	case r.Unattended():
		return "nobody: it runs unattended"
	case r.State != task.Running:
		return "nobody yet"
	case f.holder == nil:
		return fmt.Sprintf("worker %s, whose lease is over", r.Lease.Worker)
	}
	h := f.holder
	return fmt.Sprintf("worker %s (pid %d on %s), attempt %d, until %s unless it renews", h.ID, h.PID, h.Host, r.Attempt, clock(h.LeaseUntil, f.now))
}

// clock is a time of day and how far off it is.
func clock(t, now time.Time) string {
	d := t.Sub(now).Round(time.Second)
	at := t.Local().Format("15:04:05")
	if d > 24*time.Hour || d < -24*time.Hour {
		at = t.Local().Format("2006-01-02 15:04")
	}
	if d < 0 {
		return fmt.Sprintf("%s (%s ago)", at, age(-d))
	}
	return fmt.Sprintf("%s (in %s)", at, age(d))
}

func explainEnd(f *facts, w *explanation) {
	r := &f.rec
	w.WaitsFor, w.Next = "nothing", "nothing: it ended "+clock(r.DoneAt, f.now)
	if r.State != task.Completed {
		w.Summary = ending(r)
	}
	if r.State == task.Canceled {
		w.Summary = "canceled"
		if r.CancelReason != "" {
			w.Summary += ": " + r.CancelReason
		}
	}
	if r.Failure != nil && r.Failure.Outcome == task.OutcomeUnknown {
		w.Next += "; it may have run partly or fully, and is never run again by itself"
	}
	if r.Failure != nil && r.Failure.Code == task.CodePoison {
		w.Next += fmt.Sprintf("; %d failures used up its attempts", r.Failures)
	}
	w.advise("logs", "its output")
	if r.Executor == command.Key && (r.State != task.Completed || stateWord(r) != string(task.Completed)) {
		w.advise("retry", "run it again as a new task")
	}
}

func explainCanceling(f *facts, w *explanation) {
	r := &f.rec
	since := f.now.Sub(r.CancelRequestedAt)
	w.Summary = "canceling"
	if r.CancelReason != "" {
		w.Summary += " (" + r.CancelReason + ")"
	}
	served := r.State == task.Running && f.holder != nil
	switch {
	case served:
		w.WaitsFor = "its worker to stop what runs"
		w.Next = "the worker stops it and says how it ended"
	case since > unserved:
		w.WaitsFor = fmt.Sprintf("a worker that can stop it (%s); none came for %s", r.Executor, age(since))
		w.Next = "nothing, until one comes"
	default:
		w.WaitsFor = fmt.Sprintf("somebody with %s to stop what is left of it", r.Executor)
		w.Next = "the next one that comes stops it, ahead of every queue"
	}
	w.advise("cancel", "stop it from here, and wait")
	if !served && since > unserved {
		w.advise("cancel --force", "end it with outcome unknown, without stopping anything")
	}
}

func explainPending(f *facts, w *explanation) {
	r := &f.rec
	able := slices.ContainsFunc(f.workers, func(x store.Worker) bool {
		return slices.Contains(x.Executors, r.Executor) && x.LeaseUntil.After(f.now) && !x.Draining
	})
	switch {
	case r.DueAt.After(f.now) && r.Failures > 0:
		w.Summary = "pending, backing off"
		w.WaitsFor = fmt.Sprintf("its retry at %s, after failure %d of %d", clock(r.DueAt, f.now), r.Failures, max(1, r.MaxAttempts))
	case r.DueAt.After(f.now):
		w.Summary = "pending, not due"
		w.WaitsFor = "its time: " + clock(r.DueAt, f.now)
	case f.queue.Paused:
		w.Summary = "pending, queue paused"
		w.WaitsFor = fmt.Sprintf("queue %s, which is paused", r.Queue)
	case f.queue.Limit > 0 && f.ahead >= f.queue.Limit:
		w.Summary = "pending, queue full"
		w.WaitsFor = fmt.Sprintf("a place in queue %s: %d of %d run", r.Queue, f.ahead, f.queue.Limit)
	case len(f.sameKey) > 0:
		w.Summary = "pending, one at a time"
		w.WaitsFor = fmt.Sprintf("the end of %s, which has the same concurrency key %q", f.sameKey[0], r.ConcurrencyKey)
	default:
		w.WaitsFor = "a worker for " + r.Executor
	}
	if able {
		w.Next = "a worker starts it as soon as nothing forbids it"
	} else {
		w.Summary += ", no worker"
		w.Next = "nothing, until a worker for " + r.Executor + " comes"
		if s, ok := specOf(r); ok && s.Environ && !r.StartCommitted {
			w.Next += "; its environment went with the process that asked for it, so run it again instead"
		}
	}
	w.advise("cancel", "give it up")
}

func explainRunning(f *facts, w *explanation) {
	r := &f.rec
	w.WaitsFor = "its own end"
	if r.Executor == command.Key {
		w.WaitsFor = "the command to end"
	}
	if f.run != nil && f.run.Phase == shell.Live {
		w.WaitsFor += fmt.Sprintf(" (pid %d, %d bytes of output so far)", f.run.Pid, f.run.Bytes)
	}
	if s, ok := specOf(r); ok && s.Timeout > 0 {
		w.WaitsFor += fmt.Sprintf(", at most until %s", clock(r.StartedAt.Add(s.Timeout), f.now))
	}
	elsewhere := r.Place.Host != "" && r.Place.Host != f.host
	switch {
	case r.Unattended() && elsewhere:
		w.Summary = "running, unattended"
		w.Next = "a process on host " + r.Place.Host + " that opens this store records the end"
	case r.Unattended():
		w.Summary = "running, unattended"
		w.Next = "it goes on under its own supervisor; whoever looks next records its end"
	case r.Owner == task.OwnerParent:
		w.Next = "its parent takes the result"
	case f.holder == nil:
		w.Next = "the next worker or command that looks takes over from the dead one"
	default:
		w.Next = "its worker records the end"
	}
	w.advise("logs -f", "follow its output")
	w.advise("wait", "wait for its end and exit with its code")
	w.advise("cancel", "end it")
}
