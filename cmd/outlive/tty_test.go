// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// terminal is a command on a pseudo-terminal of its own.
type terminal struct {
	*proc
	master *os.File
	screen *buffer
}

// onTerminal starts a command whose three streams are a terminal, its controlling one
// when control is set; else it is a background process group that can be stopped.
func (b *box) onTerminal(control bool, args ...string) *terminal {
	b.t.Helper()
	opened, tty, err := pty.Open()
	if err != nil {
		b.t.Skip("no pseudo-terminals here: ", err)
	}
	if err := pty.Setsize(opened, &pty.Winsize{Rows: 10, Cols: 60}); err != nil {
		b.t.Fatal(err)
	}
	// To be closed while somebody reads it must not block.
	fd, err := unix.FcntlInt(opened.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	opened.Close()
	if err := unix.SetNonblock(fd, true); err != nil {
		b.t.Fatal(err)
	}
	master := os.NewFile(uintptr(fd), "terminal")
	c := b.cmd(args...)
	c.Env = append(c.Env, "TERM=xterm")
	c.Stdin, c.Stdout, c.Stderr = tty, tty, tty
	if control {
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	} else {
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
	tm := &terminal{master: master, screen: &buffer{}}
	tm.proc = b.start(c)
	tty.Close()
	go func() { _, _ = io.Copy(tm.screen, master) }()
	b.t.Cleanup(func() { _ = master.Close() })
	return tm
}

// text is what the screen was sent, with plain line ends.
func (tm *terminal) text() string { return strings.ReplaceAll(tm.screen.String(), "\r\n", "\n") }

func (tm *terminal) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := io.WriteString(tm.master, keys); err != nil {
		t.Fatal(err)
	}
}

const ctrlC = "\x03"

func TestCtrlCOnceDetaches(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	text, open := b.gate()
	tm := b.onTerminal(true, "run", "--", "sh", "-c", text+"exit 8")
	pid := pidIn(t, tm.text)
	began := time.Now()
	tm.press(t, ctrlC)
	until(t, "it says what Ctrl-C does", func() bool { return strings.Contains(tm.text(), "detaching; Ctrl-C again within 2 s cancels") })
	r := b.wait(tm.proc)
	if took := time.Since(began); r.code != exitRunning || took < mindChange {
		t.Errorf("exit %d after %v, want 75 after 2s", r.code, took)
	}
	id := b.only()
	until(t, "the screen shows the id", func() bool { return strings.Contains(tm.text(), "still running as "+id) })
	if !alivePid(pid) {
		t.Error("the command is gone")
	}
	b.once(id, "task.started", "task.published")
	open()
	b.want(b.run("wait", id), 8, "")
	b.once(id, "task.started", "task.published", "task.completed")
}

func TestCtrlCTwiceCancels(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	tm := b.onTerminal(true, "run", "--", "sh", "-c", "echo pid $$; sleep 300")
	pidIn(t, tm.text)
	tm.press(t, ctrlC)
	until(t, "it says what Ctrl-C does", func() bool { return strings.Contains(tm.text(), "Ctrl-C again") })
	tm.press(t, ctrlC)
	if r := b.wait(tm.proc); r.code != exitCanceled {
		t.Errorf("exit %d, want 6\n%s", r.code, tm.text())
	}
	id := b.only()
	if v := b.task(id); v.State != "canceled" {
		t.Errorf("state %s, want canceled", v.State)
	}
	b.noProcess(id)
	if k := b.kinds(id); k["task.published"] != 0 {
		t.Errorf("entries %v, want no task.published", k)
	}
}

func TestNoInputIsNotAttended(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	tm := b.onTerminal(true, "--no-input", "run", "--", "sh", "-c", "echo pid $$; sleep 300")
	pidIn(t, tm.text)
	tm.press(t, ctrlC)
	if r := b.wait(tm.proc); r.code != 130 {
		t.Errorf("exit %d, want 130\n%s", r.code, tm.text())
	}
}

func TestClosedTerminalDetaches(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"silent": "echo pid $$; while [ ! -e go ]; do sleep 0.01; done; exit 4",
		"loud":   "echo pid $$; while [ ! -e go ]; do echo more; sleep 0.01; done; exit 4",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			tm := b.onTerminal(true, "run", "--", "sh", "-c", text)
			pidIn(t, tm.text)
			if err := tm.master.Close(); err != nil {
				t.Fatal(err)
			}
			if r := b.wait(tm.proc); r.code != exitRunning {
				t.Errorf("exit %d, want 75", r.code)
			}
			id := b.only()
			b.once(id, "task.started", "task.published")
			if err := os.WriteFile(filepath.Join(b.dir, "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			b.want(b.run("wait", id), 4, "")
			b.once(id, "task.started", "task.published", "task.completed")
		})
	}
}

// stateOf is a process's state as the kernel names it, such as T for stopped.
func stateOf(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return rest[:1]
}

func TestStopStopsOnlyTheWatching(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		bytes string
		code  int
		lost  bool
	}{
		"little": {"1000", 7, false},
		"much":   {"60000000", exitOwn, true}, // far more than is kept
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			done := filepath.Join(b.dir, "done")
			text, open := b.gate()
			tm := b.onTerminal(false, "run", "--", "sh", "-c",
				text+"head -c "+tt.bytes+" /dev/zero | tr '\\0' x; echo; echo >done; exit 7")
			pidIn(t, tm.text)
			_ = tm.Process.Signal(syscall.SIGTSTP)
			until(t, "run is stopped", func() bool { return stateOf(tm.Process.Pid) == "T" })
			open()
			until(t, "the command goes on", func() bool {
				_, err := os.Stat(done)
				return err == nil
			})
			b.must("run", "--", "true") // the store is free
			_ = tm.Process.Signal(syscall.SIGCONT)
			r := b.wait(tm.proc)
			if r.code != tt.code {
				t.Errorf("exit %d, want %d", r.code, tt.code)
			}
			until(t, "the screen shows the rest", func() bool {
				s := tm.text()
				if tt.lost {
					return strings.Contains(s, "bytes of output were lost")
				}
				return strings.Count(s, "x") == 1000
			})
		})
	}
}

var escape = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]")

func TestListOnATerminal(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.must("run", "-d", "--name", "long", "--", "sh", "-c", "sleep 300; echo this is much too long for a line of sixty columns")
	tm := b.onTerminal(true, "ps")
	if r := b.wait(tm.proc); r.code != 0 {
		t.Fatal(tm.text())
	}
	until(t, "the list is shown", func() bool { return strings.Contains(tm.text(), "…") })
	for line := range strings.Lines(tm.text()) {
		if plain := []rune(strings.TrimSuffix(escape.ReplaceAllString(line, ""), "\n")); len(plain) > 60 {
			t.Errorf("%d columns, want at most 60: %s", len(plain), string(plain))
		}
	}
	if !escape.MatchString(tm.text()) {
		t.Error("no color on a terminal")
	}
	b.env = append(b.env, "NO_COLOR=1")
	if tm = b.onTerminal(true, "ps"); b.wait(tm.proc).code != 0 || escape.MatchString(tm.text()) {
		t.Errorf("with NO_COLOR: %q", tm.text())
	}
}

func TestWatchOnATerminal(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	tm := b.onTerminal(true, "ps", "-w")
	until(t, "the head is shown", func() bool { return strings.Contains(tm.text(), "COMMAND") })
	id := b.must("run", "-d", "--", "sleep", "300")
	until(t, "the task is drawn", func() bool { return strings.Contains(tm.text(), id[len(id)-8:]) })
	b.must("cancel", id)
	until(t, "it is drawn over", func() bool {
		s := tm.text()
		return !strings.Contains(s[strings.LastIndex(s, "COMMAND"):], id[len(id)-8:])
	})
	tm.press(t, ctrlC)
	if r := b.wait(tm.proc); r.code != 0 {
		t.Errorf("exit %d, want 0", r.code)
	}
}
