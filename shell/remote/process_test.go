// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package remote_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/remote"
	"github.com/outlive-dev/outlive/shell/shelltest"
)

func serveHandler(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.Listener.Addr().String()
}

// helper runs a client in a process of its own.
func helper(t *testing.T, req shell.Request, args ...string) (c *exec.Cmd, out, errs *bytes.Buffer) {
	t.Helper()
	b, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	out, errs = &bytes.Buffer{}, &bytes.Buffer{}
	c = exec.Command(sandboxExe, args...)
	c.Env = append(os.Environ(), remote.TokenEnv+"="+token)
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(b), out, errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c, out, errs
}

// TestB96_ClientAndServerDie cuts the link three times and kills server and client while a
// command runs: it is executed once, its output is whole, its code right.
func TestB96_ClientAndServerDie(t *testing.T) {
	t.Parallel()
	runs, state, dir := filepath.Join(t.TempDir(), "runs"), t.TempDir(), t.TempDir()
	server := serveElsewhere(t, runs, state, "", "1m")
	l := shelltest.NewLink(t, server.addr, 0)
	url := "http://" + l.Addr()
	req := shell.Request{Dir: dir, Command: "echo x >> marker; for i in $(seq 1 40); do echo line $i; touch at$i; sleep 0.05; done; exit 9"}
	starter, _, errs := helper(t, req, "start", url, "both-r1")
	if err := starter.Wait(); err != nil {
		t.Fatalf("start: %v, %s", err, errs)
	}
	at := func(name string) {
		t.Helper()
		eventually(t, name, func() bool { return exists(filepath.Join(dir, name)) })
	}
	first, _, _ := helper(t, req, "follow", url, "both-r1")
	second, out, errs := helper(t, req, "follow", url, "both-r1")
	at("at3")
	l.Cut()
	at("at6")
	l.Cut()
	if err := first.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = first.Wait()
	at("at10")
	server.kill()
	at("at14") // the command does not care
	server = serveElsewhere(t, runs, state, server.addr, "1m")
	at("at20")
	l.HalfClose()
	at("at25")
	l.Cut()
	if err := second.Wait(); err != nil {
		t.Errorf("follow: %v", err)
	}
	var want strings.Builder
	for i := range 40 {
		want.WriteString("line " + itoa(i+1) + "\n")
	}
	if out.String() != want.String() || !strings.Contains(errs.String(), "exited 9") {
		t.Errorf("output of %d bytes, want %d; %s", out.Len(), want.Len(), errs)
	}
	if n := count(dir); n != 1 {
		t.Errorf("executed %d times", n)
	}
	c := dial(t, server.addr, remote.Options{})
	e, err := c.Wait(t.Context(), "both-r1")
	if err != nil || e.Code == nil || *e.Code != 9 || e.TotalBytes != int64(want.Len()) {
		t.Errorf("exit = %+v, %v", e, err)
	}
	// Whoever starts it again is told of the run that there was.
	if err := c.Start(t.Context(), "both-r1", shell.Fence{Generation: 1, Attempt: 2}, req); err != nil {
		t.Errorf("Start = %v", err)
	}
	if n := count(dir); n != 1 {
		t.Errorf("executed %d times", n)
	}
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

// TestB84_LeaseOutlivesTheServer kills the client of an execution, and the server before
// the lease has ended: the next server ends it.
func TestB84_LeaseOutlivesTheServer(t *testing.T) {
	t.Parallel()
	runs, state, dir := filepath.Join(t.TempDir(), "runs"), t.TempDir(), t.TempDir()
	server := serveElsewhere(t, runs, state, "", "1s")
	client, _, _ := helper(t, shell.Request{Command: "touch ready; sleep 100", Dir: dir}, "execute", "http://"+server.addr)
	eventually(t, "it runs", func() bool { return exists(filepath.Join(dir, "ready")) })
	_ = client.Process.Kill()
	_ = client.Wait()
	server.kill()
	b := openRuns(t, runs)
	ids, err := b.List(t.Context())
	if err != nil || len(ids) != 1 {
		t.Fatalf("List = %v, %v", ids, err)
	}
	if st, err := b.Recover(t.Context(), ids[0]); err != nil || st.Phase != shell.Live {
		t.Errorf("without a server: %+v, %v, want live", st, err)
	}
	serveElsewhere(t, runs, state, server.addr, "1s")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if e, err := b.Wait(ctx, ids[0]); err != nil || e.Cause != shell.Canceled {
		t.Errorf("exit = %+v, %v, want canceled", e, err)
	}
}

// TestServerDiesWhileProvisioning has the server forget a run that it only had in memory:
// the client sends it again.
func TestServerDiesWhileProvisioning(t *testing.T) {
	t.Parallel()
	b := openRuns(t, filepath.Join(t.TempDir(), "runs"))
	dying := remote.NewServer(b, &remote.ServerOptions{Token: token, Provisioner: delay{d: time.Hour}})
	s := &swap{h: dying}
	c := dial(t, serveHandler(t, s), remote.Options{})
	dir := t.TempDir()
	done := make(chan error, 1)
	go func() {
		done <- c.Start(t.Context(), "again-r1", fence1(), shell.Request{Command: "echo x >> marker", Dir: dir})
	}()
	eventually(t, "it is accepted", func() bool {
		st, err := c.Recover(t.Context(), "again-r1")
		return err == nil && st.Phase == shell.Live && !st.Started
	})
	s.set(remote.NewServer(b, &remote.ServerOptions{Token: token}))
	stop, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := dying.Stop(stop); err != nil {
		t.Errorf("Stop = %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("Start = %v", err)
	}
	if e, err := c.Wait(t.Context(), "again-r1"); err != nil || !e.Succeeded() || count(dir) != 1 {
		t.Errorf("exit = %+v, %v, executed %d times", e, err, count(dir))
	}
}

// TestServerDown starts a run where nobody listens: it was certainly not started.
func TestServerDown(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(nil)
	addr := gone.Listener.Addr().String()
	gone.Close()
	c := dial(t, addr, remote.Options{Retry: 200 * time.Millisecond})
	err := c.Start(t.Context(), "x-r1", fence1(), shell.Request{Command: "true", Dir: "/"})
	var x *shell.ExecError
	if !errors.As(err, &x) || x.Phase != shell.StepTransport || x.Started != shell.No {
		t.Errorf("Start = %v, want an ExecError of the transport, not started", err)
	}
	if _, err := c.Recover(t.Context(), "x-r1"); !errors.As(err, &x) || x.Started != shell.Maybe {
		t.Errorf("Recover = %v, want an ExecError: to be unreachable says nothing of the run", err)
	}
}

// TestB97_StrangeAnswers has something else answer: that is never an exit, nor the word
// that there is no such run.
func TestB97_StrangeAnswers(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"404 of a proxy": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "<html>not found</html>", http.StatusNotFound)
		},
		"200 and HTML": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>hello</html>")) },
		"502":          func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "bad gateway", http.StatusBadGateway) },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		},
		"empty object": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) },
		"no exit":      func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"state":"exited"}`)) },
		"cut stream": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"off":0,"data":""}` + "\n"))
		},
	} {
		c := dial(t, serveHandler(t, h), remote.Options{Retry: 100 * time.Millisecond})
		if st, err := c.Recover(t.Context(), "x-r1"); err == nil {
			t.Errorf("%s: Recover = %+v, want an error", name, st)
		}
		if e, err := c.Wait(t.Context(), "x-r1"); err == nil || strings.Contains(err.Error(), "no such run") {
			t.Errorf("%s: Wait = %+v, %v, want an error of the transport", name, e, err)
		}
		if ch, err := c.Read(t.Context(), "x-r1", 0, 0, 0); err == nil {
			t.Errorf("%s: Read = %+v, want an error", name, ch)
		}
	}
}

// TestSlowReader has one reader that takes a little and stops, and one that reads on, of
// the same run over HTTP.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	addr := serve(t, openRuns(t, filepath.Join(t.TempDir(), "runs")), remote.ServerOptions{})
	c := dial(t, addr, remote.Options{})
	req := shell.Request{Command: "seq 1 1500000", Dir: t.TempDir()}
	if err := c.Start(t.Context(), "slow-r1", fence1(), req); err != nil {
		t.Fatal(err)
	}
	slow, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/v1/runs/slow-r1/output?from=0", nil)
	if err != nil {
		t.Fatal(err)
	}
	slow.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(slow)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := resp.Body.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	e, err := c.Wait(t.Context(), "slow-r1")
	if err != nil || !e.Succeeded() {
		t.Errorf("exit = %+v, %v", e, err)
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			n := int64(0)
			for from, end := int64(0), false; !end; {
				ch, err := c.Read(t.Context(), "slow-r1", from, 1<<20, time.Second)
				if err != nil {
					t.Errorf("Read = %v", err)
					return
				}
				n += int64(len(ch.Bytes()))
				from, end = ch.Next, ch.End
			}
			if n != e.TotalBytes {
				t.Errorf("read %d bytes of %d", n, e.TotalBytes)
			}
		})
	}
	wg.Wait()
}
