// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Migration is one step forward of a driver's schema.
type Migration struct {
	Version int
	Name    string
	SQL     string
	Sum     string // SHA-256, hexadecimal
}

// Migrations returns all steps of a driver, files migrations/NNNN_name.sql, in order.
func Migrations(files fs.FS) ([]Migration, error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	list := make([]Migration, len(names))
	for i, file := range names {
		sql, err := fs.ReadFile(files, file)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(path.Base(file), ".sql")
		number, _, _ := strings.Cut(name, "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != i+1 {
			return nil, fmt.Errorf("migration %s is out of order", file)
		}
		sum := sha256.Sum256(sql)
		list[i] = Migration{version, name, string(sql), hex.EncodeToString(sum[:])}
	}
	return list, nil
}
