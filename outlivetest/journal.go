// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlivetest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// Journal renders the task's journal, one line for each entry, without times and
// names of workers: what a test compares. Or it fails the test.
func (e *Env) Journal(id task.ID) string {
	e.t.Helper()
	r := e.Get(id)
	var b strings.Builder
	for after := int64(0); ; {
		var page []journal.Entry
		if err := e.st.View(e.t.Context(), func(v store.View) (err error) {
			page, err = v.Entries(journal.StreamID(r.Stream()), after, store.MaxPage)
			return err
		}); err != nil {
			e.t.Fatalf("Journal(%s) = %v", id, err)
		}
		for i := range page {
			after = page[i].Seq
			if page[i].Task == string(id) {
				b.WriteString(entryLine(&page[i]) + "\n")
			}
		}
		if len(page) < store.MaxPage {
			return b.String()
		}
	}
}

// entryLine renders one entry.
func entryLine(e *journal.Entry) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s", e.Seq, e.Kind)
	if e.Attempt > 0 {
		fmt.Fprintf(&b, " attempt=%d", e.Attempt)
	}
	if e.Part != "" {
		fmt.Fprintf(&b, " %s/%s", e.Event, e.Part)
		if e.Final {
			b.WriteString(" final")
		}
	} else if e.Event != "" {
		b.WriteString(" " + e.Event)
	}
	if e.Kind == journal.KindPanic {
		first, _, _ := strings.Cut(string(e.Data), "\n")
		fmt.Fprintf(&b, " %q", first)
		return b.String()
	}
	if e.Media == "application/json" {
		b.WriteString(details(e.Data))
	} else if len(e.Data) > 0 {
		fmt.Fprintf(&b, " %q", oneLine(string(e.Data)))
	}
	return b.String()
}

// shown are the fields of a lifecycle entry that are the same in every run of a
// test, in the order in which they are shown.
func shown() []string {
	return []string{"stop_only", "lost", "reason", "tickets", "ticket", "all", "failures", "code", "message", "outcome", "generation", "orphaned", "seq", "kind", "delivery", "after", "latest", "unread"}
}

func details(data []byte) string {
	var m map[string]any
	if json.Unmarshal(data, &m) != nil {
		return " " + oneLine(string(data))
	}
	var b strings.Builder
	for _, k := range shown() {
		switch v := m[k].(type) {
		case nil:
		case string:
			if strings.ContainsAny(v, " \n") {
				v = fmt.Sprintf("%q", oneLine(v))
			}
			fmt.Fprintf(&b, " %s=%s", k, v)
		default:
			fmt.Fprintf(&b, " %s=%v", k, v)
		}
	}
	return b.String()
}

// Line renders what a record says, in one line, without ids and times.
func Line(r task.Record) string {
	var b strings.Builder
	b.WriteString(string(r.State))
	if r.Attempt > 0 {
		fmt.Fprintf(&b, " attempt=%d", r.Attempt)
	}
	add := func(ok bool, format string, args ...any) {
		if ok {
			fmt.Fprintf(&b, " "+format, args...)
		}
	}
	add(r.Owner == task.OwnerParent, "parent-owned")
	add(r.Unattended(), "unattended")
	add(r.Publication != task.OnCreate, "%s", r.Publication)
	add(r.Canceling(), "canceling=%q", r.CancelReason)
	add(r.SuspendReason != "", "%s", r.SuspendReason)
	add(len(r.Tickets) > 0, "tickets=%v", r.Tickets)
	add(r.Failures > 0 && !r.State.Terminal(), "failures=%d", r.Failures)
	add(r.Unread() > 0, "unread=%d", r.Unread())
	if r.Checkpoint != nil && !r.State.Terminal() {
		add(true, "checkpoint=%q", r.Checkpoint.Data)
	}
	if r.Candidate != nil {
		add(true, "candidate=%q", r.Candidate.Result.Data)
	}
	if r.Result != nil {
		add(true, "%q", r.Result.Data)
	}
	if f := r.Failure; f != nil {
		add(true, "%s", f.Code)
		add(f.Message != "", "%q", oneLine(f.Message))
		add(f.Outcome == task.OutcomeUnknown, "outcome-unknown")
		add(len(f.Detail.Data) > 0, "had=%q", f.Detail.Data)
	}
	return b.String()
}
