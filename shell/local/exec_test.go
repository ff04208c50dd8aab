// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
)

func TestExec(t *testing.T) {
	t.Parallel()
	r := open(t)
	dir := t.TempDir()
	noExec := filepath.Join(dir, "data")
	if err := os.WriteFile(noExec, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	noShebang := filepath.Join(dir, "script")
	if err := os.WriteFile(noShebang, []byte("echo plain script $1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	badInterpreter := filepath.Join(dir, "bad")
	if err := os.WriteFile(badInterpreter, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		req    shell.Request
		cause  shell.Cause
		code   int
		signal string
		out    string
	}{
		{"true", shell.Request{Argv: []string{"true"}}, shell.Exited, 0, "", ""},
		{"output", shell.Request{Command: "echo hello; echo world >&2"}, shell.Exited, 0, "", "hello\nworld\n"},
		{"code", shell.Request{Command: "exit 3"}, shell.Exited, 3, "", ""},
		{"signal", shell.Request{Command: "kill -SEGV $$"}, shell.Exited, 139, "SIGSEGV", ""},
		{"shell not found", shell.Request{Command: "no-such-program-x 2>/dev/null"}, shell.Exited, 127, "", ""},
		{"argv not found", shell.Request{Argv: []string{"no-such-program-x"}}, shell.StartFailed, 127, "", ""},
		{"argv path not found", shell.Request{Argv: []string{"/no/such"}}, shell.StartFailed, 127, "", ""},
		{"argv not executable", shell.Request{Argv: []string{noExec}}, shell.StartFailed, 126, "", ""},
		{"argv is a directory", shell.Request{Argv: []string{dir}}, shell.StartFailed, 126, "", ""},
		{"B52_argument too long", shell.Request{Argv: []string{"true", strings.Repeat("x", 200<<10)}}, shell.StartFailed, 126, "", ""},
		{"bad interpreter", shell.Request{Argv: []string{badInterpreter}}, shell.StartFailed, 126, "", ""},
		{"no shebang", shell.Request{Argv: []string{noShebang, "arg"}}, shell.Exited, 0, "", "plain script arg\n"},
		{"argv verbatim", shell.Request{Argv: []string{"printf", "%s|", "a b", "$HOME", "*", "\xff"}}, shell.Exited, 0, "", "a b|$HOME|*|\xff|"},
		{"no descriptors but three", shell.Request{Argv: []string{"ls", "/proc/self/fd"}}, shell.Exited, 0, "", "0\n1\n2\n3\n"},
		{"env", shell.Request{Command: "echo $A $OUTLIVE_FAILPOINT $TERM", Env: map[string]string{"A": "1"}}, shell.Exited, 0, "", "1 dumb\n"},
		{"whole environ", shell.Request{Argv: []string{"/usr/bin/env"}, Environ: []string{"X=1"}}, shell.Exited, 0, "", "X=1\nOUTLIVE_RUN="},
		{"stdin default", shell.Request{Command: "cat"}, shell.Exited, 0, "", ""},
		{"stdin bytes", shell.Request{Command: "cat", Stdin: []byte("in\x00put")}, shell.Exited, 0, "", "in\x00put"},
		{"umask", shell.Request{Command: "umask", Umask: shell.UmaskOf(0o027)}, shell.Exited, 0, "", "0027\n"},
		{"directory gone", shell.Request{Command: "echo no", Dir: "/no/such/dir"}, shell.StartFailed, 126, "", ""},
		{"200 KiB of shell text", shell.Request{Command: "echo " + strings.Repeat("x", 200<<10) + " | wc -c"}, shell.Exited, 0, "", "204801\n"},
		{"reopen stderr", shell.Request{Command: "echo one; echo two > /dev/stderr; echo three"}, shell.Exited, 0, "", "one\ntwo\nthree\n"},
		{"own session", shell.Request{Command: "test $(ps -o sid= -p $$) = $$ && echo yes"}, shell.Exited, 0, "", "yes\n"},
		{"no terminal", shell.Request{Command: "(: < /dev/tty) 2>/dev/null || echo none"}, shell.Exited, 0, "", "none\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.req.Dir == "" {
				tt.req.Dir = dir
			}
			e, out := run(t, r, tt.req)
			if e.Cause != tt.cause || code(e) != tt.code || e.Signal != tt.signal {
				t.Errorf("exit = %+v (code %d), want %s, %d, %q", e, code(e), tt.cause, tt.code, tt.signal)
			}
			if got := out; got != tt.out && !(strings.HasSuffix(tt.out, "=") && strings.HasPrefix(got, tt.out)) {
				t.Errorf("output = %.200q, want %q", got, tt.out)
			}
			if e.TotalBytes != int64(len(out)) {
				t.Errorf("total = %d, want %d", e.TotalBytes, len(out))
			}
		})
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	r := open(t)
	for _, tt := range []struct {
		name string
		id   shell.RunID
		req  shell.Request
		kind fault.Kind
	}{
		{"id", "Up-r1", shell.Request{Command: "x", Dir: "/"}, fault.Invalid},
		{"path", "../x", shell.Request{Command: "x", Dir: "/"}, fault.Invalid},
		{"nul", "a-r1", shell.Request{Command: "x\x00", Dir: "/"}, fault.Invalid},
		{"empty", "a-r1", shell.Request{Dir: "/"}, fault.Invalid},
		{"tty", "a-r1", shell.Request{Command: "x", Dir: "/", TTY: &shell.TTY{Cols: 80, Rows: 25}}, fault.Unsupported},
	} {
		if err := r.Start(t.Context(), tt.id, fence1, tt.req); fault.KindOf(err) != tt.kind {
			t.Errorf("%s: Start = %v, want kind %v", tt.name, err, tt.kind)
		}
	}
	if ids, err := r.List(t.Context()); err != nil || len(ids) != 0 {
		t.Errorf("List() = %v, %v, want nothing", ids, err)
	}
}

func TestStartIsIdempotent(t *testing.T) {
	t.Parallel()
	r := open(t)
	req := sh(t, "echo x >> marker; cat")
	req.Stdin = []byte("some")
	id := start(t, r, req)
	for range 3 {
		if err := r.Start(t.Context(), id, fence1, req); err != nil {
			t.Errorf("Start again = %v", err)
		}
	}
	waitFor(t, r, id)
	if err := r.Start(t.Context(), id, shell.Fence{Generation: 2}, req); err != nil {
		t.Errorf("Start after the end = %v", err)
	}
	if err := r.Start(t.Context(), id, fence1, req); fault.KindOf(err) != fault.Fenced {
		t.Errorf("Start with an old fence = %v, want Fenced", err)
	}
	other := req
	other.Command += " "
	if err := r.Start(t.Context(), id, shell.Fence{Generation: 3}, other); fault.KindOf(err) != fault.Conflict {
		t.Errorf("Start of another request = %v, want Conflict", err)
	}
	if b, err := os.ReadFile(filepath.Join(req.Dir, "marker")); err != nil || string(b) != "x\n" {
		t.Errorf("marker = %q, %v, want one line", b, err)
	}
	st, err := r.Recover(t.Context(), id)
	if err != nil || st.Phase != shell.Finished || !st.Started || st.Digest != req.Digest() {
		t.Errorf("Recover = %+v, %v, want finished", st, err)
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	r := open(t)
	for _, tt := range []struct {
		name, text string
		grace      time.Duration
		code       int
	}{
		{"plain", "touch ready; sleep 100", 0, 143},
		{"trap and exit 0", `trap "exit 0" TERM; touch ready; while :; do sleep 0.05; done`, 0, 0},
		{"ignoring TERM", `trap "" TERM; touch ready; while :; do sleep 0.05; done`, 200 * time.Millisecond, 137},
		{"at once", `trap "exit 0" TERM; touch ready; while :; do sleep 0.05; done`, shell.AtOnce, 137},
		{"grandchild in a session of its own", "setsid sleep 100 & touch ready; wait", 0, 143},
		{"stopped by SIGSTOP", "touch ready; kill -STOP $$", 0, 143},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			req := sh(t, tt.text)
			id := start(t, r, req)
			eventually(t, "the command is ready", fileExists(filepath.Join(req.Dir, "ready")))
			began := time.Now()
			s := shell.StopRequest{Reason: "test", Grace: tt.grace}
			if err := r.Stop(t.Context(), id, fence1, s); err != nil {
				t.Fatalf("Stop = %v", err)
			}
			if err := r.Stop(t.Context(), id, shell.Fence{}, s); fault.KindOf(err) != fault.Fenced {
				t.Errorf("Stop with an old fence = %v, want Fenced", err)
			}
			e := waitFor(t, r, id)
			if e.Cause != shell.Canceled || code(e) != tt.code || e.Reason != "test" || !e.Canceled {
				t.Errorf("exit = %+v, code %d, want canceled, %d", e, code(e), tt.code)
			}
			if d := time.Since(began); d > 4*time.Second {
				t.Errorf("took %v", d)
			}
			if err := r.Stop(t.Context(), id, fence1, s); err != nil {
				t.Errorf("Stop after the end = %v", err)
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	r := open(t)
	for _, tt := range []struct {
		name, text, out string
		code            int
	}{
		{"keeps the output so far", "echo part; sleep 5; echo no", "part\n", 143},
		{"B80_exit 0 on TERM is still timed out", `trap "exit 0" TERM; echo part; while :; do sleep 0.05; done`, "part\n", 0},
		{"T10_own code", `trap "exit 9" TERM; echo part; while :; do sleep 0.05; done`, "part\n", 9},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			req := sh(t, tt.text)
			req.Timeout = 400 * time.Millisecond
			e, out := run(t, r, req)
			if e.Cause != shell.TimedOut || !e.TimedOut || code(e) != tt.code || !strings.HasPrefix(out, tt.out) || strings.Contains(out, "no\n") {
				t.Errorf("exit = %+v, code %d, output %q, want timed_out, %d, %q", e, code(e), out, tt.code, tt.out)
			}
		})
	}
}

// TestT24_ExitAndExpiryRace lets the command end just when its time is over.
func TestT24_ExitAndExpiryRace(t *testing.T) {
	t.Parallel()
	r := open(t)
	timedOut := 0
	for range 20 {
		req := shell.Request{Argv: []string{"sleep", "0.05"}, Dir: t.TempDir(), Timeout: 51 * time.Millisecond}
		e, _ := run(t, r, req)
		switch {
		case e.Cause == shell.Exited && code(e) == 0 && !e.TimedOut:
		case e.Cause == shell.TimedOut && e.TimedOut && (code(e) == 143 || code(e) == 0):
			timedOut++
		default:
			t.Errorf("exit = %+v, code %d", e, code(e))
		}
	}
	t.Logf("%d of 20 timed out", timedOut)
}

// TestTinyTimeout stops the command while it is still about to become one.
func TestTinyTimeout(t *testing.T) {
	t.Parallel()
	r := open(t)
	for i := range 10 {
		req := sh(t, "sleep 100")
		req.Timeout = time.Duration(1+i*300) * time.Microsecond
		e, _ := run(t, r, req)
		if e.Cause != shell.TimedOut || code(e) != 143 || e.EndedAt.Sub(e.StartedAt) > time.Second {
			t.Errorf("exit = %+v, code %d", e, code(e))
		}
	}
}

func TestT18_BoundedReturn(t *testing.T) {
	t.Parallel()
	r := open(t)
	req := sh(t, `trap "" TERM; setsid sh -c 'trap "" TERM; while :; do sleep 1; done' & while :; do sleep 1; done`)
	req.Timeout, req.Grace = 300*time.Millisecond, 300*time.Millisecond
	e, _ := run(t, r, req)
	if e.Cause != shell.TimedOut || code(e) != 137 {
		t.Errorf("exit = %+v, code %d", e, code(e))
	}
	if d := e.EndedAt.Sub(e.StartedAt); d > 1600*time.Millisecond {
		t.Errorf("took %v", d)
	}
}

func TestT23_AllOutputBeforeExpiry(t *testing.T) {
	t.Parallel()
	req := sh(t, "head -c 1000000 /dev/zero; sleep 100")
	req.Timeout = 500 * time.Millisecond
	e, out := run(t, open(t), req)
	if e.Cause != shell.TimedOut || len(out) != 1000000 || e.Incomplete {
		t.Errorf("exit = %+v, %d bytes of output", e, len(out))
	}
}

// TestSupervisorSignals: TERM stops the command, HUP does nothing.
func TestSupervisorSignals(t *testing.T) {
	t.Parallel()
	r := open(t)
	req := sh(t, `trap "" TERM; touch ready; while :; do sleep 0.05; done`)
	req.Grace = time.Minute
	id := start(t, r, req)
	eventually(t, "the command is ready", fileExists(filepath.Join(req.Dir, "ready")))
	pid := shimPid(t, r, id)
	if err := syscall.Kill(pid, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	// The first TERM asks, the next kills; two in a row may count as one.
	eventually(t, "the command has ended", func() bool {
		_ = syscall.Kill(pid, syscall.SIGTERM)
		_, err := readExit(r.dir(id))
		return err == nil
	})
	e := waitFor(t, r, id)
	if e.Cause != shell.Canceled || code(e) != 137 || !strings.Contains(e.Reason, "SIGTERM") {
		t.Errorf("exit = %+v, code %d", e, code(e))
	}
}

func ExampleRecoverable() {
	fmt.Println(shard("sh-0abcxy-r12"), shard("x"))
	// Output: xy 0x
}
