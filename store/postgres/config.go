// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outlive-dev/outlive/fault"
)

// poolerParam is the parameter of a store URL that says what is between the server
// and this process: pooler=transaction.
const poolerParam = "pooler"

// config is a parsed store URL.
type config struct {
	pg     *pgconn.Config
	pooled bool
}

// parse reads a store URL (or a list of KEY=VALUE). What it says of a wrong one never
// has a part of it that may be a password.
func parse(dsn string) (*config, error) {
	pg, err := pgconn.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", ErrURL, whyNot(dsn, err))
	}
	c := &config{pg: pg}
	switch mode := pg.RuntimeParams[poolerParam]; mode {
	case "":
	case "transaction":
		c.pooled = true
	default:
		return nil, fmt.Errorf("%w: pooler=%s is not known, pooler=transaction is", ErrURL, mode)
	}
	delete(pg.RuntimeParams, poolerParam)
	if pg.RuntimeParams["application_name"] == "" {
		pg.RuntimeParams["application_name"] = "outlive"
	}
	if pg.ConnectTimeout <= 0 {
		pg.ConnectTimeout = connectTimeout
	}
	dialer := &net.Dialer{Control: dialControl}
	pg.DialFunc = dialer.DialContext
	return c, nil
}

// whyNot says why a URL cannot be parsed, without the text of it.
func whyNot(dsn string, err error) string {
	var inURL *url.Error
	if errors.As(err, &inURL) {
		var escape url.EscapeError
		if errors.As(inURL.Err, &escape) {
			return "it has a % that is not followed by two hexadecimal digits"
		}
		return "it cannot be taken apart; are / @ : in a password written as %2F %40 %3A?"
	}
	if _, bad := url.Parse(dsn); bad != nil && strings.Contains(dsn, "://") {
		return "it cannot be taken apart; are / @ : in a password written as %2F %40 %3A?"
	}
	for _, part := range []string{"port", "sslmode", "connect_timeout", "target_session_attrs", "TLS"} {
		if strings.Contains(strings.ToLower(err.Error()), strings.ToLower(part)) {
			return "its " + part + " is wrong"
		}
	}
	return "it cannot be parsed"
}

// Redact returns a store URL without its password, to be shown and used again.
func Redact(dsn string) string {
	c, err := parse(dsn)
	if err != nil {
		return "postgres:..."
	}
	if u, err := url.Parse(dsn); err == nil && u.Scheme != "" && strings.Contains(dsn, "://") {
		if u.User != nil {
			u.User = url.User(u.User.Username())
		}
		q := u.Query()
		for _, secret := range []string{"password", "sslpassword"} {
			q.Del(secret)
		}
		u.RawQuery = q.Encode()
		return u.String()
	}
	u := url.URL{Scheme: "postgres", User: url.User(c.pg.User), Path: "/" + c.pg.Database}
	q := url.Values{"host": {c.pg.Host}, "port": {strconv.Itoa(int(c.pg.Port))}}
	if path := c.pg.RuntimeParams["search_path"]; path != "" {
		q.Set("search_path", path)
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// connect opens a connection of the role. Hint is called for notifications.
func (c *config) connect(ctx context.Context, r role, hint pgconn.NotificationHandler) (*conn, error) {
	pg := c.pg.Copy()
	pg.OnNotification = hint
	set := settings(r)
	out := &conn{pooled: c.pooled, known: make(map[string]*pgconn.StatementDescription)}
	if c.pooled {
		// A pooler hands out connections by the transaction, and takes no settings.
		var calls []string
		for _, name := range slices.Sorted(maps.Keys(set)) {
			calls = append(calls, fmt.Sprintf("set_config('%s', '%s', true)", name, set[name]))
		}
		out.set = "SELECT " + strings.Join(calls, ", ")
	} else {
		maps.Copy(pg.RuntimeParams, set)
	}
	ctx, cancel := context.WithTimeout(ctx, pg.ConnectTimeout)
	defer cancel()
	var err error
	if out.pg, err = pgconn.ConnectConfig(ctx, pg); err != nil {
		return nil, connectError(c, err)
	}
	return out, nil
}

// connectError says what to do about the commonest mistakes.
func connectError(c *config, err error) error {
	var e *pgconn.PgError
	switch {
	case errors.As(err, &e) && strings.Contains(e.Message, "unsupported startup parameter"):
		return wrap(fault.New(fault.Unavailable, "a connection pooler is in between").
			WithHint("Add pooler=transaction to the store URL."), err)
	case errors.As(err, &e) && e.Code == "3D000":
		return wrap(ErrNoDatabase.WithHint("Run createdb "+c.pg.Database+", or name another database in the store URL."), err)
	}
	return classify(err)
}
