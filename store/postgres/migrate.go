// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/outlive-dev/outlive/internal/batch"
	"github.com/outlive-dev/outlive/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

const migrationTable = `CREATE TABLE IF NOT EXISTS outlive_migrations (
  version bigint      PRIMARY KEY,
  name    text        NOT NULL,
  sum     text        NOT NULL,
  at      timestamptz NOT NULL DEFAULT clock_timestamp()
)`

// migrationLock is the advisory lock of those who change the schema.
const migrationLock = 0x6f75746c697665 // "outlive"

// oldestServer is the oldest version of the server that works.
const oldestServer = 15

// Migrate brings the schema of a database to this version's, and makes it where there
// is none. It returns the versions before and after. Any number of processes may do so
// at the same time: each step is a transaction, and one process takes it.
func Migrate(ctx context.Context, dsn string) (from, to int, err error) {
	from, to, err = migrate(ctx, dsn)
	if err != nil {
		return from, to, fmt.Errorf("migrate store %s: %w", Redact(dsn), err)
	}
	return from, to, nil
}

func migrate(ctx context.Context, dsn string) (from, to int, err error) {
	steps, err := batch.Migrations(migrationFiles)
	if err != nil {
		return 0, 0, err
	}
	cfg, err := parse(dsn)
	if err != nil {
		return 0, 0, err
	}
	c, err := cfg.connect(ctx, forReads, nil)
	if err != nil {
		return 0, 0, err
	}
	defer c.close()
	if err := checkServer(c); err != nil {
		return 0, 0, err
	}
	if from, _, err = version(ctx, c, steps); err != nil && !errors.Is(err, ErrNoSchema) {
		return 0, 0, err
	}
	for to = from; to < len(steps); {
		if to, err = step(ctx, c, steps); err != nil {
			return from, to, err
		}
	}
	return from, to, nil
}

// step takes the next step, unless somebody else just did, and returns the version it
// leaves.
func step(ctx context.Context, c *conn, steps []batch.Migration) (to int, err error) {
	list := c.begin("")
	list = append(list,
		query{sql: `SELECT set_config('lock_timeout', '10s', true)`},
		query{sql: `SELECT pg_advisory_xact_lock($1)`, args: with().int(migrationLock)},
		query{sql: migrationTable},
		query{sql: `SELECT coalesce(max(version), 0) FROM outlive_migrations`, scan: func(r row) error {
			to = int(r.int(0))
			return nil
		}},
	)
	if err := c.run(ctx, list...); err != nil {
		return 0, migrationError(ctx, c, err)
	}
	if to >= len(steps) {
		return to, classify(c.run(ctx, query{sql: "ROLLBACK"}))
	}
	m := steps[to]
	// Several statements at once are only taken without values.
	if _, err := c.pg.Exec(ctx, m.SQL).ReadAll(); err != nil {
		return to, fmt.Errorf("migration %s: %w", m.Name, migrationError(ctx, c, err))
	}
	list = nil
	if m.Version == 1 {
		list = append(list, query{
			sql:  `INSERT INTO outlive_meta (one, id, epoch, clock) VALUES (true, $1, 1, clock_timestamp())`,
			args: with().text(rand.Text()),
		})
	}
	list = append(list,
		query{sql: `INSERT INTO outlive_migrations (version, name, sum) VALUES ($1, $2, $3)`, args: with().int(int64(m.Version)).text(m.Name).text(m.Sum)},
		query{sql: "COMMIT"},
	)
	return m.Version, interrupted(ctx, c.run(ctx, list...))
}

// migrationError says what a user needs who may not make tables.
func migrationError(ctx context.Context, c *conn, err error) error {
	if code := codeOf(err); code != codeForbidden && code != codeNoPlace {
		return interrupted(ctx, err)
	}
	_ = c.run(ctx, query{sql: "ROLLBACK"})
	user := c.identity(ctx)
	return wrap(ErrPermission.WithHint("Run in psql, as the schema's owner: GRANT USAGE, CREATE ON SCHEMA "+user.schema+" TO "+user.name+";"), err)
}

// identity is who a connection is, as SQL wants the names.
type identity struct{ name, schema string }

func (c *conn) identity(ctx context.Context) identity {
	id := identity{"USER", "SCHEMA"}
	_ = c.run(ctx, query{
		sql: `SELECT quote_ident(current_user), coalesce(quote_ident(current_schema()), current_setting('search_path'))`, scan: func(r row) error {
			id = identity{r.text(0), r.text(1)}
			return nil
		},
	})
	return id
}

// checkServer refuses a server that is too old, by what it said when it let us in.
func checkServer(c *conn) error {
	version := c.pg.ParameterStatus("server_version")
	digits := version
	if i := strings.IndexFunc(version, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		digits = version[:i]
	}
	if major, err := strconv.Atoi(digits); err == nil && major < oldestServer {
		return fmt.Errorf("%w: it is %s", ErrServer, version)
	}
	return nil
}

// version reads which schema the database has and the store's identity, and more in the
// same go.
func version(ctx context.Context, c *conn, steps []batch.Migration, more ...query) (have int, info store.Info, err error) {
	var foreign error
	list := append([]query{{sql: `SELECT version, name, sum FROM outlive_migrations ORDER BY version`, scan: func(r row) error {
		have = int(r.int(0))
		if have >= 1 && have <= len(steps) && steps[have-1].Sum != r.text(2) {
			foreign = fmt.Errorf("%w: its migration %s is not this version's", ErrForeign, r.text(1))
		}
		return nil
	}}, {sql: `SELECT id, epoch FROM outlive_meta`, scan: func(r row) error {
		info = store.Info{ID: r.text(0), Driver: "postgres", Epoch: r.int(1)}
		return nil
	}}}, more...)
	err = c.run(ctx, list...)
	switch {
	case errors.Is(classify(err), ErrNoSchema):
		return 0, info, ErrNoSchema
	case codeOf(err) == codeForbidden:
		user := c.identity(ctx)
		return 0, info, wrap(ErrPermission.WithHint("Run in psql, as the tables' owner: GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "+
			user.schema+" TO "+user.name+"; GRANT USAGE ON ALL SEQUENCES IN SCHEMA "+user.schema+" TO "+user.name+";"), err)
	case err != nil:
		return 0, info, interrupted(ctx, err)
	case foreign != nil:
		return have, info, foreign
	case have > len(steps):
		return have, info, fmt.Errorf("%w: it has %d, this version knows %d", ErrNewer, have, len(steps))
	case have == 0:
		return 0, info, ErrNoSchema
	}
	info.Schema = have
	return have, info, nil
}
