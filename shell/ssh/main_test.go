// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ssh_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	server "github.com/gliderlabs/ssh"
	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
	"golang.org/x/sys/unix"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/ssh"
)

// hostExe is the program that is placed on hosts, and a client in a process of its own.
var hostExe, hostSum string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "outlive-shell-ssh-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	hostExe = filepath.Join(dir, "host")
	out, err := exec.Command("go", "build", "-o", hostExe, "./testdata/host").CombinedOutput()
	var b []byte
	if err == nil {
		b, err = os.ReadFile(hostExe)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s\nbuild the host's program: %v\n", out, err)
		os.Exit(1)
	}
	sum := sha256.Sum256(b)
	hostSum = hex.EncodeToString(sum[:])
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

const patience = 30 * time.Second

func fence1() shell.Fence { return shell.Fence{Generation: 1, Attempt: 1} }

// key is a key of a host or a user.
type key struct {
	signer xssh.Signer
	raw    ed25519.PrivateKey
}

func newKey(t *testing.T) key {
	t.Helper()
	_, raw, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := xssh.NewSignerFromKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	return key{s, raw}
}

// save writes the private key, with a passphrase unless that is "".
func (k key) save(t *testing.T, path, passphrase string) {
	t.Helper()
	block, err := xssh.MarshalPrivateKey(k.raw, "")
	if passphrase != "" {
		block, err = xssh.MarshalPrivateKeyWithPassphrase(k.raw, "", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
}

// host is a machine to log in to: a home, and a server that executes commands as sshd
// does. Its fields are set before it serves.
type host struct {
	home string
	runs string   // where runs are, also those of other hosts with the same
	env  []string // of every session
	key  key      // its own
	user key      // who may log in
	// sftpDelay is how long sftp takes to answer; noSFTP refuses it.
	sftpDelay time.Duration
	noSFTP    bool
	// sessions is how many commands are executed at most, 0 for any number.
	sessions int64
	// noise is what the shell of the user says before each command.
	noise string

	addr     string
	executed atomic.Int64
	uploads  atomic.Int64
	signals  atomic.Int64 // requests for signals
	srv      *server.Server
	wg       sync.WaitGroup
}

// newHost returns a host that is about to serve, with the program placed.
func newHost(t *testing.T, runs string) *host {
	t.Helper()
	h := &host{home: t.TempDir(), runs: runs, key: newKey(t), user: newKey(t)}
	if h.runs == "" {
		h.runs = filepath.Join(t.TempDir(), "runs")
	}
	state := filepath.Join(h.home, ".local", "state", "outlive", "ssh")
	for _, dir := range []string{state, filepath.Dir(h.program()), h.runs} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(h.runs, filepath.Join(state, "runs")); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(hostExe, h.program()); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *host) program() string { return filepath.Join(h.home, ".cache", "outlive", "shim-"+hostSum) }

// serve starts the server. The test's cleanup ends it and what it left running.
func (h *host) serve(t *testing.T) *host {
	t.Helper()
	h.srv = &server.Server{
		Handler:           h.exec,
		SubsystemHandlers: map[string]server.SubsystemHandler{"sftp": h.sftp},
		PublicKeyHandler: func(_ server.Context, k server.PublicKey) bool {
			return server.KeysEqual(k, h.user.signer.PublicKey())
		},
	}
	if h.noSFTP {
		h.srv.SubsystemHandlers = nil
	}
	h.srv.AddHostKey(h.key.signer)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.addr = l.Addr().String()
	h.wg.Go(func() { _ = h.srv.Serve(l) })
	t.Cleanup(func() {
		l.Close() // the server may not have begun to serve it
		h.srv.Close()
		h.killServers(t)
		h.wg.Wait()
		settle(t, h.runs)
	})
	return h
}

// exec executes a command as OpenSSH does without a terminal: it goes on when the link
// is cut, its pipes end.
func (h *host) exec(s server.Session) {
	h.wg.Add(1)
	defer h.wg.Done()
	if n := h.executed.Add(1); h.sessions > 0 && n > h.sessions {
		_ = s.Exit(1)
		return
	}
	sigs := make(chan server.Signal, 8)
	s.Signals(sigs)
	h.wg.Go(func() {
		for {
			select {
			case <-sigs:
				h.signals.Add(1)
			case <-s.Context().Done():
				return
			}
		}
	})
	if h.noise != "" {
		_, _ = io.WriteString(s, h.noise)
	}
	h.run(s, exec.Command("/bin/sh", "-c", s.RawCommand()))
}

// run connects a session with a process.
func (h *host) run(s server.Session, c *exec.Cmd) {
	c.Dir = h.home
	c.Env = append([]string{"HOME=" + h.home, "PATH=" + os.Getenv("PATH"), "USER=tester"}, h.env...)
	in, err := c.StdinPipe()
	if err != nil {
		return
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		return
	}
	errs, stderr, err := os.Pipe()
	if err != nil {
		return
	}
	c.Stdout, c.Stderr = stdout, stderr
	err = c.Start()
	stdout.Close()
	stderr.Close()
	if err != nil {
		return
	}
	h.wg.Go(func() {
		_, _ = io.Copy(in, s)
		in.Close()
	})
	var drained sync.WaitGroup
	pass := func(from *os.File, to io.Writer) {
		context.AfterFunc(s.Context(), func() { from.Close() })
		drained.Go(func() {
			_, _ = io.Copy(to, from)
			from.Close()
		})
	}
	pass(out, s)
	pass(errs, s.Stderr())
	_ = c.Wait()
	var name string
	var payload []byte
	if ws := c.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		sig := strings.TrimPrefix(unix.SignalName(ws.Signal()), "SIG")
		name, payload = "exit-signal", xssh.Marshal(struct {
			Signal          string
			Core            bool
			Error, Language string
		}{Signal: sig})
	} else {
		name, payload = "exit-status", xssh.Marshal(struct{ Status uint32 }{uint32(ws.ExitStatus())})
	}
	_, _ = s.SendRequest(name, false, payload)
	drained.Wait()
	_ = s.Close()
}

func (h *host) sftp(s server.Session) {
	h.wg.Add(1)
	defer h.wg.Done()
	t := time.NewTimer(h.sftpDelay)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.Context().Done():
		return
	}
	h.uploads.Add(1)
	h.run(s, exec.Command(hostExe, "sftp-server")) // a process of its own, as anywhere
}

// servers returns the processes that serve on the host, one for each version of the
// program, which are those that hold a lock.
func (h *host) servers() (pids []int) {
	locks, _ := filepath.Glob(filepath.Join(h.home, ".local", "state", "outlive", "ssh", "*", "lock"))
	for _, lock := range locks {
		pids = append(pids, serverIn(filepath.Dir(lock))...)
	}
	return pids
}

// serverIn returns the process that serves in a directory; 0 means that it is about to
// listen or to end.
func serverIn(path string) (pids []int) {
	dir, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer dir.Close()
	at := fmt.Sprintf("/proc/self/fd/%d/", dir.Fd()) // paths of sockets are short
	lock, err := os.Open(at + "lock")
	if err != nil {
		return nil
	}
	defer lock.Close()
	if unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil {
		return nil
	}
	c, err := net.Dial("unix", at+"sock")
	if err != nil {
		return []int{0}
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return []int{0}
	}
	pids = []int{0}
	_ = raw.Control(func(fd uintptr) {
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pids[0] = int(peer.Pid)
		}
	})
	return pids
}

// killServers kills the process that serves on the host, and waits until it is gone.
func (h *host) killServers(t *testing.T) {
	t.Helper()
	eventually(t, "the process that serves is gone", func() bool {
		pids := h.servers()
		for _, pid := range pids {
			if pid > 0 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		return len(pids) == 0
	})
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

// settle waits for the supervisors of the runs in a directory, which write into it.
func settle(t *testing.T, runs string) {
	t.Helper()
	eventually(t, "no supervisor is left", func() bool {
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, f := range files {
			if b, err := os.ReadFile(f); err == nil && bytes.Contains(b, []byte("__shim\x00"+runs+"/")) {
				return false
			}
		}
		return true
	})
}

// login returns what lets a user in at an address of the host: a URL.
func (h *host) login(t *testing.T, addr string) string {
	t.Helper()
	dir := t.TempDir()
	h.user.save(t, filepath.Join(dir, "id"), "")
	line := knownhosts.Line([]string{addr}, h.key.signer.PublicKey())
	if err := os.WriteFile(filepath.Join(dir, "known_hosts"), []byte(line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return "ssh://tester@" + addr + "?" + url.Values{
		"identity": {filepath.Join(dir, "id")}, "known_hosts": {filepath.Join(dir, "known_hosts")}, "exe": {hostExe},
	}.Encode()
}

// dial returns a client of the host at an address of it.
func (h *host) dial(t *testing.T, addr string, o ssh.Options) *ssh.Client {
	t.Helper()
	c, err := ssh.Dial(h.login(t, addr), &o)
	if err != nil {
		t.Fatalf("Dial = %v", err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return c
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func slurp(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}

func count(dir string) int { return strings.Count(slurp(filepath.Join(dir, "marker")), "x") }
