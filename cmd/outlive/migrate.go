// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outlive-dev/outlive/store/postgres"
)

func (a *app) migrateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "migrate", Short: "Bring the store to this version's schema, and say which it has",
		Long: "A PostgreSQL store gets its tables, and those of a newer version, by this command alone: it\n" +
			"needs the right to make tables, which what uses the store then does not.\n" +
			"A SQLite store is brought to the present schema by whatever opens it first, after a copy\n" +
			"of an older one was made beside it. This does so and says what was done.",
		Args: words(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			where, err := a.where()
			if err != nil {
				return err
			}
			did, copies := "", []string(nil)
			if where.DSN != "" {
				did, err = migrateDatabase(cmd.Context(), where.DSN)
			} else {
				did, copies, err = a.migrateFile(cmd.Context(), where.Path)
			}
			if err != nil {
				return err
			}
			if err := a.open(cmd.Context()); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]any{"store": where.String(), "schema": a.st.Info().Schema, "status": did, "copies": copies})
			}
			text := map[string]string{"current": "is current", "made": "was made new", "migrated": "was migrated"}[did]
			if did == "migrated" && len(copies) > 0 {
				text += "; the old one is kept as " + strings.Join(copies, ", ")
			}
			return a.print(a.out, "%s: schema %d %s\n", where, a.st.Info().Schema, text)
		},
	}
}

func migrateDatabase(ctx context.Context, dsn string) (did string, err error) {
	from, to, err := postgres.Migrate(ctx, dsn)
	switch {
	case from == 0:
		did = "made"
	case from < to:
		did = "migrated"
	default:
		did = "current"
	}
	return did, err
}

// migrateFile opens the store, which migrates it.
func (a *app) migrateFile(ctx context.Context, path string) (did string, copies []string, err error) {
	_, serr := os.Stat(path)
	before, _ := filepath.Glob(path + ".v*.bak")
	if err := a.open(ctx); err != nil {
		return "", nil, err
	}
	copies, _ = filepath.Glob(path + ".v*.bak")
	switch {
	case os.IsNotExist(serr):
		did = "made"
	case len(copies) > len(before):
		did = "migrated"
	default:
		did = "current"
	}
	return did, copies, nil
}
