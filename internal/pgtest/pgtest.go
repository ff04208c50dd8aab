// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package pgtest starts throw-away PostgreSQL clusters for tests, from the binaries
// that the system ships.
//
// A package whose tests need one has
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
// and calls [Shared], whose cluster all its tests use, each in a schema of its own. A
// test that kills its server calls [Start]. A cluster ends with the process that started
// it, however that ends.
//
// OUTLIVE_TEST_POSTGRES names a database that Shared uses instead. Without it and
// without binaries the tests are skipped, except under CI, where they fail.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Variable names a database to use instead of a throw-away cluster.
const Variable = "OUTLIVE_TEST_POSTGRES"

// Password and PasswordUser are a login of every cluster that is asked for its
// password; all others of the cluster are let in without.
const (
	PasswordUser = "walter"
	Password     = "s3cret/of:walter@home"
)

var errNoBinaries = errors.New("no PostgreSQL binaries: install them (Debian: postgresql-15), or name a database in " + Variable)

// shared is the cluster of this process's tests.
var shared struct {
	once    sync.Once
	cluster *Cluster
	err     error
}

// Main runs the tests of a package and ends the cluster they shared.
func Main(m *testing.M) {
	m.Run() // its result is the process's
	if shared.cluster != nil {
		shared.cluster.close()
	}
}

// Shared returns the cluster that all tests of the package use. It is started by the
// first call.
func Shared(tb testing.TB) *Cluster {
	tb.Helper()
	shared.once.Do(func() {
		if dsn := os.Getenv(Variable); dsn != "" {
			shared.cluster = &Cluster{dsn: dsn}
			return
		}
		// A kill of the server loses nothing that the kernel has, so there is no need to wait
		// for a disk.
		shared.cluster, shared.err = start("fsync=off", "full_page_writes=off")
	})
	skipWithout(tb, shared.err)
	return shared.cluster
}

// Start starts a cluster of the test's own, with settings as NAME=VALUE, which ends with
// the test.
func Start(tb testing.TB, settings ...string) *Cluster {
	tb.Helper()
	c, err := start(settings...)
	skipWithout(tb, err)
	tb.Cleanup(c.close)
	return c
}

func skipWithout(tb testing.TB, err error) {
	tb.Helper()
	switch {
	case errors.Is(err, errNoBinaries) && os.Getenv("CI") == "":
		tb.Skip(err)
	case err != nil:
		tb.Fatal(err)
	}
}

// Cluster is a running PostgreSQL. Its methods may be called concurrently, except those
// that stop and start it.
type Cluster struct {
	dsn     string
	bin     string // of the programs; "" when the cluster is not ours
	dir     string
	opts    []string
	server  *server
	schemas atomic.Int64
}

// start makes a cluster and starts it.
func start(settings ...string) (*Cluster, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	// Not a test's own directory, whose name may be too long for a socket.
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin, dir: dir, dsn: "postgres://postgres@/postgres?host=" + url.QueryEscape(dir)}
	if err := c.create(settings); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// create makes the files and starts the server.
func (c *Cluster) create(settings []string) error {
	if err := c.own(c.dir); err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(c.bin, "initdb"), "-D", c.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "--no-instructions") //nolint:noctx // it ends by itself
	if err := as(cmd); err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	hba := filepath.Join(c.data(), "pg_hba.conf")
	if err := os.WriteFile(hba, []byte("local all "+PasswordUser+" scram-sha-256\nlocal all all trust\nhost all all 127.0.0.1/32 trust\n"), 0o600); err != nil {
		return err
	}
	if err := c.own(hba); err != nil {
		return err
	}
	c.opts = []string{"-D", c.data(), "-k", c.dir, "-h", "", "-c", "max_connections=200", "-c", "shared_buffers=64MB", "-c", "log_min_messages=error", "-c", "max_wal_size=2GB"}
	for _, s := range settings {
		c.opts = append(c.opts, "-c", s)
	}
	if err := c.Run(); err != nil {
		return err
	}
	return c.exec("CREATE ROLE " + PasswordUser + " LOGIN PASSWORD '" + Password + "'")
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

// binaries finds the directory of the newest server.
func binaries() (string, error) {
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil { //nolint:noctx // it ends by itself
		if dir := strings.TrimSpace(string(out)); has(dir) {
			return dir, nil
		}
	}
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	sort.Slice(dirs, func(i, j int) bool {
		return len(dirs[i]) > len(dirs[j]) || len(dirs[i]) == len(dirs[j]) && dirs[i] > dirs[j]
	})
	for _, dir := range dirs {
		if has(dir) {
			return dir, nil
		}
	}
	return "", errNoBinaries
}

func has(dir string) bool {
	for _, program := range []string{"initdb", "postgres"} {
		if _, err := os.Stat(filepath.Join(dir, program)); err != nil {
			return false
		}
	}
	return true
}

// DSN is the URL of the cluster's database, for its superuser.
func (c *Cluster) DSN() string { return c.dsn }

// Schema makes an empty schema and returns the URL of the database with it as the one
// that is used.
func (c *Cluster) Schema(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprintf("t%d_%d", os.Getpid(), c.schemas.Add(1))
	if err := c.exec("CREATE SCHEMA " + name); err != nil {
		tb.Fatal(err)
	}
	if c.bin == "" {
		tb.Cleanup(func() { _ = c.exec("DROP SCHEMA " + name + " CASCADE") })
	}
	return With(c.dsn, "search_path", name)
}

// With returns a URL with one more parameter.
func With(dsn, name, value string) string {
	u, err := url.Parse(dsn)
	if err != nil {
		return dsn
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// As returns a URL with another user.
func As(dsn string, user *url.Userinfo) string {
	u, err := url.Parse(dsn)
	if err != nil {
		return dsn
	}
	u.User = user
	return u.String()
}

// Exec runs statements as the superuser.
func (c *Cluster) Exec(tb testing.TB, sql string) {
	tb.Helper()
	if err := c.exec(sql); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

func (c *Cluster) exec(sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) //nolint:forbidigo // cleanups have no context
	defer cancel()
	conn, err := pgconn.Connect(ctx, c.dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, sql).ReadAll()
	return err
}
