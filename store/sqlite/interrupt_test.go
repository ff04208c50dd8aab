// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/store/sqlite"
)

// A context that ends while a view begins, or is under way, is the view's error.
func TestViewWhoseTimeIsUp(t *testing.T) {
	t.Parallel()
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "s.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for i := range 3000 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%150)*time.Microsecond)
		err := st.View(ctx, func(v store.View) error {
			_, err := v.Counts()
			return err
		})
		if err != nil && err != ctx.Err() { //nolint:errorlint // the error itself is wanted
			t.Fatalf("View() = %v, want the context's error", err)
		}
		cancel()
	}
}
