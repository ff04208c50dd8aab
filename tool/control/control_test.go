// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package control_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/foreground"
	"github.com/outlive-dev/outlive/outlivetest"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool"
	"github.com/outlive-dev/outlive/tool/control"
	"github.com/outlive-dev/outlive/tool/internal/bench"
)

var update = flag.Bool("update", false, "write the golden files")

// scripted runs a test over scripted commands and executors, in fake time.
func scripted(t *testing.T, o bench.Options, test func(t *testing.T, f *bench.Fake, b *bench.Bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &bench.Fake{}
		test(t, f, bench.Scripted(t, f, o))
	})
}

func want(t *testing.T, r tool.Result, parts ...string) {
	t.Helper()
	for _, p := range parts {
		not := strings.HasPrefix(p, "!")
		if strings.Contains(r.Text, strings.TrimPrefix(p, "!")) == not {
			t.Errorf("text is %.2000q, want %q", r.Text, p)
		}
	}
}

var nobody = tool.Caller{}

// background starts a command in the background.
func background(b *bench.Bench, c tool.Caller, command string) tool.Result {
	b.T.Helper()
	return b.Call("bash", c, bench.Args("command", command, "run_in_background", true))
}

// Given the texts that a model reads of each tool, they are what the golden files say,
// with the names in force; what is switched off is neither made nor mentioned.
func TestDescriptions(t *testing.T) {
	t.Parallel()
	for name, names := range map[string]tool.Names{
		"default": {},
		"renamed": {Bash: "sh", List: "jobs", Output: "job_read", Send: "job_tell", Answer: "job_reply", Stop: "job_kill"},
		"off":     {List: tool.Off, Send: tool.Off, Answer: tool.Off, Stop: tool.Off},
	} {
		var b bytes.Buffer
		for _, tl := range control.New(control.Options{Names: names, MayApprove: name == "renamed"}).Tools() {
			var schema bytes.Buffer
			if err := json.Compact(&schema, tl.Schema); err != nil {
				t.Errorf("%s: schema of %s: %v", name, tl.Name, err)
			}
			fmt.Fprintf(&b, "== %s\n%s%s\n", tl.Name, tl.Description, schema.String())
		}
		golden := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(text), b.String()); diff != "" {
			t.Errorf("%s (-want +got), -update writes it:\n%s", golden, diff)
		}
	}
}

// Given ids that have scrolled away, a list tells each task's id, command, state and
// age, its last line of output, and what it waits for.
func TestU23_List(t *testing.T) {
	t.Parallel()
	o := bench.Options{Register: func(e *outlivetest.Env) {
		e.Script("ask.v1", outlivetest.Emit("step one\nstep two"), outlivetest.Suspend("parked", "x"))
	}}
	scripted(t, o, func(t *testing.T, _ *bench.Fake, b *bench.Bench) {
		want(t, b.Call("task_list", nobody, `{}`), "You have no open tasks.")
		dev := background(b, nobody, "for-ever npm run dev\nListening on :8080\n")
		b.Call("bash", nobody, `{"command": "1s in the foreground"}`)
		parked := b.Env.Submit(outlive.Spec{Executor: "ask.v1", Description: "ask around"})
		<-time.After(time.Millisecond)
		later := b.Env.Submit(outlive.Spec{Executor: "ask.v1", Delay: time.Hour})
		<-time.After(59 * time.Second)
		b.Env.Idle()
		r := b.Call("task_list", nobody, `{}`)
		want(t, r, "3 open, newest first:\n",
			string(dev.Task)+" sh running; started 1m0", `"for-ever npm run dev …"`, `the last line "Listening on :8080"`,
			string(parked.ID)+" tk suspended (parked); started 59", `"ask around"`, `"step two"`,
			string(later.ID)+" tk pending, due in 59m", "!in the foreground")
		want(t, b.Call("task_list", nobody, `{"state": "suspended"}`), "1 suspended", string(parked.ID), "!"+string(dev.Task))
		want(t, b.Call("task_list", nobody, `{"limit": 1}`), "The newest 1 (open), there are more", string(later.ID), "!"+string(dev.Task))
		want(t, b.Call("task_list", nobody, `{"state": "gone"}`), `state is "gone", want open, ended`)
		want(t, b.Call("task_list", nobody, `{"limit": 101}`), "limit is 101, want 1 to 100")
	})
}

// Given three background tasks that end, each end is there to be read, none takes the
// place of another.
func TestU5_ThreeEnds(t *testing.T) {
	t.Parallel()
	scripted(t, bench.Options{}, func(t *testing.T, _ *bench.Fake, b *bench.Bench) {
		var ids []task.ID
		for i := range 3 {
			ids = append(ids, background(b, nobody, fmt.Sprintf("%ds out%d", i+1, i)).Task)
		}
		<-time.After(5 * time.Second)
		r := b.Call("task_list", nobody, `{"state": "ended"}`)
		for i, id := range ids {
			want(t, r, string(id)+" sh succeeded, exit code 0")
			want(t, b.Call("task_output", nobody, bench.Args("task_id", id)), fmt.Sprintf("out%d", i))
		}
	})
}

// Given a child that has finished, who asks for it gets its result at once, and not
// that nothing has completed yet.
func TestU9_FinishedChild(t *testing.T) {
	t.Parallel()
	o := bench.Options{Register: func(e *outlivetest.Env) { e.Script("child.v1", outlivetest.Complete("the result")) }}
	scripted(t, o, func(t *testing.T, _ *bench.Fake, b *bench.Bench) {
		child := b.Env.Submit(outlive.Spec{Executor: "child.v1"})
		b.Env.Idle()
		began := time.Now()
		r := b.Call("task_output", nobody, bench.Args("task_id", child.ID, "timeout", 600))
		want(t, r, ": completed; nothing follows]\nthe result")
		if time.Since(began) != 0 {
			t.Errorf("it took %v", time.Since(began))
		}
	})
}

// Given a context that was compacted, one short note restores the open tasks, however
// many there are.
func TestU16_U68_OneNoteForAll(t *testing.T) {
	t.Parallel()
	scripted(t, bench.Options{}, func(t *testing.T, _ *bench.Fake, b *bench.Bench) {
		if note, err := b.Control.OpenTasksNote(t.Context(), nobody); note != "" || err != nil {
			t.Errorf("OpenTasksNote() = %q, %v", note, err)
		}
		for range 3 {
			background(b, nobody, "2s "+strings.Repeat("long output ", 1000))
		}
		var last task.ID
		for range 12 {
			last = background(b, nobody, "for-ever "+strings.Repeat("long output ", 1000)).Task
		}
		<-time.After(5 * time.Second)
		note, err := b.Control.OpenTasksNote(t.Context(), nobody)
		want(t, tool.Result{Text: note}, string(last)+" sh running", "and more", "read: task_output; stop: task_stop]", "!succeeded")
		if err != nil || len(note) > 3000 {
			t.Errorf("OpenTasksNote() has %d bytes, %v", len(note), err)
		}
		if r := b.Call("task_list", nobody, `{"state": "all", "limit": 100}`); len(r.Text) > 8000 {
			t.Errorf("a list of 15 tasks has %d bytes", len(r.Text))
		}
	})
}

// Given verbose output, each read is capped by the configured limit, and what was read
// is never read again.
func TestU69_ReadsAreCappedAndNeverRepeat(t *testing.T) {
	t.Parallel()
	limits := shell.RenderOptions{MaxBytes: 5000, MaxLines: 100}
	o := bench.Options{Control: func(c *control.Options) { c.Limits = limits }}
	for name, text := range map[string]string{
		"lines":       strings.Repeat("a line of the build, which is verbose\n", 2000),
		"one line":    strings.Repeat("é", 20_000),
		"short lines": strings.Repeat("\n.\n", 3000) + "end",
		"notes":       strings.Repeat("[exit code: 0]\n", 900) + "end",
		"bad bytes":   strings.Repeat("\xff", 9000) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scripted(t, o, func(t *testing.T, _ *bench.Fake, b *bench.Bench) {
				id := background(b, nobody, "2s "+text).Task
				var got strings.Builder
				after := ""
				for range 200 {
					r := b.Call("task_output", nobody, bench.Args("task_id", id, "after", after))
					if len(r.Text) > limits.MaxBytes || strings.Count(r.Text, "\n") > limits.MaxLines {
						t.Fatalf("a page of %d bytes, %d lines", len(r.Text), strings.Count(r.Text, "\n"))
					}
					head, body, _ := strings.Cut(r.Text, "\n")
					got.WriteString(body)
					if _, after, _ = strings.Cut(strings.TrimSuffix(head, "]"), "after="); after == "" {
						break
					}
				}
				shown := strings.ToValidUTF8(text, "\ufffd")
				if name == "bad bytes" {
					shown = strings.Repeat("\ufffd", 9000) + "\n"
				}
				if name == "notes" {
					shown = strings.ReplaceAll(shown, "[", `\[`)
				}
				if got.String() != shown {
					t.Errorf("read %d bytes, want %d", got.Len(), len(shown))
				}
			})
		})
	}
}

// Given a poll of a task that has put out nothing new, nothing is shown again; new
// output is shown once. Half of a character is not output yet.
func TestU69_NothingNew(t *testing.T) {
	t.Parallel()
	scripted(t, bench.Options{}, func(t *testing.T, f *bench.Fake, b *bench.Bench) {
		id := background(b, nobody, "for-ever one\n").Task
		read := func(after string) tool.Result {
			t.Helper()
			return b.Call("task_output", nobody, `{"task_id": "`+string(id)+`", "block": false, "after": `+after+`}`)
		}
		want(t, read(`""`), "next after=4]\none\n")
		want(t, read("4"), "no new output; next after=4]", "!one")
		f.Write(id, "tw\xc3")
		want(t, read(`"4"`), "next after=6]\ntw")
		f.Write(id, "\xa9")
		want(t, read("6"), "next after=8]\né")
		if r := b.Call("task_stop", nobody, bench.Args("task_id", id)); !strings.Contains(r.Text, "stopped]") {
			t.Error(r.Text)
		}
		want(t, read("8"), "nothing follows]\n[stopped on request]", "!one")
		want(t, read("0"), "one\ntwé\n[stopped on request]")
		for _, bad := range []string{`"x"`, `"-1"`, "99", `"1-1"`} {
			want(t, read(bad), "[error: after is")
		}
	})
}

// Given a model that waits for children, one call waits as long as it says, up to ten
// minutes, and returns when the task ends: it need not ask every few seconds.
func TestU71_OneCallWaits(t *testing.T) {
	t.Parallel()
	scripted(t, bench.Options{}, func(t *testing.T, _ *bench.Fake, b *bench.Bench) {
		id := background(b, nobody, "500s noise").Task
		for _, tt := range []struct {
			args string
			want time.Duration
			text string
		}{
			{`, "block": false`, 0, "running"},
			{`, "timeout": 0`, 0, "running"},
			{``, 30 * time.Second, "running for 30"},
			{`, "timeout": 7`, 7 * time.Second, "running"},
			{`, "timeout": 9999`, 462900 * time.Millisecond, "succeeded"},
		} {
			began := time.Now()
			r := b.Call("task_output", nobody, `{"task_id": "`+string(id)+`"`+tt.args+`}`)
			if d := time.Since(began); d != tt.want {
				t.Errorf("%q took %v, want %v", tt.args, d, tt.want)
			}
			want(t, r, tt.text, "noise")
		}
		want(t, b.Call("task_output", nobody, bench.Args("task_id", id, "timeout", -1)), "timeout is -1")
	})
}

// Given tasks of others, of another parent, session or principal, and tasks that
// nobody was told of, a caller neither sees nor reaches them.
func TestScope(t *testing.T) {
	t.Parallel()
	scripted(t, bench.Options{Register: func(e *outlivetest.Env) {
		e.Script("agent.v1", outlivetest.Await("over"))
	}}, func(t *testing.T, _ *bench.Fake, b *bench.Bench) {
		one := tool.Caller{Parent: b.Env.Submit(outlive.Spec{Executor: "agent.v1", Principal: "ann"}).ID, Principal: "ann"}
		two := tool.Caller{Parent: b.Env.Submit(outlive.Spec{Executor: "agent.v1", Principal: "ann"}).ID, Principal: "ann"}
		bob := tool.Caller{Principal: "bob"}
		id := background(b, one, "for-ever secret").Task
		for _, other := range []tool.Caller{two, bob, nobody, {Parent: one.Parent}, {Session: "s", Principal: "ann"}, {Principal: "ann", Tenant: "t"}} {
			want(t, b.Call("task_list", other, `{"state": "all"}`), "!"+string(id))
			for _, name := range []string{"task_output", "task_stop"} {
				want(t, b.Call(name, other, bench.Args("task_id", id)), "There is no task", "!secret")
			}
			want(t, b.Call("task_send", other, bench.Args("task_id", id, "message", "x")), "There is no task")
			if note, err := b.Control.OpenTasksNote(t.Context(), other); strings.Contains(note, string(id)) || err != nil {
				t.Errorf("OpenTasksNote(%+v) = %q, %v", other, note, err)
			}
		}
		for _, own := range []tool.Caller{one, {Principal: "ann"}} {
			want(t, b.Call("task_list", own, `{}`), string(id))
			want(t, b.Call("task_output", own, bench.Args("task_id", id, "block", false)), "secret")
		}
		// Somebody waits for this one: it is nobody else's yet.
		w, err := b.Runtime.Watch(t.Context(), outlive.Spec{Executor: "agent.v1"}, foreground.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		hidden := w.Task().ID
		want(t, b.Call("task_list", nobody, `{}`), "!"+string(hidden))
		want(t, b.Call("task_stop", nobody, bench.Args("task_id", hidden)), "There is no task")
		b.Env.Signal("over")
		if _, err := w.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		want(t, b.Call("task_output", nobody, bench.Args("task_id", hidden)), ": completed")
	})
}

// Given the end or the beginning of an id, it names its task; one that several tasks
// have gets their ids, and an unknown one the tasks that there are. None is an error.
func TestShortAndUnknownIDs(t *testing.T) {
	t.Parallel()
	scripted(t, bench.Options{}, func(t *testing.T, _ *bench.Fake, b *bench.Bench) {
		first := background(b, nobody, "for-ever one").Task
		second := background(b, nobody, "for-ever two").Task
		for _, part := range []task.ID{first, first[len(first)-8:], first[len(first)-4:], " " + first + "\n", task.ID(strings.ToUpper(string(first)))} {
			want(t, b.Call("task_output", nobody, bench.Args("task_id", part, "block", false)), string(first), "one")
		}
		r := b.Call("task_output", nobody, bench.Args("task_id", "sh-0"))
		want(t, r, `2 tasks are meant by "sh-0"`, string(first), string(second))
		for _, unknown := range []string{"", "x", "sh-nosuchtask", "123456789012345678901234567890.371115", "[task x: y]\n"} {
			r := b.Call("task_output", nobody, bench.Args("task_id", unknown))
			if r.IsError || r.Task != "" {
				t.Errorf("%q: %+v", unknown, r)
			}
			want(t, r, "There is no task ", "Open tasks:", string(first), string(second))
		}
		r = b.Call("task_output", nobody, `{"taskid": "x"}`)
		want(t, r, `there is no argument "taskid", the nearest is "task_id"`, "task_id is missing")
	})
}

// Given a task that reads input, a message is accepted with its position, the same
// call again changes nothing, and a task that reads none, or has ended, says so.
func TestSend(t *testing.T) {
	t.Parallel()
	o := bench.Options{Register: func(e *outlivetest.Env) {
		ex := e.Script("agent.v1", outlivetest.Input(3), outlivetest.Complete("thanks"))
		ex.ReadsInput = true
	}}
	scripted(t, o, func(t *testing.T, _ *bench.Fake, b *bench.Bench) {
		id := b.Env.Submit(outlive.Spec{Executor: "agent.v1"}).ID
		b.Env.Idle()
		send := func(c tool.Caller, pairs ...any) tool.Result {
			t.Helper()
			return b.Call("task_send", c, bench.Args(append([]any{"task_id", id}, pairs...)...))
		}
		want(t, send(tool.Caller{Call: "c1"}, "message", "one"), "accepted as input 1; it is running")
		want(t, send(tool.Caller{Call: "c1"}, "message", "one"), "accepted as input 1")
		want(t, send(tool.Caller{Call: "c1"}, "message", "other"), "[error: ")
		want(t, send(nobody, "message", "two", "delivery", "steer"), "accepted as input 2")
		want(t, send(nobody, "message", "x", "delivery", "shout"), `delivery is "shout", want queue, steer or interrupt`)
		want(t, send(nobody, "message", "x", "delivery", "answer"), `delivery is "answer"`)
		want(t, send(nobody, "message", "three"), "accepted as input 3")
		b.Env.Idle()
		want(t, send(nobody, "message", "late"), "it takes nothing any more: completed")
		id = background(b, nobody, "for-ever x").Task
		want(t, send(nobody, "message", "x"), "it does not read input, so nothing was sent")
	})
}

// Given a task to stop, the text says that it is stopped, that it takes longer, or how
// it had ended.
func TestStop(t *testing.T) {
	t.Parallel()
	o := bench.Options{Register: func(e *outlivetest.Env) {
		e.Script("deaf.v1", outlivetest.Ignore(), outlivetest.Sleep(time.Minute), outlivetest.Complete("done"))
		e.Script("quick.v1", outlivetest.Fail("bad", "it went wrong"))
	}}
	scripted(t, o, func(t *testing.T, _ *bench.Fake, b *bench.Bench) {
		deaf := b.Env.Submit(outlive.Spec{Executor: "deaf.v1"}).ID
		quick := b.Env.Submit(outlive.Spec{Executor: "quick.v1"}).ID
		later := b.Env.Submit(outlive.Spec{Executor: "quick.v1", Delay: time.Hour}).ID
		b.Env.Idle()
		stop := func(id task.ID) tool.Result {
			t.Helper()
			return b.Call("task_stop", nobody, bench.Args("task_id", id, "reason", "no need"))
		}
		want(t, stop(quick), `it had ended already: failed: "it went wrong"`)
		want(t, stop(later), ": stopped]")
		want(t, stop(deaf), "stop requested; it has not ended after 10s")
		want(t, b.Call("task_list", nobody, `{}`), string(deaf)+" tk stopping")
		<-time.After(time.Minute)
		want(t, stop(deaf), "it had ended already: stopped")
		if r := b.Env.Get(deaf); r.CancelReason != "no need" {
			t.Errorf("reason %q", r.CancelReason)
		}
		want(t, b.Call("task_output", nobody, bench.Args("task_id", quick)), `failed: "it went wrong"; nothing follows]`)
	})
}

// Given updates, a result and a position inside of either, reading goes on where it
// stopped.
func TestOutputOfOtherTasks(t *testing.T) {
	t.Parallel()
	o := bench.Options{Register: func(e *outlivetest.Env) {
		e.Script("steps.v1", outlivetest.Emit("one\n"), outlivetest.Await("go"), outlivetest.Emit("two\n"), outlivetest.Complete("three"))
	}}
	scripted(t, o, func(t *testing.T, _ *bench.Fake, b *bench.Bench) {
		id := b.Env.Submit(outlive.Spec{Executor: "steps.v1"}).ID
		b.Env.Idle()
		r := b.Call("task_output", nobody, bench.Args("task_id", id, "block", false))
		want(t, r, ": running", "]\none\n")
		_, after, _ := strings.Cut(strings.SplitN(r.Text, "]", 2)[0], "after=")
		want(t, b.Call("task_output", nobody, bench.Args("task_id", id, "block", false, "after", "result+1")), "the task has no result yet")
		b.Env.Signal("go")
		r = b.Call("task_output", nobody, bench.Args("task_id", id, "after", after))
		want(t, r, ": completed; nothing follows]\ntwo\nthree", "!one")
		want(t, b.Call("task_output", nobody, bench.Args("task_id", id, "after", "result+2")), "nothing follows]\nree")
		want(t, b.Call("task_output", nobody, bench.Args("task_id", id, "after", "1+x")), "[error: ", "Pass after as it was given")
	})
}

// Given tools that are switched off, no text mentions them.
func TestSwitchedOff(t *testing.T) {
	t.Parallel()
	c := control.New(control.Options{Names: tool.Names{Output: "read", Stop: tool.Off}})
	var names []string
	for _, tl := range c.Tools() {
		names = append(names, tl.Name)
		if strings.Contains(tl.Description, "task_stop") || strings.Contains(tl.Description, "task_output") {
			t.Errorf("%s mentions a tool that is not there:\n%s", tl.Name, tl.Description)
		}
	}
	if slices.Contains(names, "task_stop") || !slices.Contains(names, "read") {
		t.Errorf("tools are %q", names)
	}
}
