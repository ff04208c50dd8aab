// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/lifecycle"
	"github.com/outlive-dev/outlive/shell"
)

const (
	callLimit  = 15 * time.Second // for an answer that needs no waiting
	farewell   = 5 * time.Second  // for the last word after the caller's context has ended
	longPoll   = 20 * time.Second
	maxAnswer  = 16 << 20
	firstPause = 20 * time.Millisecond
	lastPause  = 2 * time.Second
)

var (
	_ shell.Recoverable    = (*Client)(nil)
	_ shell.StreamingShell = (*Client)(nil)
)

// Client is a backend on another machine. It is made by [Dial].
//
// Concurrency: safe for concurrent use. token and readers are under mu.
type Client struct {
	o     Options
	base  *url.URL
	addr  string
	http  *http.Client
	group *lifecycle.Group // keeps attachments alive

	mu      sync.Mutex
	token   string
	readers map[shell.RunID]string // of holds made by Start
}

// Dial returns a client of the server at a URL like http://127.0.0.1:8021. It does not
// call the server yet. Plain http is refused unless the address is loopback. Close the
// client after use; runs are left alone.
func Dial(rawURL string, o *Options) (*Client, error) {
	opt := o.withDefaults()
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, fault.Newf(fault.Invalid, "backend %q: no URL", rawURL)
	}
	port := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	switch {
	case port == "":
		return nil, fault.Newf(fault.Invalid, "backend %q: want http://HOST:PORT or https://HOST:PORT", rawURL)
	case u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, fault.Newf(fault.Invalid, "backend %q: want a host and a port alone", rawURL)
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return nil, fault.Newf(fault.Invalid, "backend %q: commands and their environment would travel in the clear", rawURL).
			WithHint("Use https, or an address of this machine's loopback.")
	}
	if p := u.Port(); p != "" {
		port = p
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = opt.TLS
	t.MaxIdleConnsPerHost = 16 // calls of many runs at once
	if opt.Dial != nil {
		t = over(opt.Dial)
	}
	return &Client{
		o: opt, base: &url.URL{Scheme: u.Scheme, Host: u.Host}, addr: net.JoinHostPort(u.Hostname(), port),
		http: &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // the token is for this server alone
		}},
		group: &lifecycle.Group{}, readers: map[shell.RunID]string{},
	}, nil
}

// over is a transport whose connections somebody else makes: one carries all calls.
func over(dial func(ctx context.Context) (net.Conn, error)) *http.Transport {
	t := &http.Transport{
		DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		MaxConnsPerHost: 1, IdleConnTimeout: 90 * time.Second, Protocols: &http.Protocols{},
		HTTP2: &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 10 * time.Second},
	}
	t.Protocols.SetUnencryptedHTTP2(true)
	return t
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Close ends what the client keeps open. It is idempotent.
func (c *Client) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), farewell) //nolint:forbidigo // Close has none
	defer cancel()
	err := c.group.Stop(ctx)
	c.http.CloseIdleConnections()
	return err
}

// Capabilities implements [shell.Recoverable]. What the server's backend cannot do, the
// server refuses.
func (c *Client) Capabilities() shell.Capabilities {
	return shell.Capabilities{
		Streaming: true, Recoverable: true, OwnsTimeout: true, TTY: true, Stdin: true, Split: true, Signals: true, Leftovers: true, Umask: true,
		Rlimits: true, Memory: true, Pids: true, CPU: true,
	}
}

// call is one request that may be sent any number of times.
type call struct {
	method, path string
	query        url.Values
	fence        *shell.Fence
	body         any
	wait         time.Duration // that the server was asked to wait
	sent         *atomic.Bool  // set when there is a connection to send it over; may be nil
}

// lost is a call that got no answer.
type lost struct {
	err error
	// sent is true when the server may have got it.
	sent bool
	// final is true when it is of no use to try again.
	final bool
}

func (l *lost) Error() string { return "no answer: " + l.err.Error() }
func (l *lost) Unwrap() error { return l.err }

// transport is the error of a call without an answer, for those who asked.
func transport(err error, started shell.Certainty, partial *shell.Response) error {
	var l *lost
	if !errors.As(err, &l) {
		return err
	}
	x := &shell.ExecError{Phase: shell.StepTransport, Started: started, Partial: partial, Cause: l.err}
	if !l.final {
		x.Cause = fmt.Errorf("%w: %w", fault.New(fault.Unavailable, "the backend does not answer"), l.err)
	}
	return x
}

// do sends a call until there is an answer, and decodes it into out. It gives up with
// a *lost after the retry budget, and with ctx's error.
func (c *Client) do(ctx context.Context, q call, out any) (code int, err error) {
	r := c.retry()
	for {
		code, err = c.once(ctx, q, out)
		var l *lost
		if err == nil || !errors.As(err, &l) {
			return code, err
		}
		if err := r.pause(ctx, l); err != nil {
			return 0, err
		}
	}
}

// retry is the patience of one call, or of one stream between two signs of life.
type retry struct {
	budget, next time.Duration
	since        time.Time
	sent         bool
}

func (c *Client) retry() *retry {
	return &retry{budget: c.o.Retry, next: firstPause, since: time.Now()}
}

// alive starts the patience anew.
func (r *retry) alive() { r.since, r.next = time.Now(), firstPause }

// pause waits before the next try. It returns l when the patience is over or l is
// final, or ctx's error.
func (r *retry) pause(ctx context.Context, l *lost) error {
	r.sent = r.sent || l.sent
	l.sent = r.sent
	if err := ctx.Err(); err != nil {
		return err
	}
	if l.final || time.Since(r.since)+r.next > r.budget {
		return l
	}
	t := time.NewTimer(r.next)
	defer t.Stop()
	r.next = min(2*r.next, lastPause)
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// once sends a call once.
func (c *Client) once(ctx context.Context, q call, out any) (code int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, q.wait+callLimit, errSlow)
	defer cancel()
	resp, err := c.send(ctx, q)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, outcome(ctx, err, true)
	}
	if out == nil || resp.StatusCode == http.StatusNoContent {
		return resp.StatusCode, nil
	}
	if err := json.Unmarshal(b, out); err != nil {
		return 0, &lost{err: fmt.Errorf("an answer that is no JSON: %w", err), sent: true}
	}
	return resp.StatusCode, nil
}

var errSlow = errors.New("the backend is silent")

// outcome says what a failed exchange means: the caller's own context, or a lost call.
func outcome(ctx context.Context, err error, sent bool) error {
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errSlow) {
		return ctx.Err()
	}
	return &lost{err: err, sent: sent}
}

// send sends a call once and returns a good answer, or the problem it was answered
// with as an error.
func (c *Client) send(ctx context.Context, q call) (*http.Response, error) {
	resp, err := c.exchange(ctx, q)
	if err == nil && resp.StatusCode == http.StatusUnauthorized && c.forgetToken() {
		resp.Body.Close() // the server may have been started again
		resp, err = c.exchange(ctx, q)
	}
	if err != nil || resp.StatusCode < 300 {
		return resp, err
	}
	defer resp.Body.Close()
	var p problem
	if resp.Header.Get("Content-Type") == "application/problem+json" && json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&p) == nil {
		if err = p.err(); p.Phase == "" && fault.Is(err, fault.Unavailable) {
			err = &lost{err: err, sent: true} // it stops or starts: later
		}
		return nil, err
	}
	// It is not the server that says this.
	err = fmt.Errorf("unexpected answer %s", resp.Status)
	if resp.StatusCode >= 500 {
		return nil, &lost{err: err, sent: true}
	}
	return nil, fmt.Errorf("%w: %w", fault.New(fault.Unavailable, "the backend is none"), err)
}

func (c *Client) exchange(ctx context.Context, q call) (*http.Response, error) {
	token, err := c.tokenNow()
	if err != nil {
		return nil, err
	}
	var body io.Reader
	if q.body != nil {
		b, err := json.Marshal(q.body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(b)
	}
	u := *c.base
	u.Path, u.RawQuery = q.path, q.query.Encode()
	if q.sent == nil {
		q.sent = &atomic.Bool{}
	}
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { q.sent.Store(true) }})
	req, err := http.NewRequestWithContext(traced, q.method, u.String(), body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if q.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if q.fence != nil {
		req.Header.Set(headerGeneration, strconv.FormatInt(q.fence.Generation, 10))
		req.Header.Set(headerAttempt, strconv.FormatInt(q.fence.Attempt, 10))
	}
	resp, err := c.http.Do(req)
	var f *fault.Error
	if errors.As(err, &f) && ctx.Err() == nil { // of Options.Dial
		return nil, &lost{err: f, sent: q.sent.Load(), final: f.Kind != fault.Unavailable}
	}
	if err != nil {
		return nil, outcome(ctx, err, q.sent.Load())
	}
	return resp, nil
}

func (c *Client) tokenNow() (string, error) {
	if c.o.Dial != nil {
		return "", nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token == "" {
		t, err := findToken(c.o, c.addr)
		if err != nil {
			return "", err
		}
		c.token = t
	}
	return c.token, nil
}

// forgetToken has the next request look for the token again; false when it is the same
// whenever one looks.
func (c *Client) forgetToken() bool {
	if c.o.Dial != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.token
	if t, err := findToken(c.o, c.addr); err == nil && t != old {
		c.token = t
		return true
	}
	return false
}

func runPath(id shell.RunID, more string) string { return "/v1/runs/" + string(id) + more }
