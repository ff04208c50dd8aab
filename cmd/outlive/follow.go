// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool/command"
)

// readWait is how long one read of a spool waits for more.
const readWait = time.Second

func (a *app) logsCommand() *cobra.Command {
	var follow, onlyOut, onlyErr bool
	var after int64
	tail := -1
	cmd := &cobra.Command{
		Use:   "logs [-f] [--tail N] [--after OFFSET] ID",
		Short: "Print a task's output as it was written",
		Long: "Prints output byte for byte, from the start or from where it is told, in the order in\n" +
			"which it was received. With -f it goes on until the task ends.",
		Example: "  outlive logs -f web\n  outlive logs --tail 20 --stderr 9fn8",
		Args:    words(1, 1), ValidArgsFunction: a.completeIDs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if after < 0 || cmd.Flags().Changed("tail") && tail < 0 {
				return usagef("--after and --tail want numbers from 0")
			}
			if onlyOut && onlyErr {
				return usagef("--stdout and --stderr: give one of them")
			}
			ctx := a.interruptible(cmd.Context())
			r, err := a.named(ctx, args[0])
			if err != nil {
				return err
			}
			return a.logs(ctx, r, after, tail, follow, a.sink(onlyOut, onlyErr))
		},
	}
	fs := cmd.Flags()
	fs.BoolVarP(&follow, "follow", "f", false, "go on until the task ends")
	fs.Int64Var(&after, "after", 0, "start at byte `OFFSET` of the output")
	fs.IntVar(&tail, "tail", -1, "only the last `N` lines of what is there")
	fs.BoolVar(&onlyOut, "stdout", false, "standard output alone")
	fs.BoolVar(&onlyErr, "stderr", false, "standard error alone")
	return cmd
}

func (a *app) logs(ctx context.Context, r task.Record, after int64, tail int, follow bool, write func(shell.Frame) error) error {
	b, err := a.commands.Backend(&r)
	if err != nil {
		return err
	}
	id := command.RunID(r.ID)
	if tail >= 0 {
		if after, err = a.tailOffset(ctx, b, id, after, tail); err != nil {
			return a.fromJournal(ctx, r, err, write)
		}
	}
	if !follow {
		if err := a.dump(ctx, b, id, after, false, write); err != nil {
			return a.fromJournal(ctx, r, err, write)
		}
		return nil
	}
	// Whoever follows a task that nobody watches records its end.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	a.group.Go("end", func(context.Context) {
		_, err := a.rt.Wait(ctx, r.ID, outlive.Terminal)
		ended <- err
	})
	for {
		err := a.dump(ctx, b, id, after, true, write)
		if err == nil {
			return <-ended
		}
		select {
		case end := <-ended:
			if end != nil {
				return end
			}
			return a.fromJournal(ctx, r, err, write) // its files are gone
		default:
		}
		if !fault.Is(err, fault.NotFound) {
			return err
		}
		select {
		case err := <-ended:
			ended <- err // once more, to see what came last
		case <-time.After(notStarted): // it waits to be started
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// notStarted is how often a follower looks whether a task has been started.
const notStarted = 250 * time.Millisecond

// tailOffset finds where the last n lines of what is there begin.
func (a *app) tailOffset(ctx context.Context, b shell.Recoverable, id shell.RunID, from int64, n int) (int64, error) {
	starts := []int64{from}
	err := a.dump(ctx, b, id, from, false, func(f shell.Frame) error {
		for i := 0; ; {
			j := bytes.IndexByte(f.Data[i:], '\n')
			if j < 0 {
				break
			}
			i += j + 1
			if starts = append(starts, f.Off+int64(i)); len(starts) > n+1 {
				starts = starts[1:]
			}
		}
		from = f.Off + int64(len(f.Data))
		return nil
	})
	if n == 0 {
		return from, err
	}
	if last := len(starts) - 1; last > 0 && starts[last] == from {
		starts = starts[:last] // the output ends with a newline
	} else if len(starts) > n {
		starts = starts[1:]
	}
	return starts[max(0, len(starts)-n)], err
}

// fromJournal prints what the journal holds of the output of a run whose spool is
// not there any more.
func (a *app) fromJournal(ctx context.Context, r task.Record, cause error, write func(shell.Frame) error) error {
	if !fault.Is(cause, fault.NotFound) {
		return cause
	}
	for e, err := range a.rt.Events(ctx, r.ID, &outlive.EventsOptions{NoFollow: true}) {
		if err != nil {
			return err
		}
		f := shell.Frame{Data: e.Data}
		switch e.Kind {
		case journal.KindOutput:
		case journal.KindOutput + ".stdout":
			f.Stream = shell.Stdout
		case journal.KindOutput + ".stderr":
			f.Stream = shell.Stderr
		default:
			continue
		}
		if err := write(f); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) eventsCommand() *cobra.Command {
	var after string
	var follow bool
	cmd := &cobra.Command{
		Use:   "events [-f] [--after CURSOR] ID",
		Short: "Print a task's journal, one JSON object a line",
		Args:  words(1, 1), ValidArgsFunction: a.completeIDs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o := outlive.EventsOptions{NoFollow: !follow}
			if after != "" {
				c, err := journal.ParseCursor(after)
				if err != nil {
					return usagef("--after: %v", err)
				}
				o.After = c
			}
			ctx := a.interruptible(cmd.Context())
			r, err := a.named(ctx, args[0])
			if err != nil {
				return err
			}
			if follow {
				a.group.Go("end", func(context.Context) { _, _ = a.rt.Wait(ctx, r.ID, outlive.Terminal) })
			}
			for e, err := range a.rt.Events(ctx, r.ID, &o) {
				if err != nil {
					return err
				}
				if err := a.printJSON(viewOf(&e)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&after, "after", "", "only entries behind `CURSOR`")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the task ends")
	return cmd
}

// entryView is an entry as it is printed: JSON data as it is, text as text.
type entryView struct {
	Cursor  string          `json:"cursor"`
	Seq     int64           `json:"seq"`
	At      time.Time       `json:"at"`
	Task    string          `json:"task,omitempty"`
	Attempt int64           `json:"attempt,omitempty"`
	Kind    string          `json:"kind"`
	Event   string          `json:"event,omitempty"`
	Part    string          `json:"part,omitempty"`
	Final   bool            `json:"final,omitempty"`
	Media   string          `json:"media,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
	Text    string          `json:"text,omitempty"`
	Base64  []byte          `json:"base64,omitempty"`
}

func viewOf(e *journal.Entry) entryView {
	v := entryView{
		Cursor: e.Cursor().String(), Seq: e.Seq, At: e.At, Task: e.Task, Attempt: e.Attempt, Kind: e.Kind,
		Event: e.Event, Part: e.Part, Final: e.Final, Media: e.Media,
	}
	switch {
	case strings.HasSuffix(e.Media, "json") && json.Valid(e.Data):
		v.Data = e.Data
	case utf8.Valid(e.Data):
		v.Text = string(e.Data)
	default:
		v.Base64 = e.Data
	}
	return v
}

func (a *app) printJSON(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	return a.print(a.out, "%s", b.Bytes())
}

func (a *app) waitCommand() *cobra.Command {
	var anyOne bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait [--any] [--timeout D] ID...",
		Short: "Wait for the end and exit with the command's code",
		Long: "Prints ID STATE CODE for each task and exits with the command's code: with several, 0\n" +
			"when all are 0, else the first that is not, in the order given.",
		Example: "  outlive wait web\n  outlive wait --any --timeout 90s 9fn8 4tnu",
		Args:    words(1, -1), ValidArgsFunction: a.completeIDs(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("timeout") && timeout <= 0 {
				return usagef("--timeout %v: want a positive duration such as 90s", timeout)
			}
			return a.ownErrors(a.wait(a.interruptible(cmd.Context()), args, anyOne, timeout))
		},
	}
	cmd.Flags().BoolVar(&anyOne, "any", false, "end with the first that ends")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "give up after `D` and exit with 75")
	return cmd
}

func (a *app) wait(ctx context.Context, words []string, anyOne bool, timeout time.Duration) error {
	ids := make([]task.ID, len(words))
	for i, word := range words {
		r, err := a.resolve(ctx, word)
		if err != nil {
			return err
		}
		ids[i] = r.ID
	}
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	type end struct {
		i   int
		rec task.Record
		err error
	}
	ends := make(chan end, len(ids))
	each, stop := context.WithCancel(ctx)
	defer stop()
	for i, id := range ids {
		a.group.Go("wait", func(context.Context) {
			r, err := a.rt.Wait(each, id, outlive.Terminal)
			ends <- end{i, r, err}
		})
	}
	recs := make([]*task.Record, len(ids))
	for range ids {
		e := <-ends
		if e.err != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return e.err
		}
		if e.err != nil { // time is up, whatever it cut short: how far is it?
			if e.rec, e.err = a.rt.Get(context.WithoutCancel(ctx), ids[e.i]); e.err != nil {
				return e.err
			}
			recs[e.i] = &e.rec
			continue
		}
		recs[e.i] = &e.rec
		if anyOne {
			recs = []*task.Record{&e.rec}
			break
		}
	}
	var result error
	for _, r := range recs {
		code, _ := codeOf(r)
		var err error
		if a.json {
			err = a.printTask(*r)
		} else {
			err = a.print(a.out, "%s %s %d\n", r.ID, r.State, code)
		}
		if err != nil {
			return err
		}
		if result == nil {
			result = a.verdict(*r, true)
		}
	}
	return result
}

func (a *app) cancelCommand() *cobra.Command {
	var reason string
	var noWait, force bool
	cmd := &cobra.Command{
		Use:   "cancel [--reason R] [--no-wait] [--force] ID",
		Short: "End a task and say how it ended",
		Long: "Stops the command and all its processes: TERM first, KILL after its grace of 2 s. Waits\n" +
			"for the end. Exits with 0 whenever nothing is left running, also when it had ended before.",
		Example: "  outlive cancel web --reason 'wrong branch'",
		Args:    words(1, 1), ValidArgsFunction: a.completeIDs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.cancel(a.interruptible(cmd.Context()), args[0], outlive.CancelOptions{Reason: reason, Force: force}, noWait)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "the reason `R` is kept with the task; the first one stays")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "do not wait for the end")
	cmd.Flags().BoolVar(&force, "force", false, "end it at once with outcome unknown, also when nobody can stop it")
	return cmd
}

func (a *app) cancel(ctx context.Context, word string, o outlive.CancelOptions, noWait bool) error {
	r, err := a.named(ctx, word)
	if fault.Is(err, fault.NotFound) {
		if found, serr := a.cancelStray(ctx, word, o.Reason); found {
			return serr
		}
	}
	if err != nil {
		return err
	}
	if !r.State.Terminal() {
		if r, err = a.rt.Cancel(ctx, r.ID, &o); err != nil && !fault.Is(err, fault.Finished) {
			return err
		}
		switch {
		case err != nil || !noWait:
			if r, err = a.rt.Wait(ctx, r.ID, outlive.Terminal); err != nil {
				return err
			}
		default:
			a.note("%s: cancel requested", r.ID)
		}
	}
	if a.json {
		return a.printTask(r)
	}
	state := stateWord(&r)
	if r.CancelReason != "" && r.State == task.Canceled {
		state += " (" + r.CancelReason + ")"
	}
	return a.print(a.out, "%s %s\n", r.ID, state)
}
