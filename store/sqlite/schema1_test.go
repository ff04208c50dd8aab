// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite_test

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/store/sqlite"
	"github.com/outlive-dev/outlive/task"
)

// A file of schema 1, as that version wrote it, is brought forward with all that is
// in it, and a copy of it is kept.
func TestMigrateFromSchema1(t *testing.T) {
	t.Parallel()
	f, err := os.Open("testdata/schema1.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "old.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	st := openAt(t, path, sqlite.Options{Grow: -1})
	if st.Info().Schema != 2 {
		t.Fatalf("schema %d after opening, want 2", st.Info().Schema)
	}
	if fi, err := os.Stat(path + ".v1.bak"); err != nil || fi.Size() == 0 {
		t.Errorf("no copy was kept: %v", err)
	}
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	err = st.View(t.Context(), func(v store.View) error {
		r, ok, err := v.Task("t1")
		if !ok || err != nil || r.State != task.Waiting || r.LatestInput != 1 || r.Name != "one" {
			t.Errorf("task = %+v, %v, %v", r, ok, err)
		}
		list, err := v.Entries("t1", 0, 0)
		if err != nil || len(list) != 2 || string(list[1].Data) != "hello" {
			t.Errorf("entries = %v, %v", list, err)
		}
		due, err := v.Timers(at, 0)
		if d := cmp.Diff([]store.Timer{{Kind: "deadline", Subject: "t1", Due: at}}, due); err != nil || d != "" {
			t.Errorf("timers, %v (-want +got):\n%s", err, d)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	keys := []store.Key{store.HeldKey("t1"), store.TicketKey("t1", "q1"), store.InputKey("t1", "i1"), store.InvocationKey("k")}
	err = st.Update(t.Context(), keys, func(tx store.Tx) error {
		if n := tx.Held("t1"); n != 1 {
			t.Errorf("%d held children, want the one from before", n)
		}
		if _, ok := tx.Input("t1", "i1"); !ok {
			t.Error("the input is gone")
		}
		if _, ok := tx.Invocation("k"); !ok {
			t.Error("the invocation is gone")
		}
		tx.PutTicket(mail.Ticket{Task: "t1", ID: "q1", Kind: mail.Question})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
