// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package remote_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/remote"
)

// TestQueue has one slot, taken by a command that an earlier server left, and one that
// waits for it: it is seen, can be given up, and another gets the slot.
func TestQueue(t *testing.T) {
	t.Parallel()
	runs := filepath.Join(t.TempDir(), "runs")
	b := openRuns(t, runs)
	dir := t.TempDir()
	if err := b.Start(t.Context(), "first-r1", fence1(), shell.Request{Command: "while ! test -e go; do sleep 0.02; done", Dir: dir}); err != nil {
		t.Fatal(err)
	}
	c := dial(t, serve(t, b, remote.ServerOptions{Slots: 1}), remote.Options{})
	req := shell.Request{Command: "echo x >> marker", Dir: dir}
	started := make(chan error, 2)
	for _, id := range []shell.RunID{"second-r1", "third-r1"} {
		go func() { started <- c.Start(t.Context(), id, fence1(), req) }()
		eventually(t, "it is queued", func() bool {
			st, err := c.Recover(t.Context(), id)
			return err == nil && st.Phase == shell.Live && !st.Started && st.Digest == req.Digest()
		})
	}
	if ids, err := c.List(t.Context()); err != nil || len(ids) != 3 {
		t.Errorf("List = %v, %v, want three", ids, err)
	}
	other := req
	other.Command += " "
	if err := c.Start(t.Context(), "second-r1", fence1(), other); !errors.Is(err, shell.ErrDigest) {
		t.Errorf("Start of another command = %v, want %v", err, shell.ErrDigest)
	}
	if err := c.Stop(t.Context(), "second-r1", shell.Fence{}, shell.StopRequest{}); !errors.Is(err, shell.ErrFenced) {
		t.Errorf("Stop with an old fence = %v, want %v", err, shell.ErrFenced)
	}
	if err := c.Stop(t.Context(), "second-r1", fence1(), shell.StopRequest{Reason: "enough"}); err != nil {
		t.Errorf("Stop = %v", err)
	}
	if e, err := c.Wait(t.Context(), "second-r1"); err != nil || e.Started || e.Cause != shell.Canceled || e.Reason != "enough" {
		t.Errorf("exit = %+v, %v, want canceled, not started", e, err)
	}
	if n := count(dir); n != 0 {
		t.Errorf("executed %d times while the slot is taken", n)
	}
	if code, body := request(t, "POST", "http://"+serve(t, b, remote.ServerOptions{})+"/v1/runs/first-r1/stop", `{"generation":1,"attempt":1,"grace_ms":-7}`, nil); code != 400 {
		t.Errorf("stop with a bad grace = %d %s, want 400", code, body)
	}
	if err := b.Stop(t.Context(), "first-r1", fence1(), shell.StopRequest{Grace: shell.AtOnce}); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := <-started; err != nil {
			t.Errorf("Start = %v", err)
		}
	}
	if e, err := c.Wait(t.Context(), "third-r1"); err != nil || !e.Succeeded() || count(dir) != 1 {
		t.Errorf("exit = %+v, %v, executed %d times", e, err, count(dir))
	}
}

// TestTLS goes over TLS, whose certificate must be trusted.
func TestTLS(t *testing.T) {
	t.Parallel()
	s := remote.NewServer(openRuns(t, filepath.Join(t.TempDir(), "runs")), &remote.ServerOptions{Token: token})
	h := httptest.NewUnstartedServer(s)
	h.EnableHTTP2 = true
	h.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	h.StartTLS()
	t.Cleanup(h.Close)
	pool := x509.NewCertPool()
	pool.AddCert(h.Certificate())
	c, err := remote.Dial(h.URL, &remote.Options{Token: token, TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	resp, err := c.Execute(t.Context(), shell.Request{Command: "echo over TLS", Dir: t.TempDir()})
	if err != nil || string(resp.Output) != "over TLS\n" {
		t.Errorf("Execute = %+v, %v", resp, err)
	}
	stranger, err := remote.Dial(h.URL, &remote.Options{Token: token, Retry: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := stranger.List(ctx); fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("List without trust = %v, want Unavailable because of the certificate", err)
	}
}
