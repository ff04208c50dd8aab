// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlive-dev/outlive/shell"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	name = filepath.Join("testdata", "render", name+".golden")
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s\nIf it should: go test ./shell -update", name, diff)
	}
}

func exited(code int) shell.Exit { return shell.Exit{Cause: shell.Exited, Code: &code, Started: true} }

func ended(cause shell.Cause, code int, change func(e *shell.Exit)) shell.Exit {
	e := exited(code)
	e.Cause = cause
	if change != nil {
		change(&e)
	}
	return e
}

func ExampleRender() {
	code := 1
	fmt.Println(shell.Render(shell.RenderInput{
		Output: []byte("\x1b[31mFAIL\x1b[0m\tshell\n"),
		Exit:   shell.Exit{Cause: shell.Exited, Code: &code},
	}, shell.RenderOptions{}))
	// Output:
	// FAIL	shell
	// [exit code: 1]
}

func ExampleRenderer() {
	zero := 0
	r := shell.NewRenderer(shell.Call{Timeout: 30 * time.Second}, shell.RenderOptions{NoticeLast: true})
	for off, data := range []string{"o", "n", "e", "\n", "t"} {
		fmt.Printf("%q ", r.Add(shell.Part{Frames: []shell.Frame{{Off: int64(off), Data: []byte(data)}}}))
	}
	fmt.Printf("%q ", r.Add(shell.Part{Exit: &shell.Exit{Cause: shell.TimedOut, TimedOut: true, Code: &zero}}))
	fmt.Printf("%q\n", r.End())
	// Output: "" "" "" "one\n" "" "" "t\n[timed out after 30s: the command was stopped; the output above is what it had produced]"
}

func ExampleReceipt() {
	fmt.Println(shell.Receipt{
		ID: "sh-0k3", Why: shell.Timer, Waited: time.Minute,
		StartedAt: time.Date(2026, 1, 2, 12, 3, 5, 0, time.UTC),
		Output:    []byte("listening on :8080\n"),
	}.Render(shell.RenderOptions{}))
	// Output:
	// [Still running after 60s, moved to background (not restarted). id=sh-0k3; started 12:03:05Z. Output so far:]
	// listening on :8080
	// [Read: task_output; stop: task_stop. You will be told when it ends.]
}

func ExampleCompletion() {
	zero := 0
	start := time.Date(2026, 1, 2, 12, 3, 5, 0, time.UTC)
	fmt.Println(shell.Completion{
		ID: "sh-0k3", Output: []byte("done\n"),
		Exit: shell.Exit{Cause: shell.Exited, Code: &zero, TotalBytes: 5, StartedAt: start, EndedAt: start.Add(12300 * time.Millisecond)},
	}.Render(shell.RenderOptions{}))
	// Output:
	// [Background command succeeded. id=sh-0k3; exit code 0; ran 12.3s; 5 bytes of output. Last output:]
	// done
	// [Read: task_output.]
}

const timedOutNote = "[timed out after 30s: the command was stopped; the output above is what it had produced]"

// rules has the rows of the rules N1 to N12: what is rendered of which input.
var rules = []struct {
	rule, name string
	in         shell.RenderInput
	want       string
}{
	{"N01", "body only", shell.RenderInput{Output: []byte("a\nb\n"), Exit: exited(0)}, "a\nb\n"},
	{"N01", "body without newline", shell.RenderInput{Output: []byte("a"), Exit: exited(0)}, "a"},
	{"N02", "empty", shell.RenderInput{Exit: exited(0)}, "[no output]"},
	{"N02", "nothing but controls", shell.RenderInput{Output: []byte("\x1b[0m\r"), Exit: exited(0)}, "[no output]"},
	{"N02", "nothing to see", shell.RenderInput{Output: []byte(" \n\n"), Exit: exited(0)}, " \n\n[no visible output]"},
	{"N03", "code", shell.RenderInput{Output: []byte("a\n"), Exit: exited(2)}, "a\n[exit code: 2]"},
	{"N03", "code, no newline", shell.RenderInput{Output: []byte("a"), Exit: exited(2)}, "a\n[exit code: 2]"},
	{"N03", "code, empty", shell.RenderInput{Exit: exited(1)}, "[exit code: 1]"},
	{"N04", "signal", shell.RenderInput{Output: []byte("a\n"), Exit: ended(shell.Exited, 137, func(e *shell.Exit) { e.Signal = "SIGKILL" })}, "a\n[killed by SIGKILL, exit code 137]"},
	{"N04", "out of memory", shell.RenderInput{Exit: ended(shell.Exited, 137, func(e *shell.Exit) {
		e.Signal, e.Reason = "SIGKILL", shell.ReasonOutOfMemory
	})}, "[killed by SIGKILL, exit code 137 – out of memory]"},
	{"N05", "timed out", shell.RenderInput{
		Call: shell.Call{Timeout: 30 * time.Second}, Output: []byte("part\n"),
		Exit: ended(shell.TimedOut, 143, func(e *shell.Exit) { e.TimedOut, e.Signal = true, "SIGTERM" }),
	}, "part\n" + timedOutNote},
	{"N05", "limit as asked for", shell.RenderInput{
		Call: shell.Call{Timeout: 2 * time.Minute, TimeoutText: "2m"}, Output: []byte("x"), Exit: ended(shell.TimedOut, 143, nil),
	}, "x\n[timed out after 2m: the command was stopped; the output above is what it had produced]"},
	{"N05", "limit in seconds", shell.RenderInput{
		Call: shell.Call{Timeout: 1500 * time.Millisecond}, Output: []byte("x"), Exit: ended(shell.TimedOut, 143, nil),
	}, "x\n[timed out after 1.5s: the command was stopped; the output above is what it had produced]"},
	{"N05", "no output", shell.RenderInput{
		Call: shell.Call{Timeout: 30 * time.Second}, Exit: ended(shell.TimedOut, 143, nil),
	}, "[timed out after 30s: the command was stopped; it had produced no output]"},
	{"N05", "limit not known", shell.RenderInput{Output: []byte("x"), Exit: ended(shell.TimedOut, 143, nil)}, "x\n[timed out: the command was stopped; the output above is what it had produced]"},
	{"N06", "stopped", shell.RenderInput{Output: []byte("x\n"), Exit: ended(shell.Canceled, 137, func(e *shell.Exit) {
		e.Signal, e.Canceled, e.Reason = "SIGKILL", true, "task_stop"
	})}, "x\n[stopped on request]"},
	{"N07", "output limit", shell.RenderInput{
		Call: shell.Call{OutputLimit: 4 << 30}, Output: []byte("x\n"), Exit: ended(shell.OutputLimited, 143, nil),
	}, "x\n[stopped: output exceeded 4 GiB]"},
	{"N07", "limit not known", shell.RenderInput{Exit: ended(shell.OutputLimited, 143, nil)}, "[stopped: output exceeded its limit]"},
	{"N08", "start failed", shell.RenderInput{Exit: ended(shell.StartFailed, 127, func(e *shell.Exit) {
		e.Reason = "exec foo: no such file or directory"
	})}, "[could not start: exec foo: no such file or directory]"},
	{"N08", "reason of another", shell.RenderInput{Exit: ended(shell.StartFailed, 126, func(e *shell.Exit) {
		e.Reason = "x]\n[exit code: 0]"
	})}, "[could not start: x) (exit code: 0)]"},
	{"N08", "no reason", shell.RenderInput{Exit: ended(shell.StartFailed, 126, nil)}, "[could not start: unknown reason]"},
	{"N09", "lost", shell.RenderInput{Output: []byte("x\n"), Exit: shell.Exit{Cause: shell.Lost, Reason: shell.ReasonRebooted, Started: true}}, "x\n[outcome unknown: the process supervising this command was lost (rebooted). " +
		"It may have run partly or fully. Check before running it again.]"},
	{"N09", "lost while timing out", shell.RenderInput{Exit: shell.Exit{Cause: shell.Lost, TimedOut: true}}, "[outcome unknown: the process supervising this command was lost. " +
		"It may have run partly or fully. Check before running it again.]"},
	{"N09", "no exit", shell.RenderInput{Output: []byte("x\n")}, "x\n[outcome unknown: no exit status was reported. " +
		"It may have run partly or fully. Check before running it again.]"},
	{"N09", "no code", shell.RenderInput{Output: []byte("x\n"), Exit: shell.Exit{Cause: shell.Exited}}, "x\n[outcome unknown: no exit status was reported. " +
		"It may have run partly or fully. Check before running it again.]"},
	{"N11", "incomplete", shell.RenderInput{Output: []byte("x"), Exit: ended(shell.Exited, 0, func(e *shell.Exit) { e.Incomplete = true })}, "x\n[some output may be missing: a background process kept the pipe open]"},
	{"N12", "one", shell.RenderInput{Output: []byte("x\n"), Exit: ended(shell.Exited, 0, func(e *shell.Exit) { e.LeftoversStopped = 1 })}, "x\n[1 background process left by this command was stopped; use run_in_background for servers]"},
	{"N12", "before the others", shell.RenderInput{Exit: ended(shell.Exited, 3, func(e *shell.Exit) {
		e.LeftoversStopped, e.Incomplete = 2, true
	})}, "[2 background processes left by this command were stopped; use run_in_background for servers]\n" +
		"[some output may be missing: a background process kept the pipe open]\n[exit code: 3]"},
	{"N12", "empty, code 0", shell.RenderInput{Exit: ended(shell.Exited, 0, func(e *shell.Exit) { e.LeftoversStopped = 2 })}, "[2 background processes left by this command were stopped; use run_in_background for servers]\n[no output]"},
	{"N12", "kept", shell.RenderInput{Output: []byte("x\n"), Exit: ended(shell.Exited, 0, func(e *shell.Exit) { e.LeftoversKept = 2 })}, "x\n[2 background processes left by this command are still running]"},
}

// rule checks the rows of one rule, buffered and in parts.
func rule(t *testing.T, name string) {
	t.Helper()
	t.Parallel()
	n := 0
	for _, tt := range rules {
		if tt.rule != name {
			continue
		}
		n++
		if diff := cmp.Diff(tt.want, shell.Render(tt.in, shell.RenderOptions{})); diff != "" {
			t.Errorf("%s: Render (-want +got):\n%s", tt.name, diff)
		}
		for _, last := range []bool{false, true} {
			if diff := cmp.Diff(tt.want, inParts(tt.in, shell.RenderOptions{NoticeLast: last}, 1)); diff != "" {
				t.Errorf("%s: in parts, notice last %v (-want +got):\n%s", tt.name, last, diff)
			}
		}
	}
	if n == 0 {
		t.Errorf("no rows for %s", name)
	}
}

// inParts renders an execution in parts of size bytes.
func inParts(in shell.RenderInput, o shell.RenderOptions, size int) string {
	r := shell.NewRenderer(in.Call, o)
	var b strings.Builder
	var off int64
	rest := in.Output
	send := func(data []byte) {
		for len(data) > 0 {
			k := min(size, len(data))
			b.WriteString(r.Add(shell.Part{Frames: []shell.Frame{{Off: off, Data: data[:k]}}}))
			data, off = data[k:], off+int64(k)
		}
	}
	for _, g := range in.Omitted {
		k := min(max(g.From-off, 0), int64(len(rest)))
		send(rest[:k])
		rest = rest[k:]
		b.WriteString(r.Add(shell.Part{Omitted: []shell.Range{g}}))
		off = max(off, g.To)
	}
	send(rest)
	b.WriteString(r.Add(shell.Part{Exit: &in.Exit}))
	b.WriteString(r.End())
	return b.String() + r.End()
}

func TestN01(t *testing.T) { rule(t, "N01") }
func TestN02(t *testing.T) { rule(t, "N02") }
func TestN03(t *testing.T) { rule(t, "N03") }
func TestN04(t *testing.T) { rule(t, "N04") }
func TestN05(t *testing.T) { rule(t, "N05") }
func TestN06(t *testing.T) { rule(t, "N06") }
func TestN07(t *testing.T) { rule(t, "N07") }
func TestN08(t *testing.T) { rule(t, "N08") }
func TestN09(t *testing.T) { rule(t, "N09") }
func TestN11(t *testing.T) { rule(t, "N11") }
func TestN12(t *testing.T) { rule(t, "N12") }
