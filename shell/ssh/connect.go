// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/outlive-dev/outlive/fault"
)

// login connects to the host and logs in. Its errors are of kind Unavailable when they
// may pass.
func (t *target) login(ctx context.Context) (*ssh.Client, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, t.o.Patience, errSilent)
	defer cancel()
	keys, err := newHostKeys(t.addr, t.o)
	if err != nil {
		return nil, err
	}
	ring := &keyring{o: t.o}
	defer ring.close()
	tcp, err := (&net.Dialer{}).DialContext(ctx, "tcp", t.addr)
	if err != nil {
		return nil, t.passing(ctx, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = tcp.Close() })
	defer stop()
	conn, chans, reqs, err := ssh.NewClientConn(tcp, t.addr, &ssh.ClientConfig{
		User:              t.user,
		Auth:              []ssh.AuthMethod{ssh.PublicKeysCallback(ring.signers)},
		HostKeyCallback:   keys.verify,
		HostKeyAlgorithms: keys.algorithms(),
		ClientVersion:     "SSH-2.0-outlive",
	})
	if err != nil {
		_ = tcp.Close()
		return nil, t.refusal(ctx, err, ring)
	}
	return ssh.NewClient(conn, chans, reqs), nil
}

var errSilent = errors.New("it is silent")

// passing is a failure that may not be one the next time.
func (t *target) passing(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return fault.Newf(fault.Unavailable, "ssh %s: %v", t.addr, err)
}

// refusal says why there was no login.
func (t *target) refusal(ctx context.Context, err error, ring *keyring) error {
	var f *fault.Error
	switch {
	case errors.As(err, &f): // of the callbacks
		return f
	case strings.Contains(err.Error(), "unable to authenticate"): // it has no type
		looked := "there is neither an agent nor a key in ~/.ssh"
		if ring.o.Identity != "" {
			looked = "tried " + ring.o.Identity
		} else if len(ring.looked) > 0 {
			looked = "tried " + strings.Join(ring.looked, ", ")
		}
		return fault.Newf(fault.Forbidden, "ssh: %s does not let %s in: %s", t.addr, t.user, looked).
			WithHint("Give the agent a key that it accepts, or name the key's file with ?identity=FILE; nobody is asked for passwords.")
	}
	return t.passing(ctx, err)
}

// alive asks the host for a sign of life.
func alive(c *ssh.Client) bool {
	t := time.AfterFunc(5*time.Second, func() { _ = c.Close() })
	defer t.Stop()
	_, _, err := c.SendRequest("keepalive@openssh.com", true, nil)
	return err == nil
}

// step bounds one exchange with the host, which has no deadlines of its own: it is cut
// when the time is over.
type step struct{ t *time.Timer }

func (t *target) begin(c *ssh.Client) *step {
	return &step{time.AfterFunc(t.o.Patience, func() { _ = c.Close() })}
}

// progress starts the time anew.
func (s *step) progress(d time.Duration) { s.t.Reset(d) }

func (s *step) end() { s.t.Stop() }

// broken is an error of a session: that of the link, or the host's own.
func (t *target) broken(ctx context.Context, c *ssh.Client, what string, err error, own func(text string) *fault.Error) error {
	if ctx.Err() != nil || !alive(c) {
		return t.passing(ctx, fmt.Errorf("%s: %w", what, err))
	}
	return own(fmt.Sprintf("ssh: %s: %v", what, err))
}
