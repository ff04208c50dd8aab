// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package bash_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/foreground"
	"github.com/outlive-dev/outlive/outlivetest"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/tool"
	"github.com/outlive-dev/outlive/tool/bash"
	"github.com/outlive-dev/outlive/tool/command"
	"github.com/outlive-dev/outlive/tool/internal/bench"
)

func always(o *bash.Options)   { o.Mode = shell.AlwaysForeground }
func explicit(o *bash.Options) { o.Mode = shell.ExplicitOnly }

// Given a configuration of zero values, a command has no time limit of its own and the
// call waits for the default time, as it always did.
func TestT14_ZeroValues(t *testing.T) {
	t.Parallel()
	fake(t, nil, func(t *testing.T, f *bench.Fake, b *bench.Bench) {
		began := time.Now()
		r := b.Bash(`{"command": "119s done"}`)
		if req, _ := f.Request(); req.Timeout != shell.NoTimeout || r.Detached || time.Since(began) != 119*time.Second {
			t.Errorf("timeout %v, detached %v after %v", req.Timeout, r.Detached, time.Since(began))
		}
		want(t, r, "done")
		began = time.Now()
		if r = b.Bash(`{"command": "121s done"}`); !r.Detached || time.Since(began) != 120*time.Second {
			t.Errorf("detached %v after %v, want after 120s", r.Detached, time.Since(began))
		}
	})
}

// Given each mode, what a timeout becomes: how long the call waits, how long the
// command may run, or nothing.
func TestT15_ModeTable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		mode    shell.Mode
		args    string
		timeout time.Duration // of the request
		returns time.Duration // the call, of a command of 10 s
		detach  bool
	}{
		{"auto: the timeout is the wait", shell.AutoBackground, `{"command": "10s", "timeout": 3}`, 0, 3 * time.Second, true},
		{"auto: ended before", shell.AutoBackground, `{"command": "10s", "timeout": 30}`, 0, 10 * time.Second, false},
		{"auto: asked for the background", shell.AutoBackground, `{"command": "10s", "timeout": 3, "run_in_background": true}`, 0, 100 * time.Millisecond, true},
		{"always: the timeout is the limit", shell.AlwaysForeground, `{"command": "10s", "timeout": 3}`, 3 * time.Second, 3 * time.Second, false},
		{"always: no timer", shell.AlwaysForeground, `{"command": "10s", "timeout": 300}`, 300 * time.Second, 10 * time.Second, false},
		{"always: the default is a limit, too", shell.AlwaysForeground, `{"command": "200s"}`, 120 * time.Second, 120 * time.Second, false},
		{"explicit: the timeout is the limit", shell.ExplicitOnly, `{"command": "10s", "timeout": 3}`, 3 * time.Second, 3 * time.Second, false},
		{"explicit: asked for the background", shell.ExplicitOnly, `{"command": "10s", "timeout": 3, "run_in_background": true}`, 0, 100 * time.Millisecond, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			fake(t, func(o *bash.Options) { o.Mode = tt.mode }, func(t *testing.T, f *bench.Fake, b *bench.Bench) {
				began := time.Now()
				r := b.Bash(tt.args)
				req, starts := f.Request()
				if req.Timeout != tt.timeout || time.Since(began) != tt.returns || r.Detached != tt.detach || starts != 1 {
					t.Errorf("request timeout %v, returned after %v, detached %v, %d starts: %s", req.Timeout, time.Since(began), r.Detached, starts, r.Text)
				}
				if req.Environ != nil {
					t.Errorf("the process's environment was given: %q", req.Environ)
				}
			})
		})
	}
}

// Given always-foreground, or an explicit background, whoever decides about the
// background is never asked.
func TestE90_PolicyNotConsulted(t *testing.T) {
	t.Parallel()
	never := func(o *bash.Options) { o.MayDetach = func(string) bool { panic("asked") } }
	fake(t, func(o *bash.Options) { always(o); never(o) }, func(_ *testing.T, _ *bench.Fake, b *bench.Bench) {
		b.Bash(`{"command": "300s", "timeout": 2}`)
	})
	fake(t, never, func(t *testing.T, f *bench.Fake, b *bench.Bench) {
		r := b.Bash(`{"command": "10s", "timeout": 2, "run_in_background": true}`)
		want(t, r, "timeout does not apply")
		if req, _ := f.Request(); req.Timeout != 0 {
			t.Errorf("timeout %v in the background", req.Timeout)
		}
	})
}

// Given a policy that answers differently each time it is asked, it is asked once per
// call, and what is done and what is said follow from that one answer.
func TestE61_PolicyAskedOnce(t *testing.T) {
	t.Parallel()
	asked := 0
	may := func(o *bash.Options) {
		asked = 0
		o.MayDetach = func(string) bool { asked++; return asked%2 == 1 }
	}
	fake(t, may, func(t *testing.T, f *bench.Fake, b *bench.Bench) {
		want(t, b.Bash(`{"command": "60s", "timeout": 2}`), "Still running after 2s", "!timed out")
		want(t, b.Bash(`{"command": "60s", "timeout": 3}`), "timed out after 3s", "!Still running")
		if req, _ := f.Request(); asked != 2 || req.Timeout != 3*time.Second {
			t.Errorf("asked %d times, timeout %v", asked, req.Timeout)
		}
	})
}

// Given a backend without the command's clock, every configuration that needs it is
// refused when the tool is made, and plain auto-background is not.
func TestBackendOwnsTimeout(t *testing.T) {
	t.Parallel()
	b := bench.Scripted(t, &bench.Fake{Slack: true}, bench.Options{})
	base := bash.Options{Runtime: b.Runtime, Commands: b.Commands, Dir: b.Dir}
	for name, change := range map[string]func(*bash.Options){
		"always": always, "explicit": explicit,
		"may detach":  func(o *bash.Options) { o.MayDetach = func(string) bool { return true } },
		"max runtime": func(o *bash.Options) { o.MaxRuntime = time.Hour },
	} {
		o := base
		change(&o)
		if _, err := bash.New(o); !fault.Is(err, fault.Unsupported) || fault.Hint(err) == "" {
			t.Errorf("%s: New() = %v, want Unsupported with a hint", name, err)
		}
	}
	if _, err := bash.New(base); err != nil {
		t.Errorf("New() = %v", err)
	}
}

// Given a configuration that lacks what it needs, or contradicts itself, it is refused
// when the tool is made.
func TestE95_ConfigurationIsChecked(t *testing.T) {
	t.Parallel()
	b := bench.Scripted(t, &bench.Fake{}, bench.Options{})
	base := bash.Options{Runtime: b.Runtime, Commands: b.Commands, Dir: b.Dir}
	for name, change := range map[string]func(*bash.Options){
		"mode":     func(o *bash.Options) { o.Mode = "sometimes" },
		"relative": func(o *bash.Options) { o.Dir = "x" },
		"negative": func(o *bash.Options) { o.DetachAfter = -1 },
		"env":      func(o *bash.Options) { o.Env = map[string]string{"A=B": ""} },
		"runtime":  func(o *bash.Options) { o.Runtime = nil },
		"empty":    func(o *bash.Options) { *o = bash.Options{} },
		"limit":    func(o *bash.Options) { o.Output.Limit = 5 },
	} {
		o := base
		change(&o)
		if _, err := bash.New(o); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: New() = %v, want Invalid", name, err)
		}
	}
}

// Given a backend that ignores the timeout, there is no second clock: the call goes on
// until its own context ends.
func TestT08_NoBackstop(t *testing.T) {
	t.Parallel()
	fake(t, func(o *bash.Options) { always(o); o.OnGone = foreground.CancelTask }, func(t *testing.T, f *bench.Fake, b *bench.Bench) {
		f.Deaf = true
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		r, err := b.Try(ctx, "bash", tool.Caller{}, `{"command": "for-ever partial", "timeout": 1}`)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Hour {
			t.Errorf("Call() = %v after %v, want the context's error after 1h", err, time.Since(began))
		}
		want(t, r, "partial", "[stopped on request]", "!timed out")
	})
}

// Given slow provisioning, a short timeout must not fire before the command starts:
// its clock is the backend's.
func TestE91_ProvisioningIsNotCommandTime(t *testing.T) {
	t.Parallel()
	fake(t, always, func(t *testing.T, f *bench.Fake, b *bench.Bench) {
		f.Provision = 5 * time.Second
		want(t, b.Bash(`{"command": "200ms ok", "timeout": 0.5}`), "ok", "!timed out")
	})
}

// Given a timeout of the model, it is in seconds on every path; above three days it is
// cut without overflow and said so; negative or an explicit 0 is refused before
// anything starts.
func TestE92_TimeoutUnitsAndBounds(t *testing.T) {
	t.Parallel()
	fake(t, always, func(t *testing.T, f *bench.Fake, b *bench.Bench) {
		for _, tt := range []struct {
			timeout string
			want    time.Duration
		}{{"120", 120 * time.Second}, {"0.25", 250 * time.Millisecond}, {"259200", bash.MaxTimeout}, {"1e18", bash.MaxTimeout}, {"1e300", bash.MaxTimeout}, {"null", 120 * time.Second}} {
			r := b.Bash(`{"command": "1ms", "timeout": ` + tt.timeout + `}`)
			if req, _ := f.Request(); req.Timeout != tt.want {
				t.Errorf("timeout %s became %v, want %v", tt.timeout, req.Timeout, tt.want)
			}
			if strings.Contains(tt.timeout, "e") {
				want(t, r, "timeout was cut to 259200s")
			}
		}
		_, before := f.Request()
		for _, bad := range []string{"0", "-1", `"60"`, "true"} {
			r := b.Bash(`{"command": "1ms", "timeout": ` + bad + `}`)
			if _, after := f.Request(); !r.IsError || after != before || r.Task != "" {
				t.Errorf("timeout %s: %+v, %d starts", bad, r, after-before)
			}
			want(t, r, "timeout", "Nothing was started.")
		}
	})
}

// Given the wrong name of an argument, the call is refused and the right one named: a
// limit is never silently without effect.
func TestB85_UnknownArgument(t *testing.T) {
	t.Parallel()
	fake(t, nil, func(t *testing.T, f *bench.Fake, b *bench.Bench) {
		r := b.Bash(`{"command": "1s", "timeoutMs": 5}`)
		want(t, r, `there is no argument "timeoutMs", the nearest is "timeout"`)
		for _, bad := range []string{``, `{}`, `[]`, `{"command": ""}`, `{"command": " \n"}`, `{"command": 3}`, `{"command": "x"`, `{"command": "a\u0000b"}`, `{"command":"x","cwd":"a\u0000"}`, `{"command":"x"} {}`} {
			if r := b.Bash(bad); !r.IsError {
				t.Errorf("%s is accepted: %q", bad, r.Text)
			}
		}
		if _, n := f.Request(); n != 0 {
			t.Errorf("%d commands were started", n)
		}
	})
}

// Given the two kinds of shell tool, schema and description match the mode, and the
// one without a background ignores a request for it and says so.
func TestT17_E94_DescriptionMatchesMode(t *testing.T) {
	t.Parallel()
	b := bench.Scripted(t, &bench.Fake{}, bench.Options{})
	make := func(change func(*bash.Options)) tool.Tool {
		o := bash.Options{Runtime: b.Runtime, Commands: b.Commands, Dir: b.Dir}
		change(&o)
		tl, err := bash.New(o)
		if err != nil {
			t.Fatal(err)
		}
		return tl
	}
	auto := make(func(o *bash.Options) { o.DetachAfter = 45 * time.Second })
	fore := make(always)
	if auto.Description == fore.Description || string(auto.Schema) != string(fore.Schema) {
		t.Error("the description does not depend on the mode, or the schema does")
	}
	for _, tt := range []struct{ text, part string }{
		{auto.Description, "how long this call waits, in seconds (45 unless given"},
		{auto.Description, "task_output"},
		{fore.Description, "how long the command may run, in seconds (120 unless given"},
	} {
		if !strings.Contains(tt.text, tt.part) {
			t.Errorf("description lacks %q:\n%s", tt.part, tt.text)
		}
	}
	other := make(func(o *bash.Options) { o.Names = tool.Names{Bash: "shell", Output: "read", Stop: tool.Off} })
	if other.Name != "shell" || !strings.Contains(other.Description, "- read reads") || strings.Contains(other.Description, "stops a") {
		t.Errorf("renamed tool %s:\n%s", other.Name, other.Description)
	}
	if own := make(func(o *bash.Options) { o.Description = "mine" }); own.Description != "mine" {
		t.Errorf("description is %q", own.Description)
	}
	var schema map[string]any
	if err := json.Unmarshal(auto.Schema, &schema); err != nil {
		t.Error(err)
	}
	fake(t, always, func(t *testing.T, _ *bench.Fake, b *bench.Bench) {
		r := b.Bash(`{"command": "1s out", "run_in_background": true}`)
		want(t, r, "out", "run_in_background was ignored")
		if r.Detached {
			t.Error("it went to the background")
		}
	})
}

// Given a timeout that allows going on, the call returns while the task runs, now
// public, and the same attempt completes later.
func TestE55_SameAttemptCompletesLater(t *testing.T) {
	t.Parallel()
	fake(t, nil, func(t *testing.T, f *bench.Fake, b *bench.Bench) {
		r := b.Bash(`{"command": "10s out", "timeout": 2}`)
		rec := b.Env.Get(r.Task)
		if !r.Detached || rec.State != task.Running || rec.Publication != task.OnBackground || rec.Attempt != 1 {
			t.Errorf("detached %v, %s", r.Detached, outlivetest.Line(rec))
		}
		<-time.After(10 * time.Second)
		rec = b.Env.Get(r.Task)
		if _, starts := f.Request(); rec.State != task.Completed || rec.Attempt != 1 || starts != 1 {
			t.Errorf("%s, %d starts", outlivetest.Line(rec), starts)
		}
	})
}

// Given a call that is repeated with the same id, it finds its task again: nothing is
// started twice.
func TestRepeatedCall(t *testing.T) {
	t.Parallel()
	fake(t, nil, func(t *testing.T, f *bench.Fake, b *bench.Bench) {
		c := tool.Caller{Call: "call-1"}
		first := b.Call("bash", c, `{"command": "1s out"}`)
		again := b.Call("bash", c, `{"command": "1s out"}`)
		if _, starts := f.Request(); starts != 1 || first.Task != again.Task || first.Text != again.Text {
			t.Errorf("%d starts, %+v, then %+v", starts, first, again)
		}
		if r := b.Call("bash", c, `{"command": "2s out"}`); !r.IsError {
			t.Errorf("the same call with another command: %+v", r)
		}
	})
}

// Given a caller that goes while the command runs, or before it starts, the command
// goes on, published; where the configuration says so it is stopped instead.
func TestCallerGone(t *testing.T) {
	t.Parallel()
	fake(t, nil, func(t *testing.T, f *bench.Fake, b *bench.Bench) {
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		r, err := b.Try(ctx, "bash", tool.Caller{}, `{"command": "10s out"}`)
		if err != nil || !r.Detached {
			t.Errorf("Call() = %+v, %v, want a receipt", r, err)
		}
		want(t, r, "because the caller left", string(r.Task))
		r, err = b.Try(ctx, "bash", tool.Caller{}, `{"command": "10s out"}`) // gone already
		if err != nil || !r.Detached || b.Env.Get(r.Task).Publication != task.OnBackground {
			t.Errorf("Call() = %+v, %v, want a receipt of a public task", r, err)
		}
		b.Env.Idle()
		if _, n := f.Request(); n != 2 {
			t.Errorf("%d starts", n)
		}
		<-time.After(20 * time.Second)
	})
	fake(t, func(o *bash.Options) { o.OnGone = foreground.CancelTask }, func(t *testing.T, _ *bench.Fake, b *bench.Bench) {
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		r, err := b.Try(ctx, "bash", tool.Caller{}, `{"command": "10s out"}`)
		if !errors.Is(err, context.Canceled) || r.Detached || b.Env.Get(r.Task).State != task.Canceled {
			t.Errorf("Call() = %+v, %v, want canceled", r, err)
		}
		want(t, r, "out", "[stopped on request]")
	})
}

// Given a command that goes to the background, its receipt promises a notice only if
// somebody will get one: an agent above that reads input.
func TestReceiptPromisesOnlyWhatComes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := bench.Scripted(t, &bench.Fake{}, bench.Options{Register: func(e *outlivetest.Env) {
			e.Script("reads.v1", outlivetest.Await("over")).ReadsInput = true
			e.Script("deaf.v1", outlivetest.Await("over"))
		}})
		reads, deaf := b.Env.Submit(outlive.Spec{Executor: "reads.v1"}).ID, b.Env.Submit(outlive.Spec{Executor: "deaf.v1"}).ID
		below := b.Env.Submit(outlive.Spec{Executor: "deaf.v1", Parent: reads}).ID
		for parent, told := range map[task.ID]string{reads: "You will be told", below: "You will be told", deaf: "!You will be told", "": "!You will be told"} {
			want(t, b.Call("bash", tool.Caller{Parent: parent}, `{"command": "60s", "run_in_background": true}`), told)
			want(t, b.Call("bash", tool.Caller{Parent: parent}, `{"command": "60s", "timeout": 1}`), told)
		}
		b.Env.Signal("over")
	})
}

// Given a store that refuses the task, the call is an error, and the text says that
// nothing was started.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	fake(t, nil, func(t *testing.T, f *bench.Fake, b *bench.Bench) {
		broken := fault.New(fault.Unavailable, "the disk is full")
		b.Env.Instance(outlivetest.Main).Refuse(1, broken)
		r, err := b.Try(t.Context(), "bash", tool.Caller{}, `{"command": "1s"}`)
		if !errors.Is(err, broken) || !r.IsError {
			t.Errorf("Call() = %+v, %v", r, err)
		}
		want(t, r, "the disk is full", "The command was not started.")
		if _, n := f.Request(); n != 0 {
			t.Errorf("%d starts", n)
		}
	})
}

// Given a command whose supervisor is lost in the background, it is lost for who reads
// it, and not running for ever.
func TestB82_CrashedInBackground(t *testing.T) {
	t.Parallel()
	fake(t, nil, func(t *testing.T, f *bench.Fake, b *bench.Bench) {
		r := b.Bash(`{"command": "for-ever x", "timeout": 1}`)
		f.End(command.RunID(r.Task), shell.Exit{Cause: shell.Lost, Reason: shell.ReasonSupervisorDied})
		<-time.After(time.Second)
		got := b.Call("task_output", tool.Caller{}, bench.Args("task_id", r.Task))
		want(t, got, "lost", "[outcome unknown", "supervisor_died")
	})
}
