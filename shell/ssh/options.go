// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"net"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/outlive-dev/outlive/fault"
)

// Options of a client. A nil *Options means the defaults.
type Options struct {
	// Identity is the file with the key to log in with. Defaults to the parameter
	// identity of the URL, else to the keys of the agent and ~/.ssh/id_ed25519,
	// id_ecdsa and id_rsa.
	Identity string
	// Agent is the socket of the agent. Defaults to the environment variable
	// SSH_AUTH_SOCK.
	Agent string
	// KnownHosts is the file with the keys of hosts. Defaults to the parameter
	// known_hosts of the URL, else to ~/.ssh/known_hosts and /etc/ssh/ssh_known_hosts.
	KnownHosts string
	// Exe is the program that is placed on the host and executed there; it must call
	// [Main] first thing. Defaults to the parameter exe of the URL, else to the running
	// program, which must have been built for the host.
	Exe string
	// Retry is how long a call tries to reach the host again, counted from the last
	// sign of life. Defaults to 60 seconds.
	Retry time.Duration
	// Idle is after how long without a sign of life a stream counts as cut. Defaults
	// to 15 seconds.
	Idle time.Duration
	// Patience is how long one step of making a connection may take: to connect, to
	// log in, to hear from the program there, to place a piece of it. Defaults to 15
	// seconds.
	Patience time.Duration
}

// target is where a URL points.
type target struct {
	user, addr string // addr is host:port
	dir        string // as in the URL, or empty
	o          Options
}

// usage says how a URL looks.
const usage = "want ssh://[USER@]HOST[:PORT][/DIR][?identity=FILE&known_hosts=FILE&exe=FILE]"

// parse reads a URL, whose parameters give way to the options.
func parse(rawURL string, o *Options) (*target, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, fault.Newf(fault.Invalid, "backend %q: %s", rawURL, usage)
	}
	if _, secret := u.User.Password(); secret { // it must not be shown
		return nil, fault.Newf(fault.Invalid, "backend ssh://%s: a password in the URL would be stored with the task", u.Host).
			WithHint("Log in with a key: give the agent one, or name its file with ?identity=FILE.")
	}
	if u.Scheme != "ssh" || u.Hostname() == "" || u.Fragment != "" {
		return nil, fault.Newf(fault.Invalid, "backend %q: %s", rawURL, usage)
	}
	t := &target{user: u.User.Username(), addr: net.JoinHostPort(u.Hostname(), "22"), dir: strings.TrimSuffix(u.Path, "/")}
	if p := u.Port(); p != "" {
		t.addr = net.JoinHostPort(u.Hostname(), p)
	}
	if o != nil {
		t.o = *o
	}
	fields := map[string]*string{"identity": &t.o.Identity, "known_hosts": &t.o.KnownHosts, "exe": &t.o.Exe}
	for k, v := range u.Query() {
		switch f := fields[k]; {
		case f == nil || len(v) != 1 || v[0] == "":
			return nil, fault.Newf(fault.Invalid, "backend %q: parameter %s: %s", rawURL, k, usage)
		case *f == "":
			*f = v[0]
		}
	}
	for _, f := range fields {
		if *f, err = expand(*f); err != nil {
			return nil, err
		}
	}
	if t.user == "" {
		if t.user = os.Getenv("USER"); t.user == "" {
			me, err := user.Current()
			if err != nil {
				return nil, fault.Newf(fault.Invalid, "backend %q: who is the user? %s", rawURL, usage)
			}
			t.user = me.Username
		}
	}
	if t.o.Agent == "" {
		t.o.Agent = os.Getenv("SSH_AUTH_SOCK")
	}
	if t.o.Patience <= 0 {
		t.o.Patience = 15 * time.Second
	}
	return t, nil
}

// expand makes a file's name independent of the working directory of who reads the URL
// later.
func expand(path string) (string, error) {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fault.Newf(fault.Invalid, "ssh: %s: no home directory", path)
		}
		return filepath.Join(home, rest), nil
	}
	if path != "" && !filepath.IsAbs(path) {
		return "", fault.Newf(fault.Invalid, "ssh: %s: want an absolute path, or one that begins with ~/", path)
	}
	return path, nil
}
