// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool/command"
)

// journalHolds is how much of a run's output its journal holds at least.
const journalHolds = 1 << 20

// check lets clean processes bring a round to its end and judges what they find.
func (w *world) check(ctx context.Context, round string, runs []*run, visits []*seen) {
	w.settle(ctx, round)
	recs := make([]*task.Record, len(runs))
	journals := make([][]journal.Entry, len(runs))
	read := func() error {
		return w.view(ctx, func(v store.View) error {
			for i, r := range runs {
				list, err := v.Tasks(store.Filter{Label: map[string]string{"crash": r.name}})
				if err != nil {
					return err
				}
				recs[i] = nil
				if len(list) > 1 {
					w.report.violate(round, "%d tasks for one run: %s", len(list), r.proc)
				}
				if len(list) > 0 {
					recs[i] = &list[0]
					if journals[i], err = entries(v, list[0].ID); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	if err := read(); err != nil {
		w.report.violate(round, "read the store: %v", err)
		return
	}
	var ids []string
	for i, r := range runs {
		switch {
		case recs[i] == nil:
		case recs[i].State == task.Pending:
			w.unstarted(ctx, round, r, recs[i])
		default:
			ids = append(ids, string(recs[i].ID))
		}
	}
	var waited *proc
	if len(ids) > 0 {
		waited = w.finish(ctx, patience, nil, append([]string{"wait", "--timeout", (patience - 5*time.Second).String()}, ids...)...)
	}
	w.settle(ctx, round)
	if err := read(); err != nil {
		w.report.violate(round, "read the store: %v", err)
		return
	}
	w.noneLeft(ctx, round, runs, recs) // first: whatever still runs might say something
	for i, r := range runs {
		w.judge(ctx, round, r, recs[i], journals[i])
	}
	for _, s := range visits {
		if i := slices.Index(runs, s.of); s.proc != nil && recs[i] != nil {
			w.judgeVisit(round, s, recs[i])
		}
	}
	if waited != nil {
		w.judgeWait(round, waited, recs)
	}
}

// settle lets clean processes look until no dead worker's row is left.
func (w *world) settle(ctx context.Context, round string) {
	var left []store.Worker
	for range 10 {
		if p := w.finish(ctx, patience, nil, "ps"); p.code != 0 {
			w.report.violate(round, "%s exits %d: %s", p, p.code, p.err.bytes())
			return
		}
		err := w.view(ctx, func(v store.View) (err error) {
			left, err = v.Workers()
			return err
		})
		if err != nil {
			w.report.violate(round, "read the store: %v", err)
			return
		}
		if len(left) == 0 {
			return
		}
	}
	w.report.violate(round, "%d dead workers are not buried by ps: %v", len(left), left)
}

// unstarted deals with a task whose starter died before anything was started: nobody
// was told about it and a listing shows it. It can be canceled.
func (w *world) unstarted(ctx context.Context, round string, r *run, rec *task.Record) {
	w.report.count("left pending")
	if r.acknowledged() || !r.proc.dead() {
		w.report.violate(round, "%s, start %s, strike %s: it is pending, but its start was acknowledged (%v) or its starter lived (exit %d): %s", rec.ID, r.name, r.strike.describe(), r.acknowledged(), r.proc.code, tail(r.proc.err.bytes()))
	}
	r.canceled = true
	if p := w.finish(ctx, patience, nil, "cancel", string(rec.ID)); p.code != 0 {
		w.report.violate(round, "%s exits %d: %s", p, p.code, p.err.bytes())
	}
}

// judge checks one task against what its command and its processes did.
func (w *world) judge(ctx context.Context, round string, r *run, rec *task.Record, es []journal.Entry) {
	bad := func(format string, args ...any) {
		id := task.ID("(none)")
		if rec != nil {
			id = rec.ID
		}
		w.report.violate(round, "%s, start %s, strike %s, supervisor killed at %q: %s", id, r.name, r.strike.describe(), r.struck, fmt.Sprintf(format, args...))
	}
	if r.proc == nil {
		return
	}
	acked := r.acknowledged()
	if acked {
		w.report.count("acknowledged")
	}
	starts, ends := r.marks()
	if rec == nil {
		switch {
		case acked:
			bad("acknowledged, but not in the store")
		case len(starts) > 0:
			bad("the command ran, but its task is not in the store")
		case !r.proc.dead():
			bad("no task, but the starter lived: exit %d, %s", r.proc.code, r.proc.err.bytes())
		}
		return
	}
	w.report.count("tasks")
	if id, ok := r.task(); ok && id != rec.ID {
		bad("the starter or the command says that it is %s", id)
	}
	if len(starts) > 1 {
		bad("the command ran %d times", len(starts))
	}
	for _, m := range starts {
		if m.run != runOf(rec.ID) || m.token != w.token(r.start) {
			bad("the command ran in another environment: run %q, token %q", m.run, m.token)
		}
	}
	w.judgeEnd(r, rec, len(starts), ends, bad)
	w.judgeJournal(r, rec, es, bad)
	w.judgeOutput(ctx, r, rec, bad)
	w.judgeStarter(r, rec, bad)
}

func (s *strike) describe() string {
	switch s.kind {
	case atPoint, atShim:
		return "at " + s.spec()
	case killed:
		return "killed after " + s.after.String()
	case killSupervisor:
		return "supervisor killed after " + s.after.String()
	case paused:
		return "paused after " + s.after.String()
	default:
		return "none"
	}
}

// What may become of a run whose supervisor was killed at a point: the rest of what
// the strike allows is lost.
func notYet(point string) bool {
	return point == "shim.entry" || point == "shim.stage2_spawned" || point == "shim.started_tmp"
}

func recorded(point string) bool { return strings.HasPrefix(point, "shim.exit_") }

// judgeEnd checks the record's end.
func (w *world) judgeEnd(r *run, rec *task.Record, starts, ends int, bad func(string, ...any)) {
	code := ""
	if rec.Failure != nil {
		code = rec.Failure.Code
	}
	what := string(rec.State)
	if rec.State == task.Failed {
		what = code
	}
	w.report.count("ended " + what)
	struck := r.struck != ""
	switch {
	case rec.State == task.Completed:
		x, ok := command.ExitOf(rec)
		if all, _, _ := w.want(r.start); !ok || x.Code == nil || *x.Code != r.script.code || x.TotalBytes != int64(len(all)) || x.OmittedBytes != 0 {
			bad("completed with exit %+v, want code %d and %d bytes", x, r.script.code, len(all))
		}
		if starts != 1 || ends != 1 {
			bad("completed, but the command says that it started %d and ended %d times", starts, ends)
		}
		if struck && r.struck != "instant" && !notYet(r.struck) && !recorded(r.struck) {
			bad("completed, want lost")
		}
	case rec.State == task.Canceled:
		if !r.canceled {
			bad("canceled, but nobody asked for it")
		}
	case code == command.CodeLost:
		if !struck || notYet(r.struck) || recorded(r.struck) {
			bad("lost: %s", rec.Failure.Message)
		}
		if rec.Failure.Outcome != task.OutcomeUnknown {
			bad("lost, but the outcome is %s", rec.Failure.Outcome)
		}
	case code == command.CodeStartFailed:
		if starts > 0 {
			bad("start_failed, but the command ran: %s", rec.Failure.Message)
		}
		// It may have died with its supervisor. Whoever finds a run that has no
		// supervisor can start it, unless its environment is gone with its starter.
		if !notYet(r.struck) && r.struck != "instant" && (r.script.clean || !r.proc.dead()) {
			bad("start_failed: %s", rec.Failure.Message)
		}
	default:
		bad("ended as %s: %+v", rec.State, rec.Failure)
	}
	if err := task.Check(*rec); err != nil {
		bad("its record is wrong: %v", err)
	}
}

// judgeJournal checks the task's entries.
func (w *world) judgeJournal(r *run, rec *task.Record, es []journal.Entry, bad func(string, ...any)) {
	var started, published, terminal int
	var attempt int64
	streams := map[string][]byte{}
	next := int64(0)
	for i := range es {
		e := &es[i]
		if e.Seq != int64(i+1) {
			bad("entry %d of its journal has seq %d", i+1, e.Seq)
		}
		if e.Attempt < attempt {
			bad("entry %d (%s) was written by attempt %d after attempt %d had begun", e.Seq, e.Kind, e.Attempt, attempt)
		}
		attempt = max(attempt, e.Attempt)
		switch {
		case e.Kind == journal.KindStarted:
			var d task.Started
			if err := json.Unmarshal(e.Data, &d); err != nil {
				bad("entry %d: %v", e.Seq, err)
			}
			if !d.StopOnly {
				started++
			}
		case e.Kind == journal.KindPublished:
			published++
		case journal.Terminal(e.Kind):
			terminal++
			if e.Kind != "task."+string(rec.State) {
				bad("its journal ends with %s, its record is %s", e.Kind, rec.State)
			}
			var d task.Ended
			if err := json.Unmarshal(e.Data, &d); err != nil || rec.Failure != nil && d.Code != rec.Failure.Code {
				bad("its last entry says %s, its record %+v (%v)", e.Data, rec.Failure, err)
			}
			if i != len(es)-1 {
				bad("%d entries after the terminal one", len(es)-1-i)
			}
		case e.Kind == journal.KindOutput || strings.HasPrefix(e.Kind, journal.KindOutput+"."):
			if e.Part != fmt.Sprint(next) {
				bad("entry %d: output at offset %s, want %d", e.Seq, e.Part, next)
			}
			next += int64(len(e.Data))
			streams[e.Kind] = append(streams[e.Kind], e.Data...)
		}
	}
	if terminal != 1 {
		bad("%d terminal entries", terminal)
	}
	if started > 1 {
		bad("task.started %d times", started)
	}
	if limit := 1; published > limit || published > 0 && r.mode == modeDetached {
		bad("task.published %d times", published)
	}
	all, out, errs := w.want(r.start)
	w.begins(streams[journal.KindOutput], all, "its journal's output", bad)
	w.begins(streams[journal.KindOutput+".stdout"], out, "its journal's stdout", bad)
	w.begins(streams[journal.KindOutput+".stderr"], errs, "its journal's stderr", bad)
	if rec.State == task.Completed && next < int64(min(len(all), journalHolds)) {
		bad("its journal holds %d bytes of %d", next, len(all))
	}
}

// begins checks that got is the beginning of want.
func (w *world) begins(got, want []byte, what string, bad func(string, ...any)) {
	w.report.compared(len(got))
	if !bytes.HasPrefix(want, got) {
		i := 0
		for i < len(got) && i < len(want) && got[i] == want[i] {
			i++
		}
		bad("%s differs from what the command wrote at byte %d (%d bytes, want %d)", what, i, len(got), len(want))
	}
}

// same checks that got is want, or only its beginning when partly is set.
func (w *world) same(got, want []byte, partly bool, what string, bad func(string, ...any)) {
	w.begins(got, want, what, bad)
	if !partly && len(got) < len(want) {
		bad("%s ends after %d bytes of %d", what, len(got), len(want))
	}
}

// judgeOutput compares what clean processes print of the output.
func (w *world) judgeOutput(ctx context.Context, r *run, rec *task.Record, bad func(string, ...any)) {
	all, out, errs := w.want(r.start)
	looks := map[string][]byte{"--stdout": out, "--stderr": errs}
	if r.mode == modeDetached { // one merged pipe: the order is exact
		looks = map[string][]byte{"": all}
	}
	for flag, want := range looks {
		args := []string{"logs", string(rec.ID)}
		if flag != "" {
			args = append(args, flag)
		}
		p := w.finish(ctx, patience, nil, args...)
		if p.code != 0 {
			bad("%s exits %d: %s", p, p.code, p.err.bytes())
			continue
		}
		w.same(p.out.bytes(), want, rec.State != task.Completed, "what "+p.String()+" printed", bad)
	}
}

// judgeFollower compares what logs -f printed, see visit.
func (w *world) judgeFollower(r *run, p *proc, partly bool, bad func(string, ...any)) {
	all, out, _ := w.want(r.start)
	if r.mode != modeDetached {
		all = out
	}
	w.same(p.out.bytes(), all, partly, "its output", bad)
}

// judgePrinted compares what the starter printed. On stderr its own words may follow.
func (w *world) judgePrinted(r *run, p *proc, partly bool, bad func(string, ...any)) {
	_, out, errs := w.want(r.start)
	w.same(p.out.bytes(), out, partly, "what the starter printed", bad)
	said, _, _ := bytes.Cut(p.err.bytes(), []byte("outlive: "))
	w.same(said, errs, partly, "what the starter printed on stderr", bad)
}

// exitOf is the exit code that stands for a record.
func exitOf(rec *task.Record) (code int, known bool) {
	x, ok := command.ExitOf(rec)
	switch rec.State {
	case task.Completed:
		return *x.Code, ok && x.Code != nil
	case task.Canceled:
		return 6, true
	case task.Failed:
		return 5, rec.Failure.Code == command.CodeLost
	default:
		return 75, true
	}
}

// judgeStarter checks what the process that started the command said.
func (w *world) judgeStarter(r *run, rec *task.Record, bad func(string, ...any)) {
	p := r.proc
	if p.dead() {
		if r.mode != modeDetached {
			_, out, errs := w.want(r.start)
			w.begins(p.out.bytes(), out, "what the starter printed", bad)
			said, _, _ := bytes.Cut(p.err.bytes(), []byte("outlive: "))
			w.begins(said, errs, "what the starter printed on stderr", bad)
		}
		return
	}
	code, known := exitOf(rec)
	switch {
	case r.mode == modeDetached:
		if p.code != 0 && rec.State != task.Failed {
			bad("%s exits %d, the task %s: %s", r.mode, p.code, rec.State, p.err.bytes())
		}
		return
	case p.code == 75 && r.mode == modeTimed:
		if !bytes.Contains(p.err.bytes(), []byte(rec.ID)) || rec.Publication != task.OnBackground {
			bad("detached: publication %s, stderr %q", rec.Publication, tail(p.err.bytes()))
		}
	case known && p.code != code:
		bad("%s exits %d, want %d: %s", r.mode, p.code, code, tail(p.err.bytes()))
	}
	w.judgePrinted(r, p, p.code == 75 || rec.State != task.Completed, bad)
}

func tail(b []byte) []byte { return b[max(0, len(b)-300):] }

// judgeVisit checks what another process said about a task.
func (w *world) judgeVisit(round string, s *seen, rec *task.Record) {
	p := s.proc
	w.report.count("visits")
	bad := func(format string, args ...any) {
		w.report.violate(round, "%s, strike %s: %s", p, s.strike.describe(), fmt.Sprintf(format, args...))
	}
	if p.dead() {
		if s.verb == "logs" {
			w.judgeFollower(s.of, p, true, bad)
		}
		return
	}
	switch s.verb {
	case "wait":
		w.judgeWait(round, p, []*task.Record{rec})
		return
	case "logs":
		w.judgeFollower(s.of, p, rec.State != task.Completed, bad)
	case "events":
		seq := int64(0)
		for line := range bytes.Lines(p.out.bytes()) {
			var e struct {
				Seq  int64  `json:"seq"`
				Kind string `json:"kind"`
			}
			if err := json.Unmarshal(line, &e); err != nil || e.Seq != seq+1 {
				bad("line %d has seq %d (%v)", seq+1, e.Seq, err)
				break
			}
			if seq++; journal.Terminal(e.Kind) && e.Kind != "task."+string(rec.State) {
				bad("it told %s, the task %s", e.Kind, rec.State)
			}
		}
	}
	if p.code != 0 {
		bad("exits %d: %s", p.code, tail(p.err.bytes()))
	}
}

// judgeWait checks a wait that lived: a line for each task, and the code of the first
// that is not zero.
func (w *world) judgeWait(round string, p *proc, recs []*task.Record) {
	said := map[task.ID][]string{}
	for line := range strings.Lines(string(p.out.bytes())) {
		if f := strings.Fields(line); len(f) == 3 {
			said[task.ID(f[0])] = f[1:]
		}
	}
	want := 0
	for _, rec := range recs {
		if rec == nil || said[rec.ID] == nil && !slices.Contains(p.args, string(rec.ID)) {
			continue
		}
		f := said[rec.ID]
		if f == nil || f[0] != string(rec.State) {
			w.report.violate(round, "%s says %q, the task %s: %s", p, f, rec.State, tail(p.err.bytes()))
			return
		}
		code, known := exitOf(rec)
		if known && f[1] != fmt.Sprint(code) {
			w.report.violate(round, "%s says code %s, want %d", p, f[1], code)
		}
		if !known {
			_, _ = fmt.Sscan(f[1], &code)
		}
		if want == 0 {
			want = code
		}
	}
	if p.code != want {
		w.report.violate(round, "%s exits %d, want %d: %s", p, p.code, want, tail(p.err.bytes()))
	}
}

// noneLeft checks that no process of a run that has ended is left.
func (w *world) noneLeft(ctx context.Context, round string, runs []*run, recs []*task.Record) {
	ours := map[string]*run{}
	for i, rec := range recs {
		if rec != nil {
			ours[runOf(rec.ID)] = runs[i]
		}
	}
	var left []entry
	quiet := 0 // in the middle of an exec a process has no environment for a moment
	if poll(ctx, lookFor, func() bool {
		left = slices.DeleteFunc(processes(), func(e entry) bool { return ours[e.run] == nil })
		if quiet++; len(left) > 0 {
			quiet = 0
		}
		return quiet > 1
	}) {
		return
	}
	for _, e := range left {
		r := ours[e.run]
		w.report.violate(round, "%s, start %s, strike %s, supervisor killed at %q: process %d (state %c, supervisor %v) is left", e.run, r.name, r.strike.describe(), r.struck, e.pid, e.state, e.shim)
		_ = syscall.Kill(e.pid, syscall.SIGKILL)
	}
}
