// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package shelltest

import (
	"bytes"
	"strings"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
)

func ttyTests() []test {
	return []test{
		{name: "streams", fn: testTTYStreams},
		{name: "the end comes with all output", fn: testTTYEnd},
		{name: "keys", fn: testTTYKeys, recoverable: true},
		{name: "resize", fn: testTTYResize, recoverable: true},
		{name: "input stays open", fn: testTTYDetach, recoverable: true},
		{name: "B104_a command in the background", fn: testTTYBackground},
		{name: "other streams are refused", fn: testTTYStreamsRefused},
	}
}

// onTTY returns a request for shell text on a terminal of 80 columns and 24 rows.
func (h *harness) onTTY(text string) shell.Request {
	h.Helper()
	if !h.capabilities().TTY {
		h.Skip("the backend has no terminals, and refuses them")
	}
	r := h.sh(text)
	r.TTY = &shell.TTY{Cols: 80, Rows: 24}
	return r
}

func testTTYStreams(h *harness) {
	r := h.onTTY(`test -t 0 && test -t 1 && test -t 2 && echo "$TERM $NO_COLOR" >/dev/tty; echo error >&2; stty size`)
	if got := h.run(r); !got.exit.Succeeded() || got.out != "xterm-256color \r\nerror\r\n24 80\r\n" {
		h.Errorf("exit = %+v, output %q", got.exit, got.out)
	}
	for _, tt := range []struct {
		environ []string
		want    string
	}{
		{[]string{"PATH=/usr/bin:/bin"}, "xterm-256color\r\n"},
		{[]string{"PATH=/usr/bin:/bin", "TERM="}, "xterm-256color\r\n"},
		{[]string{"PATH=/usr/bin:/bin", "TERM=screen"}, "screen\r\n"},
	} {
		r := h.onTTY("echo $TERM")
		r.Environ = tt.environ
		if got := h.run(r); got.out != tt.want {
			h.Errorf("with %q the command sees %q, want %q", tt.environ, got.out, tt.want)
		}
	}
}

// testTTYEnd has a command that writes much and ends: how its terminal ends must not
// be taken for an error, nor take output with it.
func testTTYEnd(h *harness) {
	for range repeat(10) {
		got := h.run(h.onTTY("stty -onlcr; seq 1 100000; exit 7"))
		if got.code() != 7 || got.exit.Incomplete || got.exit.SpoolError != "" || got.out != string(numbers(100000)) {
			h.Fatalf("exit = %+v, %d bytes of output, want %d", got.exit, len(got.out), len(numbers(100000)))
		}
	}
}

// shown reads an attachment until it has shown the text.
func (h *harness) shown(a shell.Attachment, text string) string {
	h.Helper()
	var b bytes.Buffer
	for !strings.Contains(b.String(), text) {
		c, err := a.Read(h.Context(), 0)
		b.Write(c.Bytes())
		if err != nil || c.End && !strings.Contains(b.String(), text) {
			h.Fatalf("Read = %v; shown %q, want %q", err, b.String(), text)
		}
		if err := a.Ack(c.Next); err != nil {
			h.Errorf("Ack = %v", err)
		}
	}
	return b.String()
}

func (h *harness) keys(a shell.Attachment, keys string) {
	h.Helper()
	if n, err := a.WriteStdin(h.Context(), []byte(keys)); err != nil || n != len(keys) {
		h.Fatalf("WriteStdin(%q) = %d, %v", keys, n, err)
	}
}

// testTTYKeys interrupts a command as somebody at its terminal would.
func testTTYKeys(h *harness) {
	r := h.onTTY("trap 'echo interrupted; exit 3' INT; echo ready; while :; do sleep 0.02; done")
	r.Attached = true
	id := h.start(r)
	a := h.attach(h.b.Recoverable, id, 0)
	h.shown(a, "ready\r\n")
	h.keys(a, "\x03")
	h.shown(a, "^Cinterrupted\r\n")
	if e := h.wait(id); code(e) != 3 || e.Cause != shell.Exited {
		h.Errorf("exit = %+v, want 3", e)
	}
}

func testTTYResize(h *harness) {
	// The shell may lose a signal that comes while it handles one, so it also looks.
	r := h.onTTY(`trap 'echo told' WINCH
while ! test -e go; do now=$(stty size); test "$now" = "$last" || echo "$now"; last=$now; sleep 0.02; done`)
	id := h.start(r)
	a := h.attach(h.b.Recoverable, id, 0)
	h.shown(a, "24 80\r\n")
	if err := a.Resize(shell.TTY{Cols: 0, Rows: 5}); fault.KindOf(err) != fault.Invalid {
		h.Errorf("Resize to no columns = %v, want Invalid", err)
	}
	for _, size := range []shell.TTY{{Cols: 100, Rows: 30}, {Cols: 300, Rows: 1}} {
		if err := a.Resize(size); err != nil {
			h.Fatalf("Resize = %v", err)
		}
		h.shown(a, map[uint16]string{30: "30 100\r\n", 1: "1 300\r\n"}[size.Rows])
	}
	h.touch(r, "go")
	h.wait(id)
	if out, _ := h.read(h.b.Recoverable, id); !strings.Contains(string(out), "told\r\n") {
		h.Errorf("the command was not told: %q", out)
	}
	if err := a.Resize(shell.TTY{Cols: 10, Rows: 10}); err != nil {
		h.Errorf("Resize after the end = %v", err)
	}
	// A run without a terminal has no size, and is none the worse for it.
	plain := h.start(h.sh("echo one; sleep 0.1; echo two"))
	b := h.attach(h.b.Recoverable, plain, 0)
	if err := b.Resize(shell.TTY{Cols: 10, Rows: 10}); err != nil {
		h.Errorf("Resize without a terminal = %v", err)
	}
	if e := h.wait(plain); !e.Succeeded() {
		h.Errorf("exit = %+v", e)
	}
}

// testTTYDetach has one reader after another type, with nobody there in between.
func testTTYDetach(h *harness) {
	r := h.onTTY("stty -echo; echo ready; cat; echo over")
	id := h.start(r)
	a := h.attach(h.b.Recoverable, id, 0)
	h.shown(a, "ready\r\n")
	h.keys(a, "one\n")
	h.shown(a, "one\r\n")
	if err := a.Close(); err != nil {
		h.Errorf("Close = %v", err)
	}
	b := h.attach(h.peers(1)[0], id, 0)
	h.shown(b, "one\r\n")
	h.keys(b, "half")
	if err := b.CloseStdin(); err != nil {
		h.Errorf("CloseStdin = %v", err)
	}
	if e := h.wait(id); !e.Succeeded() {
		h.Errorf("exit = %+v", e)
	}
	if out, _ := h.read(h.b.Recoverable, id); string(out) != "ready\r\none\r\nhalfover\r\n" {
		h.Errorf("output = %q", out)
	}
}

// testTTYBackground has a command leave a process behind: on a terminal the kernel
// hangs it up, or it is a leftover like any other.
func testTTYBackground(h *harness) {
	got := h.run(h.onTTY("sleep 100 & echo started"))
	if !got.exit.Succeeded() || got.out != "started\r\n" || got.took > patience/2 {
		h.Errorf("exit = %+v after %v, output %q", got.exit, got.took, got.out)
	}
	r := h.onTTY("trap '' HUP; sleep 1 & echo started")
	r.Leftovers = shell.KeepLeftovers
	if got := h.run(r); !got.exit.Succeeded() || got.exit.LeftoversKept != 1 {
		h.Errorf("exit = %+v, want one kept", got.exit)
	}
}

func testTTYStreamsRefused(h *harness) {
	for what, change := range map[string]func(r *shell.Request){
		"split output": func(r *shell.Request) { r.Split = true },
		"given input":  func(r *shell.Request) { r.Stdin = []byte("x") },
		"no columns":   func(r *shell.Request) { r.TTY.Cols = 0 },
	} {
		r := h.onTTY("true")
		change(&r)
		h.refused("a terminal, and "+what, r, fault.Invalid)
	}
}
