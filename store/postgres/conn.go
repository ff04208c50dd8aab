// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// How long what may take.
const (
	connectTimeout = 5 * time.Second
	roundTrip      = 15 * time.Second // of one pipeline, locks included
	deadPeer       = 5 * time.Second  // until a connection whose other end is silent is given up
)

// role says what a connection is for, which decides its settings.
type role uint8

const (
	forReads role = iota
	forWrites
	forHints
)

// settings are what a connection of the role is set to.
func settings(r role) map[string]string {
	s := map[string]string{
		"idle_in_transaction_session_timeout": "3s",
		"lock_timeout":                        "2s",
		"tcp_user_timeout":                    "5s",
		// Plans are kept, and every statement finds its rows by an index, whatever the
		// sizes of the tables were when it was planned.
		"jit": "off", "plan_cache_mode": "force_generic_plan",
		"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off",
	}
	if r == forWrites {
		// Other instances hold a row for one commit: who holds one longer hangs, and the
		// updates that do not need the row go on without the others.
		s["lock_timeout"] = "250ms"
	}
	return s
}

// conn is one connection. It belongs to one goroutine at a time.
type conn struct {
	pg     *pgconn.PgConn
	set    string // begins every transaction of a pooled connection; else empty
	pooled bool
	known  map[string]*pgconn.StatementDescription // statements that the server has, by their text
	named  int                                     // statements that got a name
}

// query is one statement of a pipeline.
type query struct {
	sql  string
	args *args
	scan func(row) error // called for every row; may be nil
	done func(tag pgconn.CommandTag)
}

// formats are those of all values, both ways.
var formats = []int16{1}

// run sends statements in one go and reads what comes back. It returns the first
// error; the server has skipped what follows.
func (c *conn) run(ctx context.Context, list ...query) error {
	ctx, cancel := context.WithTimeout(ctx, roundTrip)
	defer cancel()
	p := c.pg.StartPipeline(ctx)
	fresh := make([]string, len(list)) // names of statements that are new
	for i := range list {
		q := &list[i]
		if q.args == nil {
			q.args = &args{}
		}
		switch have := c.known[q.sql]; {
		case c.pooled:
			p.SendQueryParams(q.sql, q.args.values, q.args.oids, formats, formats)
		case have != nil:
			p.SendQueryStatement(have, q.args.values, formats, formats)
		default:
			c.named++
			name := fmt.Sprint("outlive", c.named)
			p.SendPrepare(name, q.sql, q.args.oids)
			p.SendQueryPrepared(name, q.args.values, formats, formats)
			fresh[i] = name
		}
	}
	err := p.Sync()
	for i := 0; err == nil && i < len(list); i++ {
		err = c.result(p, &list[i], fresh[i])
	}
	if cerr := p.Close(); err == nil {
		err = cerr
	}
	return err
}

// result reads what one statement gave.
func (c *conn) result(p *pgconn.Pipeline, q *query, fresh string) error {
	if fresh != "" {
		got, err := p.GetResults()
		if err != nil {
			return err
		}
		sd, ok := got.(*pgconn.StatementDescription)
		if !ok {
			return fmt.Errorf("postgres: unexpected answer %T", got)
		}
		sd.Name, sd.SQL = fresh, q.sql
		c.known[q.sql] = sd
	}
	got, err := p.GetResults()
	if err != nil {
		return err
	}
	rows, ok := got.(*pgconn.ResultReader)
	if !ok {
		return fmt.Errorf("postgres: unexpected answer %T", got)
	}
	var failed error
	for rows.NextRow() {
		if q.scan != nil && failed == nil {
			failed = q.scan(rows.Values())
		}
	}
	tag, err := rows.Close()
	if err != nil {
		return err
	}
	if failed == nil && q.done != nil {
		q.done(tag)
	}
	return failed
}

// begin is the statements that begin a transaction.
func (c *conn) begin(mode string) []query {
	list := []query{{sql: "BEGIN" + mode}}
	if c.set != "" {
		list = append(list, query{sql: c.set})
	}
	return list
}

func (c *conn) alive() bool { return c != nil && !c.pg.IsClosed() }

func (c *conn) close() {
	if c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second) //nolint:forbidigo // a goodbye that nobody waits for long
	defer cancel()
	_ = c.pg.Close(ctx)
}
