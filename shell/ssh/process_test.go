// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ssh_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/shelltest"
	"github.com/outlive-dev/outlive/shell/ssh"
)

// helper runs a client in a process of its own.
func helper(t *testing.T, req shell.Request, args ...string) (c *exec.Cmd, out, errs *bytes.Buffer) {
	t.Helper()
	b, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	out, errs = &bytes.Buffer{}, &bytes.Buffer{}
	c = exec.Command(hostExe, args...)
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(b), out, errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c, out, errs
}

// TestB96_ClientServerAndLinkDie cuts the link three times, kills the client and the
// process that serves on the host while a command runs: it is executed once, its
// output is whole, its code right.
func TestB96_ClientServerAndLinkDie(t *testing.T) {
	t.Parallel()
	h := newHost(t, "").serve(t)
	l := shelltest.NewLink(t, h.addr, 0)
	login, dir := h.login(t, l.Addr()), t.TempDir()
	req := shell.Request{Dir: dir, Command: "echo x >> marker; for i in $(seq 1 40); do echo line $i; touch at$i; sleep 0.05; done; exit 9"}
	starter, _, errs := helper(t, req, "start", login, "all-r1")
	if err := starter.Wait(); err != nil {
		t.Fatalf("start: %v, %s", err, errs)
	}
	at := func(name string) {
		t.Helper()
		eventually(t, name, func() bool { return exists(filepath.Join(dir, name)) })
	}
	first, _, _ := helper(t, req, "follow", login, "all-r1")
	second, out, errs := helper(t, req, "follow", login, "all-r1")
	at("at3")
	l.Cut()
	at("at6")
	l.Cut()
	if err := first.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = first.Wait()
	at("at10")
	h.killServers(t)
	at("at14") // the command does not care
	l.HalfClose()
	at("at25")
	l.Cut()
	if err := second.Wait(); err != nil {
		t.Errorf("follow: %v", err)
	}
	var want strings.Builder
	for i := range 40 {
		fmt.Fprintf(&want, "line %d\n", i+1)
	}
	if out.String() != want.String() || !strings.Contains(errs.String(), "exited 9") {
		t.Errorf("output of %d bytes, want %d; %s", out.Len(), want.Len(), errs)
	}
	c := h.dial(t, h.addr, ssh.Options{})
	e, err := c.Wait(t.Context(), "all-r1")
	if err != nil || e.Code == nil || *e.Code != 9 || e.TotalBytes != int64(want.Len()) {
		t.Errorf("exit = %+v, %v", e, err)
	}
	// Whoever starts it again is told of the run that there was.
	if err := c.Start(t.Context(), "all-r1", shell.Fence{Generation: 1, Attempt: 2}, req); err != nil {
		t.Errorf("Start = %v", err)
	}
	if n := count(dir); n != 1 {
		t.Errorf("executed %d times", n)
	}
}

// TestB84_LeaseOutlivesTheServer kills the client of an execution, and the process that
// serves before the lease has ended: the next one ends the command.
func TestB84_LeaseOutlivesTheServer(t *testing.T) {
	t.Parallel()
	h := newHost(t, "").serve(t)
	dir := t.TempDir()
	client, _, _ := helper(t, shell.Request{Command: "touch ready; sleep 100", Dir: dir}, "execute", h.login(t, h.addr))
	eventually(t, "it runs", func() bool { return exists(filepath.Join(dir, "ready")) })
	_ = client.Process.Kill()
	_ = client.Wait()
	h.killServers(t)
	c := h.dial(t, h.addr, ssh.Options{})
	ids, err := c.List(t.Context())
	if err != nil || len(ids) != 1 {
		t.Fatalf("List = %v, %v", ids, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	eventually(t, "the lease ends it", func() bool { // to ask without waiting is not to watch
		st, err := c.Recover(ctx, ids[0])
		return err == nil && st.Phase == shell.Finished && st.Exit.Cause == shell.Canceled
	})
}

// TestHeldOverCut cuts the link of a reader that holds output back and feeds input:
// nothing is lost and nothing is fed twice.
func TestHeldOverCut(t *testing.T) {
	t.Parallel()
	h := newHost(t, "").serve(t)
	l := shelltest.NewLink(t, h.addr, 0)
	c := h.dial(t, l.Addr(), ssh.Options{})
	req := shell.Request{Command: "cat; echo over", Dir: t.TempDir(), StdinOpen: true, Output: shell.Output{SpoolHead: 1 << 10, SpoolTail: 1 << 20}}
	if err := c.Start(t.Context(), "held-r1", fence1(), req); err != nil {
		t.Fatal(err)
	}
	a, err := c.Attach(t.Context(), "held-r1", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	var want strings.Builder
	for i := range 600_000 {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if n, err := a.WriteStdin(t.Context(), []byte(want.String())); err != nil || n != want.Len() {
			t.Errorf("WriteStdin = %d, %v", n, err)
		}
		if err := a.CloseStdin(); err != nil {
			t.Errorf("CloseStdin = %v", err)
		}
	})
	var got bytes.Buffer
	cuts := 0
	for end := false; !end; {
		ch, err := a.Read(t.Context(), 0)
		if err != nil || len(ch.Omitted) > 0 {
			t.Fatalf("Read = %+v, %v after %d bytes", ch.Omitted, err, got.Len())
		}
		got.Write(ch.Bytes())
		_ = a.Ack(ch.Next)
		end = ch.End
		if cuts < 3 && got.Len() > (cuts+1)*want.Len()/4 {
			cuts++
			l.Cut()
		}
	}
	wg.Wait()
	want.WriteString("over\n")
	if cuts != 3 || got.String() != want.String() {
		t.Errorf("%d bytes over %d cuts, want the same %d", got.Len(), cuts, want.Len())
	}
}

// TestOneServer has many clients at once: one process serves them, and it ends when it
// is told to, the commands going on.
func TestOneServer(t *testing.T) {
	t.Parallel()
	h := newHost(t, "").serve(t)
	req := shell.Request{Command: "touch ready; while ! test -e go; do sleep 0.02; done; exit 3", Dir: t.TempDir()}
	var wg sync.WaitGroup
	for range 8 {
		c := h.dial(t, h.addr, ssh.Options{})
		wg.Go(func() {
			if err := c.Start(t.Context(), "one-r1", fence1(), req); err != nil {
				t.Errorf("Start = %v", err)
			}
		})
	}
	wg.Wait()
	pids := h.servers()
	if len(pids) != 1 {
		t.Fatalf("processes %v serve, want one", pids)
	}
	eventually(t, "it runs", func() bool { return exists(filepath.Join(req.Dir, "ready")) })
	if err := syscall.Kill(pids[0], syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is gone", func() bool { return len(h.servers()) == 0 })
	c := h.dial(t, h.addr, ssh.Options{})
	if st, err := c.Recover(t.Context(), "one-r1"); err != nil || st.Phase != shell.Live {
		t.Errorf("Recover = %+v, %v, want live", st, err)
	}
	if err := exec.Command("touch", filepath.Join(req.Dir, "go")).Run(); err != nil {
		t.Fatal(err)
	}
	if e, err := c.Wait(t.Context(), "one-r1"); err != nil || *e.Code != 3 {
		t.Errorf("exit = %+v, %v", e, err)
	}
}

// TestSecrets looks for a value of the environment, and for the command's text, in every
// argument list and in every file of the host.
func TestSecrets(t *testing.T) {
	t.Parallel()
	h := newHost(t, "").serve(t)
	c := h.dial(t, h.addr, ssh.Options{})
	const secret = "s3cr3t-value-of-a-variable"
	req := shell.Request{
		Command: "test \"$TOKEN\" = \"$OTHER\" && touch ready; sleep 100", Dir: t.TempDir(),
		Env: map[string]string{"TOKEN": secret, "OTHER": secret},
	}
	if err := c.Start(t.Context(), "secret-r1", fence1(), req); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs with the value", func() bool { return exists(filepath.Join(req.Dir, "ready")) })
	for _, where := range [][]string{{"-r", secret, h.home}, {"-r", secret, h.runs}} {
		if out, err := exec.Command("grep", where...).Output(); err == nil {
			t.Errorf("the value is in a file: %s", out)
		}
	}
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range procs {
		if line := slurp(p); strings.Contains(line, secret) || strings.Contains(line, "$TOKEN") {
			t.Errorf("it is in an argument list: %q", line)
		}
	}
	if err := c.Stop(t.Context(), "secret-r1", fence1(), shell.StopRequest{Grace: shell.AtOnce}); err != nil {
		t.Errorf("Stop = %v", err)
	}
	if _, err := c.Wait(t.Context(), "secret-r1"); err != nil {
		t.Errorf("Wait = %v", err)
	}
}

// TestLinger lets the process that serves end when nobody needs it: with no connection,
// and no lease or reader that would be lost.
func TestLinger(t *testing.T) {
	t.Parallel()
	h := newHost(t, "")
	h.env = []string{"HOST_LINGER=200ms"}
	h.serve(t)
	c := h.dial(t, h.addr, ssh.Options{})
	if _, err := c.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(h.servers()); n != 1 {
		t.Errorf("%d processes serve", n)
	}
	if err := c.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	eventually(t, "it has ended", func() bool { return len(h.servers()) == 0 })
	later := h.dial(t, h.addr, ssh.Options{})
	began := time.Now()
	if _, err := later.List(t.Context()); err != nil {
		t.Errorf("List = %v", err)
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("a new one took %v", took)
	}
}
