// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package outlivetest_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// races lists every race that must have a test: what meets, and the name of its
// story and of its test.
func races() [][2]string {
	return [][2]string{
		{"publish × complete", "publish_complete"},
		{"publish × cancel", "publish_cancel"},
		{"publish × complete × cancel", "publish_complete_cancel"},
		{"timer × boundary", "timer_boundary"},
		{"timer × caller gone", "timer_caller_gone"},
		{"caller gone before start", "caller_gone_before_start"},
		{"publish × parent sealed", "publish_parent_sealed"},
		{"claim by another worker while projecting", "claim_elsewhere"},
		{"start fails before claim", "start_fails"},
		{"executor ignores stop", "executor_ignores_stop"},
		{"stop hook fails, then repeated", "stop_hook_fails"},
		{"waiting reached in the foreground", "waiting_in_foreground"},
		{"reader closes at the last part", "reader_closes"},
		{"process dies while deferred, before the end", "dies_deferred_before_end"},
		{"process dies while deferred, after the end", "dies_deferred_after_end"},
		{"the decision is slow while work completes", "slow_policy"},
		{"close during projection", "close_during_projection"},
		{"complete × late input, read", "late_input_read"},
		{"complete × late input, unread", "late_input_unread"},
		{"suspend × input × release", "suspend_input_release"},
		{"handoff × nested create by the old owner", "handoff_nested_create"},
		{"offer × input × seal × crash", "offer_input_seal_crash"},
		{"lease renewed × lease expired at the boundary instant", "lease_boundary"},
		{"claim committed, answer lost", "claim_answer_lost"},
		{"heartbeat hangs", "heartbeat_hangs"},
		{"cancel while renewal hangs", "cancel_while_renewal_hangs"},
		{"cancel in backoff", "cancel_in_backoff"},
		{"cancel in waiting", "cancel_in_waiting"},
		{"cancel unattended", "cancel_unattended"},
		{"cancel without a worker", "cancel_without_worker"},
		{"two managers, one task", "two_managers"},
		{"two adopters, one command", "two_adopters"},
		{"yield mid-stream", "yield_mid_stream"},
		{"laptop sleep", "laptop_sleep"},
		{"seal × send", "seal_send"},
		{"preempted turn × its input", "preempted_input"},
		{"drained turn × its input", "drained_input"},
		{"handoff × every write of the former owner", "handoff_stale_writes"},
		{"child's end × its parent's handoff", "child_end_handoff"},
		{"children's ends × their parent's wait", "children_end"},
		{"child's end × its parent's seal", "parent_sealed"},
		{"two starts in one session", "session_two_starts"},
		{"twelve continue one session", "twelve_continues"},
		{"two deciders × cancel", "two_deciders"},
		{"steer × decision", "steer_decide"},
		{"edit × withdraw × consumption", "withdraw_consume"},
		{"killed between each pair of steps", "crash_every_step"},
	}
}

const racesPage = "../docs/races.md"

func renderRaces() string {
	var b strings.Builder
	b.WriteString(`# Races

Events that meet, and what shows that the outcome is always one of the legal ones: a story on fake time, which fixes the
order, and a test with real goroutines and random delays, 100 rounds of it under the race detector. Journal, record,
notices and caller must agree, and no task may stay unpublished and unobserved.

` + "```sh" + `
go test ./outlivetest -run TestScenarios                 # all stories
go test -race ./outlivetest -run TestRace_ -rounds 1000     # all tests, more rounds; -seed N repeats one
go test -race ./outlivetest -run TestRace_ -store sqlite   # the same over SQLite
` + "```" + `

<!-- Generated from outlivetest/races_test.go: go test ./outlivetest -run TestRacesPage -update. Do not edit. -->

| what meets | story | test |
| --- | --- | --- |
`)
	for _, r := range races() {
		fmt.Fprintf(&b, "| %s | [%s](../outlivetest/testdata/scenarios/%s.txt) | `TestRace_%s` |\n", r[0], r[1], r[1], r[1])
	}
	return b.String()
}

// TestRacesPage wants each race to have its story and its test, each such test to be
// listed, and the page to be fresh.
func TestRacesPage(t *testing.T) {
	t.Parallel()
	tests := raceTests(t)
	for _, r := range races() {
		if _, err := os.Stat(filepath.Join("testdata/scenarios", r[1]+".txt")); err != nil {
			t.Errorf("%s has no story: %v", r[0], err)
		}
		i := slices.Index(tests, r[1])
		if i < 0 {
			t.Errorf("%s has no test TestRace_%s", r[0], r[1])
			continue
		}
		tests = slices.Delete(tests, i, i+1)
	}
	for _, name := range tests {
		t.Errorf("TestRace_%s is not in the list", name)
	}
	want := renderRaces()
	if *update {
		if err := os.WriteFile(racesPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(racesPage)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is stale: go test ./outlivetest -run TestRacesPage -update", racesPage)
	}
}

func raceTests(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				if name, ok := strings.CutPrefix(fn.Name.Name, "TestRace_"); ok {
					names = append(names, name)
				}
			}
		}
	}
	return names
}
