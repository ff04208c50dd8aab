// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/outlive-dev/outlive/fault"
)

// keyring finds the keys to log in with, and remembers where it looked for the sake of
// an error that helps.
type keyring struct {
	o      Options
	looked []string
	agent  net.Conn // nil without one; open until the login is over
}

func (k *keyring) close() {
	if k.agent != nil {
		_ = k.agent.Close()
	}
}

// signers implements the callback of [ssh.PublicKeysCallback].
func (k *keyring) signers() ([]ssh.Signer, error) {
	held := k.held()
	if k.o.Identity != "" {
		s, err := k.file(k.o.Identity, held)
		if err != nil {
			f := fault.Newf(fault.Forbidden, "ssh: identity %s: %v", k.o.Identity, err)
			if errors.Is(err, errLocked) {
				f = f.WithHint("Nobody is asked for it: give the key to the agent, ssh-add " + k.o.Identity)
			}
			return nil, f
		}
		return []ssh.Signer{s}, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return held, nil //nolint:nilerr // then there are those of the agent
	}
	for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
		path := filepath.Join(home, ".ssh", name)
		s, err := k.file(path, held)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			k.looked = append(k.looked, fmt.Sprintf("%s (%v)", path, err))
		case slices.ContainsFunc(held, func(h ssh.Signer) bool { return same(h.PublicKey(), s.PublicKey()) }):
		default:
			k.looked = append(k.looked, path)
			held = append(held, s)
		}
	}
	return held, nil
}

// held returns the keys of the agent, if there is one.
func (k *keyring) held() []ssh.Signer {
	if k.o.Agent == "" {
		return nil
	}
	c, err := net.Dial("unix", k.o.Agent)
	if err != nil {
		k.looked = append(k.looked, fmt.Sprintf("the agent (%v)", err))
		return nil
	}
	k.agent = c
	signers, err := agent.NewClient(c).Signers()
	if err != nil {
		k.looked = append(k.looked, fmt.Sprintf("the agent (%v)", err))
		return nil
	}
	k.looked = append(k.looked, fmt.Sprintf("the agent's %d keys", len(signers)))
	return signers
}

// file reads a key. One with a passphrase is that of the agent, or of no use: nobody
// is asked.
func (k *keyring) file(path string, held []ssh.Signer) (ssh.Signer, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s, err := ssh.ParsePrivateKey(b)
	var locked *ssh.PassphraseMissingError
	if !errors.As(err, &locked) {
		return s, err
	}
	pub := locked.PublicKey
	if pub == nil {
		if b, err := os.ReadFile(path + ".pub"); err == nil {
			pub, _, _, _, _ = ssh.ParseAuthorizedKey(b)
		}
	}
	for _, h := range held {
		if pub != nil && same(h.PublicKey(), pub) {
			return h, nil
		}
	}
	return nil, errLocked
}

var errLocked = errors.New("it has a passphrase")

func same(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }

// hostKeys checks the key of a host against the files of known ones.
type hostKeys struct {
	addr  string
	files []string
	check ssh.HostKeyCallback // nil when there is no file
}

func newHostKeys(addr string, o Options) (*hostKeys, error) {
	k := &hostKeys{addr: addr, files: []string{o.KnownHosts}}
	if o.KnownHosts == "" {
		k.files = []string{"/etc/ssh/ssh_known_hosts"}
		if home, err := os.UserHomeDir(); err == nil {
			k.files = append([]string{filepath.Join(home, ".ssh", "known_hosts")}, k.files...)
		}
	}
	var there []string
	for _, f := range k.files {
		if _, err := os.Stat(f); err == nil {
			there = append(there, f)
		}
	}
	if len(there) == 0 {
		return k, nil
	}
	check, err := knownhosts.New(there...)
	if err != nil {
		return nil, fault.Newf(fault.Invalid, "ssh: known hosts: %v", err)
	}
	k.check = check
	return k, nil
}

// algorithms returns those of the keys that are known for the host, so that it shows
// one of them and no other that it has, too. It is empty when none is known.
func (k *hostKeys) algorithms() (algos []string) {
	if k.check == nil {
		return nil
	}
	var mismatch *knownhosts.KeyError
	if !errors.As(k.check(k.addr, &net.TCPAddr{}, noKey{}), &mismatch) {
		return nil
	}
	for _, w := range mismatch.Want {
		of := []string{w.Key.Type()}
		if of[0] == ssh.KeyAlgoRSA {
			of = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
		}
		for _, a := range of {
			if !slices.Contains(algos, a) {
				algos = append(algos, a)
			}
		}
	}
	return algos
}

// noKey is a key that no host has.
type noKey struct{ ssh.PublicKey }

func (noKey) Type() string    { return "none" }
func (noKey) Marshal() []byte { return nil }

// verify implements [ssh.HostKeyCallback].
func (k *hostKeys) verify(addr string, remote net.Addr, key ssh.PublicKey) error {
	host, _, _ := net.SplitHostPort(k.addr)
	name := knownhosts.Normalize(k.addr)
	print := key.Type() + " " + ssh.FingerprintSHA256(key)
	unknown := fault.Newf(fault.Forbidden, "ssh: the key of %s is not known: it shows %s", name, print).
		WithHint("If that is right, note it: connect once with ssh, or add the line " + knownhosts.Line([]string{k.addr}, key) + " to " + k.files[0] + ".")
	if k.check == nil {
		return unknown
	}
	err := k.check(addr, remote, key)
	var revoked *knownhosts.RevokedError
	var mismatch *knownhosts.KeyError
	switch {
	case errors.As(err, &revoked):
		return fault.Newf(fault.Forbidden, "ssh: the key of %s is revoked: %s", name, print)
	case errors.As(err, &mismatch) && len(mismatch.Want) == 0:
		return unknown
	case errors.As(err, &mismatch):
		w := mismatch.Want[0]
		return fault.Newf(fault.Forbidden, "ssh: the key of %s has changed, somebody may be in between: it shows %s, %s:%d says %s %s",
			name, print, w.Filename, w.Line, w.Key.Type(), ssh.FingerprintSHA256(w.Key)).
			WithHint("Only if you know why: ssh-keygen -R '" + strings.Trim(name, "'") + "', then connect once with ssh to " + host + ".")
	default:
		return err
	}
}
