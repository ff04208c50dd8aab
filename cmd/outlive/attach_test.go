// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// mode is how a terminal treats what is typed and shown.
func (tm *terminal) mode(t *testing.T) unix.Termios {
	t.Helper()
	m, err := unix.IoctlGetTermios(int(tm.master.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(int(tm.master.Fd()), true); err != nil {
		t.Fatal(err)
	}
	return *m
}

// shows waits until a terminal shows the text.
func (tm *terminal) shows(t *testing.T, text string) {
	t.Helper()
	if !within(patient, func() bool { return strings.Contains(tm.text(), text) }) {
		t.Fatalf("the terminal does not show %q but\n%q", text, tm.text())
	}
}

// ask presses keys until the terminal shows the answer: what is typed before live output
// begins is dropped.
func (tm *terminal) ask(t *testing.T, keys, answer string) {
	t.Helper()
	for range 20 {
		tm.press(t, keys)
		if within(patient/20, func() bool { return strings.Contains(tm.text(), answer) }) {
			return
		}
	}
	t.Fatalf("to %q the terminal does not show %q but\n%q", keys, answer, tm.text())
}

const detachKeys = "\x10\x11" // Ctrl-P Ctrl-Q

// question is a command that says its terminal's size, and answers lines until one is
// a number: that is its exit code.
const question = `echo pid $$; stty size; trap 'echo interrupted' INT
while read -r l; do case $l in size) stty size;; [0-9]*) exit $l;; *) echo "[$l]";; esac; done; echo over; exit 99`

func TestRunOnATerminalOfItsOwn(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	tm := b.onTerminal(true, "run", "--tty", "--", "bash", "-c", question)
	tm.shows(t, "10 60\n")
	if m := tm.mode(t); m.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) != 0 {
		t.Error("this side's terminal treats keys itself")
	}
	tm.press(t, "hello\r")
	tm.shows(t, "[hello]\n")
	tm.press(t, ctrlC)
	tm.shows(t, "interrupted\n")
	if err := pty.Setsize(tm.master, &pty.Winsize{Rows: 33, Cols: 111}); err != nil {
		t.Fatal(err)
	}
	until(t, "the command learns the new size", func() bool {
		tm.press(t, "size\r")
		return strings.Contains(tm.text(), "33 111\n")
	})
	tm.press(t, "7\r")
	if r := b.wait(tm.proc); r.code != 7 {
		t.Errorf("exit %d, want the command's 7\n%s", r.code, tm.text())
	}
	if m := tm.mode(t); m.Lflag&unix.ICANON == 0 || m.Lflag&unix.ECHO == 0 || m.Oflag&unix.OPOST == 0 {
		t.Errorf("the terminal is left in mode %+v", m)
	}
	if s := tm.text(); strings.Contains(s, "outlive:") {
		t.Errorf("after a command's own code it says %q", s)
	}
}

func TestDetachKeysAndAttach(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	tm := b.onTerminal(true, "run", "-t", "--name", "q", "--", "bash", "-c", question)
	pid := pidIn(t, tm.text)
	tm.shows(t, "10 60\n")
	before := tm.mode(t)
	tm.press(t, "half\x10 line"+detachKeys+"not for it\r")
	if r := b.wait(tm.proc); r.code != exitRunning {
		t.Errorf("exit %d, want 75", r.code)
	}
	tm.shows(t, "come back:      outlive attach ")
	if !alivePid(pid) {
		t.Fatal("the command is gone")
	}
	after := tm.mode(t)
	if after.Lflag&unix.ICANON == 0 || reflect.DeepEqual(before, after) {
		t.Errorf("the terminal is left as it was for the command: %+v", after)
	}
	b.once(b.only(), "task.started", "task.published")

	again := b.onTerminal(true, "attach", "--detach-keys", "ctrl-]", "q")
	again.shows(t, "10 60\n")                                // from the start
	again.ask(t, "\x15more"+detachKeys+"\r", "[more\x10]\n") // a terminal keeps the second to itself
	again.press(t, "\x1d")
	if r := b.wait(again.proc); r.code != exitRunning || !alivePid(pid) {
		t.Errorf("exit %d, want 75 and the command alive", r.code)
	}
	last := b.onTerminal(true, "attach", "--tail", "1", "q")
	last.ask(t, "last\r", "[last]\n")
	last.press(t, "5\r")
	if r := b.wait(last.proc); r.code != 5 || strings.Contains(last.text(), "10 60") {
		t.Errorf("exit %d, want 5, and only the last line\n%s", r.code, last.text())
	}
	b.once(b.only(), "task.started", "task.published", "task.completed")
}

func TestAttachAfterTheCallerWasKilled(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	tm := b.onTerminal(true, "run", "-it", "--", "bash", "-c", question)
	pid := pidIn(t, tm.text)
	tm.press(t, "one\r")
	tm.shows(t, "[one]\n")
	_ = tm.Process.Kill()
	b.wait(tm.proc)
	if !alivePid(pid) {
		t.Fatal("the command went with its caller")
	}
	id := b.only()
	again := b.onTerminal(true, "attach", id)
	again.shows(t, "[one]\n")
	again.ask(t, "two\r", "[two]\n")
	again.press(t, "\x04") // the end of its input
	if r := b.wait(again.proc); r.code != 99 || !strings.Contains(again.text(), "over\n") {
		t.Errorf("exit %d, want 99\n%s", r.code, again.text())
	}
	b.noProcess(id)
	b.want(b.run("wait", id), 99, "")
}

func TestDetachedRunWithATerminal(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.must("run", "-dit", "--", "bash", "-c", question)
	until(t, "the terminal has the size of nobody's", func() bool { return strings.Contains(b.must("logs", id), "24 80") })
	tm := b.onTerminal(true, "attach", id)
	until(t, "the terminal takes this one's size", func() bool {
		tm.press(t, "size\r")
		return strings.Contains(tm.text(), "10 60\n")
	})
	_ = tm.master.Close() // the window closes
	if r := b.wait(tm.proc); r.code != exitRunning {
		t.Errorf("exit %d, want 75", r.code)
	}
	// From a script, with input and without.
	c := b.cmd("attach", "-i", id)
	c.Stdin = strings.NewReader("3\n")
	if r := b.wait(b.start(c)); r.code != 3 {
		t.Errorf("exit %d, want 3\n%s%s", r.code, r.out, r.err)
	}
	b.want(b.run("attach", id), 3, "")
}

// A command that was started with -i takes input from whoever is attached, until the
// last one has gone.
func TestAttachToOpenInput(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	c := b.cmd("run", "-i", "--", "sh", "-c", `while read -r l; do echo "[$l]"; done; echo over; exit 4`)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	first := b.start(c)
	if _, err := io.WriteString(in, "one\n"); err != nil {
		t.Fatal(err)
	}
	until(t, "the first line is answered", func() bool { return strings.Contains(first.out.String(), "[one]") })
	id := b.only()
	tm := b.onTerminal(true, "attach", id)
	tm.shows(t, "[one]\n")
	tm.ask(t, "two\r", "[two]\n")
	_ = first.Process.Kill()
	b.wait(first)
	tm.press(t, "three\r")
	tm.shows(t, "[three]\n")
	tm.press(t, ctrlC)
	if r := b.wait(tm.proc); r.code != exitRunning {
		t.Errorf("exit %d, want 75", r.code)
	}
	b.want(b.run("wait", id), 4, "")
	r := b.run("attach", id)
	b.want(r, 4, "")
	if !strings.HasPrefix(r.out, "[one]\n[two]\n") || !strings.HasSuffix(r.out, "[three]\nover\n") {
		t.Errorf("attached after the end: %q", r.out)
	}
}

func TestAttachSignals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, on string
		sig      syscall.Signal
		code     int
		state    string
	}{
		{"terminate", "", syscall.SIGTERM, 143, "canceled"},
		{"interrupt, not attended", "", syscall.SIGINT, 130, "canceled"},
		{"hang up", "", syscall.SIGHUP, exitRunning, "running"},
		{"told to detach", "detach", syscall.SIGTERM, exitRunning, "running"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBox(t)
			id := b.must("run", "-d", "--", "sh", "-c", "echo ready; sleep 300")
			p := b.start(b.cmd("attach", "--on-signal", tt.on, id))
			until(t, "it shows the output", func() bool { return p.out.String() == "ready\n" })
			_ = p.Process.Signal(tt.sig)
			if r := b.wait(p); r.code != tt.code {
				t.Errorf("exit %d, want %d\n%s", r.code, tt.code, r.err)
			}
			if s := b.task(id).State; string(s) != tt.state {
				t.Errorf("the task is %s, want %s", s, tt.state)
			}
		})
	}
}

func TestAttachRefuses(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.must("run", "-d", "--", "sh", "-c", "echo out; echo err >&2; while [ ! -e go ]; do sleep 0.01; done; exit 3")
	b.want(b.run("attach", "nothing"), exitOwn, `no task "nothing"`)
	b.want(b.run("attach", "-i", id), exitUsage, "reads no input")
	b.want(b.run("attach", "--detach-keys", "ctrl-1", id), exitUsage, `"ctrl-1" is no key`)
	b.want(b.run("attach", "--on-signal", "ignore", id), exitUsage, "want detach or cancel")
	b.want(b.run("run", "--tty", "--detach-keys", "", "--", "true"), exitUsage, "is no key")
	p := b.start(b.cmd("attach", id))
	until(t, "it shows the output", func() bool { return strings.Contains(p.out.String(), "err") })
	if err := os.WriteFile(filepath.Join(b.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.want(b.wait(p), 3, "")
	if err := os.RemoveAll(b.store + ".runs"); err != nil {
		t.Fatal(err)
	}
	r := b.run("attach", id) // from the journal
	if b.want(r, 3, ""); r.out != "out\nerr\n" {
		t.Errorf("output %q from the journal", r.out)
	}
}
