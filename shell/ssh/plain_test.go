// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ssh_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/shelltest"
	"github.com/outlive-dev/outlive/shell/ssh"
)

// plainHost is a host without the program, whose temporary directory is in its home.
func plainHost(t *testing.T) *host {
	t.Helper()
	h := newHost(t, "")
	tmp := filepath.Join(h.home, "tmp")
	h.env = []string{"TMPDIR=" + tmp}
	if err := errors.Join(os.RemoveAll(filepath.Dir(h.program())), os.Mkdir(tmp, 0o700)); err != nil {
		t.Fatal(err)
	}
	return h.serve(t)
}

// tidy checks that the script is gone with its files, and that nobody asked for a signal.
func (h *host) tidy(t *testing.T) {
	t.Helper()
	eventually(t, "the script has tidied up", func() bool {
		left, _ := filepath.Glob(filepath.Join(h.home, "tmp", "*"))
		return len(left) == 0
	})
	if n := h.signals.Load(); n > 0 {
		t.Errorf("%d requests for signals", n)
	}
	if n := h.uploads.Load(); n > 0 || exists(h.program()) {
		t.Errorf("something was placed on the host")
	}
}

// beating is a command that touches its file again and again, and whether it goes on.
func beating(dir string) (command string, goesOn func() bool) {
	beat := filepath.Join(dir, "beat")
	return "touch ready; while :; do touch beat; sleep 0.02; done", func() bool {
		os.Remove(beat)
		for range 20 {
			<-time.After(10 * time.Millisecond)
			if exists(beat) {
				return true
			}
		}
		return false
	}
}

// TestF13_CutLinkStops cuts the link under a plain command: the command is stopped, and
// the cut is no exit.
func TestF13_CutLinkStops(t *testing.T) {
	t.Parallel()
	h := plainHost(t)
	l := shelltest.NewLink(t, h.addr, 0)
	s, dir := newShell(t, h.login(t, l.Addr())), t.TempDir()
	command, goesOn := beating(dir)
	done := make(chan error, 1)
	go func() {
		_, err := s.Execute(t.Context(), shell.Request{Command: "echo out; setsid sh -c 'while :; do sleep 0.1; done' & " + command, Dir: dir, Timeout: time.Minute})
		done <- err
	}()
	eventually(t, "it runs", func() bool { return exists(filepath.Join(dir, "ready")) })
	if !goesOn() {
		t.Error("it does not go on")
	}
	l.Down()
	err := <-done
	var x *shell.ExecError
	if !errors.As(err, &x) || x.Phase != shell.StepTransport || x.Started != shell.Yes || fault.KindOf(err) != fault.Unavailable {
		t.Fatalf("Execute = %v, want an ExecError of the transport, started", err)
	}
	if e := x.Partial.Exit; string(x.Partial.Output) != "out\n" || e.Code != nil || e.Cause != "" || e.TimedOut {
		t.Errorf("partial = %q, %+v, want the output and no exit", x.Partial.Output, e)
	}
	eventually(t, "the command has stopped", func() bool { return !goesOn() })
	h.tidy(t)
}

// TestM3_KilledClientStops kills the process that runs a plain command.
func TestM3_KilledClientStops(t *testing.T) {
	t.Parallel()
	h, dir := plainHost(t), t.TempDir()
	command, goesOn := beating(dir)
	client, _, _ := helper(t, shell.Request{Command: command, Dir: dir}, "plain", h.login(t, h.addr))
	eventually(t, "it runs", func() bool { return exists(filepath.Join(dir, "ready")) })
	_ = client.Process.Kill()
	_ = client.Wait()
	eventually(t, "the command has stopped", func() bool { return !goesOn() })
	h.tidy(t)
}

// TestKilledWatchdog kills the script on the host: what its session then ends with is no
// exit of the command.
func TestKilledWatchdog(t *testing.T) {
	t.Parallel()
	h, dir := plainHost(t), t.TempDir()
	command, goesOn := beating(dir)
	_, err := newShell(t, h.login(t, h.addr)).Execute(t.Context(), shell.Request{Command: "ps -o ppid= -p $$ | xargs kill -KILL; " + command, Dir: dir})
	var x *shell.ExecError
	if !errors.As(err, &x) || x.Phase != shell.StepRun || x.Started != shell.Yes || !strings.Contains(err.Error(), "SIGKILL") {
		t.Errorf("Execute = %v, want an ExecError that names SIGKILL", err)
	}
	eventually(t, "the command has stopped", func() bool { return !goesOn() })
}

func TestPlainRefuses(t *testing.T) {
	t.Parallel()
	h, dir := plainHost(t), t.TempDir()
	s := newShell(t, h.login(t, h.addr))
	for what, r := range map[string]shell.Request{
		"a name that no shell can export": {Command: "true", Dir: dir, Env: map[string]string{"A.B": "1"}},
		"a name of the script":            {Command: "true", Dir: dir, Environ: []string{"_o_p=1"}},
		"a terminal":                      {Command: "true", Dir: dir, TTY: &shell.TTY{Cols: 80, Rows: 25}},
	} {
		if _, err := s.Execute(t.Context(), r); fault.KindOf(err) != fault.Unsupported {
			t.Errorf("%s: Execute = %v, want Unsupported", what, err)
		}
	}
	if n := h.executed.Load(); n > 0 {
		t.Errorf("%d commands were executed on the host", n)
	}
	stranger := newShell(t, with(t, h.login(t, h.addr), "known_hosts", filepath.Join(dir, "none")))
	_, err := stranger.Execute(t.Context(), shell.Request{Command: "true", Dir: dir})
	var x *shell.ExecError
	if !errors.As(err, &x) || x.Phase != shell.StepProvision || x.Started != shell.No || fault.KindOf(err) != fault.Forbidden {
		t.Errorf("Execute on an unknown host = %v, want an ExecError, not started, Forbidden", err)
	}
	if _, err := ssh.NewShell("http://h", nil); fault.KindOf(err) != fault.Invalid {
		t.Errorf("NewShell = %v, want Invalid", err)
	}
}

// TestPlainBytes passes what a shell could misread: through the environment, the
// arguments, the directory and the input.
func TestPlainBytes(t *testing.T) {
	t.Parallel()
	h := plainHost(t)
	var all strings.Builder
	for c := 1; c < 256; c++ {
		all.WriteByte(byte(c))
	}
	text := all.String() + "$(touch made)`touch made`\\c\\0101 %s\n\n"
	dir := filepath.Join(t.TempDir(), "a b'\"$(touch made)\n")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r := shell.Request{
		Argv: []string{"sh", "-c", `printf '%s|' "$V" "$1" "$2"; cat; case $TOKEN in *t) ps -eo args | grep -c "$TOKEN" ;; esac; ls`, "x", text, ""},
		Env:  map[string]string{"V": text, "IFS": "x", "_": "y", "TOKEN": "s3cret"}, Dir: dir, Stdin: []byte("in\x00" + text),
	}
	resp, err := newShell(t, h.login(t, h.addr)).Execute(t.Context(), r)
	if err != nil {
		t.Fatalf("Execute = %v", err)
	}
	// The one argument list with the value is that of the search itself.
	if want := text + "|" + text + "||in\x00" + text + "1\n"; string(resp.Output) != want || *resp.Exit.Code != 0 {
		t.Errorf("output = %q, want %q, exit %+v", resp.Output, want, resp.Exit)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v was made", left)
	}
	h.tidy(t)
}
