// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"

	"github.com/outlive-dev/outlive/store/sqlite"
)

// CheckDatabase lets SQLite itself check the file. The store is open in this process:
// only the engine may open its file once more.
func CheckDatabase(ctx context.Context, path string) error {
	u := url.URL{Scheme: "file", Path: path, RawQuery: "mode=ro"}
	if !Writable(filepath.Dir(path)) {
		u.RawQuery += "&immutable=1" // without its index a log cannot be read; but nobody can write
	}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return fmt.Errorf("check %s: %w", path, err)
	}
	defer db.Close()
	var said string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&said); err != nil {
		return fmt.Errorf("check %s: %w", path, err)
	}
	if said != "ok" {
		return fmt.Errorf("%w: %s", sqlite.ErrDamaged, said)
	}
	return nil
}
