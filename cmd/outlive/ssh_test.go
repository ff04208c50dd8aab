// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"sync"

	server "github.com/gliderlabs/ssh"
	"github.com/pkg/sftp"
	"github.com/rogpeppe/go-internal/testscript"
	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// sftpServer in the environment makes this program serve files.
const sftpServer = "OUTLIVE_TEST_SFTP"

func serveFiles() int {
	s, err := sftp.NewServer(struct {
		io.Reader
		io.WriteCloser
	}{os.Stdin, os.Stdout})
	if err == nil {
		err = s.Serve()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return 1
	}
	return 0
}

// scriptSSHD starts a host to log in to, whose home is the directory "there", and sets
// SSH to its URL without parameters and LOGIN to the parameters that let one in.
func scriptSSHD(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: sshd")
	}
	home := ts.MkAbs("there")
	ts.Check(os.Mkdir(home, 0o700))
	pub, user, err := ed25519.GenerateKey(rand.Reader)
	ts.Check(err)
	_, own, err := ed25519.GenerateKey(rand.Reader)
	ts.Check(err)
	hostKey, err := xssh.NewSignerFromKey(own)
	ts.Check(err)
	allowed, err := xssh.NewPublicKey(pub)
	ts.Check(err)
	h := &sshd{home: home, mark: "OUTLIVE_TEST_BOX=" + ts.Getenv("OUTLIVE_TEST_BOX")}
	srv := &server.Server{
		Handler: func(s server.Session) { h.run(s, exec.Command("/bin/sh", "-c", s.RawCommand())) },
		SubsystemHandlers: map[string]server.SubsystemHandler{"sftp": func(s server.Session) {
			c := exec.Command(os.Args[0]) // a process of its own, so that no other holds the file
			c.Env = []string{sftpServer + "=1"}
			h.run(s, c)
		}},
		PublicKeyHandler: func(_ server.Context, k server.PublicKey) bool { return server.KeysEqual(k, allowed) },
	}
	srv.AddHostKey(hostKey)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	h.wg.Go(func() { _ = srv.Serve(l) })
	ts.Defer(func() {
		l.Close()
		_ = srv.Close()
		sweep(ts.Getenv("OUTLIVE_TEST_BOX"))
		h.wg.Wait()
	})
	block, err := xssh.MarshalPrivateKey(user, "")
	ts.Check(err)
	id, known := ts.MkAbs("id"), ts.MkAbs("known_hosts")
	ts.Check(os.WriteFile(id, pem.EncodeToMemory(block), 0o600))
	addr := l.Addr().String()
	ts.Check(os.WriteFile(known, []byte(knownhosts.Line([]string{addr}, hostKey.PublicKey())+"\n"), 0o600))
	ts.Setenv("SSH", "ssh://tester@"+addr)
	ts.Setenv("LOGIN", "?"+url.Values{"identity": {id}, "known_hosts": {known}}.Encode())
}

// sshd executes commands as sshd does without a terminal.
type sshd struct {
	home, mark string
	wg         sync.WaitGroup
}

func (h *sshd) run(s server.Session, c *exec.Cmd) {
	h.wg.Add(1)
	defer h.wg.Done()
	c.Dir = h.home
	c.Env = append(c.Env, "HOME="+h.home, "PATH="+os.Getenv("PATH"), "GORACE="+os.Getenv("GORACE"), "FAR=yes", h.mark)
	in, err := c.StdinPipe()
	if err != nil {
		return
	}
	c.Stdout, c.Stderr = s, s.Stderr()
	if err := c.Start(); err != nil {
		return
	}
	h.wg.Go(func() {
		_, _ = io.Copy(in, s)
		in.Close()
	})
	err = c.Wait()
	var x *exec.ExitError
	if errors.As(err, &x) {
		_ = s.Exit(x.ExitCode())
	}
}
