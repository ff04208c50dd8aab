// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/store/sqlite"
	"github.com/outlive-dev/outlive/task"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func put(t testing.TB, st store.Store, id task.ID) error {
	return st.Update(t.Context(), []store.Key{store.TaskKey(id)}, func(tx store.Tx) error {
		tx.PutTask(task.Record{ID: id, State: task.Pending, CreatedAt: tx.Now()})
		return nil
	})
}

func has(t testing.TB, st store.Store, id task.ID) (found bool) {
	t.Helper()
	err := st.View(t.Context(), func(v store.View) (err error) {
		_, found, err = v.Task(id)
		return err
	})
	if err != nil {
		t.Errorf("View = %v", err)
	}
	return found
}

// raw runs statements on the file by another way than the store's.
func raw(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func TestOpenMakesDirectoryAndFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a?b#c%20d", "e f", "outlive.db")
	st := openAt(t, path, sqlite.Options{Grow: 1 << 20})
	if err := put(t, st, "a"); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]os.FileMode{filepath.Dir(path): 0o700, path: 0o600, path + "-wal": 0o600, path + ".turn": 0o600} {
		if fi, err := os.Stat(p); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v, want %v", p, fi.Mode().Perm(), err, want)
		}
	}
	if fi, err := os.Stat(path + "-wal"); err != nil || fi.Size() < 1<<20 {
		t.Errorf("the log has %d bytes, want it grown ahead", fi.Size())
	}
	if info := st.Info(); info.Path != path || info.Driver != "sqlite" || info.ID == "" || info.Epoch != 1 || info.Schema != 2 {
		t.Errorf("Info = %+v", info)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	foreign := filepath.Join(dir, "foreign.db")
	raw(t, foreign, `CREATE TABLE other (a)`)
	newer := filepath.Join(dir, "newer.db")
	openAt(t, newer, sqlite.Options{}).Close()
	raw(t, newer, `INSERT INTO outlive_migrations VALUES (99, 'x', 'y', 0)`)
	for name, c := range map[string]struct {
		path string
		kind fault.Kind
	}{
		"no path":             {"", fault.Invalid},
		"a directory":         {dir, fault.Invalid},
		"text":                {file("text.db", strings.Repeat("this is no database. ", 1000)), fault.Unavailable},
		"a short file":        {file("short.db", "no"), fault.Unavailable},
		"another program's":   {foreign, fault.Unsupported},
		"a newer schema":      {newer, fault.Unsupported},
		"a file in the way":   {filepath.Join(file("plain", "x"), "outlive.db"), fault.Unavailable},
		"a character device":  {"/dev/null", fault.Invalid},
		"an ended context":    {"", fault.Canceled},
		"an unknown sync way": {"", fault.Invalid},
	} {
		ctx, opts := t.Context(), &sqlite.Options{Grow: -1, LockWait: time.Second}
		switch name {
		case "an ended context":
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(ctx)
			cancel()
		case "an unknown sync way":
			opts.Sync = "sometimes"
		}
		st, err := sqlite.Open(ctx, c.path, opts)
		if err == nil {
			st.Close()
		}
		if !fault.Is(err, c.kind) {
			t.Errorf("Open of %s = %v (kind %v), want kind %v", name, err, fault.KindOf(err), c.kind)
		}
		if c.kind == fault.Unsupported && fault.Hint(err) == "" {
			t.Errorf("Open of %s = %v without a hint what to do", name, err)
		}
	}
}

func TestDamage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "outlive.db")
	st := openAt(t, path, sqlite.Options{})
	for i := range 200 {
		if err := put(t, st, task.ID(fmt.Sprint("t", i))); err != nil {
			t.Fatal(err)
		}
	}
	st.Close()
	// The log may still hold all of it.
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 4096 * 2; i < len(data); i++ { // all but the schema
		data[i] = 0xa5
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	st, err = sqlite.Open(t.Context(), path, &sqlite.Options{Grow: -1})
	if err == nil {
		defer st.Close()
		err = put(t, st, "x")
	}
	if !strings.Contains(fmt.Sprint(err), "damaged") || fault.Hint(err) == "" {
		t.Errorf("use of a damaged file = %v, want an error that says so and what to do", err)
	}
}

// Many stores, in this process and in others, open one fresh file at once.
func TestOpenAtOnce(t *testing.T) {
	if dir := os.Getenv("OUTLIVE_TEST_OPEN"); dir != "" {
		openAtOnce(t, dir, os.Getpid())
		return
	}
	t.Parallel()
	for range 5 {
		dir := filepath.Join(t.TempDir(), "new")
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOpenAtOnce$")
				cmd.Env = append(os.Environ(), "OUTLIVE_TEST_OPEN="+dir)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("child: %v\n%s", err, out)
				}
			})
		}
		for i := range 4 {
			wg.Go(func() { openAtOnce(t, dir, i) })
		}
		wg.Wait()
		st := openAt(t, filepath.Join(dir, "outlive.db"), sqlite.Options{})
		err := st.View(t.Context(), func(v store.View) error {
			counts, err := v.Counts()
			if counts[task.Pending] != 7*20 {
				t.Errorf("%d tasks, want %d", counts[task.Pending], 7*20)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func openAtOnce(t *testing.T, dir string, who int) {
	st, err := sqlite.Open(t.Context(), filepath.Join(dir, "outlive.db"), &sqlite.Options{Grow: -1})
	if err != nil {
		t.Errorf("Open = %v", err)
		return
	}
	defer st.Close()
	for i := range 20 {
		if err := put(t, st, task.ID(fmt.Sprintf("%d-%d", who, i))); err != nil {
			t.Errorf("Update = %v", err)
		}
	}
}

func TestLockHeldByAnother(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "outlive.db")
	st := openAt(t, path, sqlite.Options{LockWait: 50 * time.Millisecond})
	if err := put(t, st, "a"); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := put(t, st, "b"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Update while another holds the lock = %v, want Unavailable", err)
	}
	if !has(t, st, "a") || has(t, st, "b") {
		t.Error("a view while another holds the lock does not see what was committed")
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := put(t, st, "c"); err != nil {
		t.Errorf("Update after the lock was released = %v", err)
	}
}

func TestHold(t *testing.T) {
	t.Parallel()
	st := fresh(t, sqlite.Options{}).(*sqlite.Store)
	release := st.Hold()
	done := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { done <- put(t, st, "a") })
	select {
	case err := <-done:
		t.Errorf("Update of a held store = %v, want it to wait", err)
	case <-time.After(20 * time.Millisecond):
	}
	release()
	wg.Wait()
	if err := <-done; err != nil || !has(t, st, "a") {
		t.Errorf("Update after release = %v", err)
	}
}

func TestBackup(t *testing.T) {
	t.Parallel()
	st := fresh(t, sqlite.Options{}).(*sqlite.Store)
	for i := range 100 {
		if err := put(t, st, task.ID(fmt.Sprint("t", i))); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "backup.db")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			_ = put(t, st, task.ID(fmt.Sprint("x", i)))
		}
	})
	err := st.Backup(t.Context(), path)
	cancel()
	wg.Wait()
	if err != nil {
		t.Fatalf("Backup = %v", err)
	}
	if err := st.Backup(t.Context(), path); !fault.Is(err, fault.Exists) {
		t.Errorf("Backup over a file = %v, want Exists", err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("the copy has mode %v, %v, want 0600", fi.Mode(), err)
	}
	if err := st.Backup(ctx, path+"2"); !fault.Is(err, fault.Canceled) {
		t.Errorf("Backup with an ended context = %v, want Canceled", err)
	}
	st2 := openAt(t, path, sqlite.Options{})
	if !has(t, st2, "t0") || !has(t, st2, "t99") {
		t.Error("the copy lacks what was there when it began")
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*.part")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestRestore(t *testing.T) {
	t.Parallel()
	st := fresh(t, sqlite.Options{}).(*sqlite.Store)
	if err := put(t, st, "a"); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	backup, path := filepath.Join(dir, "backup.db"), filepath.Join(dir, "new", "outlive.db")
	if err := st.Backup(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	if err := sqlite.Restore(t.Context(), backup, path); err != nil {
		t.Fatal(err)
	}
	st2 := openAt(t, path, sqlite.Options{})
	if !has(t, st2, "a") {
		t.Error("the restored store lacks what was in the backup")
	}
	if was, is := st.Info(), st2.Info(); is.ID == was.ID || is.Epoch <= was.Epoch {
		t.Errorf("Info of the restored store = %+v, want another id and a higher epoch than %+v", is, was)
	}
	if err := put(t, st2, "b"); err != nil {
		t.Errorf("Update of the restored store = %v", err)
	}
	if err := sqlite.Restore(t.Context(), backup, path); !fault.Is(err, fault.Exists) {
		t.Errorf("Restore over a store = %v, want Exists", err)
	}
	if err := sqlite.Restore(t.Context(), backup+"none", path+"2"); !fault.Is(err, fault.NotFound) {
		t.Errorf("Restore of nothing = %v, want NotFound", err)
	}
	if list, _ := filepath.Glob(filepath.Join(dir, "*")); len(list) != 2 {
		t.Errorf("left behind: %v", list)
	}
}

func TestViewEndsWithItsContext(t *testing.T) {
	t.Parallel()
	st := fresh(t, sqlite.Options{})
	for range 20 {
		var keys []store.Key
		for range 1000 {
			keys = append(keys, store.TaskKey(task.ID(rand.Text())))
		}
		err := st.Update(t.Context(), keys, func(tx store.Tx) error {
			for _, k := range keys {
				tx.PutTask(task.Record{ID: task.ID(k.A), State: task.Pending, CreatedAt: tx.Now()})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	err := st.View(ctx, func(v store.View) error {
		for { // each look goes through every id
			if _, err := v.Find("none", 0); err != nil {
				return err
			}
		}
	})
	if !fault.Is(err, fault.Timeout) {
		t.Errorf("View = %v, want its context's error", err)
	}
	if !has(t, st, "x") && has(t, st, "y") {
		t.Error("the next view is disturbed")
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	st := fresh(t, sqlite.Options{})
	db, err := sql.Open("sqlite", st.Info().Path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), `SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got bytes.Buffer
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		got.WriteString(s + ";\n\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/schema.sql"
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || !bytes.Equal(want, got.Bytes()) {
		t.Errorf("the schema is not %s (%v); run with -update and review the difference", golden, err)
	}
}
