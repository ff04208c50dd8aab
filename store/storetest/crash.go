// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// CrashOptions says how a driver that survives its process is killed.
type CrashOptions struct {
	// Open opens the store in dir. It is called in child processes too. Required.
	Open func(t testing.TB, dir string) store.Store
	// Variable is the environment variable that arms a failpoint, as NAME@N.
	// Required.
	Variable string
	// Failpoints are the driver's. Required.
	Failpoints []string
	// Rounds is how often each failpoint is hit. Defaults to 4.
	Rounds int
}

// crashDir tells the test binary, run again, that it is the child.
const crashDir = "OUTLIVE_STORETEST_DIR"

const crashWriters = 8

// Crash kills processes that write, at every failpoint, and checks what they left:
// all that was acknowledged, nothing by halves. It must be called by a test
// function of its own, since children run the same function.
func Crash(t *testing.T, o CrashOptions) {
	if dir := os.Getenv(crashDir); dir != "" {
		crashChild(t, o.Open(t, dir))
		return
	}
	if o.Rounds <= 0 {
		o.Rounds = 4
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	acked := 0
	for round := range o.Rounds {
		for _, name := range o.Failpoints {
			at := fmt.Sprintf("%s@%d", name, 1+rnd.IntN(1+20*round))
			acks := crashRound(t, dir, o.Variable+"="+at)
			acked += len(acks)
			st := o.Open(t, dir)
			for _, id := range acks {
				if _, ok := get(t, st, id); !ok {
					t.Errorf("killed at %s: the acknowledged task %s is lost", at, id)
				}
			}
			crashCheck(t, st, at)
			if err := st.Close(); err != nil {
				t.Fatalf("Close = %v", err)
			}
		}
	}
	t.Logf("%d kills, %d acknowledged updates, none lost", o.Rounds*len(o.Failpoints), acked)
}

// crashRound runs a child until it dies, and returns what it was told is stored.
func crashRound(t *testing.T, dir, arm string) (acks []task.ID) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), crashDir+"="+dir, arm)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Exited() {
		t.Fatalf("the child with %s = %v, want it killed; it wrote\n%s", arm, err, out)
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		var id string
		if n, _ := fmt.Sscanf(lines.Text(), "ack %s", &id); n == 1 {
			acks = append(acks, task.ID(id))
		}
	}
	return acks
}

// crashCheck finds every task's entry and every entry's task.
func crashCheck(t *testing.T, st store.Store, at string) {
	t.Helper()
	total := int64(0)
	for w := range crashWriters {
		for i, e := range entries(t, st, journal.StreamID(fmt.Sprint("w", w))) {
			if e.Seq != int64(i+1) {
				t.Fatalf("killed at %s: entry %d of stream w%d has seq %d", at, i, w, e.Seq)
			}
			if _, ok := get(t, st, task.ID(e.Task)); !ok {
				t.Errorf("killed at %s: an entry without its task %s", at, e.Task)
			}
			total++
		}
	}
	view(t, st, func(v store.View) error {
		counts, err := v.Counts()
		if counts[task.Pending] != total {
			t.Errorf("killed at %s: %d tasks, %d entries", at, counts[task.Pending], total)
		}
		return err
	})
}

// crashChild writes until it is killed.
func crashChild(t *testing.T, st store.Store) {
	var wg sync.WaitGroup
	for w := range crashWriters {
		wg.Go(func() {
			s := journal.StreamID(fmt.Sprint("w", w))
			for range 2000 {
				var id task.ID
				keys := []store.Key{store.StreamKey(s)}
				err := st.Update(context.Background(), keys, func(tx store.Tx) error {
					id = task.ID(fmt.Sprintf("%s-%06d", s, tx.Head(s).Seq+1))
					if !tx.Declared(store.TaskKey(id)) {
						return store.More(store.TaskKey(id))
					}
					tx.PutTask(pending(id, tx.Now()))
					tx.Append(journal.Entry{Stream: s, Task: string(id), Kind: "k"})
					return nil
				})
				if err != nil {
					t.Errorf("Update = %v", err)
					return
				}
				fmt.Printf("ack %s\n", id) //nolint:forbidigo // the parent reads it
			}
		})
	}
	wg.Wait()
}
