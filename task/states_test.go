// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestStatesPage(t *testing.T) {
	golden(t, filepath.Join("..", "docs", "states.md"), states())
}

// states draws the table as the page docs/states.md.
func states() string {
	var b strings.Builder
	b.WriteString(`# States of a task

<!-- Generated from the table in task/table.go: go generate ./task. Do not edit. -->

` + "```mermaid\nstateDiagram-v2\n")
	type edge struct{ from, to State }
	var order []edge
	ops := map[edge][]string{}
	for _, t := range transitions() {
		for _, from := range t.from {
			for _, to := range t.to {
				e := edge{from, to}
				if from == to {
					continue
				}
				if _, ok := ops[e]; !ok {
					order = append(order, e)
				}
				if !slices.Contains(ops[e], string(t.op)) {
					ops[e] = append(ops[e], string(t.op))
				}
			}
		}
	}
	for _, e := range order {
		from := string(e.from)
		if e.from == none {
			from = "[*]"
		}
		fmt.Fprintf(&b, "    %s --> %s: %s\n", from, e.to, strings.Join(ops[e], ", "))
	}
	for _, s := range States() {
		if s.Terminal() {
			fmt.Fprintf(&b, "    %s --> [*]\n", s)
		}
	}
	b.WriteString("```\n\n" + `A running task without a worker is unattended: it lives on outside, under its own supervisor. A task with a
cancel intent is pending or running; its next end is canceled, or failed if a deadline asked. A task that has ended answers
every command but publish and reveal with how it ended.

| from | command | of | to | Version | Attempt | Generation | also |
| --- | --- | --- | --- | --- | --- | --- | --- |
`)
	for _, t := range transitions() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n",
			names(t.from), t.op, t.who, names(t.to), t.version, t.attempt, t.generation, t.also)
	}
	b.WriteString("\n## What is true of every record\n\n`task.Check` tells which of these a record breaks.\n\n")
	for _, rule := range rules() {
		id, text, _ := strings.Cut(rule, " ")
		fmt.Fprintf(&b, "- **%s** %s\n", id, text)
	}
	return b.String()
}

func names(s []State) string {
	if len(s) == 1 && s[0] == none {
		return "-"
	}
	out := make([]string, len(s))
	for i := range s {
		out[i] = string(s[i])
	}
	return strings.Join(out, ", ")
}

// rules returns the invariants of Check in words, for docs/states.md.
func rules() []string {
	return []string{
		"T-1 Id, executor, owner, publication and state are there, and are words of this contract.",
		"T-2 Counters only grow; every move of the version moves the revision too.",
		"T-3 Only a running task of the manager holds a lease. Without one it is unattended: recoverable, its start committed.",
		"T-4 An unfinished parent-owned task is running with attempt 0, under the hold of its parent's attempt.",
		"T-5 A result exists only on completed, a failure only on failed or canceled.",
		"T-6 The end, and only the end, seals the mailbox and sets the time of the end; it leaves no candidate and no open ticket, and completion no checkpoint.",
		"T-7 A task to be canceled is pending or running. It ends canceled, or failed if a deadline asked, and never completed.",
		"T-8 Input cursors are in order: consumed at the attempt's start, consumed, latest. Who reads no input has none.",
		"T-9 A waiting task waits for at least one ticket; no ticket is named twice.",
		"T-10 A suspended task has a checkpoint and a reason.",
		"T-11 A pending task, and no other, has a due time.",
		"T-12 Created, done and updated are in this order.",
	}
}
