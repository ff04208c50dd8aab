// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outlive-dev/outlive/cmd/outlive/internal/place"
	"github.com/outlive-dev/outlive/store/postgres"
)

// scratchDir makes a directory beside the store for what one measurement needs.
func (b *bench) scratchDir() (string, error) {
	p, err := b.o.Place()
	if err != nil {
		return "", err
	}
	dir, prefix, err := p.Scratch()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	if dir, err = os.MkdirTemp(dir, prefix+".bench-"); err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	return dir, nil
}

// scratch opens the store of a scratch directory, and makes it first: a file in it, or
// a schema of the database that is named after it.
func (b *bench) scratch(ctx context.Context, dir string) (place.Database, error) {
	p, err := b.o.Place()
	if err != nil {
		return nil, err
	}
	if p.DSN == "" {
		return place.Place{Path: filepath.Join(dir, "bench.db")}.Open(ctx)
	}
	schema := schemaOf(dir)
	if err := execute(ctx, p.DSN, "CREATE SCHEMA IF NOT EXISTS "+schema); err != nil {
		return nil, err
	}
	if p.DSN, err = within(p.DSN, schema); err != nil {
		return nil, err
	}
	if _, _, err := postgres.Migrate(ctx, p.DSN); err != nil {
		return nil, err
	}
	return p.Open(ctx)
}

// remove removes a scratch directory and the store that belongs to it.
func (b *bench) remove(ctx context.Context, dir string) error {
	p, err := b.o.Place()
	if err == nil && p.DSN != "" {
		err = execute(context.WithoutCancel(ctx), p.DSN, "DROP SCHEMA IF EXISTS "+schemaOf(dir)+" CASCADE")
	}
	if rerr := os.RemoveAll(dir); err == nil {
		err = rerr
	}
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}

func schemaOf(dir string) string {
	_, n, _ := strings.Cut(filepath.Base(dir), ".bench-")
	return "outlive_bench_" + n
}

// within returns a store URL with one schema as the one that is used.
func within(dsn, schema string) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return "", postgres.ErrURL
	}
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return u.String(), nil
}

func execute(ctx context.Context, dsn, sql string) error {
	c, err := pgconn.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", postgres.Redact(dsn), err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	_, err = c.Exec(ctx, sql).ReadAll()
	return err
}
