// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package postgres_test

import (
	"errors"
	"flag"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outlive-dev/outlive/internal/pgtest"
	"github.com/outlive-dev/outlive/store/postgres"
)

var update = flag.Bool("update", false, "rewrite testdata/schema.txt")

// ask returns the first column of a query's rows as lines.
func ask(t *testing.T, dsn, sql string) string {
	t.Helper()
	c, err := pgconn.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(t.Context()) }()
	results, err := c.Exec(t.Context(), sql).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, row := range results[len(results)-1].Rows {
		out.Write(row[0])
		out.WriteByte('\n')
	}
	return out.String()
}

// The schema after all migrations, so that a review shows what a change makes of it.
func TestSchema(t *testing.T) {
	t.Parallel()
	dsn := migrated(t)
	got := ask(t, dsn, `SELECT format('%s %s %s%s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN ' not null' ELSE '' END)
		FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
		WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND a.attnum > 0 ORDER BY c.relname, a.attnum`)
	got += "\n" + ask(t, dsn, `SELECT replace(indexdef, current_schema() || '.', '') FROM pg_indexes WHERE schemaname = current_schema() ORDER BY tablename, indexname`)
	got += "\n" + ask(t, dsn, `SELECT relname || ' ' || array_to_string(reloptions, ', ') FROM pg_class
		WHERE relnamespace = current_schema()::regnamespace AND reloptions IS NOT NULL ORDER BY relname`)
	const golden = "testdata/schema.txt"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("the schema is another one (go test ./store/postgres -run TestSchema -update):\n%s", d)
	}
}

// Any number of processes may migrate at once: each step is taken once.
func TestMigrateTogether(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Shared(t).Schema(t)
	if _, err := postgres.Open(t.Context(), dsn, nil); !errors.Is(err, postgres.ErrNoSchema) {
		t.Errorf("Open before Migrate = %v, want ErrNoSchema", err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, to, err := postgres.Migrate(t.Context(), dsn); err != nil || to != 1 {
				t.Errorf("Migrate = version %d, %v", to, err)
			}
		})
	}
	wg.Wait()
	if got := ask(t, dsn, `SELECT count(*) FROM outlive_migrations`); got != "1\n" {
		t.Errorf("%s steps were taken, want 1", got)
	}
	if got := ask(t, dsn, `SELECT count(*) FROM outlive_meta`); got != "1\n" {
		t.Errorf("there are %s identities, want 1", got)
	}
	openAt(t, dsn, postgres.Options{})
}

// What a wrong URL is told has no part of it.
func TestNoPasswordInErrors(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"postgres://u:hunter2@[::1", "postgres://u:hunter2@h:x/d", "postgres://u:hunter2/x@h/d", "postgres://u:hunt%zzer2@h/d",
		"host=h password=hunter2 port=x", "host=h password='hunter2", "postgres://u:hunter2@h/d?sslmode=hunter2", "postgres://u@h/d?password=hunter2&port=x",
		"postgres://u:hunter2@127.0.0.1:1/d", "postgres://127.0.0.1:1/d?password=hunter2",
	} {
		_, err := postgres.Open(t.Context(), dsn, nil)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Open = %v, want an error without the password", err)
		}
		if got := postgres.Redact(dsn); strings.Contains(got, "hunter2") {
			t.Errorf("Redact = %s", got)
		}
	}
	if got, want := postgres.Redact("postgres://u:p@h:5433/d?sslmode=disable&search_path=s&password=p"), "postgres://u@h:5433/d?search_path=s&sslmode=disable"; got != want {
		t.Errorf("Redact = %s, want %s", got, want)
	}
	if u, err := url.Parse(postgres.Redact("host=/tmp user=u dbname=d password=p")); err != nil || u.Query().Get("host") != "/tmp" {
		t.Errorf("Redact of a list = %v, %v", u, err)
	}
}
