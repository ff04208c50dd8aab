// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/store/sqlite"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "outlive")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	st, err := sqlite.Open(ctx, filepath.Join(dir, "outlive.db"), nil)
	if err != nil {
		panic(err)
	}
	defer st.Close()

	// An update says what it reads, and is durable when it returns.
	keys := []store.Key{store.StreamKey("s")}
	err = st.Update(ctx, keys, func(tx store.Tx) error {
		tx.Append(journal.Entry{Stream: "s", Kind: journal.KindOutput, Data: []byte("hello")})
		return nil
	})
	if err != nil {
		panic(err)
	}
	err = st.View(ctx, func(v store.View) error {
		entries, err := v.Entries("s", 0, 10)
		for _, e := range entries {
			fmt.Printf("%d %s %s\n", e.Seq, e.Kind, e.Data)
		}
		return err
	})
	if err != nil {
		panic(err)
	}
	// Output: 1 output hello
}
