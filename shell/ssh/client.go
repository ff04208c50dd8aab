// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/lifecycle"
	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/remote"
)

var (
	_ shell.Recoverable    = (*Client)(nil)
	_ shell.StreamingShell = (*Client)(nil)
)

const farewell = 5 * time.Second

// Client is a recoverable backend on a host. It is made by [Dial].
//
// Concurrency: safe for concurrent use. The client of the protocol asks for a
// connection and waits; a goroutine of group makes it, so that the end of one call does
// not end what others wait for. prog, next, open and closed are under mu.
type Client struct {
	*remote.Client
	t     *target
	group *lifecycle.Group

	mu     sync.Mutex
	prog   *program
	next   *attempt // being made, or made and not taken yet
	open   map[*conn]struct{}
	closed bool
}

// attempt is a connection that is being made. conn, host and err are set when done is
// closed.
type attempt struct {
	done chan struct{}
	conn *conn
	host Host
	err  error
}

// Host is what the program on the host tells of it.
type Host struct {
	// Dir is the directory of the URL, or the user's home there.
	Dir string
	// Environ is what a command gets there of the host's own environment, see
	// [shell.CleanEnviron].
	Environ []string
}

// Dial returns a client of the host at a URL:
//
//	ssh://[USER@]HOST[:PORT][/DIR][?identity=FILE&known_hosts=FILE&exe=FILE]
//
// It does not connect yet. Close the client after use; runs are left alone.
func Dial(rawURL string, o *Options) (*Client, error) {
	t, err := parse(rawURL, o)
	if err != nil {
		return nil, err
	}
	c := &Client{t: t, group: &lifecycle.Group{}, open: map[*conn]struct{}{}}
	c.Client, err = remote.Dial("http://localhost", &remote.Options{Dial: c.take, Retry: t.o.Retry, Idle: t.o.Idle})
	return c, err
}

// Connect makes a connection unless there is one, and places the program on the host
// where it is not there. Every call does so where it must; this one waits as long as it
// takes, does not try again, and tells of the host.
func (c *Client) Connect(ctx context.Context) (Host, error) {
	a, err := c.attempt()
	if err != nil {
		return Host{}, err
	}
	select {
	case <-a.done:
		return a.host, a.err
	case <-ctx.Done():
		return Host{}, ctx.Err()
	}
}

// Close ends what the client keeps open. It is idempotent.
func (c *Client) Close() error {
	err := c.Client.Close()
	c.mu.Lock()
	c.closed = true
	for s := range c.open {
		_ = s.ssh.Close()
	}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), farewell) //nolint:forbidigo // Close has none
	defer cancel()
	return errors.Join(err, c.group.Stop(ctx))
}

// take returns a connection of the caller's own.
func (c *Client) take(ctx context.Context) (net.Conn, error) {
	for {
		a, err := c.attempt()
		if err != nil {
			return nil, err
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		c.mu.Lock()
		mine := c.next == a
		if mine {
			c.next = nil
		}
		c.mu.Unlock()
		if mine || a.err != nil {
			return a.conn.asConn(), a.err
		}
	}
}

// attempt returns the one under way, or a new one.
func (c *Client) attempt() (*attempt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil && !c.closed {
		return c.next, nil
	}
	a := &attempt{done: make(chan struct{})}
	if c.closed || !c.group.Go("connect", func(ctx context.Context) { c.make(ctx, a) }) {
		return nil, fault.New(fault.Closed, "ssh: the backend is closed")
	}
	c.next = a
	return a, nil
}

func (c *Client) make(ctx context.Context, a *attempt) {
	a.conn, a.host, a.err = c.connect(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case a.err != nil:
		c.next = nil
	case c.closed:
		_ = a.conn.ssh.Close()
	default:
		c.open[a.conn] = struct{}{}
	}
	close(a.done)
}

// connect logs in and executes the program there, which it places first when it is not
// there or is not what it should be.
func (c *Client) connect(ctx context.Context) (*conn, Host, error) {
	prog, err := c.program()
	if err != nil {
		return nil, Host{}, err
	}
	sc, err := c.t.login(ctx)
	if err != nil {
		return nil, Host{}, err
	}
	unhook := context.AfterFunc(ctx, func() { _ = sc.Close() })
	defer unhook()
	s, h, err := c.t.execute(ctx, sc, prog)
	var none *noProgram
	if errors.As(err, &none) {
		if err = c.t.place(ctx, sc, prog); err == nil {
			s, h, err = c.t.execute(ctx, sc, prog)
		}
	}
	if err != nil {
		_ = sc.Close()
		if errors.As(err, &none) {
			err = fault.Newf(fault.Unsupported, "ssh: %s does not execute the program that was placed there: %s", c.t.addr, none.said).
				WithHint(fmt.Sprintf("It is built for %s/%s. Name one built for the host with ?exe=FILE.", runtime.GOOS, runtime.GOARCH))
		}
		return nil, Host{}, err
	}
	s.c = c
	return s, h, nil
}

func (c *Client) program() (*program, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.prog == nil {
		p, err := load(c.t.o.Exe)
		if err != nil {
			return nil, err
		}
		c.prog = p
	}
	return c.prog, nil
}

// hello is the line with which the program on the host begins. What it says before is
// of the shell that executes it.
type hello struct {
	Outlive int      `json:"outlive_ssh"` // the version of this line, 1
	SHA256  string   `json:"sha256"`
	Home    string   `json:"home"`
	Environ []string `json:"environ"`
	// Error is why it cannot serve, of that kind.
	Error string `json:"error,omitempty"`
	Kind  string `json:"kind,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

const maxNoise = 64 << 10 // bytes before the hello

// noProgram means that what the host executed was not the program.
type noProgram struct{ said string }

func (n *noProgram) Error() string { return "no program: " + n.said }

// execute executes the program on the host and reads its hello.
func (t *target) execute(ctx context.Context, c *ssh.Client, p *program) (*conn, Host, error) {
	st := t.begin(c)
	defer st.end()
	own := func(text string) *fault.Error { return fault.New(fault.Unsupported, text) }
	s, err := c.NewSession()
	if err != nil {
		return nil, Host{}, t.broken(ctx, c, "open a session", err, own)
	}
	in, err := s.StdinPipe()
	if err != nil {
		return nil, Host{}, t.broken(ctx, c, "open a session", err, own)
	}
	out, err := s.StdoutPipe()
	if err != nil {
		return nil, Host{}, t.broken(ctx, c, "open a session", err, own)
	}
	var said lines
	s.Stderr = &said
	// Nothing in this text comes from outside: the sum is hexadecimal.
	if err := s.Start("exec ~/" + p.file() + " " + argStdio); err != nil {
		return nil, Host{}, t.broken(ctx, c, "execute a command", err, own)
	}
	r := bufio.NewReaderSize(out, 64<<10)
	h, noise, err := readHello(r)
	switch {
	case err != nil:
		if err := s.Wait(); err != nil && !isExit(err) || ctx.Err() != nil || !alive(c) {
			return nil, Host{}, t.passing(ctx, errors.New("the session was cut"))
		}
		return nil, Host{}, &noProgram{said: strings.TrimSpace(said.String() + noise)}
	case h.SHA256 != p.sum:
		_ = s.Close()
		return nil, Host{}, &noProgram{said: "its checksum is " + h.SHA256}
	case h.Error != "":
		kind, _ := fault.ParseKind(h.Kind)
		return nil, Host{}, fault.New(kind, "ssh: on the host: "+h.Error).WithHint(h.Hint)
	}
	host := Host{Dir: t.dirIn(h.Home), Environ: h.Environ}
	return &conn{ssh: c, in: in, out: r}, host, nil
}

func isExit(err error) bool {
	var x *ssh.ExitError
	return errors.As(err, &x)
}

// dirIn is the directory of the URL.
func (t *target) dirIn(home string) string {
	rest, inHome := strings.CutPrefix(t.dir, "/~")
	switch {
	case inHome && (rest == "" || rest[0] == '/'), t.dir == "":
		return home + rest
	default:
		return t.dir
	}
}

func readHello(r *bufio.Reader) (h hello, noise string, err error) {
	for len(noise) < maxNoise {
		line, err := r.ReadString('\n')
		if err != nil {
			return h, noise + line, err
		}
		if json.Unmarshal([]byte(line), &h) == nil && h.Outlive == 1 {
			return h, noise, nil
		}
		noise += line
	}
	return h, noise, errors.New("no hello")
}

// lines keeps the beginning of what was written to it.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements [io.Writer].
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if room := 1024 - l.b.Len(); room > 0 {
		l.b.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// conn is the session of a program on the host as a connection.
type conn struct {
	c   *Client
	ssh *ssh.Client
	in  io.WriteCloser
	out *bufio.Reader
}

// asConn keeps a nil from becoming a connection.
func (s *conn) asConn() net.Conn {
	if s == nil {
		return nil
	}
	return s
}

// Read implements [net.Conn].
func (s *conn) Read(b []byte) (int, error) { return s.out.Read(b) }

// Write implements [net.Conn].
func (s *conn) Write(b []byte) (int, error) { return s.in.Write(b) }

// Close implements [net.Conn].
func (s *conn) Close() error {
	s.c.mu.Lock()
	delete(s.c.open, s)
	s.c.mu.Unlock()
	return s.ssh.Close()
}

// LocalAddr implements [net.Conn].
func (s *conn) LocalAddr() net.Addr { return s.ssh.LocalAddr() }

// RemoteAddr implements [net.Conn].
func (s *conn) RemoteAddr() net.Addr { return s.ssh.RemoteAddr() }

// SetDeadline implements [net.Conn]: a session has none.
func (*conn) SetDeadline(time.Time) error { return os.ErrNoDeadline }

// SetReadDeadline implements [net.Conn].
func (*conn) SetReadDeadline(time.Time) error { return os.ErrNoDeadline }

// SetWriteDeadline implements [net.Conn].
func (*conn) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }
