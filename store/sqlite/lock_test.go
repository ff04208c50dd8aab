// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite_test

import (
	"bufio"
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/store/sqlite"
	"github.com/outlive-dev/outlive/task"
)

// A process that hangs in the middle of an update is named to those it blocks, who
// get an error in time; once it dies they go on.
func TestHungProcessIsNamed(t *testing.T) {
	if path := os.Getenv("OUTLIVE_TEST_HANG"); path != "" {
		st := openAt(t, path, sqlite.Options{})
		_ = st.Update(t.Context(), nil, func(store.Tx) error {
			fmt.Println("hung") //nolint:forbidigo // the parent waits for it
			select {}
		})
		return
	}
	if runtime.GOOS != "linux" {
		t.Skip("the turnstile knows its holder on Linux only")
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "outlive.db")
	var log bytes.Buffer
	st := openAt(t, path, sqlite.Options{LockWait: 2200 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHungProcessIsNamed$")
	cmd.Env = append(os.Environ(), "OUTLIVE_TEST_HANG="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "hung" {
	}
	pid := fmt.Sprint(cmd.Process.Pid)
	err = put(t, st, "a")
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), pid) {
		t.Errorf("Update while process %s hangs = %v, want Unavailable and the pid", pid, err)
	}
	if !strings.Contains(log.String(), pid) {
		t.Errorf("the log says %q, want the pid %s", log.String(), pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := put(t, st, "b"); err != nil {
		t.Errorf("Update after the process died = %v", err)
	}
	if has(t, st, "a") || !has(t, st, "b") {
		t.Error("the refused update is there, or the next one is not")
	}
}

// Of two stores that write all the time, neither waits for long.
func TestTurnsAreFair(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("turns are fair on Linux only")
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "outlive.db")
	a, b := openAt(t, path, sqlite.Options{}), openAt(t, path, sqlite.Options{})
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for w := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := put(t, a, task.ID(fmt.Sprintf("a%d-%d", w, i))); err != nil {
					t.Errorf("Update = %v", err)
					return
				}
			}
		})
	}
	var slowest time.Duration
	for i := range 50 {
		start := time.Now()
		if err := put(t, b, task.ID(fmt.Sprint("b", i))); err != nil {
			t.Errorf("Update = %v", err)
		}
		slowest = max(slowest, time.Since(start))
	}
	close(stop)
	wg.Wait()
	t.Logf("the slowest of 50 turns took %v", slowest)
	if slowest > 3*time.Second {
		t.Errorf("the slowest of 50 turns took %v", slowest)
	}
}
