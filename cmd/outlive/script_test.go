// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts have these words beside the usual ones:
//
//	code N CMD ARG...      run it, want exit code N
//	capture VAR [REGEXP]   set VAR to the last stdout, or to what matches in it or in stderr
//	until REGEXP CMD ARG.. run it again and again until its stdout matches
//	lastline REGEXP        the last line of the last stderr
//	lines N                the number of lines of the last stdout
//	sshd                   start a host to log in to: see scriptSSHD
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("OUTLIVE_STORE", "sqlite:"+filepath.Join(e.WorkDir, "store", "s.db"))
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("GORACE", os.Getenv("GORACE"))
			e.Setenv("OUTLIVE_TEST_BOX", e.WorkDir)
			e.Defer(func() { sweep(e.WorkDir) })
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Getuid() == 0, nil
			}
			return false, errors.New("unknown condition " + cond)
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":     scriptCode,
			"capture":  scriptCapture,
			"until":    scriptUntil,
			"lastline": scriptLastLine,
			"lines":    scriptLines,
			"sshd":     scriptSSHD,
		},
	})
}

func scriptCode(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	if err != nil || neg || len(args) < 2 {
		ts.Fatalf("usage: code N CMD ARG...")
	}
	err = ts.Exec(args[1], args[2:]...)
	got, ok := isExit(err)
	if !ok || got != want {
		ts.Fatalf("%s: exit %d (%v), want %d", strings.Join(args[1:], " "), got, err, want)
	}
}

func scriptCapture(ts *testscript.TestScript, neg bool, args []string) {
	switch {
	case neg || len(args) < 1 || len(args) > 2:
		ts.Fatalf("usage: capture VAR [REGEXP]")
	case len(args) == 1:
		ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
	default:
		m := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout") + ts.ReadFile("stderr"))
		if m == nil {
			ts.Fatalf("nothing matches %s", args[1])
		}
		ts.Setenv(args[0], m[len(m)-1])
	}
}

func scriptUntil(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until REGEXP CMD ARG...")
	}
	re := regexp.MustCompile(args[0])
	if !within(patient, func() bool { return ts.Exec(args[1], args[2:]...) == nil && re.MatchString(ts.ReadFile("stdout")) }) {
		ts.Fatalf("%s never printed %s", strings.Join(args[1:], " "), args[0])
	}
}

func scriptLastLine(ts *testscript.TestScript, neg bool, args []string) {
	list := strings.Split(strings.TrimRight(ts.ReadFile("stderr"), "\n"), "\n")
	last := list[len(list)-1]
	if regexp.MustCompile(args[0]).MatchString(last) == neg {
		ts.Fatalf("the last line on stderr is %q", last)
	}
}

func scriptLines(ts *testscript.TestScript, neg bool, args []string) {
	if got := strings.Count(ts.ReadFile("stdout"), "\n"); strconv.Itoa(got) != args[0] || neg {
		ts.Fatalf("%d lines, want %s", got, args[0])
	}
}
