// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/store/sqlite"
)

func TestFullQueue(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	st, err := sqlite.Open(t.Context(), b.store, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := outlive.New(st, nil).SetQueue(t.Context(), store.Queue{Name: "q", Limit: 1}); err != nil {
		t.Fatal(err)
	}
	st.Close()

	first := b.must("run", "-d", "--queue", "q", "--", "sleep", "300")
	r := b.run("run", "-d", "--queue", "q", "--name", "second", "--", "true")
	if r.code != 0 || !strings.Contains(r.err, "needs a worker") {
		t.Fatalf("run -d in a full queue = %+v", r)
	}
	if got := b.must("why", "second"); !strings.Contains(got, "queue full") || !strings.Contains(got, "1 of 1 run") {
		t.Errorf("why:\n%s", got)
	}
	follow := b.start(b.cmd("logs", "-f", "second"))
	if got := b.must("cancel", "second"); !strings.HasSuffix(got, " canceled") {
		t.Errorf("cancel printed %q", got)
	}
	b.want(b.wait(follow), 0, "")
	r = b.run("retry", "second")
	if r.code != 0 || !strings.Contains(r.err, "needs a worker") {
		t.Errorf("retry in a full queue = %+v", r)
	}
	b.must("cancel", strings.TrimSpace(r.out))

	p := b.start(b.cmd("run", "--queue", "q", "--", "true"))
	until(t, "run says that it waits", func() bool { return strings.Contains(p.err.String(), "waits for its queue") })
	_ = p.Process.Signal(syscall.SIGINT)
	b.want(b.wait(p), 130, "outlive: run: ")

	p = b.start(b.cmd("run", "--queue", "q", "--", "sh", "-c", "echo $HOME"))
	until(t, "run says that it waits", func() bool { return strings.Contains(p.err.String(), "waits for its queue") })
	b.must("cancel", first)
	if r := b.wait(p); r.code != 0 || r.out != b.dir+"\n" {
		t.Errorf("a run whose queue has a place again = %+v", r)
	}
	b.must("run", "--queue", "q", "--", "true")
}
