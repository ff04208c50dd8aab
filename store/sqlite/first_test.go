// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite_test

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/store/sqlite"
)

// TestFirstOpen opens a file that is not there yet several times at once: whoever
// comes second must not wait until the first one closes it.
func TestFirstOpen(t *testing.T) {
	t.Parallel()
	for range 10 {
		path := filepath.Join(t.TempDir(), "store.db")
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				st, err := sqlite.Open(t.Context(), path, &sqlite.Options{LockWait: 5 * time.Second})
				if err != nil {
					t.Errorf("Open = %v", err)
					return
				}
				t.Cleanup(func() { st.Close() })
			})
		}
		wg.Wait()
		if t.Failed() {
			return
		}
	}
}
