// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlivetest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/outlive-dev/outlive/task"
)

// Steps are the parsed steps of a task's script: one list for each attempt, and one
// for each run of the stop hook. The last list of each serves all that follow.
type Steps struct {
	attempts [][]Step
	hooks    [][]Step
}

// Parse reads a script: steps with ";" or line breaks between, "|" before those of
// the next attempt, "!" before those of the stop hook. The steps are
//
//	emit TEXT, final TEXT, flush TEXT, start, save TEXT, sleep D, await SIGNAL,
//	detached, ignore, mark NAME, input [N], commit [TEXT], complete [TEXT],
//	fail CODE, lost CODE, retry CODE, panic TEXT, yield [TEXT],
//	suspend REASON [TEXT], ask TICKET..., leave, stopped
func Parse(script string) (Steps, error) {
	run, hook, _ := strings.Cut(script, "!")
	var s Steps
	var err error
	if s.attempts, err = parseLists(run); err != nil {
		return Steps{}, err
	}
	s.hooks, err = parseLists(hook)
	return s, err
}

func parseLists(text string) (lists [][]Step, err error) {
	for part := range strings.SplitSeq(text, "|") {
		list := []Step{}
		for line := range strings.FieldsFuncSeq(part, func(r rune) bool { return r == ';' || r == '\n' }) {
			if line = strings.TrimSpace(line); line == "" {
				continue
			}
			step, err := parseStep(line)
			if err != nil {
				return nil, err
			}
			list = append(list, step)
		}
		lists = append(lists, list)
	}
	return lists, nil
}

func parseStep(line string) (Step, error) {
	verb, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	first, after, _ := strings.Cut(rest, " ")
	switch verb {
	case "emit":
		return Emit(rest), nil
	case "final":
		return EmitFinal(rest), nil
	case "flush":
		return Flush(rest), nil
	case "start":
		return Start(), nil
	case "save":
		return Save(rest), nil
	case "sleep":
		d, err := time.ParseDuration(rest)
		if err != nil {
			return nil, fmt.Errorf("step %q: %w", line, err)
		}
		return Sleep(d), nil
	case "await":
		return Await(rest), nil
	case "detached":
		return AwaitDetached(), nil
	case "ignore":
		return Ignore(), nil
	case "mark":
		return Mark(rest), nil
	case "input":
		n := 1
		if rest != "" {
			var err error
			if n, err = strconv.Atoi(rest); err != nil {
				return nil, fmt.Errorf("step %q: %w", line, err)
			}
		}
		return Input(n), nil
	case "commit":
		return CommitInput(rest), nil
	}
	return parseEnd(verb, rest, first, after)
}

func parseEnd(verb, rest, first, after string) (Step, error) {
	switch verb {
	case "complete":
		return Complete(rest), nil
	case "fail":
		return Fail(first, after), nil
	case "lost":
		return Lost(first, after), nil
	case "retry":
		return Retry(first, after), nil
	case "panic":
		return Panic(rest), nil
	case "yield":
		return Yield(rest), nil
	case "suspend":
		return Suspend(first, after), nil
	case "ask":
		var tickets []task.TicketID
		for t := range strings.FieldsSeq(rest) {
			tickets = append(tickets, task.TicketID(t))
		}
		return Ask(tickets...), nil
	case "leave":
		return Leave(), nil
	case "stopped":
		return Stopped(), nil
	}
	return nil, fmt.Errorf("unknown step %q", verb)
}

// attempt returns the steps of an attempt.
func (s Steps) attempt(n int64) []Step { return nth(s.attempts, int(n)) }

// hook returns the steps of the nth run of the stop hook; with none it just stops.
func (s Steps) hook(n int) []Step {
	if list := nth(s.hooks, n); len(list) > 0 {
		return list
	}
	return []Step{Stopped()}
}

func nth(lists [][]Step, n int) []Step {
	if len(lists) == 0 {
		return nil
	}
	return lists[min(max(n, 1), len(lists))-1]
}
