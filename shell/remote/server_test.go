// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package remote_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/remote"
)

// request sends a request as curl would and returns status and body.
func request(t *testing.T, method, url, body string, change func(r *http.Request)) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Outlive-Generation", "1")
	r.Header.Set("Outlive-Attempt", "1")
	if change != nil {
		change(r)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestWire goes through the operations the way a script does.
func TestWire(t *testing.T) {
	t.Parallel()
	base := "http://" + serve(t, openRuns(t, filepath.Join(t.TempDir(), "runs")), remote.ServerOptions{}) + "/v1/runs"
	dir := t.TempDir()
	spec := `{"command":"echo x >> marker; echo out; exit 3","dir":"` + dir + `","timeout_ms":60000}`
	if code, body := request(t, "PUT", base+"/w-r1", spec, nil); code != 201 || !strings.Contains(body, `"run":"w-r1"`) {
		t.Errorf("PUT = %d %s, want 201", code, body)
	}
	if code, body := request(t, "PUT", base+"/w-r1", spec, nil); code != 200 {
		t.Errorf("PUT again = %d %s, want 200", code, body)
	}
	if code, body := request(t, "GET", base+"/w-r1/output?from=0", "", nil); code != 200 || !strings.Contains(body, `"data":"b3V0Cg=="`) ||
		!strings.Contains(body, `"exit":{"cause":"exited","code":3`) {
		t.Errorf("output = %d %s", code, body)
	}
	if code, body := request(t, "GET", base+"/w-r1", "", nil); code != 200 || !strings.Contains(body, `"state":"exited"`) || !strings.Contains(body, `"t_started"`) {
		t.Errorf("GET = %d %s", code, body)
	}
	if code, body := request(t, "PUT", base+"/w-r1", strings.Replace(spec, "exit 3", "exit 4", 1), nil); code != 409 || !strings.Contains(body, `"conflict"`) {
		t.Errorf("PUT of another command = %d %s, want 409", code, body)
	}
	old := func(r *http.Request) { r.Header.Set("Outlive-Attempt", "0") }
	if code, body := request(t, "PUT", base+"/w-r1", spec, old); code != 409 || !strings.Contains(body, `"fenced"`) {
		t.Errorf("PUT with an old fence = %d %s, want 409", code, body)
	}
	if code, body := request(t, "POST", base+"/w-r1/stop", `{"cause":"canceled","grace_ms":100,"generation":0,"attempt":9}`, nil); code != 409 || !strings.Contains(body, `"fenced"`) {
		t.Errorf("stale stop = %d %s, want 409", code, body)
	}
	if code, body := request(t, "POST", base+"/w-r1/stop", `{"cause":"canceled","grace_ms":100,"generation":1,"attempt":1}`, nil); code != 200 {
		t.Errorf("stop after the end = %d %s, want 200", code, body)
	}
	if code, body := request(t, "GET", base, "", nil); code != 200 || !strings.Contains(body, `["w-r1"]`) {
		t.Errorf("list = %d %s", code, body)
	}
	eventually(t, "it is released", func() bool {
		code, _ := request(t, "DELETE", base+"/w-r1", "", nil)
		return code == 204
	})
	for _, q := range []struct{ method, path, body string }{{"PUT", "/w-r1", spec}, {"GET", "/w-r1", ""}} {
		if code, body := request(t, q.method, base+q.path, q.body, nil); code != 410 || !strings.Contains(body, `"finished"`) {
			t.Errorf("%s after the release = %d %s, want 410", q.method, code, body)
		}
	}
	if code, body := request(t, "GET", base+"/unknown-r1", "", nil); code != 404 || !strings.Contains(body, `"not_found"`) {
		t.Errorf("GET of no run = %d %s, want 404", code, body)
	}
	if got := count(dir); got != 1 {
		t.Errorf("executed %d times", got)
	}
}

// TestBadInput sends what must be refused before anything starts.
func TestBadInput(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "in"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/", filepath.Join(root, "out")); err != nil {
		t.Fatal(err)
	}
	b := openRuns(t, filepath.Join(t.TempDir(), "runs"))
	base := "http://" + serve(t, b, remote.ServerOptions{Root: root, MaxBody: 1 << 20}) + "/v1/runs"
	in := `"dir":"` + root + `/in"`
	for _, tt := range []struct {
		name, path, body string
		code             int
		change           func(r *http.Request)
	}{
		{"B85 unknown field", "/a-r1", `{"command":"true","timeoutMs":1,` + in + `}`, 400, nil},
		{"unknown field inside", "/a-r1", `{"command":"true","output":{"head":1},` + in + `}`, 400, nil},
		{"two values", "/a-r1", `{"command":"true",` + in + `}{}`, 400, nil},
		{"T21 explicit 0", "/a-r1", `{"command":"true","timeout_ms":0,` + in + `}`, 400, nil},
		{"negative limit", "/a-r1", `{"command":"true","timeout_ms":-5,` + in + `}`, 400, nil},
		{"limit that is text", "/a-r1", `{"command":"true","timeout_ms":"5",` + in + `}`, 400, nil},
		{"NUL", "/a-r1", `{"command":"true\u0000",` + in + `}`, 400, nil},
		{"no command", "/a-r1", `{` + in + `}`, 400, nil},
		{"bad umask", "/a-r1", `{"command":"true","umask":4096,` + in + `}`, 400, nil},
		{"bad id", "/A_r1", `{"command":"true",` + in + `}`, 400, nil},
		{"id that is a path", "/..%2f..%2fx", `{"command":"true",` + in + `}`, 400, nil},
		{"outside the root", "/a-r1", `{"command":"true","dir":"/"}`, 403, nil},
		{"outside by dots", "/a-r1", `{"command":"true","dir":"` + root + `/in/../.."}`, 403, nil},
		{"outside by a link", "/a-r1", `{"command":"true","dir":"` + root + `/out/tmp"}`, 403, nil},
		{"outside, not there", "/a-r1", `{"command":"true","dir":"` + root + `/out/no/such"}`, 403, nil},
		{"beside the root", "/a-r1", `{"command":"true","dir":"` + root + `x"}`, 403, nil},
		{"oversize", "/a-r1", `{"command":"` + strings.Repeat("x", 2<<20) + `",` + in + `}`, 413, nil},
		{"no fence", "/a-r1", `{"command":"true",` + in + `}`, 400, func(r *http.Request) { r.Header.Del("Outlive-Attempt") }},
		{"bad fence", "/a-r1", `{"command":"true",` + in + `}`, 400, func(r *http.Request) { r.Header.Set("Outlive-Attempt", "x") }},
		{"no token", "/a-r1", `{"command":"true",` + in + `}`, 401, func(r *http.Request) { r.Header.Del("Authorization") }},
		{"bad token", "/a-r1", `{"command":"true",` + in + `}`, 401, func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") }},
		{"other scheme", "/a-r1", `{"command":"true",` + in + `}`, 401, func(r *http.Request) { r.Header.Set("Authorization", token) }},
		{"other host", "/a-r1", `{"command":"true",` + in + `}`, 421, func(r *http.Request) { r.Host = "evil.example:80" }},
		{"web page", "/a-r1", `{"command":"true",` + in + `}`, 403, func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1") }},
	} {
		if code, body := request(t, "PUT", base+tt.path, tt.body, tt.change); code != tt.code || !strings.Contains(body, `"title"`) {
			t.Errorf("%s: PUT = %d %.300s, want %d", tt.name, code, body, tt.code)
		}
	}
	if ids, err := b.List(t.Context()); err != nil || len(ids) != 0 {
		t.Errorf("List() = %v, %v, want nothing", ids, err)
	}
	// A directory that is missing inside the root is the command's own failure.
	if code, body := request(t, "PUT", base+"/gone-r1", `{"command":"true","dir":"`+root+`/in/gone"}`, nil); code != 201 {
		t.Errorf("PUT = %d %s, want 201", code, body)
	}
	if code, body := request(t, "GET", base+"/gone-r1?wait=10s", "", nil); code != 200 || !strings.Contains(body, `"start_failed"`) {
		t.Errorf("GET = %d %s, want start_failed", code, body)
	}
}

// TestDialRefuses checks what is wrong with an address, before anything is sent.
func TestDialRefuses(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "127.0.0.1:1", "ftp://127.0.0.1", "http://", "http://192.0.2.1:80", "http://example.com", "http://u:p@127.0.0.1", "http://127.0.0.1/x", "http://127.0.0.1?x"} {
		if _, err := remote.Dial(url, nil); fault.KindOf(err) != fault.Invalid {
			t.Errorf("Dial(%q) = %v, want Invalid", url, err)
		}
	}
}

// TestToken has the client find the server's token, also a new one.
func TestToken(t *testing.T) {
	t.Parallel()
	runs, dir := filepath.Join(t.TempDir(), "runs"), filepath.Join(t.TempDir(), "tokens")
	b := openRuns(t, runs)
	first, second := remote.NewToken(), remote.NewToken()
	s := &swap{h: remote.NewServer(b, &remote.ServerOptions{Token: first})}
	addr := serveHandler(t, s)
	c, err := remote.Dial("http://"+addr, &remote.Options{TokenDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.List(t.Context()); fault.KindOf(err) != fault.Forbidden || fault.Hint(err) == "" {
		t.Errorf("List without a token = %v, want Forbidden and a hint", err)
	}
	path, err := remote.SaveToken(dir, addr, first)
	if err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("token file: %v, %v, want mode 0600", fi.Mode(), err)
	}
	if _, err := c.List(t.Context()); err != nil {
		t.Errorf("List = %v", err)
	}
	s.set(remote.NewServer(b, &remote.ServerOptions{Token: second}))
	if _, err := c.List(t.Context()); fault.KindOf(err) != fault.Forbidden {
		t.Errorf("List with the old token = %v, want Forbidden", err)
	}
	if _, err := remote.SaveToken(dir, addr, second); err != nil {
		t.Fatal(err)
	}
	if _, err := c.List(t.Context()); err != nil {
		t.Errorf("List with the new token = %v", err)
	}
}

// swap is a handler that is replaced, as when a server is started again.
type swap struct {
	mu sync.Mutex
	h  http.Handler
}

func (s *swap) set(h http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h = h
}

func (s *swap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	h := s.h
	s.mu.Unlock()
	h.ServeHTTP(w, r)
}

// TestLease leaves a run with a lease alone: it is stopped, one without goes on.
func TestLease(t *testing.T) {
	t.Parallel()
	b := openRuns(t, filepath.Join(t.TempDir(), "runs"))
	state := filepath.Join(t.TempDir(), "leases")
	addr := serve(t, b, remote.ServerOptions{Lease: 700 * time.Millisecond, StateDir: state})
	base := "http://" + addr + "/v1/runs"
	dir := t.TempDir()
	for id, more := range map[string]string{"leased-r1": `,"lease":true`, "free-r1": "", "watched-r1": `,"lease":true`} {
		spec := `{"argv":["sleep","100"],"dir":"` + dir + `"` + more + `}`
		if code, body := request(t, "PUT", base+"/"+id, spec, nil); code != 201 {
			t.Fatalf("PUT %s = %d %s", id, code, body)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = dial(t, addr, remote.Options{}).Wait(ctx, "watched-r1") })
	e, err := b.Wait(t.Context(), "leased-r1")
	if err != nil || e.Cause != shell.Canceled || e.Reason == "" {
		t.Errorf("exit = %+v, %v, want canceled", e, err)
	}
	for _, id := range []shell.RunID{"free-r1", "watched-r1"} {
		if st, err := b.Recover(t.Context(), id); err != nil || st.Phase != shell.Live {
			t.Errorf("%s = %+v, %v, want live", id, st, err)
		}
	}
	cancel() // now nobody watches
	wg.Wait()
	if e, err := b.Wait(t.Context(), "watched-r1"); err != nil || e.Cause != shell.Canceled {
		t.Errorf("exit = %+v, %v, want canceled", e, err)
	}
	if err := b.Stop(t.Context(), "free-r1", fence1(), shell.StopRequest{Grace: shell.AtOnce}); err != nil {
		t.Errorf("Stop = %v", err)
	}
	if _, err := b.Wait(t.Context(), "free-r1"); err != nil {
		t.Errorf("Wait = %v", err)
	}
	eventually(t, "no lease is noted any more", func() bool {
		left, err := os.ReadDir(state)
		return err == nil && len(left) == 0
	})
}

// TestSecrets looks for the value of a variable in everything the server writes.
func TestSecrets(t *testing.T) {
	t.Parallel()
	runs := filepath.Join(t.TempDir(), "runs")
	var log bytes.Buffer
	var mu sync.Mutex
	logger := slog.New(slog.NewTextHandler(writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return log.Write(p)
	}), &slog.HandlerOptions{Level: slog.LevelDebug}))
	c := dial(t, serve(t, openRuns(t, runs), remote.ServerOptions{Log: logger}), remote.Options{})
	const secret = "value-of-a-secret"
	for _, r := range []shell.Request{
		{Command: `echo ${#SECRET}`, Dir: t.TempDir(), Env: map[string]string{"SECRET": secret}},
		{Command: `echo ${#SECRET}`, Dir: t.TempDir(), Environ: []string{"PATH=/usr/bin:/bin", "SECRET=" + secret}},
	} {
		resp, err := c.Execute(t.Context(), r)
		if err != nil || string(resp.Output) != "17\n" {
			t.Errorf("Execute = %+v, %v", resp, err)
		}
		id := shell.RunID("secret-" + strings.ToLower(remote.NewToken()[:4]) + "-r1")
		if id.Valid() != nil {
			id = "secret-r1"
		}
		_ = c.Start(t.Context(), id, fence1(), r)
	}
	err := filepath.WalkDir(runs, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.Contains(slurp(path), secret) {
			t.Errorf("the value is in %s", path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	ids, _ := c.List(t.Context())
	for _, id := range ids {
		if _, err := c.Wait(t.Context(), id); err != nil {
			t.Errorf("Wait = %v", err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if log.Len() == 0 || strings.Contains(log.String(), secret) || strings.Contains(log.String(), "echo") {
		t.Errorf("the log says %s", log.String())
	}
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// blocking is a backend whose commands never end and whose clock does not work.
type blocking struct {
	shell.Recoverable
	stopped chan struct{}
	once    sync.Once
}

func (b *blocking) Start(context.Context, shell.RunID, shell.Fence, shell.Request) error { return nil }

func (b *blocking) Recover(context.Context, shell.RunID) (shell.State, error) {
	select {
	case <-b.stopped:
		return shell.State{Phase: shell.Finished, Exit: &shell.Exit{Cause: shell.Canceled, Canceled: true, Started: true}}, nil
	default:
		return shell.State{Phase: shell.Live, Started: true}, nil
	}
}

func (b *blocking) Wait(ctx context.Context, _ shell.RunID) (shell.Exit, error) {
	select {
	case <-b.stopped:
		return shell.Exit{Cause: shell.Canceled, Canceled: true, Started: true}, nil
	case <-ctx.Done():
		return shell.Exit{}, ctx.Err()
	}
}

func (b *blocking) Read(ctx context.Context, _ shell.RunID, from int64, _ int, wait time.Duration) (shell.Chunk, error) {
	select {
	case <-b.stopped:
		return shell.Chunk{Next: from, End: true}, nil
	case <-ctx.Done():
		return shell.Chunk{Next: from}, ctx.Err()
	case <-time.After(wait):
		return shell.Chunk{Next: from}, nil
	}
}

func (b *blocking) Stop(context.Context, shell.RunID, shell.Fence, shell.StopRequest) error {
	b.once.Do(func() { close(b.stopped) })
	return nil
}

func (b *blocking) Release(context.Context, shell.RunID, shell.Fence) error { return nil }

func (b *blocking) Capabilities() shell.Capabilities { return shell.Capabilities{} }

// TestT08_NoBackstop has a backend that ignores the time limit: nobody else has a clock.
func TestT08_NoBackstop(t *testing.T) {
	t.Parallel()
	c := dial(t, serve(t, &blocking{stopped: make(chan struct{})}, remote.ServerOptions{}), remote.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := c.Execute(ctx, shell.Request{Command: "x", Dir: "/", Timeout: 50 * time.Millisecond})
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("Execute = %v before its context ended", err)
	case <-time.After(2 * time.Second):
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Execute = %v, want the context's error", err)
	}
}
