// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
)

func TestShellExecute(t *testing.T) {
	t.Parallel()
	var s Shell
	for _, tt := range []struct {
		name  string
		req   shell.Request
		cause shell.Cause
		code  int
		out   string
	}{
		{"output", shell.Request{Command: "echo a; echo b >&2; echo c > /dev/stderr"}, shell.Exited, 0, "a\nb\nc\n"},
		{"code", shell.Request{Command: "exit 7"}, shell.Exited, 7, ""},
		{"argv", shell.Request{Argv: []string{"printf", "%s", "a b"}}, shell.Exited, 0, "a b"},
		{"not found", shell.Request{Argv: []string{"no-such-program-x"}}, shell.StartFailed, 127, ""},
		{"not executable", shell.Request{Argv: []string{"/etc/passwd"}}, shell.StartFailed, 126, ""},
		{"directory gone", shell.Request{Command: "true", Dir: "/no/such"}, shell.StartFailed, 126, ""},
		{"stdin", shell.Request{Command: "cat", Stdin: []byte("in")}, shell.Exited, 0, "in"},
		{"timeout", shell.Request{Command: `trap "exit 0" TERM; echo part; while :; do sleep 0.05; done`, Timeout: 300 * time.Millisecond}, shell.TimedOut, 0, "part\n"},
		{"leftover", shell.Request{Command: "setsid sleep 100 & echo x", Drain: 100 * time.Millisecond, Grace: 200 * time.Millisecond}, shell.Exited, 0, "x\n"},
		{"limit", shell.Request{Command: "yes", Output: shell.Output{OnLimit: shell.StopAtLimit, Limit: 100_000, SpoolHead: 2, SpoolTail: 2}}, shell.OutputLimited, 143, "y\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.req.Dir == "" {
				tt.req.Dir = t.TempDir()
			}
			resp, err := s.Execute(t.Context(), tt.req)
			if err != nil {
				t.Fatalf("Execute = %v", err)
			}
			if resp.Exit.Cause != tt.cause || code(resp.Exit) != tt.code || !strings.HasPrefix(string(resp.Output), tt.out) {
				t.Errorf("Execute = %.100q, %+v, code %d", resp.Output, resp.Exit, code(resp.Exit))
			}
		})
	}
}

func TestShellSplitAndOmitted(t *testing.T) {
	t.Parallel()
	var s Shell
	resp, err := s.Execute(t.Context(), shell.Request{
		Command: "echo err >&2; sleep 0.1; seq 1 200000", Dir: t.TempDir(), Split: true,
		Output: shell.Output{SpoolHead: 4, SpoolTail: 100_000},
	})
	if err != nil {
		t.Fatalf("Execute = %v", err)
	}
	want := numbers(200000)
	e := resp.Exit
	if string(resp.Stderr) != "err\n" || e.StdoutBytes != int64(len(want)) || len(resp.Omitted) != 1 ||
		resp.Omitted[0].Len() != e.OmittedBytes || int64(len(resp.Output))+e.OmittedBytes != e.TotalBytes {
		t.Errorf("exit %+v, omitted %v, %d bytes kept", e, resp.Omitted, len(resp.Output))
	}
	if !strings.HasSuffix(string(want), string(resp.Stdout)) || len(resp.Stdout) < 100_000 {
		t.Errorf("the tail differs: %d bytes", len(resp.Stdout))
	}
}

func TestT05_ContextEndStopsTheCommand(t *testing.T) {
	t.Parallel()
	var s Shell
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	dir := t.TempDir()
	resp, err := s.Execute(ctx, shell.Request{
		Command: `trap "" TERM; echo part; setsid sleep 100 & while :; do sleep 0.05; done`, Dir: dir, Grace: 200 * time.Millisecond,
	})
	var ee *shell.ExecError
	if !errors.As(err, &ee) || ee.Started != shell.Yes || fault.KindOf(err) != fault.Timeout {
		t.Fatalf("Execute = %v, want an ExecError of kind timeout", err)
	}
	if resp.Exit.TimedOut || string(ee.Partial.Output) != "part\n" {
		t.Errorf("partial %q, exit %+v", ee.Partial.Output, resp.Exit)
	}
	done, cancel2 := context.WithCancel(t.Context())
	cancel2()
	_, err = s.Execute(done, shell.Request{Command: "touch marker", Dir: dir})
	if !errors.As(err, &ee) || ee.Started != shell.No || exists(filepath.Join(dir, "marker")) {
		t.Errorf("Execute with a canceled context = %v", err)
	}
}

func TestShellStream(t *testing.T) {
	t.Parallel()
	var s Shell
	dir := t.TempDir()
	var out strings.Builder
	var exit *shell.Exit
	for p, err := range s.Stream(t.Context(), shell.Request{Command: "for i in 1 2 3; do echo $i; sleep 0.05; done; exit 4", Dir: dir}) {
		if err != nil {
			t.Fatalf("Stream = %v", err)
		}
		for _, f := range p.Frames {
			out.Write(f.Data)
		}
		exit = p.Exit
	}
	if exit == nil || code(*exit) != 4 || out.String() != "1\n2\n3\n" {
		t.Errorf("Stream gave %q, %+v", out.String(), exit)
	}
	for p, err := range s.Stream(t.Context(), shell.Request{Command: "echo $$; exec sleep 100", Dir: dir}) {
		if err != nil || len(p.Frames) == 0 {
			t.Errorf("Stream = %+v, %v", p, err)
		}
		break // stops the command
	}
}
