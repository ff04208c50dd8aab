// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/outlive-dev/outlive/store/sqlite"
)

// integrity lets SQLite itself check the file. The store is open in this process:
// only the engine may open its file once more.
func integrity(ctx context.Context, path string) error {
	u := url.URL{Scheme: "file", Path: path, RawQuery: "mode=ro"}
	if !writable(filepath.Dir(path)) {
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

// serviceUnit is the system service this process belongs to, or "".
func serviceUnit() string {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	return unitOf(string(b))
}

// killMode asks systemd what it does to a unit's processes.
func killMode(unit string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "systemctl", "show", "--property=KillMode", "--value", unit).Output()
	if err != nil {
		return "", fmt.Errorf("ask systemctl: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

func trimExt(path string) string {
	base := filepath.Base(path)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

func olderThan(path string, d time.Duration) bool {
	fi, err := os.Stat(path)
	return err == nil && time.Since(fi.ModTime()) > d
}
