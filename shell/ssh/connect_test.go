// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ssh_test

import (
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/ssh"
)

func TestDialRefuses(t *testing.T) {
	t.Parallel()
	for _, u := range []string{
		"", "ssh://", "http://h", "host", "ssh://h#x", "ssh://h?no=1", "ssh://h?identity=", "ssh://h?identity=rel",
		"ssh://h?identity=/a&identity=/b", "ssh://h:x",
	} {
		if _, err := ssh.Dial(u, nil); fault.KindOf(err) != fault.Invalid {
			t.Errorf("Dial(%q) = %v, want Invalid", u, err)
		}
	}
	if _, err := ssh.Dial("ssh://me:hunter2@h", nil); fault.KindOf(err) != fault.Invalid || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("Dial with a password = %v, want Invalid, and not the password", err)
	}
}

// with returns a URL with a parameter changed.
func with(t *testing.T, rawURL, name, value string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// refused connects, and starts a run, where neither must get through.
func refused(t *testing.T, h *host, rawURL string, kind fault.Kind, says ...string) {
	t.Helper()
	c, err := ssh.Dial(rawURL, &ssh.Options{Agent: "/no/such/agent"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Connect(t.Context())
	text := ""
	if err != nil {
		text = err.Error() + " " + fault.Hint(err)
	}
	for _, s := range says {
		if !strings.Contains(text, s) {
			t.Errorf("Connect = %q, want it to say %q", text, s)
		}
	}
	if fault.KindOf(err) != kind {
		t.Errorf("Connect = %v, want %v", err, kind)
	}
	dir := t.TempDir()
	began := time.Now()
	err = c.Start(t.Context(), "refused-r1", fence1(), shell.Request{Command: "echo x >> marker", Dir: dir})
	var x *shell.ExecError
	if !errors.As(err, &x) || x.Started != shell.No || x.Phase != shell.StepProvision || fault.KindOf(err) != kind {
		t.Errorf("Start = %v, want an ExecError of the provisioning, not started, %v", err, kind)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("Start took %v: what is final is not tried again", took)
	}
	// It says nothing of a run that somebody else may have started.
	if _, err := c.Recover(t.Context(), "refused-r1"); !errors.As(err, &x) || x.Started != shell.Maybe {
		t.Errorf("Recover = %v, want an ExecError that says nothing of the run", err)
	}
	if n := count(dir); n > 0 {
		t.Errorf("executed %d times", n)
	}
	if n := h.executed.Load(); kind == fault.Forbidden && n > 0 && !strings.Contains(text, "on the host") {
		t.Errorf("%d commands were executed on the host", n)
	}
}

func TestUnknownHost(t *testing.T) {
	t.Parallel()
	h := newHost(t, "").serve(t)
	print := xssh.FingerprintSHA256(h.key.signer.PublicKey())
	none := filepath.Join(t.TempDir(), "none")
	refused(t, h, with(t, h.login(t, h.addr), "known_hosts", none), fault.Forbidden, "not known", print, none)
	other := newHost(t, "").serve(t) // a file that knows another host
	refused(t, h, with(t, h.login(t, h.addr), "known_hosts", file(t, other.login(t, other.addr), "known_hosts")), fault.Forbidden, "not known", print)
}

// file returns the file that a URL's parameter names.
func file(t *testing.T, rawURL, name string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query().Get(name)
}

func TestChangedKey(t *testing.T) {
	t.Parallel()
	h := newHost(t, "")
	h.serve(t)
	login := h.login(t, h.addr)
	known := file(t, login, "known_hosts")
	line := knownhosts.Line([]string{h.addr}, newKey(t).signer.PublicKey())
	if err := os.WriteFile(known, []byte("# hosts\n"+line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, h, login, fault.Forbidden, "has changed", known+":2", "ssh-keygen -R", xssh.FingerprintSHA256(h.key.signer.PublicKey()))
	revoked := "@revoked * " + strings.SplitN(knownhosts.Line([]string{h.addr}, h.key.signer.PublicKey()), " ", 2)[1]
	if err := os.WriteFile(known, []byte(revoked+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, h, login, fault.Forbidden, "revoked")
}

func TestWrongIdentity(t *testing.T) {
	t.Parallel()
	h := newHost(t, "").serve(t)
	login := h.login(t, h.addr)
	id := file(t, login, "identity")
	newKey(t).save(t, id, "")
	refused(t, h, login, fault.Forbidden, "does not let tester in", id)
	h.user.save(t, id, "secret")
	refused(t, h, login, fault.Forbidden, "passphrase", "ssh-add "+id)
	refused(t, h, with(t, login, "identity", id+".none"), fault.Forbidden, id+".none")
	if n := h.executed.Load(); n > 0 {
		t.Errorf("%d commands were executed on the host", n)
	}
}

// TestAgent logs in with a key of the agent: one that it was given alone, and one whose
// file has a passphrase.
func TestAgent(t *testing.T) {
	t.Parallel()
	h := newHost(t, "").serve(t)
	ring := agent.NewKeyring()
	for _, k := range []key{newKey(t), h.user} {
		if err := ring.Add(agent.AddedKey{PrivateKey: k.raw}); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp("", "a") // a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = agent.ServeAgent(ring, c)
		}
	}()
	login := h.login(t, h.addr)
	h.user.save(t, file(t, login, "identity"), "secret")
	u, err := url.Parse(login)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Del("identity")
	u.RawQuery = q.Encode()
	for _, rawURL := range []string{login, u.String()} {
		c, err := ssh.Dial(rawURL, &ssh.Options{Agent: l.Addr().String()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Connect(t.Context()); err != nil {
			t.Errorf("Connect(%s) = %v", rawURL, err)
		}
		if err := c.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	}
}

// TestHostTells checks what the program tells of the host.
func TestHostTells(t *testing.T) {
	t.Parallel()
	h := newHost(t, "")
	h.env = []string{"SECRET=hunter2", "LANG=C.UTF-8"}
	h.noise = "Welcome!\n{\"to\": \"the host\"}\n"
	h.serve(t)
	for dir, want := range map[string]string{"": h.home, "/": h.home, "/~": h.home, "/~/a": h.home + "/a", "/srv/b/": "/srv/b"} {
		c, err := ssh.Dial(strings.Replace(h.login(t, h.addr), "?", dir+"?", 1), nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Connect(t.Context())
		env := strings.Join(got.Environ, "\n")
		if err != nil || got.Dir != want || strings.Contains(env, "hunter2") || !strings.Contains(env, "LANG=C.UTF-8") || !strings.Contains(env, "HOME="+h.home) {
			t.Errorf("Connect with %q = %+v, %v, want directory %s", dir, got, err, want)
		}
		if err := c.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		if _, err := c.Connect(t.Context()); fault.KindOf(err) != fault.Closed {
			t.Errorf("Connect after Close = %v, want Closed", err)
		}
	}
}

// TestPlaced finds no program on the host, one that is broken, and one that is another.
func TestPlaced(t *testing.T) {
	t.Parallel()
	whole, err := os.ReadFile(hostExe)
	if err != nil {
		t.Fatal(err)
	}
	long := append(whole[:len(whole):len(whole)], "more"...) // it runs, and says its sum
	for name, content := range map[string][]byte{
		"none": nil, "half of it": whole[:len(whole)/2], "another sum": long, "something else": []byte("#!/bin/sh\necho hello\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, "").serve(t)
			if err := os.Remove(h.program()); err != nil {
				t.Fatal(err)
			}
			if content != nil {
				if err := os.WriteFile(h.program(), content, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			old, recent := filepath.Join(filepath.Dir(h.program()), "shim-old"), filepath.Join(filepath.Dir(h.program()), "shim-recent")
			for _, f := range []string{old, recent} {
				if err := os.WriteFile(f, nil, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			then := time.Now().Add(-31 * 24 * time.Hour)
			if err := os.Chtimes(old, then, then); err != nil {
				t.Fatal(err)
			}
			c := h.dial(t, h.addr, ssh.Options{Patience: 2 * time.Second})
			if _, err := c.Connect(t.Context()); err != nil {
				t.Fatalf("Connect = %v", err)
			}
			if got := slurp(h.program()); got != string(whole) {
				t.Errorf("the program on the host has %d bytes, want %d", len(got), len(whole))
			}
			if fi, err := os.Stat(h.program()); err != nil || fi.Mode().Perm() != 0o700 {
				t.Errorf("its mode is %v, %v", fi.Mode(), err)
			}
			if exists(old) || !exists(recent) {
				t.Errorf("the old program is there: %v, the recent one: %v", exists(old), exists(recent))
			}
			left, _ := filepath.Glob(filepath.Dir(h.program()) + "/*.tmp")
			if n := h.uploads.Load(); n != 1 || len(left) > 0 {
				t.Errorf("placed %d times, %v is left", n, left)
			}
			again := h.dial(t, h.addr, ssh.Options{})
			if _, err := again.Connect(t.Context()); err != nil || h.uploads.Load() != 1 {
				t.Errorf("Connect again = %v, placed %d times", err, h.uploads.Load())
			}
		})
	}
}

func TestCannotPlace(t *testing.T) {
	t.Parallel()
	t.Run("no sftp", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, "")
		h.noSFTP = true
		h.serve(t)
		if err := os.Remove(h.program()); err != nil {
			t.Fatal(err)
		}
		refused(t, h, h.login(t, h.addr), fault.Unsupported, "sftp", "copy "+hostExe)
	})
	t.Run("another machine", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, "").serve(t)
		alien := filepath.Join(t.TempDir(), "alien")
		if err := os.WriteFile(alien, []byte("\x7fELF of another machine"), 0o700); err != nil {
			t.Fatal(err)
		}
		refused(t, h, with(t, h.login(t, h.addr), "exe", alien), fault.Unsupported, "does not execute", "linux/")
	})
	t.Run("no room for it", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, "").serve(t)
		if err := os.RemoveAll(filepath.Dir(h.program())); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Dir(h.program()), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, h, h.login(t, h.addr), fault.Unsupported, "place the program", ".cache/outlive")
	})
	t.Run("the program cannot serve", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, "").serve(t)
		if err := os.Chmod(filepath.Dir(h.runs), 0o777); err != nil {
			t.Fatal(err)
		}
		refused(t, h, h.login(t, h.addr), fault.Forbidden, "on the host", "written by others")
	})
}

// TestSilent has a host that answers nothing: it is not waited for without end.
func TestSilent(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h := newHost(t, "")
	c := h.dial(t, l.Addr().String(), ssh.Options{Patience: 200 * time.Millisecond, Retry: 100 * time.Millisecond})
	if _, err := c.Connect(t.Context()); fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "silent") {
		t.Errorf("Connect = %v, want Unavailable", err)
	}
	err = c.Start(t.Context(), "silent-r1", fence1(), shell.Request{Command: "true", Dir: "/"})
	var x *shell.ExecError
	if !errors.As(err, &x) || x.Phase != shell.StepTransport || x.Started != shell.No {
		t.Errorf("Start = %v, want an ExecError of the transport, not started", err)
	}
}
