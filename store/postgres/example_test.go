// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package postgres_test

import (
	"context"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/store/postgres"
)

// Several instances of a program share a database. Its tables are made once, by
// [postgres.Migrate] or by outlive migrate.
func ExampleOpen() {
	ctx := context.Background()
	const url = "postgres://app@db.internal/app?sslmode=verify-full" // the password comes from PGPASSWORD
	if _, _, err := postgres.Migrate(ctx, url); err != nil {
		panic(err)
	}
	st, err := postgres.Open(ctx, url, nil)
	if err != nil {
		panic(err)
	}
	defer st.Close()
	rt := outlive.New(st, nil)
	// Register executors, then start: every instance runs what it finds pending.
	if err := rt.Start(ctx); err != nil {
		panic(err)
	}
	if err := rt.Stop(ctx); err != nil {
		panic(err)
	}
}
