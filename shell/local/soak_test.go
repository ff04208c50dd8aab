// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local/internal/proc"
)

// TestRandomKills kills starter or supervisor at any moment and checks what must hold
// whatever happens. SHELL_SOAK is the number of rounds.
func TestRandomKills(t *testing.T) {
	t.Parallel()
	rounds := 15
	if n, err := strconv.Atoi(os.Getenv("SHELL_SOAK")); err == nil {
		rounds = n
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	pieces := []string{
		"echo x >> marker", "echo out", "sleep 0.01", "setsid sleep 30 >/dev/null 2>&1 &", "sleep 30 >/dev/null 2>&1 &",
		"(trap '' TERM; sleep 30) >/dev/null 2>&1 &", "head -c 300000 /dev/zero", "exit 3",
	}
	seen := map[shell.Phase]int{}
	for range rounds {
		text := pieces[0]
		for range rnd.IntN(5) {
			text += "\n" + pieces[1+rnd.IntN(len(pieces)-1)]
		}
		seen[randomKill(t, rnd, text)]++
	}
	t.Logf("phases: %v", seen)
}

func randomKill(t *testing.T, rnd *rand.Rand, text string) shell.Phase {
	t.Helper()
	r := open(t)
	id := newID(t)
	req := shell.Request{Command: text, Dir: t.TempDir(), Grace: 100 * time.Millisecond}
	c := exec.Command(supervisorExe, "start", r.Dir(), string(id), req.Dir, text)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	req.Grace = 0 // as the other process has it
	<-time.After(time.Duration(rnd.Int64N(int64(25 * time.Millisecond))))
	victim := "nobody"
	switch rnd.IntN(4) {
	case 0:
		victim = "starter"
		_ = c.Process.Kill()
	case 1, 2:
		victim = "supervisor"
		for _, p := range (proc.Tree{Run: string(id), ByCookie: true}).Members() {
			if b, _ := os.ReadFile("/proc/" + strconv.Itoa(p.Pid) + "/cmdline"); bytes.Contains(b, []byte(argShim)) {
				_ = unix.Kill(p.Pid, unix.SIGKILL)
			}
		}
	}
	_ = c.Wait()
	var st shell.State
	eventually(t, "the run is not live", func() bool {
		var err error
		st, err = r.Recover(t.Context(), id)
		return err == nil && st.Phase != shell.Live
	})
	before := strings.Count(slurp(filepath.Join(req.Dir, "marker")), "x")
	if (st.Phase == shell.NeverStarted || st.Phase == shell.UnknownRun) && before != 0 {
		t.Errorf("%s killed: %s, but executed %d times; %q", victim, st.Phase, before, text)
	}
	var wg sync.WaitGroup
	for range 3 {
		rr := openDir(t, r.Dir())
		wg.Go(func() {
			if err := rr.Start(t.Context(), id, fence1, req); err != nil && fault.KindOf(err) != fault.Fenced {
				t.Errorf("Start = %v", err)
			}
		})
	}
	wg.Wait()
	e := waitFor(t, r, id)
	n := strings.Count(slurp(filepath.Join(req.Dir, "marker")), "x")
	if n > 1 || n == 0 && e.Cause != shell.Lost {
		t.Errorf("%s killed: executed %d times, exit %+v; %q", victim, n, e, text)
	}
	if want := strings.Contains(text, "exit 3"); e.Cause == shell.Exited && (code(e) == 3) != want || e.Cause == shell.Lost && e.Code != nil {
		t.Errorf("%s killed: exit %+v, code %d; %q", victim, e, code(e), text)
	}
	if data, omitted := readAll(t, r, id); int64(len(data)) != e.TotalBytes || len(omitted) > 0 {
		t.Errorf("%s killed: %d bytes of %d", victim, len(data), e.TotalBytes)
	}
	noneLeft(t, id)
	return st.Phase
}

func FuzzPayload(f *testing.F) {
	p := payload{dir: "/d", script: "/s", argv: []string{"a", ""}, env: []string{"A=1"}}
	f.Add(p.encode())
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := decodePayload(b)
		if err != nil {
			return
		}
		again, err := decodePayload(p.encode())
		if err != nil || !reflect.DeepEqual(p, again) {
			t.Errorf("decode(encode(%+v)) = %+v, %v", p, again, err)
		}
	})
}
