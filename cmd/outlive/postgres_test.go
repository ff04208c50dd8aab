// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/outlive-dev/outlive/internal/pgtest"
)

// at returns a box whose store is in a database.
func at(t *testing.T, dsn string) *box {
	t.Helper()
	b := boxAt(t, t.TempDir(), "")
	b.env = append(b.env, "OUTLIVE_STORE="+dsn)
	return b
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	t.Run("commands", func(t *testing.T) { postgresCommands(t, server) })
	t.Run("two hosts", func(t *testing.T) { postgresHosts(t, server) })
	t.Run("bad input", func(t *testing.T) { postgresBadInput(t, server) })
	t.Run("restart", func(t *testing.T) { postgresRestart(t, server) }) // the last: others would notice
}

func postgresCommands(t *testing.T, server *pgtest.Cluster) {
	dsn := pgtest.As(server.Schema(t), url.UserPassword("postgres", "not-needed"))
	b := at(t, dsn)
	b.want(b.run("ps"), exitError, "hint: Run: outlive migrate --store 'postgres://postgres@")
	if got := b.must("migrate"); !strings.Contains(got, "schema 1 was made new") || strings.Contains(got, "not-needed") {
		t.Errorf("migrate says %q", got)
	}
	if got := b.must("migrate"); !strings.Contains(got, "schema 1 is current") {
		t.Errorf("the second migrate says %q", got)
	}
	if r := b.run("run", "--", "sh", "-c", "echo out; echo err >&2; exit 3"); r.code != 3 || r.out != "out\n" || r.err != "err\n" {
		t.Errorf("run = %+v", r)
	}
	text, open := b.gate()
	id := b.must("run", "-d", "--name", "web", "--", "sh", "-c", text+"echo done")
	if got := b.must("ps"); !strings.Contains(got, "running") || !strings.Contains(got, "web") {
		t.Errorf("ps says %q", got)
	}
	open()
	b.must("wait", "web")
	if got := b.must("logs", "web"); !strings.HasSuffix(got, "\ndone") {
		t.Errorf("logs says %q", got)
	}
	b.once(id, "task.started", "task.completed")
	runs, _ := filepath.Glob(filepath.Join(b.dir, ".local/state/outlive/runs/*/"+id[len(id)-2:]+"/*"))
	if len(runs) == 0 {
		t.Errorf("the command's files are not where they belong")
	}
	if got := b.must("doctor"); !strings.Contains(got, "ok    store     postgres://postgres@") || strings.Contains(got, "not-needed") {
		t.Errorf("doctor says %q", got)
	}
	if got := b.must("bench", "append", "--writers", "2", "--seconds", "0.1", "--rounds", "1"); !strings.Contains(got, "append writers=2") {
		t.Errorf("bench says %q", got)
	}
}

// Two hosts with one database: each sees the other's tasks, and has its own files.
func postgresHosts(t *testing.T, server *pgtest.Cluster) {
	dsn := server.Schema(t)
	a, b := at(t, dsn), at(t, dsn)
	a.must("migrate")
	a.must("run", "--name", "here", "--", "echo", "hello")
	if got := b.must("logs", "here"); got != "hello" {
		t.Errorf("logs of the other's task says %q", got)
	}
	b.must("run", "--name", "there", "--", "true")
	if got := a.must("ps", "-a"); !strings.Contains(got, "here") || !strings.Contains(got, "there") {
		t.Errorf("ps -a says %q", got)
	}
}

// What a user gets wrong is one line with the command that mends it, and never shows a
// password.
func postgresBadInput(t *testing.T, server *pgtest.Cluster) {
	schema := func(more ...string) string {
		dsn := server.Schema(t)
		at(t, dsn).must("migrate")
		for i := 0; i < len(more); i += 2 {
			dsn = pgtest.With(dsn, more[i], more[i+1])
		}
		return dsn
	}
	spoiled := func(sql string) string {
		dsn := schema()
		u, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		server.Exec(t, fmt.Sprintf("SET search_path = %s; %s", u.Query().Get("search_path"), sql))
		return dsn
	}
	secret := url.UserPassword("walter", "hunter2")
	for _, c := range []struct {
		name, dsn string
		code      int
		says      string
	}{
		{"nonsense", "postgres://walter:hunter2@[::1", exitUsage, "is not one of PostgreSQL"},
		{"a password that is not escaped", "postgres://walter:hunter2/x@db:99999/y", exitUsage, "%2F"},
		{"a bad port", "postgres://walter:hunter2@db:99999/y", exitUsage, "port"},
		{"a bad pooler", "postgres://walter:hunter2@db/y?pooler=session", exitUsage, "pooler=transaction"},
		{"nobody there", "postgres://walter:hunter2@127.0.0.1:1/y", exitError, "pg_isready"},
		{"no such database", pgtest.As(strings.Replace(server.DSN(), "/postgres?", "/nothing?", 1), url.User("postgres")), exitError, "createdb nothing"},
		{"a wrong password", pgtest.As(server.DSN(), url.UserPassword(pgtest.PasswordUser, "hunter2")), exitError, "pg_hba.conf"},
		{"no such user", pgtest.As(server.DSN(), secret), exitError, "refuses the user"},
		{"no tables for that user", pgtest.As(schema(), url.UserPassword(pgtest.PasswordUser, pgtest.Password)), exitError, "hint: "},
		{"synchronous_commit", schema("synchronous_commit", "off"), exitError, "ALTER SYSTEM SET synchronous_commit"},
		{"an older schema", spoiled("DELETE FROM outlive_migrations"), exitError, "outlive migrate"},
		{"a newer schema", spoiled("INSERT INTO outlive_migrations (version, name, sum) VALUES (99, 'n', 's')"), exitError, "newer version of outlive"},
		{"another schema", spoiled("UPDATE outlive_migrations SET sum = 'x'"), exitError, "different outlive schema"},
		{"an old server", oldServer(t), exitError, "PostgreSQL 15 or later"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := at(t, c.dsn).run("ps")
			lines := strings.Split(strings.TrimSuffix(r.err, "\n"), "\n")
			if r.code != c.code || len(lines) > 2 || !strings.HasPrefix(lines[0], "outlive: ps: ") || !strings.Contains(r.err, c.says) {
				t.Errorf("exit %d, want %d and %q on one line with a hint:\n%s", r.code, c.code, c.says, r.err)
			}
			if strings.Contains(r.err+r.out, "hunter2") || strings.Contains(r.err+r.out, pgtest.Password) {
				t.Errorf("a password is shown: %s", r.err)
			}
		})
	}
	t.Run("migrate without the right", func(t *testing.T) {
		dsn := pgtest.As(server.Schema(t), url.UserPassword(pgtest.PasswordUser, pgtest.Password))
		b := at(t, dsn)
		b.want(b.run("migrate"), exitError, "GRANT USAGE, CREATE ON SCHEMA ")
	})
	t.Run("memory", func(t *testing.T) {
		b := at(t, "memory:")
		b.want(b.run("ps"), exitUsage, "postgres://")
	})
}

// oldServer returns the URL of a server that says it is one of PostgreSQL 14.
func oldServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			back := pgproto3.NewBackend(c, c)
			if _, err := back.ReceiveStartupMessage(); err == nil {
				back.Send(&pgproto3.AuthenticationOk{})
				back.Send(&pgproto3.ParameterStatus{Name: "server_version", Value: "14.9 (Debian 14.9-1)"})
				back.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
				_ = back.Flush()
				_, _ = back.Receive() // its goodbye
			}
			c.Close()
		}
	}()
	return "postgres://x@" + l.Addr().String() + "/x?sslmode=disable"
}

// The server goes away and comes back while a command runs: the command does not
// notice, and its end is recorded.
func postgresRestart(t *testing.T, server *pgtest.Cluster) {
	b := at(t, server.Schema(t))
	b.must("migrate")
	text, open := b.gate()
	p := b.start(b.cmd("run", "--name", "job", "--", "sh", "-c", text+"echo done; exit 4"))
	until(t, "it runs", func() bool { return strings.Contains(b.run("ps").out, "running") })
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	b.want(b.run("ps"), exitError, "cannot be reached")
	if err := server.Run(); err != nil {
		t.Fatal(err)
	}
	open()
	r := b.wait(p)
	if r.code != 4 || !strings.Contains(r.out, "done") {
		t.Errorf("run = %+v, want exit 4", r)
	}
	b.want(b.run("wait", "job"), 4, "")
	if got := b.must("logs", "job"); !strings.HasSuffix(got, "done") {
		t.Errorf("logs says %q", got)
	}
}
