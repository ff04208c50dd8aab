// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestMockLLM(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	script := filepath.Join(b.dir, "script.json")
	if err := os.WriteFile(script, []byte(`{"models": {"*": [{"text": "hello"}]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	p := b.start(b.cmd("dev", "mock-llm", "--script", script))
	until(t, "it prints its URL", func() bool { return strings.HasSuffix(p.out.String(), "/v1\n") })
	url := strings.TrimSpace(p.out.String())
	res, err := http.Post(url+"/chat/completions", "application/json", strings.NewReader(`{"model": "m", "messages": [{"role": "user", "content": "hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil || !strings.Contains(string(body), `"content":"hello"`) {
		t.Errorf("answer %s, %v", body, err)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	b.want(b.wait(p), 0, "1 requests were made")

	b.want(b.run("dev", "mock-llm"), exitUsage, "script")
	b.want(b.run("dev", "mock-llm", "--script", "/does/not/exist"), exitUsage, "no such file")
	b.want(b.run("dev", "mock-llm", "--script", script, "--listen", "0.0.0.0:0"), exitUsage, "loopback")
	if err := os.WriteFile(script, []byte("{\n\"model\": 1}"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.want(b.run("dev", "mock-llm", "--script", script), exitUsage, `line 2: unknown field "model"`)
}
