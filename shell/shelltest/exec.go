// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package shelltest

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
)

// wanted is how a command should end.
type wanted struct {
	cause  shell.Cause
	code   int
	signal string
	out    string
}

// ends returns a test that runs what the request makes and compares how it ended.
func ends(make func(h *harness) shell.Request, want wanted) func(h *harness) {
	return func(h *harness) {
		if want.signal != "" && !h.capabilities().Signals {
			want.signal = "" // the code says it
		}
		r := h.run(make(h))
		if r.exit.Cause != want.cause || r.code() != want.code || r.exit.Signal != want.signal {
			h.Errorf("exit = %+v (code %d), want %s, %d, %q", r.exit, r.code(), want.cause, want.code, want.signal)
		}
		if r.out != want.out {
			h.Errorf("output = %.200q, want %.200q", r.out, want.out)
		}
		if r.exit.TotalBytes != int64(len(r.out)) {
			h.Errorf("total = %d, want %d", r.exit.TotalBytes, len(r.out))
		}
		if r.exit.Started != (want.cause != shell.StartFailed) {
			h.Errorf("started = %v with cause %s", r.exit.Started, r.exit.Cause)
		}
	}
}

func text(s string) func(h *harness) shell.Request {
	return func(h *harness) shell.Request { return h.sh(s) }
}

func program(argv ...string) func(h *harness) shell.Request {
	return func(h *harness) shell.Request { return h.argv(argv...) }
}

// script writes an executable file with the content and runs it.
func script(content string, mode os.FileMode, args ...string) func(h *harness) shell.Request {
	return func(h *harness) shell.Request {
		path := filepath.Join(h.TempDir(), "script")
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			h.Fatal(err)
		}
		return h.argv(append([]string{path}, args...)...)
	}
}

func with(make func(h *harness) shell.Request, change func(r *shell.Request)) func(h *harness) shell.Request {
	return func(h *harness) shell.Request {
		r := make(h)
		change(&r)
		return r
	}
}

func execTests() []test {
	ok := func(out string) wanted { return wanted{shell.Exited, 0, "", out} }
	failed := func(code int) wanted { return wanted{shell.StartFailed, code, "", ""} }
	long := strings.Repeat("x", 200<<10)
	return []test{
		{name: "true", fn: ends(program("true"), ok(""))},
		{name: "both streams", fn: ends(text("echo hello; echo world >&2"), ok("hello\nworld\n"))},
		{name: "code", fn: ends(text("exit 3"), wanted{shell.Exited, 3, "", ""})},
		{name: "B89_code 255", fn: ends(text("exit 255"), wanted{shell.Exited, 255, "", ""})},
		{name: "signal", fn: ends(text("kill -SEGV $$"), wanted{shell.Exited, 139, "SIGSEGV", ""})},
		{name: "B81_killed by somebody else", fn: ends(text("kill -KILL $$"), wanted{shell.Exited, 137, "SIGKILL", ""})},
		{name: "shell not found", fn: ends(text("no-such-program-x 2>/dev/null"), wanted{shell.Exited, 127, "", ""})},
		{name: "argv not found", fn: ends(program("no-such-program-x"), failed(127))},
		{name: "argv path not found", fn: ends(program("/no/such"), failed(127))},
		{name: "argv not executable", fn: ends(script("x", 0o600), failed(126))},
		{name: "argv is a directory", fn: ends(program("/"), failed(126))},
		{name: "B52_argument too long", fn: ends(program("true", long), failed(126))},
		{name: "bad interpreter", fn: ends(script("#!/no/such/interpreter\n", 0o700), failed(126))},
		{name: "argv verbatim", fn: ends(program("printf", "%s|", "a b", "$HOME", "*", "\xff", "'\"\\"), ok("a b|$HOME|*|\xff|'\"\\|"))},
		{name: "B52_200 KiB of shell text", fn: ends(text("echo "+long+" | wc -c"), ok("204801\n"))},
		// A plain shell passes on what its process has inherited, as os/exec does.
		{name: "no descriptors but three", recoverable: true, fn: ends(program("ls", "/proc/self/fd"), ok("0\n1\n2\n3\n"))},
		{name: "environment", fn: ends(with(text("echo $A $OUTLIVE_FAILPOINT $TERM"), func(r *shell.Request) { r.Env["A"] = "1" }), ok("1 dumb\n"))},
		{name: "environment changed", fn: ends(with(text("echo \"$TERM|$HOME|\""), func(r *shell.Request) { r.Env["TERM"], r.Env["HOME"] = "x", "" }), ok("x||\n"))},
		{name: "whole environment", fn: testWholeEnvironment},
		{name: "cookie", fn: testCookie},
		{name: "stdin default", fn: ends(text("cat"), ok(""))},
		{name: "B18_stdin is no open pipe", fn: ends(text("test \"$(readlink /proc/self/fd/0)\" = /dev/null && echo yes"), ok("yes\n"))},
		{name: "stdin bytes", fn: ends(with(text("cat"), func(r *shell.Request) { r.Stdin = []byte("in\x00put") }), ok("in\x00put"))},
		{name: "directory missing", fn: ends(with(program("true"), func(r *shell.Request) { r.Dir = filepath.Join(r.Dir, "no/such") }), failed(126))},
		{name: "B102_directory deleted", fn: testDirectoryDeleted},
		{name: "own session", fn: ends(text("test $(ps -o sid= -p $$) = $$ && echo yes"), ok("yes\n"))},
		{name: "B13_no terminal", fn: ends(text("(: < /dev/tty) 2>/dev/null || echo none"), ok("none\n"))},
		{name: "B13_prompts are off", fn: ends(text("echo $GIT_TERMINAL_PROMPT $GH_PROMPT_DISABLED $SSH_ASKPASS_REQUIRE"), ok("0 1 never\n"))},
		{name: "B40_text is in no argument list", fn: ends(text("pkill -f needle-$((40+2)); echo survived"), ok("survived\n"))},
		{name: "B100_set -e ends one command", fn: testSetE},
		{name: "B09_no profile", fn: ends(with(text("shopt -q login_shell; echo $?"), func(r *shell.Request) { r.Env["ENV"] = "/no/such" }), ok("1\n"))},
		{name: "umask", fn: testUmask},
		{name: "refused", fn: testRefused},
		{name: "B73_id that looks like a number", fn: testNumericID, recoverable: true},
		{name: "not offered is refused", fn: testNotOffered},
	}
}

func testWholeEnvironment(h *harness) {
	r := h.argv("/usr/bin/env")
	r.Environ = []string{"X=1"}
	got := h.run(r)
	lines := strings.Fields(got.out)
	for _, l := range lines {
		name, _, _ := strings.Cut(l, "=")
		if name != "X" && name != shell.Cookie && name != markEnv {
			h.Errorf("the command sees %s", l)
		}
	}
	if len(lines) != 3 {
		h.Errorf("environment = %q, want X, the mark and the cookie", got.out)
	}
}

func testCookie(h *harness) {
	r := h.argv("printenv", shell.Cookie)
	if h.b.Recoverable == nil {
		if got := h.run(r); strings.TrimSpace(got.out) == "" {
			h.Errorf("%s is not set", shell.Cookie)
		}
		return
	}
	id := h.start(r)
	h.wait(id)
	if out, _ := h.read(h.b.Recoverable, id); string(out) != string(id)+"\n" {
		h.Errorf("%s = %q, want %s", shell.Cookie, out, id)
	}
}

func testDirectoryDeleted(h *harness) {
	r := h.sh("rm -rf \"$PWD\"; echo gone")
	if got := h.run(r); got.code() != 0 || got.out != "gone\n" {
		h.Errorf("exit = %+v, %q", got.exit, got.out)
	}
	if got := h.run(r); got.exit.Cause != shell.StartFailed || got.exit.Reason == "" {
		h.Errorf("exit in a deleted directory = %+v, want start_failed and why", got.exit)
	}
	if got := h.run(h.sh("echo next")); got.out != "next\n" { // nothing of it stays
		h.Errorf("the next command = %+v, %q", got.exit, got.out)
	}
}

func testSetE(h *harness) {
	if got := h.run(h.sh("set -e; false; echo no")); got.code() != 1 || got.out != "" {
		h.Errorf("exit = %+v, %q", got.exit, got.out)
	}
	if got := h.run(h.sh("false; cat <<X\nyes\nX")); got.code() != 0 || got.out != "yes\n" {
		h.Errorf("exit = %+v, %q", got.exit, got.out)
	}
}

func testUmask(h *harness) {
	r := h.sh("umask")
	r.Umask = shell.UmaskOf(0o027)
	if !h.capabilities().Umask {
		h.refused("umask", r, fault.Unsupported)
		return
	}
	if got := h.run(r); got.out != "0027\n" {
		h.Errorf("umask = %q", got.out)
	}
}

// refused checks that a request is refused before anything starts.
func (h *harness) refused(what string, r shell.Request, kind fault.Kind) {
	h.Helper()
	if h.b.Shell != nil {
		if _, err := h.b.Shell.Execute(h.Context(), r); fault.KindOf(err) != kind {
			h.Errorf("%s: Execute = %v, want kind %v", what, err, kind)
		}
	}
	if h.b.Recoverable != nil {
		if err := h.b.Recoverable.Start(h.Context(), h.newID(), fence1(), r); fault.KindOf(err) != kind {
			h.Errorf("%s: Start = %v, want kind %v", what, err, kind)
		}
	}
	if r.Dir != "" && executions(r.Dir) != 0 {
		h.Errorf("%s: it was executed", what)
	}
}

func testRefused(h *harness) {
	for what, change := range map[string]func(r *shell.Request){
		"NUL in the text":       func(r *shell.Request) { r.Command += "\x00" },
		"NUL in the directory":  func(r *shell.Request) { r.Dir += "\x00" },
		"NUL in a value":        func(r *shell.Request) { r.Env["A"] = "\x00" },
		"empty command":         func(r *shell.Request) { r.Command = "" },
		"text and program":      func(r *shell.Request) { r.Argv = []string{"true"} },
		"relative directory":    func(r *shell.Request) { r.Dir = "sub" },
		"cookie":                func(r *shell.Request) { r.Env[shell.Cookie] = "x" },
		"bad name":              func(r *shell.Request) { r.Env["A=B"] = "x" },
		"negative timeout":      func(r *shell.Request) { r.Timeout = -1 },
		"negative grace":        func(r *shell.Request) { r.Grace = -2 },
		"limit without purpose": func(r *shell.Request) { r.Output.Limit = 1 },
	} {
		r := h.sh("true")
		change(&r)
		h.refused(what, r, fault.Invalid)
	}
	if h.b.Recoverable == nil {
		return
	}
	for _, id := range []shell.RunID{"", "Up-r1", "../x", "a/b", "a.b", shell.RunID(strings.Repeat("x", 65))} {
		if err := h.b.Recoverable.Start(h.Context(), id, fence1(), h.sh("true")); fault.KindOf(err) != fault.Invalid {
			h.Errorf("Start(%q) = %v, want Invalid", id, err)
		}
		if _, err := h.b.Recoverable.Recover(h.Context(), id); fault.KindOf(err) != fault.Invalid {
			h.Errorf("Recover(%q) = %v, want Invalid", id, err)
		}
	}
	if ids, err := h.b.Recoverable.List(h.Context()); err != nil || len(ids) != 0 {
		h.Errorf("List() = %v, %v, want nothing", ids, err)
	}
}

// testNumericID has an id that looks like a number, which is a name like any other.
func testNumericID(h *harness) {
	id := shell.RunID("371115371115371115371115-r1")
	h.know(id)
	if err := h.b.Recoverable.Start(h.Context(), id, fence1(), h.sh("true")); err != nil {
		h.Fatalf("Start(%s) = %v", id, err)
	}
	h.wait(id)
	if ids, err := h.b.Recoverable.List(h.Context()); err != nil || len(ids) != 1 || ids[0] != id {
		h.Errorf("List() = %v, %v, want %s", ids, err, id)
	}
}

// testNotOffered asks for everything the backend says it cannot do.
func testNotOffered(h *harness) {
	c := h.capabilities()
	for _, o := range []struct {
		what    string
		offered bool
		change  func(r *shell.Request)
	}{
		{"terminal", c.TTY, func(r *shell.Request) { r.TTY = &shell.TTY{Cols: 80, Rows: 25} }},
		{"open input", c.Stdin, func(r *shell.Request) { r.StdinOpen = true }},
		{"split output", c.Split, func(r *shell.Request) { r.Split = true }},
		{"umask", c.Umask, func(r *shell.Request) { r.Umask = shell.UmaskOf(0) }},
		{"memory", c.Memory, func(r *shell.Request) { r.Limits.Memory = 1 << 30 }},
		{"processes", c.Pids, func(r *shell.Request) { r.Limits.Pids = 100 }},
		{"processor time", c.CPU, func(r *shell.Request) { r.Limits.MilliCPU = 1000 }},
		{"open files", c.Rlimits, func(r *shell.Request) { r.Limits.Files = 100 }},
		{"processes of the user", c.Rlimits, func(r *shell.Request) { r.Limits.Processes = 100 }},
		{"time limit", c.OwnsTimeout, func(r *shell.Request) { r.Timeout = patience }},
	} {
		if !o.offered {
			r := h.sh("true")
			o.change(&r)
			h.refused(o.what, r, fault.Unsupported)
		}
	}
}
