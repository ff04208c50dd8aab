// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package shelltest

import (
	"bytes"
	"strings"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
)

// shellTests are about Execute and Stream, also of a backend whose other tests went
// through Recoverable.
func shellTests() []test {
	return []test{
		{name: "execute", fn: testExecute},
		{name: "execute split and omitted", fn: testExecuteOmitted},
		{name: "stream", fn: testStream},
		{name: "stream timed out", fn: testStreamTimedOut},
		{name: "stream left early", fn: testStreamLeft},
		{name: "stream refused", fn: testStreamRefused},
	}
}

// shell skips the test when the backend has no Shell.
func (h *harness) shell() shell.Shell {
	h.Helper()
	if h.b.Shell == nil {
		h.Skip("the backend starts runs and does not execute")
	}
	return h.b.Shell
}

func (h *harness) streaming() shell.StreamingShell {
	h.Helper()
	s := h.shell()
	st, ok := s.(shell.StreamingShell)
	if ok != s.Capabilities().Streaming {
		h.Errorf("Capabilities() = streaming %v, implemented %v", s.Capabilities().Streaming, ok)
	}
	if !ok {
		h.Skip("the backend does not stream, and says so")
	}
	return st
}

func testExecute(h *harness) {
	s := h.shell()
	for _, tt := range []struct {
		text  string
		cause shell.Cause
		code  int
		out   string
		limit time.Duration
	}{
		{"echo a; echo b >&2; echo c > /dev/stderr", shell.Exited, 0, "a\nb\nc\n", 0},
		{"exit 7", shell.Exited, 7, "", 0},
		{`trap "exit 0" TERM; echo part; while :; do sleep 0.05; done`, shell.TimedOut, 0, "part\n", 400 * time.Millisecond},
		{"setsid sleep 100 & echo x", shell.Exited, 0, "x\n", 0},
	} {
		r := h.sh(tt.text)
		r.Timeout, r.Drain, r.Grace = tt.limit, 100*time.Millisecond, 300*time.Millisecond
		resp, err := s.Execute(h.Context(), r)
		if err != nil {
			h.Errorf("Execute(%q) = %v", tt.text, err)
			continue
		}
		if resp.Exit.Cause != tt.cause || code(resp.Exit) != tt.code || !strings.HasPrefix(string(resp.Output), tt.out) {
			h.Errorf("Execute(%q) = %.100q, %+v, code %d", tt.text, resp.Output, resp.Exit, code(resp.Exit))
		}
	}
}

func testExecuteOmitted(h *harness) {
	h.splits()
	r := h.sh("echo err >&2; sleep 0.1; seq 1 200000")
	r.Split = true
	r.Output = shell.Output{SpoolHead: 4, SpoolTail: 100_000}
	resp, err := h.shell().Execute(h.Context(), r)
	if err != nil {
		h.Fatalf("Execute = %v", err)
	}
	want, e := numbers(200000), resp.Exit
	if string(resp.Stderr) != "err\n" || e.StdoutBytes != int64(len(want)) || int64(len(resp.Output))+e.OmittedBytes != e.TotalBytes {
		h.Errorf("exit %+v, omitted %v, %d bytes kept", e, resp.Omitted, len(resp.Output))
	}
	n := int64(0)
	for _, o := range resp.Omitted {
		n += o.Len()
	}
	if n != e.OmittedBytes || len(resp.Stdout) < 100_000 || !bytes.HasSuffix(want, resp.Stdout[len(resp.Stdout)-100_000:]) {
		h.Errorf("omitted %v, the tail has %d bytes", resp.Omitted, len(resp.Stdout))
	}
}

// collect ranges over a stream and checks that the exit comes last.
func (h *harness) collect(r shell.Request) (out string, e shell.Exit, parts int) {
	h.Helper()
	var b strings.Builder
	var exit *shell.Exit
	for p, err := range h.streaming().Stream(h.Context(), r) {
		if err != nil {
			h.Fatalf("Stream = %v", err)
		}
		if exit != nil {
			h.Error("a part follows the exit")
		}
		for _, f := range p.Frames {
			b.Write(f.Data)
		}
		exit = p.Exit
		parts++
	}
	if exit == nil {
		h.Fatal("the stream has no exit")
	}
	return b.String(), *exit, parts
}

func testStream(h *harness) {
	out, e, parts := h.collect(h.sh("for i in 1 2 3; do echo $i; sleep 0.1; done; exit 4"))
	if code(e) != 4 || out != "1\n2\n3\n" || parts < 3 {
		h.Errorf("Stream gave %q in %d parts, %+v", out, parts, e)
	}
}

// testStreamTimedOut is the backend's half of T12: the last part says it, also when
// there is no output.
func testStreamTimedOut(h *harness) {
	r := h.sh("sleep 100")
	r.Timeout = 300 * time.Millisecond
	if out, e, _ := h.collect(r); out != "" || !e.TimedOut || e.Cause != shell.TimedOut {
		h.Errorf("Stream gave %q, %+v, want timed_out", out, e)
	}
}

func testStreamLeft(h *harness) {
	r := h.sh("echo $$; exec sleep 100")
	for p, err := range h.streaming().Stream(h.Context(), r) {
		if err != nil || len(p.Frames) == 0 {
			h.Errorf("Stream = %+v, %v", p, err)
		}
		break // stops the command
	}
	h.noneLeft()
}

func testStreamRefused(h *harness) {
	r := h.sh("true")
	r.Timeout = -1
	n := 0
	for _, err := range h.streaming().Stream(h.Context(), r) {
		n++
		if fault.KindOf(err) != fault.Invalid {
			h.Errorf("Stream = %v, want Invalid", err)
		}
	}
	if n != 1 {
		h.Errorf("Stream gave %d parts, want one error", n)
	}
}
