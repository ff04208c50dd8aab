// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outlive-dev/outlive/fault"
)

// Errors of Open and of a store whose server has a say.
var (
	// ErrURL means that the store's URL is none of PostgreSQL.
	ErrURL = fault.New(fault.Invalid, "store URL is not one of PostgreSQL").
		WithHint("It looks like postgres://USER@HOST:5432/DATABASE?sslmode=require; a password may come from PGPASSWORD or ~/.pgpass.")
	// ErrDown means that the server cannot be reached, or is starting or stopping.
	ErrDown = fault.New(fault.Unavailable, "PostgreSQL cannot be reached").
		WithHint("Check that the server runs and that host and port are right: pg_isready -h HOST -p PORT.")
	// ErrRefused means that the server does not let this user in.
	ErrRefused = fault.New(fault.Unavailable, "PostgreSQL refuses the user").
			WithHint("Check user and password of the store URL (or PGUSER, PGPASSWORD), and the server's pg_hba.conf.")
	// ErrNoDatabase means that the server has no such database.
	ErrNoDatabase = fault.New(fault.Unavailable, "PostgreSQL has no such database")
	// ErrPermission means that the user may not do that.
	ErrPermission = fault.New(fault.Unavailable, "PostgreSQL does not permit that to the user")
	// ErrServer means that the server is too old.
	ErrServer = fault.New(fault.Unsupported, "PostgreSQL is too old").
			WithHint("Upgrade the server to PostgreSQL 15 or later.")
	// ErrAsync means that the server acknowledges commits before they are durable.
	ErrAsync = fault.New(fault.Unsupported, "synchronous_commit is off: what is acknowledged could be lost").
			WithHint("Run in psql: ALTER SYSTEM SET synchronous_commit = 'on'; SELECT pg_reload_conf(); (or ALTER ROLE or DATABASE NAME RESET synchronous_commit, where it was set).")
	// ErrNoSchema means that the database has no tables of outlive yet.
	ErrNoSchema = fault.New(fault.Unavailable, "database has no outlive schema").
			WithHint("Run outlive migrate on it once.")
	// ErrOlder means that the schema is older than this version's.
	ErrOlder = fault.New(fault.Unavailable, "database has an older outlive schema").
			WithHint("Run outlive migrate with this version.")
	// ErrNewer means that a newer version brought the schema forward.
	ErrNewer = fault.New(fault.Unsupported, "database has a newer outlive schema").
			WithHint("Run the newer version of outlive, or restore a backup made before the upgrade.")
	// ErrForeign means that the schema is not what this version made of it.
	ErrForeign = fault.New(fault.Unsupported, "database has a different outlive schema")
	// ErrDamaged means that a row cannot be read.
	ErrDamaged = fault.New(fault.Unavailable, "store row is damaged").
			WithHint("Restore the newest backup of the database.")
	// ErrReadOnly means that the server takes no writes.
	ErrReadOnly = fault.New(fault.Unavailable, "PostgreSQL takes no writes").
			WithHint("It is a standby, or set read-only: name the primary, or add target_session_attrs=read-write to the store URL.")
	// ErrDiskFull means that nothing was written because the server's disk is full.
	ErrDiskFull = fault.New(fault.Unavailable, "disk of PostgreSQL is full").
			WithHint("Free some space; nothing that was acknowledged is lost.")
	// ErrLocked means that another instance kept rows locked.
	ErrLocked = fault.New(fault.Unavailable, "rows are locked by another instance")
	// ErrRace means that others changed the same rows again and again.
	ErrRace = fault.New(fault.Unavailable, "others kept changing the same rows")

	errFailed  = fault.New(fault.Unavailable, "PostgreSQL failed")
	errUnknown = fault.New(fault.UnknownOutcome, "the commit's outcome is not known")
)

// The SQLSTATEs that decide something.
const (
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeUnique        = "23505"
	codeLocked        = "55P03"
	codeForbidden     = "42501"
	codeNoPlace       = "3F000" // no schema is there to make tables in, or none the user may use
)

func codeOf(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// gone reports whether an error ended the connection, or came from having none.
func gone(err error) bool {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return !errors.Is(err, ErrDamaged)
	}
	return e.Severity == "FATAL" || e.SeverityUnlocalized == "FATAL" || e.SeverityUnlocalized == "PANIC" || strings.HasPrefix(e.Code, "08")
}

// lostRace reports whether the same statements may succeed when they run again.
func lostRace(err error) bool {
	switch codeOf(err) {
	case codeSerialization, codeDeadlock, codeUnique:
		return true
	}
	return false
}

// wrap puts a sentinel with its hint before what the server said.
func wrap(sentinel *fault.Error, err error) error { return fmt.Errorf("%w: %s", sentinel, said(err)) }

// said is what a server or the network said, without what surrounds it.
func said(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		if e.Detail != "" {
			return e.Message + ": " + e.Detail
		}
		return e.Message
	}
	var c *pgconn.ConnectError
	if errors.As(err, &c) {
		text := c.Unwrap().Error()
		if lines := strings.Split(text, "\n"); len(lines) > 1 { // one for each address
			return strings.TrimSpace(lines[len(lines)-1])
		}
		return text
	}
	return err.Error()
}

// classify gives what the server said its kind.
func classify(err error) error {
	var known *fault.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return wrap(ErrDown, err)
	}
	switch e.Code {
	case codeSerialization, codeDeadlock, codeUnique:
		return wrap(ErrRace, err)
	case codeLocked:
		return wrap(ErrLocked, err)
	case "28P01", "28000":
		return wrap(ErrRefused, err)
	case "3D000":
		return wrap(ErrNoDatabase.WithHint("Make it with createdb, or name another one in the store URL."), err)
	case codeForbidden:
		return wrap(ErrPermission, err)
	case "25006":
		return wrap(ErrReadOnly, err)
	case "53100":
		return wrap(ErrDiskFull, err)
	case "53300", "57P01", "57P02", "57P03", "57P05", "25P03":
		return wrap(ErrDown, err)
	case "42P01", "42703", codeNoPlace:
		return wrap(ErrNoSchema, err)
	}
	switch e.Code[:min(2, len(e.Code))] {
	case "08":
		return wrap(ErrDown, err)
	case "25", "53", "55", "57", "58", "XX":
		return wrap(errFailed, err)
	case "22", "23", "54":
		return wrap(fault.New(fault.Invalid, "store cannot hold the row"), err)
	}
	return fmt.Errorf("postgres: %s (%s)", said(err), e.Code)
}

// interrupted is the error of a view whose context may have ended meanwhile.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && gone(err) {
		return ctx.Err()
	}
	return classify(err)
}
