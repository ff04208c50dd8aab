// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// No statement looks through a whole table.
func TestPlans(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "outlive.db"), &Options{Grow: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := s.connect()
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	v := &view{c: c}
	now := time.Now()
	all := func(errs ...error) {
		for _, err := range errs {
			if err != nil {
				t.Error(err)
			}
		}
	}
	for _, f := range []store.Filter{
		{},
		{Before: "a"},
		{Session: "s"},
		{Session: "s", States: []task.State{task.Completed}},
		{States: []task.State{task.Pending}},
		{States: []task.State{task.Running, task.Waiting}, Session: "s", Queue: "q", Before: "b"},
	} {
		_, err := v.Tasks(f)
		all(err)
	}
	_, err1 := v.Find("x", 0)
	_, err2 := v.Children("p", "", 0)
	_, err3 := v.Pending(store.PendingQuery{Now: now})
	_, _, err4 := v.NextDue(now)
	_, err5 := v.Held(task.Lease{Worker: "w"}, "", 0)
	_, err6 := v.Unattended("", 0)
	_, err7 := v.Entries("s", 0, 0)
	_, err8 := v.Inputs("a", 0, 0)
	_, err9 := v.ObserversOf(task.Lease{Worker: "w"}, 0)
	_, err10 := v.Timers(now, 0)
	all(err1, err2, err3, err4, err5, err6, err7, err8, err9, err10)
	_, err1 = c.taskRow("a")
	_, err2 = c.head("s")
	_, err3 = c.tail("s", "e")
	_, err4 = c.part(store.PartKey("s", "e", "p"))
	_, err5 = c.input("a", "i")
	_, err6 = c.named("n")
	_, err7 = c.queue("q")
	_, err8 = c.observers("a")
	_, err9 = c.invocation("k")
	_, err10 = c.worker("w")
	all(err1, err2, err3, err4, err5, err6, err7, err8, err9, err10)
	_, err = c.int64(`SELECT count(*) FROM outlive_task WHERE r_ckey = ?`, "k")
	all(err)
	_, err1 = v.Driven("", 0)
	_, err2 = v.Outbox("x", 0)
	_, err3 = v.Due(now, 0)
	_, err4 = v.Invocations(now, 0)
	_, err5 = v.Tickets("a", "", 0)
	_, err6 = v.Sessions("", 0)
	_, err7 = c.delivery("x", "m")
	_, err8 = c.int64(heldQuery, "p")
	all(err1, err2, err3, err4, err5, err6, err7, err8)

	var texts []string
	for text := range c.stmts {
		texts = append(texts, text)
	}
	for _, text := range texts {
		if !strings.Contains(text, "outlive_task") && !strings.Contains(text, "outlive_entry") && !strings.Contains(text, "outlive_input") &&
			!strings.Contains(text, "outlive_observer WHERE") && !strings.Contains(text, "outlive_timer") &&
			!strings.Contains(text, "outlive_delivery") && !strings.Contains(text, "outlive_ticket") && !strings.Contains(text, "outlive_invocation WHERE expires") {
			continue
		}
		err := c.run("EXPLAIN QUERY PLAN "+text, func(st *stmt) error {
			step := st.colText(3)
			if strings.HasPrefix(step, "SCAN outlive_") {
				t.Errorf("%s\n  plan: %s", text, step)
			}
			return nil
		})
		all(err)
	}
}
