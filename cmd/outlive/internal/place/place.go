// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package place finds and opens the store that a URL names.
package place

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/store/postgres"
	"github.com/outlive-dev/outlive/store/sqlite"
)

// Database is a store that a process which stops or measures can hold and count.
type Database interface {
	store.Store
	Hold() (release func())
	Stats() (commits, updates int64)
}

// Place is where tasks live.
type Place struct {
	Path string // of an embedded store's file, else ""
	DSN  string // of a PostgreSQL database, else ""; it may have a password
}

// Find resolves a store URL: the flag's, else OUTLIVE_STORE, else the user's state
// directory.
func Find(url string) (Place, error) {
	if url == "" {
		url = os.Getenv("OUTLIVE_STORE")
	}
	if url == "" {
		dir, err := StateDir()
		if err != nil {
			return Place{}, fault.New(fault.Invalid, "no home directory to keep tasks in").WithHint("name a file with --store sqlite:PATH")
		}
		url = "sqlite:" + filepath.Join(dir, "outlive.db")
	}
	scheme, rest, ok := strings.Cut(url, ":")
	switch {
	case !ok || strings.ContainsRune(scheme, '/'):
		rest = url // a bare path is a file
	case scheme == "memory":
		return Place{}, fault.New(fault.Invalid, "a memory store does not outlive this process").WithHint("use sqlite:PATH or postgres://...")
	case scheme == "postgres", scheme == "postgresql":
		return Place{DSN: url}, nil
	case scheme != "sqlite":
		return Place{}, fault.Newf(fault.Invalid, "store %s: is not known", scheme).WithHint("use sqlite:PATH or postgres://USER@HOST/DATABASE")
	}
	rest = strings.TrimPrefix(rest, "//")
	if rest == "" {
		return Place{}, fault.Newf(fault.Invalid, "store %q names no file", url)
	}
	path, err := filepath.Abs(rest)
	if err != nil {
		return Place{}, fmt.Errorf("resolve store path: %w", err)
	}
	return Place{Path: path}, nil
}

// StateDir is the directory of what this user keeps on this host.
func StateDir() (string, error) {
	dir := os.Getenv("XDG_STATE_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil || home == "" {
			return "", fault.New(fault.Invalid, "no home directory").WithHint("set XDG_STATE_HOME")
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "outlive"), nil
}

// String is the place without its password.
func (p Place) String() string {
	if p.DSN != "" {
		return postgres.Redact(p.DSN)
	}
	return p.Path
}

// Open opens the store.
func (p Place) Open(ctx context.Context) (Database, error) {
	if p.DSN != "" {
		st, err := postgres.Open(ctx, p.DSN, nil)
		if err != nil {
			return nil, err
		}
		return st, nil
	}
	st, err := sqlite.Open(ctx, p.Path, nil)
	if err != nil {
		return nil, err
	}
	return st, nil
}

// Runs is the directory with the files of this host's commands, and Locks that with the
// files by which its workers prove that they live.
func (p Place) Runs(st store.Store) (string, error) { return p.beside(st, "runs") }

// Locks is documented with Runs.
func (p Place) Locks(st store.Store) (string, error) { return p.beside(st, "workers") }

func (p Place) beside(st store.Store, what string) (string, error) {
	if p.Path != "" {
		return p.Path + "." + what, nil
	}
	dir, err := StateDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, what, st.Info().ID), nil
}

// Scratch is a directory on the disk of the store, or of this host's part of it, with
// the beginning of names to use there.
func (p Place) Scratch() (dir, prefix string, err error) {
	if p.Path != "" {
		return filepath.Dir(p.Path), filepath.Base(p.Path), nil
	}
	dir, err = StateDir()
	return dir, "postgres", err
}
